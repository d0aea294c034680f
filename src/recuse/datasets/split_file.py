"""Splits that a file prescribes: a CSV of pictures and parts enters, the rows of each part leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import pandas as pd

PARTS = ("train", "validation", "test")


def read_parts(file: Path, names: Sequence[str], skipped: Collection[str] = ()) -> list[list[int]]:
    """Read which pictures train, validate and test.

    Parameters
    ----------
    file : Path
        CSV with the columns file and part.
    names : sequence of str
        Pictures at hand, relative to their folder.
    skipped : collection of str
        Pictures that the CSV may name although they are not at hand.

    Returns
    -------
    list of three lists of int
        Places in `names` of train, validation and test, in the order of the CSV.
    """
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    if not {"file", "part"} <= set(table.columns):
        raise ValueError(f"{file} must have the columns file and part, got {', '.join(table.columns)}")
    _check_values(table, file)
    places, left_out = _places(names), set(_places(list(skipped)))
    rows: dict[str, list[int]] = {part: [] for part in PARTS}
    for name, part in zip(table["file"], table["part"], strict=True):
        if name in places:
            rows[part].append(places[name])
        elif name not in left_out:
            raise ValueError(f"{file} must name pictures of the data set, got {name!r}")
    for part, taken in rows.items():
        if not taken:
            raise ValueError(f"{file} must give every part a picture, got none for {part}")
    _check_once([row for taken in rows.values() for row in taken], names, file)
    return list(rows.values())


def _places(names: Sequence[str]) -> dict[str, int]:
    """Where each picture stands, by its full name and by a bare name that no other has."""
    bare = Counter(Path(name).name for name in names)
    short = {Path(name).name: place for place, name in enumerate(names) if bare[Path(name).name] == 1}
    return short | {name: place for place, name in enumerate(names)}


def _check_values(table: pd.DataFrame, file: Path) -> None:
    for row, part in enumerate(table["part"]):
        if part not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r} in line {row + 2} of {file}")


def _check_once(rows: Sequence[int], names: Sequence[str], file: Path) -> None:
    row, times = Counter(rows).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{file} must name a picture once, got {names[row]!r} {times} times")
