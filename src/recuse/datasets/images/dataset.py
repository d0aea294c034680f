"""Torch data sets of images from arrays or files, with seeded splits."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import Dataset, Subset

from recuse.datasets.images.cache import cached_pixels
from recuse.datasets.images.transforms import normalise
from recuse.datasets.splits import split
from recuse.validation import check_count

__all__ = [
    "PARTS",
    "ImageArrays",
    "ImageDataset",
    "ImageFiles",
    "ImageSubset",
    "PixelRows",
    "Reading",
    "Skipped",
    "describe",
    "read_parts",
]

PARTS = ("train", "validation", "test")


def read_parts(file: Path, names: Sequence[str], skipped: Collection[str] = ()) -> list[list[int]]:
    """Read from a CSV file which images are for training, validation and test.

    Parameters
    ----------
    file : Path
        CSV file with the columns file and part.
    names : sequence of str
        Available images, relative to their folder.
    skipped : collection of str
        Images that the CSV file may name although they are not available.

    Returns
    -------
    list of three lists of int
        Positions in `names` of train, validation and test, in the order of the CSV file.
    """
    table = pd.read_csv(file, dtype=str, keep_default_na=False)
    if not {"file", "part"} <= set(table.columns):
        raise ValueError(f"{file} must have the columns file and part, got {', '.join(table.columns)}")
    _check_values(table, file)
    positions, left_out = _positions(names), set(_positions(list(skipped)))
    rows: dict[str, list[int]] = {part: [] for part in PARTS}
    for name, part in zip(table["file"], table["part"], strict=True):
        if name in positions:
            rows[part].append(positions[name])
        elif name not in left_out:
            raise ValueError(f"{file} must name images of the data set, got {name!r}")
    for part, taken in rows.items():
        if not taken:
            raise ValueError(f"{file} must name an image for every part, got none for {part}")
    _check_once([row for taken in rows.values() for row in taken], names, file)
    return list(rows.values())


def _positions(names: Sequence[str]) -> dict[str, int]:
    """Return the position of each image by its relative path, and by its file name if that is unique."""
    bare = Counter(Path(name).name for name in names)
    short = {Path(name).name: position for position, name in enumerate(names) if bare[Path(name).name] == 1}
    return short | {name: position for position, name in enumerate(names)}


def _check_values(table: pd.DataFrame, file: Path) -> None:
    for row, part in enumerate(table["part"]):
        if part not in PARTS:
            raise ValueError(f"part must be one of {', '.join(PARTS)}, got {part!r} in line {row + 2} of {file}")


def _check_once(rows: Sequence[int], names: Sequence[str], file: Path) -> None:
    row, times = Counter(rows).most_common(1)[0]
    if times > 1:
        raise ValueError(f"{file} must name an image once, got {names[row]!r} {times} times")


Floats = npt.NDArray[np.float64]
Pair = tuple[Tensor, Tensor]
OnError = Literal["raise", "skip"]


class Skipped(NamedTuple):
    """An image that was left out, and the reason."""

    file: str
    reason: str


class Reading(NamedTuple):
    """Options for reading image files, as in `ImageFiles`."""

    size: int
    cache: str | Path | None
    on_error: OnError
    n_jobs: int | None
    verbose: bool


class PixelRows(Protocol):
    """Rows of uint8 pixels (3, height, width), in memory or on disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, row: int, /) -> npt.NDArray[np.uint8]: ...


class ImageSubset(Subset[Pair]):
    """Some rows of an image data set, with their targets and files."""

    dataset: ImageDataset

    @property
    def y(self) -> Floats:
        """Targets, one per image."""
        return self.dataset.y[list(self.indices)]

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the images; empty for arrays."""
        return tuple(self.dataset.files[row] for row in self.indices) if self.dataset.files else ()


class ImageDataset(Dataset[Pair]):
    """Base class of `ImageArrays`, `ImageFiles`, `AgeDB` and `BreastPathQ`.

    Item i is the pair (image, target): a float32 tensor (3, height, width), each channel normalised by mean .5
    and standard deviation .5, and a float32 scalar.

    Attributes
    ----------
    y : ndarray of shape (n,)
        Targets.
    files : tuple of str
        Names of the images relative to their folder; empty for arrays.
    skipped : list of (file, reason)
        Images that were left out with ``on_error="skip"``.

    Examples
    --------
    >>> from recuse import datasets
    >>> images, y, _, _ = datasets.make_cellularity(10, random_state=0, size=32)
    >>> patches = datasets.ImageArrays(images, y)
    >>> image, target = patches[0]
    >>> tuple(image.shape), [len(part) for part in patches.split(repeat=0)]
    ((3, 32, 32), [6, 2, 2])
    """

    y: Floats
    files: tuple[str, ...] = ()
    skipped: list[Skipped]
    _pixels: PixelRows
    _rows: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Pair:
        return normalise(self._pixels[int(self._rows[index])]), torch.tensor(self.y[index], dtype=torch.float32)

    def split(self, repeat: int) -> tuple[ImageSubset, ImageSubset, ImageSubset]:
        """Split at random into train (60 %), validation (20 %) and test (20 %), as `recuse.datasets.split` does.

        Parameters
        ----------
        repeat : int
            Number of the repeat, 0 or more; it seeds the split.

        Returns
        -------
        train, validation, test : ImageSubset
            Torch data sets without augmentation; `Augmented` adds it.
        """
        parts = split(SimpleNamespace(X=np.arange(len(self)), y=self.y), repeat)
        train, validation, test = (ImageSubset(self, rows.tolist()) for rows, _ in parts)
        return train, validation, test

    def split_by(self, file: str | Path) -> tuple[ImageSubset, ImageSubset, ImageSubset]:
        """Split by a CSV file with the columns `file` and `part`; a part is train, validation or test.

        Parameters
        ----------
        file : path
            The CSV file. Images are named by their path relative to the folder, or by their file name if it is unique.
            Images that it does not name are left out. It may name images that were skipped.

        Returns
        -------
        train, validation, test : ImageSubset
        """
        parts = read_parts(Path(file), self.files, {name for name, _ in self.skipped})
        train, validation, test = (ImageSubset(self, rows) for rows in parts)
        return train, validation, test

    def _set_rows(self, pixels: PixelRows, y: Floats) -> None:
        if len(pixels) != len(y):
            raise ValueError(f"every image must have one target, got {len(pixels)} images and {len(y)} targets")
        if not np.isfinite(y).all():
            row = int(np.flatnonzero(~np.isfinite(y))[0])
            raise ValueError(f"y must be finite, got {y[row]} at row {row}")
        self._pixels, self.y, self._rows, self.skipped = pixels, y, np.arange(len(y)), []

    def _read_files(self, files: Sequence[Path], y: Floats, root: Path, reading: Reading) -> None:
        if reading.on_error not in ("raise", "skip"):
            raise ValueError(f"on_error must be 'raise' or 'skip', got {reading.on_error!r}")
        pixels, bad = cached_pixels(
            files,
            check_count("size", reading.size, least=1),
            root=root,
            cache=None if reading.cache is None else Path(reading.cache),
            n_jobs=None if reading.n_jobs is None else check_count("n_jobs", reading.n_jobs, least=1),
            verbose=reading.verbose,
        )
        names = [file.relative_to(root).as_posix() for file in files]
        skipped = [Skipped(names[row], reason) for row, reason in bad.items()]
        if skipped and reading.on_error == "raise":
            raise OSError(describe(skipped, root))
        self._set_rows(pixels, y)
        self._rows = np.array([row for row in range(len(files)) if row not in bad], dtype=np.int64)
        if not len(self._rows):
            raise OSError(f"none of the {len(files)} images in {root} can be read; {describe(skipped, root)}")
        self.y, self.skipped = y[self._rows], skipped
        self.files = tuple(names[row] for row in self._rows)


class ImageArrays(ImageDataset):
    """Images in memory, e.g. those of `make_cellularity`, as a torch data set.

    Parameters
    ----------
    images : ndarray of shape (n, 3, height, width), uint8
        Red, green and blue.
    y : array-like of shape (n,)
        Targets.

    Examples
    --------
    >>> from recuse import datasets
    >>> images, y, mean, variance = datasets.make_cellularity(10, random_state=0)
    >>> train, validation, test = datasets.ImageArrays(images, y).split(repeat=0)
    >>> len(train), len(validation), len(test)
    (6, 2, 2)
    """

    def __init__(self, images: npt.NDArray[np.uint8], y: npt.ArrayLike) -> None:
        images = np.asarray(images)
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1] != 3:
            raise ValueError(f"images must be uint8 of shape (n, 3, height, width), got {images.dtype} {images.shape}")
        self._set_rows(images, np.asarray(y, dtype=np.float64).reshape(-1))


class ImageFiles(ImageDataset):
    """Image files and targets as a torch data set, resized once and cached.

    Parameters
    ----------
    files : sequence of paths
        JPEG, PNG, TIFF or any other format of Pillow (extra `images`).
    y : array-like of shape (n,)
        Targets.
    size : int, default=224
        Images are resized to `size` by `size`.
    cache : path or None, default=None
        Folder for the resized images; None is `.recuse_cache` in the common folder of all files.
    on_error : {"raise", "skip"}, default="raise"
        Raise an error that names a damaged or missing image, or leave it out and list it in `skipped`.
    n_jobs : int or None, default=None
        Threads that read images; None is one per processor.
    verbose : bool, default=False
        Whether to show progress.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from PIL import Image
    >>> folder = tempfile.TemporaryDirectory()
    >>> for name in ("a", "b"):
    ...     Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(f"{folder.name}/{name}.png")
    >>> faces = ImageFiles([f"{folder.name}/a.png", f"{folder.name}/b.png"], y=[31.0, 58.0], size=16)
    >>> tuple(faces[1][0].shape), faces.files
    ((3, 16, 16), ('a.png', 'b.png'))
    >>> folder.cleanup()
    """

    def __init__(
        self,
        files: Sequence[str | Path],
        y: npt.ArrayLike,
        *,
        size: int = 224,
        cache: str | Path | None = None,
        on_error: OnError = "raise",
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        paths = [Path(file).absolute() for file in files]
        targets = np.asarray(y, dtype=np.float64).reshape(-1)
        if not paths or len(paths) != len(targets):
            raise ValueError(f"files and y must have equal length, 1 or more, got {len(paths)} and {len(targets)}")
        root = Path(os.path.commonpath([path.parent for path in paths]))
        self._read_files(paths, targets, root, Reading(size, cache, on_error, n_jobs, verbose))


def describe(skipped: Sequence[Skipped], root: Path) -> str:
    """Return a message that names the first five images that cannot be used, and their number.

    Examples
    --------
    >>> print(describe([Skipped("a.jpg", "no such file")], Path("faces")))
    1 image in faces cannot be used: a.jpg (no such file); pass on_error="skip" to leave such images out
    """
    shown = ", ".join(f"{file} ({reason})" for file, reason in skipped[:5])
    more = f" and {len(skipped) - 5} more" if len(skipped) > 5 else ""
    noun = "image" if len(skipped) == 1 else "images"
    return (
        f'{len(skipped)} {noun} in {root} cannot be used: {shown}{more}; pass on_error="skip" to leave such images out'
    )
