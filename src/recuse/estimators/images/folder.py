"""Check that a checkpoint folder belongs to one set of training settings."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["claim_folder"]


def claim_folder(folder: Path, settings: Mapping[str, Any], *, seed: int | None, new_seed: int) -> int:
    """Check that a folder is new or holds a run with these settings, and return the seed to train with.

    Parameters
    ----------
    folder : Path
        Made if it does not exist; the settings are stored in its file ``settings.json``.
    settings : mapping of str to plain values
    seed : int, optional
        The seed that the run must have; None accepts the seed of the run in the folder.
    new_seed : int
        The seed of a run in a new folder.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> claim_folder(folder, {"epochs": 3}, seed=None, new_seed=7)
    7
    >>> claim_folder(folder, {"epochs": 3}, seed=None, new_seed=8)
    7
    """
    file = folder / "settings.json"
    if file.exists():
        stored = json.loads(file.read_text(encoding="utf-8"))
        wanted = {"seed": stored.get("seed") if seed is None else seed, **settings}
        for name, value in wanted.items():
            if stored.get(name) != value:
                raise ValueError(
                    f"checkpoint_dir must hold a run of the same settings, got {name} {stored.get(name)!r} in {folder} "
                    f"and {value!r} here: choose another folder, or delete this one"
                )
        return int(wanted["seed"])
    folder.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}.partial")  # several processes may write it
    partial.write_text(json.dumps({"seed": new_seed, **settings}, indent=1), encoding="utf-8")
    partial.replace(file)
    return new_seed
