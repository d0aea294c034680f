"""Torch data sets of image files, with seeded splits, and the random crops of the paper."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.data import Dataset

from recuse.datasets.splits import split
from recuse.images.files import cached_pixels
from recuse.validation import check_count

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
    verbose: bool


class ImageFiles(Dataset[Pair]):
    """Image files and targets as a torch data set, resized once and cached.

    Item i is the pair (image, target): a float32 tensor (3, height, width), each channel normalised by mean .5
    and standard deviation .5, and a float32 scalar.

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
    verbose : bool, default=False
        Whether to show progress.

    Attributes
    ----------
    y : ndarray of shape (n,)
        Targets.
    files : tuple of str
        Names of the images relative to their folder.
    skipped : list of (file, reason)
        Images that were left out with ``on_error="skip"``.

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
        verbose: bool = False,
    ) -> None:
        paths = [Path(file).absolute() for file in files]
        targets = np.asarray(y, dtype=np.float64).reshape(-1)
        if not paths or len(paths) != len(targets):
            raise ValueError(f"files and y must have equal length, 1 or more, got {len(paths)} and {len(targets)}")
        if not np.isfinite(targets).all():
            row = int(np.flatnonzero(~np.isfinite(targets))[0])
            raise ValueError(f"y must be finite, got {targets[row]} at row {row}")
        root = Path(os.path.commonpath([path.parent for path in paths]))
        self._read_files(paths, targets, root, Reading(size, cache, on_error, verbose))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Pair:
        pixels = torch.from_numpy(np.array(self._pixels[int(self._rows[index])]))
        return pixels.float() / 127.5 - 1, torch.tensor(self.y[index], dtype=torch.float32)

    def take(self, rows: npt.ArrayLike) -> Self:
        """Return some of the images, by their positions, as a data set of the same kind."""
        taken, positions = copy.copy(self), np.asarray(rows)
        taken.y, taken._rows = self.y[positions], self._rows[positions]
        taken.files = tuple(np.array(self.files)[positions].tolist())
        return taken

    def split(self, repeat: int) -> tuple[Self, Self, Self]:
        """Split at random into train (60 %), validation (20 %) and test (20 %), as `recuse.datasets.split` does.

        Parameters
        ----------
        repeat : int
            Number of the repeat, 0 or more; it seeds the split.

        Returns
        -------
        train, validation, test : data sets
        """
        parts = split(SimpleNamespace(X=np.arange(len(self)), y=self.y), repeat)
        train, validation, test = (self.take(rows) for rows, _ in parts)
        return train, validation, test

    def _read_files(self, files: Sequence[Path], y: Floats, root: Path, reading: Reading) -> None:
        if reading.on_error not in ("raise", "skip"):
            raise ValueError(f"on_error must be 'raise' or 'skip', got {reading.on_error!r}")
        pixels, bad = cached_pixels(
            files,
            check_count("size", reading.size, least=1),
            root=root,
            cache=None if reading.cache is None else Path(reading.cache),
            verbose=reading.verbose,
        )
        names = [file.relative_to(root).as_posix() for file in files]
        skipped = [Skipped(names[row], reason) for row, reason in bad.items()]
        if skipped and reading.on_error == "raise":
            raise OSError(describe(skipped, root))
        self._pixels = pixels
        self._rows = np.array([row for row in range(len(files)) if row not in bad], dtype=np.int64)
        if not len(self._rows):
            raise OSError(f"none of the {len(files)} images in {root} can be read; {describe(skipped, root)}")
        self.y, self.skipped = y[self._rows], skipped
        self.files = tuple(names[row] for row in self._rows)


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


def crop_and_flip(image: Tensor, generator: np.random.Generator, padding: int = 16) -> Tensor:
    """Pad with black, crop at random to the original size, and flip horizontally with probability 1/2.

    Parameters
    ----------
    image : Tensor of shape (channel, height, width)
        A normalised image; black is -1.
    generator : numpy Generator
        Source of the random numbers.
    padding : int, default=16
        Pixels added on each side.

    Returns
    -------
    Tensor of shape (channel, height, width)

    Examples
    --------
    >>> import numpy as np, torch
    >>> crop_and_flip(torch.zeros(3, 8, 8), np.random.default_rng(0), padding=2).shape
    torch.Size([3, 8, 8])
    """
    top, left = generator.integers(2 * padding + 1, size=2)
    height, width = image.shape[-2:]
    padded = functional.pad(image, [padding] * 4, value=-1.0)
    crop = padded[..., top : top + height, left : left + width]
    return crop.flip(-1) if generator.random() < 0.5 else crop.contiguous()
