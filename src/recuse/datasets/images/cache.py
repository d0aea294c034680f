"""Disk cache of resized images."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import numpy as np
from numpy.lib.format import write_array_header_1_0

from recuse.datasets.images.files import Pixels, imaging, read_image
from recuse.progress import progress_bar

_LAYOUT = 1  # version of the file layout; caches of other versions are ignored
_CHUNK = 256  # images read before they are written


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
    n_jobs: int | None = None,
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
    n_jobs : int or None, default=None
        Threads that read images; None is one per processor.
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
        _build(files, size, array, report, n_jobs=n_jobs, verbose=verbose)
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


def _build(files: Sequence[Path], size: int, array: Path, report: Path, *, n_jobs: int | None, verbose: bool) -> None:
    imaging()  # raise a missing extra once, not for every image
    # unique names, since several processes may build the cache at once
    partial_array, partial_report = (file.with_suffix(f".{uuid4().hex}.partial") for file in (array, report))
    bad: dict[int, str] = {}
    try:
        # written as a stream, since writing to a memory map crashes on a full disk
        with _create(partial_array) as stream, progress_bar("resizing", len(files), show=verbose) as done:
            shape = (len(files), 3, size, size)
            write_array_header_1_0(stream, {"descr": "|u1", "fortran_order": False, "shape": shape})
            for row, found in enumerate(_read_all(files, size, n_jobs)):
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


def _read_all(files: Sequence[Path], size: int, n_jobs: int | None) -> Iterator[Pixels | str]:
    """Read in order with several threads, in chunks; decoding and resizing release the GIL."""
    with ThreadPoolExecutor(max_workers=n_jobs or os.cpu_count() or 1) as pool:
        for first in range(0, len(files), _CHUNK):
            yield from pool.map(partial(read_image, size=size), files[first : first + _CHUNK])
