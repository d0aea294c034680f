"""Folds for cross-fitting and held-out rows, which keep groups together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, check_cv, train_test_split

from recuse.tabular.rows import Rows
from recuse.validation import is_count, require

Split = tuple[NDArray[np.intp], NDArray[np.intp]]

_TRAIN, _TEST = 1, 2


def check_folds(cv: Any) -> None:
    """Check the form of `cv`, before there are rows to split."""
    divides = hasattr(cv, "split") or hasattr(cv, "__iter__")
    usable = is_count(cv, least=2) or (divides and not isinstance(cv, str))  # str has a method `split` too
    require(usable, "cv", "an int >= 2, a splitter or an iterable of (train, test)", cv)


def mark_splits(cv: Any, X: Any, y: NDArray[np.float64], groups: ArrayLike | None) -> NDArray[np.int8] | None:
    """Mark each row as training or test row of each split (row, split); None if `cv` is a number.

    The marks stay with the rows when these are merged and sorted.
    """
    if cv is None or is_count(cv):
        return None
    splits = list(check_cv(cv).split(X, y, groups))
    marks = np.zeros((len(y), len(splits)), np.int8)
    for split, (train, test) in enumerate(splits):
        marks[train, split] = _TRAIN
        marks[test, split] = _TEST
    return marks


def folds_of(rows: Rows, cv: Any, random: np.random.RandomState) -> list[Split]:
    """Split the rows into `cv` folds at random, or according to their marks.

    A number of folds keeps the rows of a group together. The test parts of a user's splitter must not overlap; rows in
    none of them, as with ``TimeSeriesSplit``, are used for training only.
    """
    if rows.part.shape[1] == 0:
        return _random_folds(rows.group, cv, random)
    _check_test_parts(rows.part)
    splits = [(np.flatnonzero(column == _TRAIN), np.flatnonzero(column == _TEST)) for column in rows.part.T]
    for number, (train, _) in enumerate(splits):
        require(len(train) > 0, "cv", "a division with rows to fit to in every split", f"none in split {number}")
    return [split for split in splits if len(split[1]) > 0]


def is_partition(splits: list[Split], n_rows: int) -> bool:
    """Whether every row is in a test part.

    Examples
    --------
    >>> one, two = np.array([0]), np.array([1])
    >>> is_partition([(one, two), (two, one)], n_rows=2), is_partition([(one, two)], n_rows=2)
    (True, False)
    """
    return sum(len(test) for _, test in splits) == n_rows


def splits_of_tested(splits: list[Split]) -> tuple[NDArray[np.intp], list[Split]]:
    """Return the rows in test parts, and splits of these rows that leave out one test part each.

    Models of out-of-fold errors are cross-fitted with these splits.

    Examples
    --------
    >>> rows, splits = splits_of_tested([(np.array([0]), np.array([2])), (np.array([0, 2]), np.array([4]))])
    >>> rows, splits  # row 2 is the first and row 4 the second row with an error
    (array([2, 4]), [(array([1]), array([0])), (array([0]), array([1]))])
    """
    tested = np.sort(np.concatenate([test for _, test in splits]))
    parts = [np.searchsorted(tested, np.sort(test)) for _, test in splits]
    everything = np.arange(len(tested))
    return tested, [(np.setdiff1d(everything, part), part) for part in parts]


def held_out_split(rows: Rows, fraction: float, random: np.random.RandomState) -> Split:
    """Hold out a random share of the rows, or of the groups where rows share them: at least one, and not all."""
    grouped, count = _is_grouped(rows.group), len(rows)
    total = len(np.unique(rows.group)) if grouped else count
    held_out = min(max(1, round(fraction * total)), total - 1)
    if grouped:
        splitter = GroupShuffleSplit(n_splits=1, test_size=held_out, random_state=random)
        train, test = next(splitter.split(np.empty(count), groups=rows.group))
        return train, test
    train, test = train_test_split(np.arange(count), test_size=held_out, random_state=random)
    return train, test


def _random_folds(group: NDArray[np.intp], folds: int, random: np.random.RandomState) -> list[Split]:
    if not _is_grouped(group):
        return list(KFold(min(folds, len(group)), shuffle=True, random_state=random).split(group))
    splitter = GroupKFold(min(folds, len(np.unique(group))), shuffle=True, random_state=random)
    return list(splitter.split(group, groups=group))


def _is_grouped(group: NDArray[np.intp]) -> bool:
    """Whether some rows, but not all of them, share a group: a single group cannot be split."""
    return 1 < len(np.unique(group)) < len(group)


def _check_test_parts(marks: NDArray[np.int8]) -> None:
    tests = (marks == _TEST).sum(axis=1)
    if (tests > 1).any():
        row = int((tests > 1).argmax())
        raise ValueError(f"cv must put every row into at most one test part, got a row in {tests[row]} of them")
    if not tests.any():
        raise ValueError("cv must have rows in its test parts, got none")
