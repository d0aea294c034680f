"""The paper's random splits into training, validation and test rows."""

from __future__ import annotations

from collections.abc import Sized
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import _safe_indexing

from recuse.validation import check_count

Features = TypeVar("Features", bound=Sized, covariant=True)
Target = TypeVar("Target", bound=Sized, covariant=True)


class Splittable(Protocol[Features, Target]):
    """Anything with features `X` and a target `y` of equal length."""

    @property
    def X(self) -> Features:
        """Features, one row per instance."""

    @property
    def y(self) -> Target:
        """Target, one value per instance."""


def split(
    dataset: Splittable[Features, Target], repeat: int
) -> tuple[tuple[Features, Target], tuple[Features, Target], tuple[Features, Target]]:
    """Split a table at random into train (60 %), validation (20 %) and test (20 %).

    Of n rows, floor(0.6 n) train, floor(0.2 n) validate and the others test. Each row keeps its
    label (its index), so a part can be traced back to the table.

    Parameters
    ----------
    dataset : Dataset, or any object with fields X and y
        What to split: frames or arrays of equal length, at least 5 rows.
    repeat : int
        Number of the repeat, 0 or more. It seeds the split: the same repeat gives the same rows.

    Returns
    -------
    train, validation, test : tuples (X, y)
        Rows of `dataset`, in shuffled order, of the types its fields have.

    Examples
    --------
    >>> from recuse import datasets
    >>> train, validation, test = datasets.split(datasets.load("housing"), repeat=0)
    >>> [len(y) for X, y in (train, validation, test)]
    [303, 101, 102]
    """
    generator = np.random.default_rng(check_count("repeat", repeat, least=0))
    n_rows = _count_rows(dataset)
    order = generator.permutation(n_rows)
    n_train, n_validation = 3 * n_rows // 5, n_rows // 5
    train, validation, test = np.split(order, [n_train, n_train + n_validation])
    return _take(dataset, train), _take(dataset, validation), _take(dataset, test)


def _count_rows(dataset: Splittable[Features, Target]) -> int:
    n_rows, n_targets = len(dataset.X), len(dataset.y)
    if n_rows != n_targets:
        raise ValueError(f"X and y must have equal length, got {n_rows} and {n_targets}")
    if n_rows < 5:
        raise ValueError(f"a split needs at least 5 rows, one for each 20 %, got {n_rows}")
    return n_rows


def _take(dataset: Splittable[Features, Target], rows: npt.NDArray[np.int64]) -> tuple[Features, Target]:
    return _safe_indexing(dataset.X, rows), _safe_indexing(dataset.y, rows)
