"""Stores finished groups on disk, so that an interrupted run can continue."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from recuse.bench.images.spec import ImageProtocol
from recuse.bench.spec import Protocol
from recuse.bench.work_unit import Group

__all__ = ["GroupStore", "write_text"]


def write_text(path: Path, text: str) -> None:
    """Write a file atomically: to a temporary name, which is then renamed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


class GroupStore:
    """One JSON file for each finished group.

    Parameters
    ----------
    folder : Path
    protocol : Protocol or ImageProtocol
        Results of other protocols are ignored.
    reuse : Path, optional
        Another such folder, which is only read, for results that are not in the first.
    """

    def __init__(self, folder: Path, protocol: Protocol | ImageProtocol, reuse: Path | None = None) -> None:
        self.folder, self.protocol, self.reuse = folder, protocol, reuse

    def save(self, group: Group, result: dict[str, Any]) -> None:
        """Store the result of a group; results for other costs of the group are kept."""
        stored = self._read(group, self.folder)
        if stored is not None:
            new = {cell.get("cost") for cell in result["cells"]}
            cells = result["cells"] + [cell for cell in stored["cells"] if cell.get("cost") not in new]
            cells.sort(key=lambda cell: cell.get("cost", 0.0))
            costs = [cell["cost"] for cell in cells if "cost" in cell]
            result = result | {"group": result["group"] | {"costs": costs}, "cells": cells}
        write_text(self.folder / _file(group), json.dumps(result, indent=1) + "\n")

    def load(self, group: Group) -> dict[str, Any] | None:
        """Give the stored result of a group, restricted to its costs, or None if it must be run."""
        for folder in (self.folder, self.reuse):
            result = None if folder is None else self._read(group, folder)
            if result is not None and set(group.costs) <= set(result["group"]["costs"]):
                cells = [cell for cell in result["cells"] if not group.costs or cell["cost"] in group.costs]
                return result | {"cells": cells}
        return None

    def _read(self, group: Group, folder: Path) -> dict[str, Any] | None:
        try:
            result: dict[str, Any] = json.loads((folder / _file(group)).read_text(encoding="utf-8"))
            same = result["protocol"] == _plain(asdict(self.protocol)) and "cells" in result and "group" in result
        except (FileNotFoundError, json.JSONDecodeError, KeyError, TypeError):
            return None  # never run, damaged, or not a result: run the group
        return result if same else None


def _file(group: Group) -> str:
    return f"{group.key}.json"


def _plain(value: Any) -> Any:
    """Give a value as it is after writing and reading JSON."""
    return json.loads(json.dumps(value))
