"""Folders of pictures: a path enters, the pictures below it or instructions how to obtain them leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recuse.extras import import_extra

__all__ = ["demand_folder", "imaging", "list_pictures", "read_image"]

Pixels = npt.NDArray[np.uint8]
_TIFF = (".tif", ".tiff")


def read_image(file: Path, size: int) -> Pixels | str:
    """Read a picture and resize it to `size` by `size`, bilinearly and without keeping its proportions.

    Parameters
    ----------
    file : Path
        JPEG, PNG, TIFF or anything else Pillow reads; TIFFs that Pillow does not know go to tifffile.
    size : int
        Pixels to a side.

    Returns
    -------
    ndarray of shape (3, size, size), uint8, or str
        Red, green and blue; or, of a missing or damaged file, what is wrong with it.

    Examples
    --------
    >>> read_image(Path("nowhere.jpg"), size=224)
    'no such file'
    """
    if not file.is_file():
        return "no such file"
    try:
        return _resize(_decode(file), size)
    except (MemoryError, ImportError):
        raise
    except Exception as error:  # a damaged file can make a decoder raise anything, SyntaxError included
        return f"{type(error).__name__}: {error}"


@cache
def imaging() -> Any:
    """Pillow's Image module, or an ImportError that says how to get it."""
    return import_extra("PIL.Image", extra="images")


def _decode(file: Path) -> Any:
    Image = imaging()
    try:
        with Image.open(file) as picture:
            if picture.mode[0] in "IF":  # more than eight bits, which Pillow would clip
                return Image.fromarray(_as_bytes(np.asarray(picture))).convert("RGB")
            return picture.convert("RGB")
    except Image.UnidentifiedImageError:
        if file.suffix.lower() not in _TIFF:
            raise ValueError("not a picture Pillow can read") from None
        return Image.fromarray(_as_bytes(import_extra("tifffile", extra="images").imread(file))).convert("RGB")


def _as_bytes(values: npt.NDArray[Any]) -> Pixels:
    """Eight bits of each channel: the upper ones of 16-bit integers; fractions are taken to lie in [0, 1]."""
    if values.dtype == np.uint8:
        return values
    if values.dtype == np.uint16:
        return (values >> 8).astype(np.uint8)
    if np.issubdtype(values.dtype, np.floating) and values.min() >= 0.0 and values.max() <= 1.0:
        return (255.0 * values + 0.5).astype(np.uint8)
    raise ValueError(f"pixels must be 8 or 16 bit integers or fractions in [0, 1], got {values.dtype}")


def _resize(picture: Any, size: int) -> Pixels:
    resized = picture.resize((size, size), imaging().Resampling.BILINEAR)
    return np.ascontiguousarray(np.moveaxis(np.asarray(resized), 2, 0))


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
