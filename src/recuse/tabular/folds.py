"""Folds: any form of `cv` in, pairs of rows to fit to and rows to ask about out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from recuse.tabular.rows import Rows
from recuse.validation import is_count, require

__all__ = ["check_folds", "folds_of", "held_out_split", "marked", "random_folds"]

Split = tuple[NDArray[np.intp], NDArray[np.intp]]

_TRAIN, _TEST = 1, 2


def check_folds(cv: Any) -> None:
    """Check the form of `cv`; what it divides is not known yet."""
    divides = hasattr(cv, "split") or hasattr(cv, "__iter__")
    usable = is_count(cv, least=2) or (divides and not isinstance(cv, str))  # text can be split too
    require(usable, "cv", "an int >= 2, a splitter or an iterable of (train, test)", cv)


def marked(cv: Any, X: Any, y: NDArray[np.float64]) -> NDArray[np.int8] | None:
    """Mark each row (row, split) as of the training or the test part; None where `cv` is just a number.

    The marks stay with the rows while these are sorted and merged.
    """
    if is_count(cv):
        return None
    splits = list(check_cv(cv).split(X, y))
    marks = np.zeros((len(y), len(splits)), np.int8)
    for split, (train, test) in enumerate(splits):
        marks[train, split] = _TRAIN
        marks[test, split] = _TEST
    return marks


def folds_of(rows: Rows, cv: Any, random: np.random.RandomState) -> list[Split]:
    """Divide distinct rows at random into `cv` folds, or as their marks say."""
    if rows.part.shape[1] == 0:
        fold = random_folds(len(rows), cv, random)
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(fold.max() + 1)]
    _check_partition(rows.part)
    splits = [(np.flatnonzero(column == _TRAIN), np.flatnonzero(column == _TEST)) for column in rows.part.T]
    for number, (train, _) in enumerate(splits):
        require(len(train) > 0, "cv", "a division with rows to fit to in every split", f"none in split {number}")
    return [split for split in splits if len(split[1]) > 0]


def random_folds(n_rows: int, folds: int, random: np.random.RandomState) -> NDArray[np.intp]:
    """Give each row the number of its fold; the folds are as equal as can be, and no more than there are rows."""
    return random.permutation(np.arange(n_rows) % min(folds, n_rows))


def held_out_split(n_rows: int, fraction: float, random: np.random.RandomState) -> Split:
    """Hold out a random share of the rows; at least one, and not all."""
    held_out = min(max(1, round(fraction * n_rows)), n_rows - 1)
    order = random.permutation(n_rows)
    return order[held_out:], order[:held_out]


def _check_partition(marks: NDArray[np.int8]) -> None:
    tests = (marks == _TEST).sum(axis=1)
    if not (tests == 1).all():
        count = int(tests[tests != 1][0])
        raise ValueError(f"cv must put every row into exactly one test part, got a row in {count} of them")
