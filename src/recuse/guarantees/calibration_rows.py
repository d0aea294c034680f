"""Calibration rows by their hashes: copies, repeats, groups, and an order that follows from the rows alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recuse.dataframes import aligned, is_frame, row_index, row_name, to_pandas
from recuse.decision import RejectingModel
from recuse.row_hashes import (
    RowHashes,
    Singles,
    bits_of_numbers,
    combined,
    hashes_in_any_order,
    hashes_of_given,
    is_continuous,
)

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Hashes = NDArray[np.uint64]

# Copies of training rows, or repeats, are refused if as many have a lower probability among fresh rows.
_IMPLAUSIBLE = 0.001
# Confidence of the upper bound on the rate of repeats among fresh rows.
_SURE = 0.99
_PARTS = {
    "rows": "all features and the target",
    "features": "all features",
    "even": "half of the features and the target",
    "odd": "half of the features and the target",
}


@dataclass(frozen=True, eq=False)
class CalibrationRows:
    """Hashes of calibration rows, and what they tell.

    Attributes
    ----------
    parts : RowHashes
        Of the features that the model reads, if it has hashes of its training rows, else of all that are given.
    given, targets : ndarray of uint64 of shape (row,)
        Of all cells that are given, with the target, and of the target alone.
    draw : ndarray of int of shape (row,)
        The draw that each row belongs to: its group, or the row itself.
    grouped : bool
        Whether groups were given.
    training : Singles or None
        How many training rows are unlike all others; None if the model does not tell.
    copies : int or None
        Number of rows that equal training rows; None if the model does not tell.
    repeats : int
        Number of rows that equal an earlier row of another draw, in all features and the target.
    """

    parts: RowHashes
    given: Hashes
    targets: Hashes
    draw: Indices
    grouped: bool
    training: Singles | None
    copies: int | None
    repeats: int

    @classmethod
    def check(
        cls, model: RejectingModel, X: Any, truth: Floats, groups: Any, allow_training_rows: bool
    ) -> CalibrationRows:
        """Hash the rows; raise an error if too many equal training rows or each other."""
        count = len(truth)
        draw = np.arange(count) if groups is None else group_codes(groups, X, count)
        targets, features = bits_of_numbers(truth), hashes_of_given(X, count)
        overlap = model.training_overlap(X, truth) if hasattr(model, "training_overlap") else None
        if overlap is not None:
            _check_copies(overlap, allow_training_rows)
            parts, training, copies = overlap.parts, overlap.training, int(overlap.copies.sum())
        else:
            parts, training, copies = RowHashes.of_cells([features], truth), None, None
        continuous = {"features": _has_continuous(X), "rows": is_continuous(truth)}
        repeats = [_checked_repeats(parts, part, draw, training, continuous) for part in _PARTS]
        given = combined([features, targets])
        return cls(parts, given, combined([targets]), draw, groups is not None, training, copies, repeats[0])

    @property
    def fingerprint(self) -> str:
        """A checksum of the rows that does not depend on their order."""
        return hashlib.sha256(np.sort(self.parts.rows).astype("<u8").tobytes()).hexdigest()

    def order(self, *values: Floats) -> tuple[Indices, Indices]:
        """Return the order in which the rows are tested, and the number of the draw of each row in that order.

        The rows are sorted by their hashes, and the draws are then permuted by a generator whose seed is the checksum
        of the rows. So the order follows from the set of rows, and nobody can choose it. It is as good as random: the
        checksum of other rows is another seed.

        Parameters
        ----------
        values : ndarray of shape (row,)
            Scores, losses and costs, for rows with equal hashes.
        """
        keys: list[NDArray[Any]] = [each.astype(np.float32) for each in reversed(values)]
        rows = np.lexsort([*keys, self.parts.rows])
        _, first, draw = np.unique(self.draw[rows], return_index=True, return_inverse=True)
        by_hash = np.lexsort([first, hashes_in_any_order(self.parts.rows[rows], draw)])
        seed = int(self.fingerprint, 16)
        rank = np.empty(len(first), np.intp)
        rank[by_hash] = np.random.default_rng(seed).permutation(len(first))
        order = np.argsort(rank[draw], kind="stable")
        return rows[order], rank[draw[order]]


def group_codes(groups: ArrayLike, X: Any, count: int) -> Indices:
    """Return the number of each row's group.

    Examples
    --------
    >>> group_codes(["b", "a", "b"], np.zeros((3, 1)), 3)
    array([0, 1, 0])
    """
    import pandas as pd

    labels = pd.Series(to_pandas(aligned(groups, row_index(X), "groups")))
    if len(labels) != count:
        raise ValueError(f"groups must have one label for each of {count} rows, got {len(labels)}")
    missing = labels.isna().to_numpy()
    if missing.any():
        raise ValueError(f"groups must not be missing, got none at {row_name(int(missing.argmax()), row_index(X))}")
    return pd.factorize(labels)[0].astype(np.intp)


def _check_copies(overlap: Any, allowed: bool) -> None:
    if overlap.probability < _IMPLAUSIBLE and not allowed:
        raise ValueError(
            f"{int(overlap.copies.sum()):,} of the {len(overlap.copies):,} calibration rows equal training rows in all "
            f"features and the target, where {overlap.expected:.2g} would be expected of fresh rows: certify with rows "
            "that the model was not trained on, or pass allow_training_rows=True if these rows are fresh"
        )


def _checked_repeats(
    parts: RowHashes, part: str, draw: Indices, training: Singles | None, continuous: dict[str, bool]
) -> int:
    """Return how many rows equal one of an earlier draw in a part; raise an error if fresh rows would not.

    Without hashes of training rows, a table with a continuous column is expected to have no repeats, and any other
    table may have any number.
    """
    hashes = np.unique(np.column_stack([draw.astype(np.uint64), getattr(parts, part)]), axis=0)[:, 1]
    count, distinct = len(hashes), len(np.unique(hashes))
    repeats = count - distinct
    if training is not None:
        expected, probability = _repeats_of_fresh_rows(repeats, count, training.count, getattr(training, part))
    elif continuous["features"] or (part == "rows" and continuous["rows"]):
        expected, probability = _repeats_of_fresh_rows(repeats, count, distinct, distinct)
    else:
        return repeats
    if probability < _IMPLAUSIBLE:
        raise ValueError(_message_of_repeats(part, repeats, count, expected, training is not None))
    return repeats


def _repeats_of_fresh_rows(repeats: int, count: int, known: int, single: int) -> tuple[float, float]:
    """Return how many repeats fresh rows have at most, and the probability of as many.

    By Good and Turing, the share of the known rows that are not single is the chance that the next row repeats one of
    them; here the upper end of its confidence interval. The chance grows with the number of rows, at most in proportion
    to it, since it is a concave function of the number that starts at 0.
    """
    from scipy.special import bdtrc, betaincinv

    if repeats == 0 or single == 0:
        return float(count), 1.0
    chance = float(betaincinv(known - single + 1, single, _SURE))
    chance = float(np.minimum(1.0, chance * np.maximum(1.0, np.arange(count) / known)).mean())
    return chance * count, 1.0 if chance >= 1 else float(bdtrc(repeats - 1, count, chance))


def _message_of_repeats(part: str, repeats: int, count: int, expected: float, trained: bool) -> str:
    start = (
        f"{repeats:,} of the {count:,} calibration rows repeat another one in {_PARTS[part]}, where fresh rows would "
        f"have at most about {expected:.2g}, "
    )
    source = "as the training rows tell" if trained else "as in any table of continuous numbers"
    rule = f"{source} (as many have a probability below 1 in 1,000): rows must be independent draws, so "
    if part == "features":
        return f"{start}{rule}drop the copies, or pass groups= with one label for all measurements of the same thing"
    return f"{start}{rule}drop the copies, or pass groups= with one label for all rows of one draw"


def _has_continuous(X: Any) -> bool:
    """Whether a table has a column of continuous numbers; images count as continuous."""
    import pandas as pd

    table = to_pandas(pd.DataFrame(X) if isinstance(X, dict) else X)
    if is_frame(table):
        return any(
            is_continuous(pd.to_numeric(table.iloc[:, place], errors="coerce").to_numpy(np.float64, na_value=np.nan))
            for place in range(table.shape[1])
            if pd.api.types.is_numeric_dtype(table.iloc[:, place].dtype)
        )
    if not isinstance(table, np.ndarray | list | tuple):
        return True
    array = np.asarray(table)
    if array.ndim != 2:
        return True
    return any(is_continuous(column) for column in array.T) if array.dtype.kind in "iuf" else False
