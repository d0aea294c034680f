"""Folders of pictures: a path enters, the pictures below it or instructions how to obtain them leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path


def demand_folder(root: str | Path, name: str, how_to_get: str) -> Path:
    """Return `root` as a path, or raise a FileNotFoundError that says how to obtain the data.

    Examples
    --------
    >>> demand_folder("no/such/folder", "AgeDB", "Ask its authors.")
    Traceback (most recent call last):
    FileNotFoundError: no/such/folder must be a folder with the pictures of AgeDB, got nothing there.
    Ask its authors.
    """
    folder = Path(root)
    if not folder.is_dir():
        got = "a file" if folder.exists() else "nothing there"
        raise FileNotFoundError(f"{folder} must be a folder with the pictures of {name}, got {got}.\n{how_to_get}")
    return folder


def list_pictures(root: Path, suffixes: Sequence[str]) -> list[Path]:
    """List the files with these suffixes at any depth, in the order of their names.

    Hidden files and folders and `__MACOSX`, which archives bring along, are passed over.
    """
    return sorted(_visible(root, suffixes), key=lambda file: file.relative_to(root).as_posix())


def _visible(folder: Path, suffixes: Sequence[str]) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name.startswith(".") or entry.name == "__MACOSX":
            continue
        if entry.is_dir():
            yield from _visible(entry, suffixes)
        elif entry.suffix.lower() in suffixes:
            yield entry
