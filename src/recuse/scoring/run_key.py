"""Everything that the bytes of an output depend on, so that an interrupted run continues only as it began."""

from __future__ import annotations

import hashlib
import platform
import secrets
import zlib
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from recuse._version import __version__
from recuse.scoring.inputs import part_rows
from recuse.scoring.plan import Plan

__all__ = ["check_unchanged", "input_facts", "run_facts"]

_LIBRARIES = ("numpy", "onnxruntime", "onnxruntime-gpu", "pandas", "pyarrow")
# Bytes at both ends of an input that are part of its facts.
_EDGE = 2**16


def run_facts(plan: Plan, inputs: list[dict[str, Any]], columns: Sequence[int], *, folder: bool) -> dict[str, Any]:
    """Return everything that the output depends on, as plain values.

    Parameters
    ----------
    plan : Plan
    inputs : list of dict
        The result of `input_facts`; no two runs over standard input, which has no facts, are the same.
    columns : sequence of int
        Numbers of columns that are read, which determine the sizes of parts.
    folder : bool
        Whether the output is a folder.
    """
    libraries = {name: [each.version for each in distributions(name=name)][:1] for name in _LIBRARIES}
    machine = f"{platform.system()} {platform.machine()}"
    python = {"python": platform.python_version(), "zlib": zlib.ZLIB_RUNTIME_VERSION, "machine": machine}
    planned = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return {
        "plan": {**planned, "model": plan.model.checksum},
        "inputs": inputs or secrets.token_hex(16),
        "folder": folder,
        "part_rows": [part_rows(count) for count in columns],
        "versions": {"recuse": __version__, **python, **libraries},
    }


def input_facts(paths: Sequence[str | Path]) -> list[dict[str, Any]]:
    """Return what identifies the input files: path, size, times of changes, and the hash of both ends."""
    facts = []
    for path in map(Path, paths):
        status = path.stat()
        with path.open("rb") as file:
            edges = file.read(_EDGE)
            file.seek(max(0, status.st_size - _EDGE))
            checksum = hashlib.sha256(edges + file.read()).hexdigest()
        times = {"changed": status.st_mtime_ns, "status_changed": status.st_ctime_ns}
        facts.append({"path": str(path.resolve()), "bytes": status.st_size, "edges": checksum, **times})
    return facts


def check_unchanged(facts: Sequence[dict[str, Any]]) -> None:
    """Raise an error if the content of an input file is not that which `input_facts` described."""
    for old, new in zip(facts, input_facts([each["path"] for each in facts]), strict=True):
        if {**new, "status_changed": None} != {**old, "status_changed": None}:
            raise ValueError(f"{old['path']} was changed during the run: start it again")
