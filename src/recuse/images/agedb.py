"""The AgeDB data set of faces and ages, read from a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recuse.images.dataset import ImageFiles, OnError, Reading, Skipped, describe
from recuse.images.files import list_files, require_folder

_OLDEST = 101
_HOW_TO_GET = """\
AgeDB (Moschoglou et al., "AgeDB: the first manually collected, in-the-wild age database", CVPR Workshops 2017) may not
be redistributed. Ask its authors at Imperial College London (https://ibug.doc.ic.ac.uk/resources/agedb/) for the
archive, unpack it and pass the folder of the images. Expected layout, 16,488 files:
    <root>/<id>_<Name>_<age>_<gender>.jpg        e.g. 0_MariaCallas_35_f.jpg"""


class AgeDB(ImageFiles):
    """Faces and ages in years, from the folder of AgeDB.

    The data set may not be redistributed; if the folder is missing, the error explains how to obtain it. Images are
    resized once and cached, so only the first start takes a minute or so.

    Parameters
    ----------
    root : path
        Folder with the files `<id>_<Name>_<age>_<gender>.jpg`, at any depth. The age, 0 to 101, is the second field
        from the end, so names may contain underscores.
    size : int, default=224
        Images are resized to `size` by `size`.
    cache : path or None, default=None
        Folder for the resized images (2.5 GB at size 224); None is `.recuse_cache` in `root`.
    on_error : {"raise", "skip"}, default="raise"
        Raise an error that names each image that is damaged or has another form of name, or leave it out and list it
        in `skipped`.
    verbose : bool, default=False
        Whether to show progress.

    Raises
    ------
    FileNotFoundError
        If the folder is missing or contains no images.
    ValueError
        If the name of an image has another form and `on_error` is "raise".
    OSError
        If an image cannot be read and `on_error` is "raise".

    Examples
    --------
    >>> from recuse import datasets
    >>> datasets.AgeDB("no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: no/such/folder must be a folder with the images of AgeDB, got nothing there.
    ...
    """

    def __init__(
        self,
        root: str | Path,
        *,
        size: int = 224,
        cache: str | Path | None = None,
        on_error: OnError = "raise",
        verbose: bool = False,
    ) -> None:
        folder = require_folder(root, "AgeDB", _HOW_TO_GET)
        files = list_files(folder, (".jpg", ".jpeg"))
        if not files:
            raise FileNotFoundError(f"{folder} must contain the images of AgeDB, got no .jpg file.\n{_HOW_TO_GET}")
        ages, unnamed = _ages(files, folder)
        if unnamed and (on_error == "raise" or not ages):
            raise ValueError(describe(unnamed, folder))
        reading = Reading(size, cache, on_error, verbose)
        self._read_files(list(ages), np.array(list(ages.values()), dtype=np.float64), folder, reading)
        self.skipped = unnamed + self.skipped


def _ages(files: Sequence[Path], root: Path) -> tuple[dict[Path, int], list[Skipped]]:
    """Return the age of each image, and the images whose names do not contain it."""
    ages: dict[Path, int] = {}
    unnamed = []
    for file in files:
        try:
            ages[file] = age_of(file.name)
        except ValueError as error:
            unnamed.append(Skipped(file.relative_to(root).as_posix(), str(error)))
    return ages, unnamed


def age_of(name: str) -> int:
    """Read the age from the name of a file of AgeDB.

    Examples
    --------
    >>> age_of("0_MariaCallas_35_f.jpg")
    35
    >>> age_of("face.jpg")
    Traceback (most recent call last):
    ValueError: an image of AgeDB must be named <id>_<Name>_<age>_<gender>.jpg with an age of 0 to 101, got 'face.jpg'
    """
    fields = name.rpartition(".")[0].split("_")
    if len(fields) < 4 or not fields[-2].isdecimal() or int(fields[-2]) > _OLDEST:
        form = f"<id>_<Name>_<age>_<gender>.jpg with an age of 0 to {_OLDEST}"
        raise ValueError(f"an image of AgeDB must be named {form}, got {name!r}")
    return int(fields[-2])
