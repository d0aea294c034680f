"""AgeDB, faces and ages: the folder a user obtained enters, a torch data set leaves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recuse.datasets.images.dataset import ImageDataset, OnError, Reading, Skipped, describe
from recuse.datasets.images.files import demand_folder, list_pictures

_OLDEST = 101
_HOW_TO_GET = """\
AgeDB (Moschoglou et al., "AgeDB: the first manually collected, in-the-wild age database", CVPR Workshops 2017) may not
be redistributed. Ask its authors at Imperial College London (https://ibug.doc.ic.ac.uk/resources/agedb/) for the
archive, unpack it and pass the folder of the pictures. Expected layout, 16,488 files:
    <root>/<id>_<Name>_<age>_<gender>.jpg        e.g. 0_MariaCallas_35_f.jpg"""


class AgeDB(ImageDataset):
    """Faces and the ages of the people on them, in years, from the folder of AgeDB.

    The set may not be redistributed; when the folder is missing, the error says how to obtain it. Pictures are
    resized once and cached, so the first start takes a minute or so and the next ones none.

    Parameters
    ----------
    root : path
        Folder with the files `<id>_<Name>_<age>_<gender>.jpg`, in it or in folders below. The age is the last field
        but one, 0 to 101, so names may hold underscores.
    size : int, default=224
        Pictures are resized to `size` by `size`.
    cache : path or None, default=None
        Folder of the resized pictures (2.5 GB at 224); None is `.recuse_cache` in `root`.
    on_error : {"raise", "skip"}, default="raise"
        Whether a picture that is damaged or oddly named is an error that names it, or left out and listed in `skipped`.
    n_jobs : int or None, default=None
        Threads that read; None is one for each processor.
    verbose : bool, default=False
        Whether to show progress.

    Raises
    ------
    FileNotFoundError
        If the folder is missing or holds no pictures.
    ValueError
        If a picture has a name of another form and `on_error` is "raise".
    OSError
        If a picture cannot be read and `on_error` is "raise".

    Examples
    --------
    >>> from recuse import datasets
    >>> datasets.AgeDB("no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: no/such/folder must be a folder with the pictures of AgeDB, got nothing there.
    ...
    """

    def __init__(
        self,
        root: str | Path,
        *,
        size: int = 224,
        cache: str | Path | None = None,
        on_error: OnError = "raise",
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        folder = demand_folder(root, "AgeDB", _HOW_TO_GET)
        files = list_pictures(folder, (".jpg", ".jpeg"))
        if not files:
            raise FileNotFoundError(f"{folder} must hold the pictures of AgeDB, got no .jpg file.\n{_HOW_TO_GET}")
        ages, nameless = _ages(files, folder)
        if nameless and (on_error == "raise" or not ages):
            raise ValueError(describe(nameless, folder))
        reading = Reading(size, cache, on_error, n_jobs, verbose)
        self._hold_files(list(ages), np.array(list(ages.values()), dtype=np.float64), folder, reading)
        self.skipped = nameless + self.skipped


def _ages(files: Sequence[Path], root: Path) -> tuple[dict[Path, int], list[Skipped]]:
    """The age of each picture, and the pictures whose names do not tell it."""
    ages: dict[Path, int] = {}
    nameless = []
    for file in files:
        try:
            ages[file] = age_of(file.name)
        except ValueError as error:
            nameless.append(Skipped(file.relative_to(root).as_posix(), str(error)))
    return ages, nameless


def age_of(name: str) -> int:
    """Read the age from the name of a file of AgeDB.

    Examples
    --------
    >>> age_of("0_MariaCallas_35_f.jpg")
    35
    >>> age_of("face.jpg")
    Traceback (most recent call last):
    ValueError: a picture of AgeDB must be named <id>_<Name>_<age>_<gender>.jpg with an age of 0 to 101, got 'face.jpg'
    """
    fields = name.rpartition(".")[0].split("_")
    if len(fields) < 4 or not fields[-2].isdecimal() or int(fields[-2]) > _OLDEST:
        form = f"<id>_<Name>_<age>_<gender>.jpg with an age of 0 to {_OLDEST}"
        raise ValueError(f"a picture of AgeDB must be named {form}, got {name!r}")
    return int(fields[-2])
