"""Everything that the bytes of an output depend on, so that an interrupted run continues only as it began."""

from __future__ import annotations

import hashlib
import platform
import secrets
import zlib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from recuse._version import __version__
from recuse.scoring.plan import Plan
from recuse.scoring.sources.parts import part_rows

__all__ = ["check_unchanged", "input_facts", "run_facts"]

_LIBRARIES = ("numpy", "onnxruntime", "onnxruntime-gpu", "pandas", "pyarrow")
_EDGE = 2**16  # bytes at both ends of an input that are part of its facts


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
    return {
        "plan": plan.describe(),
        "inputs": inputs or secrets.token_hex(16),
        "folder": folder,
        "part_rows": [part_rows(count) for count in columns],
        "versions": _versions(),
    }


def _versions() -> dict[str, str | None]:
    """Return the versions of all that decides or writes."""
    libraries = {name: _version(name) for name in _LIBRARIES}
    machine = f"{platform.system()} {platform.machine()}"
    python = {"python": platform.python_version(), "zlib": zlib.ZLIB_RUNTIME_VERSION, "machine": machine}
    return {"recuse": __version__, **python, **libraries}


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def input_facts(paths: Sequence[str]) -> list[dict[str, Any]]:
    """Return what identifies the input files: path, size, times of changes, and the hash of both ends."""
    return [{**_content(Path(path)), "status_changed": Path(path).stat().st_ctime_ns} for path in paths]


def check_unchanged(facts: Sequence[dict[str, Any]]) -> None:
    """Raise an error if the content of an input file is not that which `input_facts` described."""
    for each in facts:
        if not _content(Path(each["path"])).items() <= each.items():
            raise ValueError(f"{each['path']} was changed during the run: start it again")


def _content(path: Path) -> dict[str, Any]:
    status = path.stat()
    with path.open("rb") as file:
        edges = file.read(_EDGE)
        file.seek(max(0, status.st_size - _EDGE))
        edges += file.read()
    checksum = hashlib.sha256(edges).hexdigest()
    return {"path": str(path.resolve()), "bytes": status.st_size, "changed": status.st_mtime_ns, "edges": checksum}
