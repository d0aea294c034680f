"""Finding, reading and resizing of image files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from recuse.extras import import_extra

__all__ = ["imaging", "list_files", "read_image", "require_folder"]

Pixels = npt.NDArray[np.uint8]
_TIFF = (".tif", ".tiff")


def read_image(file: Path, size: int) -> Pixels | str:
    """Read an image and resize it to `size` by `size` (bilinear, aspect ratio not kept).

    Parameters
    ----------
    file : Path
        JPEG, PNG, TIFF or any other format of Pillow; tifffile reads the TIFFs that Pillow cannot.
    size : int
        Height and width in pixels.

    Returns
    -------
    ndarray of shape (3, size, size), uint8, or str
        Red, green and blue; or, for a missing or damaged file, the reason.

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
    except Exception as error:  # decoders raise many kinds of errors on damaged files, SyntaxError included
        return f"{type(error).__name__}: {error}"


@cache
def imaging() -> Any:
    """Return Pillow's Image module, or raise an ImportError with the pip command."""
    return import_extra("PIL.Image", extra="images")


def _decode(file: Path) -> Any:
    Image = imaging()
    try:
        with Image.open(file) as image:
            if image.mode[0] in "IF":  # more than eight bits, which Pillow would clip
                return Image.fromarray(_as_bytes(np.asarray(image))).convert("RGB")
            return image.convert("RGB")
    except Image.UnidentifiedImageError:
        if file.suffix.lower() not in _TIFF:
            raise ValueError("Pillow cannot read this file") from None
        return Image.fromarray(_as_bytes(import_extra("tifffile", extra="images").imread(file))).convert("RGB")


def _as_bytes(values: npt.NDArray[Any]) -> Pixels:
    """Convert to 8 bits per channel: the upper bits of 16-bit integers, or fractions in [0, 1]."""
    if values.dtype == np.uint8:
        return values
    if values.dtype == np.uint16:
        return (values >> 8).astype(np.uint8)
    if np.issubdtype(values.dtype, np.floating) and values.min() >= 0.0 and values.max() <= 1.0:
        return (255.0 * values + 0.5).astype(np.uint8)
    raise ValueError(f"pixels must be 8 or 16 bit integers or fractions in [0, 1], got {values.dtype}")


def _resize(image: Any, size: int) -> Pixels:
    resized = image.resize((size, size), imaging().Resampling.BILINEAR)
    return np.ascontiguousarray(np.moveaxis(np.asarray(resized), 2, 0))


def require_folder(root: str | Path, name: str, how_to_get: str) -> Path:
    """Return `root` as a path, or raise a FileNotFoundError that explains how to obtain the data.

    Examples
    --------
    >>> require_folder("no/such/folder", "AgeDB", "Ask its authors.")
    Traceback (most recent call last):
    FileNotFoundError: no/such/folder must be a folder with the images of AgeDB, got nothing there.
    Ask its authors.
    """
    folder = Path(root)
    if not folder.is_dir():
        got = "a file" if folder.exists() else "nothing there"
        raise FileNotFoundError(f"{folder} must be a folder with the images of {name}, got {got}.\n{how_to_get}")
    return folder


def list_files(root: Path, suffixes: Sequence[str]) -> list[Path]:
    """List the files with these suffixes at any depth, in the order of their names.

    Hidden files and folders and `__MACOSX`, which some archives contain, are ignored.
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
