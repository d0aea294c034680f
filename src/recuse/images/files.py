"""Finding, reading and resizing of image files, and the cache of resized images on disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np
import numpy.typing as npt
from numpy.lib.format import write_array_header_1_0

from recuse.extras import import_extra
from recuse.progress import progress_bar

Pixels = npt.NDArray[np.uint8]
_TIFF = (".tif", ".tiff")
# Version of the layout of the cache; caches of other versions are ignored.
_LAYOUT = 1
# Number of images that are read before they are written.
_CHUNK = 256


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
def _imaging() -> Any:
    """Return Pillow's Image module, or raise an ImportError with the pip command."""
    return import_extra("PIL.Image", extra="images")


def _decode(file: Path) -> Any:
    Image = _imaging()
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
    resized = image.resize((size, size), _imaging().Resampling.BILINEAR)
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


class MappedPixels:
    """Pixels in a .npy file, memory-mapped at first use, so that processes share one copy.

    Parameters
    ----------
    file : Path
        A uint8 array of shape (n, 3, size, size).
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self._map: Pixels | None = None

    def __len__(self) -> int:
        return len(self._pixels())

    def __getitem__(self, row: int) -> Pixels:
        return np.asarray(self._pixels()[row])

    def __getstate__(self) -> dict[str, Any]:
        return {"file": self.file, "_map": None}  # another process maps the file itself

    def _pixels(self) -> Pixels:
        if self._map is None:
            self._map = np.load(self.file, mmap_mode="r")
        return self._map


def cached_pixels(
    files: Sequence[Path],
    size: int,
    *,
    root: Path,
    cache: Path | None = None,
    verbose: bool = False,
) -> tuple[MappedPixels, dict[int, str]]:
    """Resize images once and load them from a cache on later starts.

    The cache is valid for these files in this order, with their sizes in bytes and modification times, and for the
    requested image size; if any of them differs, a new cache is built. It is written under a temporary name and renamed
    at the end, so an interrupted build leaves no incomplete cache.

    Parameters
    ----------
    files : sequence of Path
        Images under `root`.
    size : int
        Height and width in pixels.
    root : Path
        Folder of the images. The cache stays valid if the folder is moved.
    cache : Path or None, default=None
        Folder for the pixels, 3 size^2 bytes per image; None is `root/.recuse_cache`.
    verbose : bool, default=False
        Whether to show a progress bar.

    Returns
    -------
    pixels : MappedPixels
        One row per file; rows of missing or damaged files are zero.
    bad : dict of int to str
        Row of each missing or damaged file, and what is wrong with it.
    """
    folder = root / ".recuse_cache" if cache is None else cache
    key = _key(files, size, root)
    array, report = folder / f"{key}.npy", folder / f"{key}.json"
    if not (report.is_file() and _is_whole(array, (len(files), 3, size, size))):
        _build(files, size, array, report, verbose)
    bad = json.loads(report.read_text(encoding="utf-8"))["bad"]
    return MappedPixels(array.resolve()), {int(row): reason for row, reason in bad.items()}


def _key(files: Sequence[Path], size: int, root: Path) -> str:
    digest = hashlib.sha256(f"{_LAYOUT} {size}".encode())
    for file in files:
        try:
            stat = file.stat()
            state = f"{stat.st_size} {stat.st_mtime_ns}"
        except FileNotFoundError:
            state = "missing"
        digest.update(f"\n{file.relative_to(root).as_posix()} {state}".encode())
    return digest.hexdigest()[:20]


def _is_whole(array: Path, shape: tuple[int, ...]) -> bool:
    try:
        return bool(np.load(array, mmap_mode="r").shape == shape)
    except (OSError, ValueError):  # missing, truncated or not an array
        return False


def _build(files: Sequence[Path], size: int, array: Path, report: Path, verbose: bool) -> None:
    _imaging()  # raise a missing extra once, not for every image
    # unique names, since several processes may build the cache at once
    partial_array, partial_report = (file.with_suffix(f".{uuid4().hex}.partial") for file in (array, report))
    bad: dict[int, str] = {}
    try:
        # written as a stream, since writing to a memory map crashes on a full disk
        with _create(partial_array) as stream, progress_bar("resizing", len(files), show=verbose) as done:
            shape = (len(files), 3, size, size)
            write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for row, found in enumerate(_read_all(files, size)):
                if isinstance(found, str):
                    bad[row], found = found, np.zeros(shape[1:], np.uint8)
                stream.write(found.tobytes())
                done(row + 1)
        partial_array.replace(array)
        partial_report.write_text(json.dumps({"files": len(files), "size": size, "bad": bad}), encoding="utf-8")
        partial_report.replace(report)
    finally:
        partial_array.unlink(missing_ok=True)
        partial_report.unlink(missing_ok=True)


def _create(file: Path) -> BinaryIO:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return file.open("wb")
    except PermissionError as error:
        rule = f"{file.parent} must be a writable folder for the resized images"
        raise PermissionError(f"{rule}; pass another one as cache=") from error


def _read_all(files: Sequence[Path], size: int) -> Iterator[Pixels | str]:
    """Read in order with several threads, in chunks; decoding and resizing release the GIL."""
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for first in range(0, len(files), _CHUNK):
            yield from pool.map(partial(read_image, size=size), files[first : first + _CHUNK])
