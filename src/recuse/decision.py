"""Decision: what a rejecting regressor says about some rows - predictions, acceptances, scores, costs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from recuse import metrics
from recuse.costs import resolve

__all__ = ["Decision"]


@dataclass(frozen=True, eq=False)
class Decision:
    """An immutable table of decisions, one row per row of the input.

    Parameters
    ----------
    prediction : array-like of shape (n_rows,)
        h(x), also where the row was rejected: a rejection is a field of its own, never a magic value.
    accepted : array-like of bool of shape (n_rows,)
    score : array-like of shape (n_rows,)
        How clearly the row was accepted; larger is more acceptable.
    cost : float or array-like of shape (n_rows,)
        What rejecting each row costs, in squared-error units.
    index : pandas Index, optional
        The labels of the rows when the input was a DataFrame.

    Examples
    --------
    >>> d = Decision(prediction=[3.0, 8.0], accepted=[True, False], score=[0.7, -0.1], cost=2.0)
    >>> len(d), d.rejection_rate
    (2, 0.5)
    >>> d[d.accepted].prediction
    array([3.])
    >>> d.to_frame()
       prediction  accepted  score  cost
    0         3.0      True    0.7   2.0
    1         8.0     False   -0.1   2.0
    """

    prediction: NDArray[np.float64]
    accepted: NDArray[np.bool_]
    score: NDArray[np.float64]
    cost: NDArray[np.float64]
    index: pd.Index[Any] | None = field(default=None, repr=False)

    def __init__(
        self,
        prediction: ArrayLike,
        accepted: ArrayLike,
        score: ArrayLike,
        cost: ArrayLike,
        index: pd.Index[Any] | None = None,
    ) -> None:
        rows, flags = np.array(prediction, dtype=np.float64), np.array(accepted)
        if not np.isin(flags, (0, 1)).all():
            raise ValueError(f"accepted must be True or False, got {flags[~np.isin(flags, (0, 1))][0]}")
        columns = {
            "prediction": rows,
            "accepted": flags.astype(np.bool_),
            "score": np.array(score, dtype=np.float64),
            "cost": resolve(cost, None, len(rows)) if rows.ndim == 1 else rows,
        }
        for name, column in columns.items():
            if column.shape != (rows.size,):
                raise ValueError(f"{name} must have one value for each of {rows.size} rows, got shape {column.shape}")
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        if index is not None and len(index) != len(rows):
            raise ValueError(f"index must have one label for each of {len(rows)} rows, got {len(index)}")
        object.__setattr__(self, "index", index)

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> Self:
        """Select rows by a slice, a mask or positions; a single position gives a Decision of one row."""
        if isinstance(rows, int | np.integer):
            rows = [rows]
        return type(self)(
            self.prediction[rows],
            self.accepted[rows],
            self.score[rows],
            self.cost[rows],
            index=None if self.index is None else self.index[rows],
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Decision):
            return NotImplemented
        return all(np.array_equal(self._column(f.name), other._column(f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        """Pickle by the constructor, so that what comes back is immutable too."""
        return type(self), tuple(self._column(f.name) for f in fields(self))

    def __repr__(self) -> str:
        accepted = int(self.accepted.sum())
        return f"Decision({len(self)} rows: {accepted} accepted, {len(self) - accepted} rejected)"

    @property
    def rejection_rate(self) -> float:
        """Share of rows rejected; NaN when there are no rows."""
        return float(np.mean(~self.accepted)) if len(self) else float("nan")

    def to_frame(self) -> pd.DataFrame:
        """Give one column per field, indexed like the input."""
        columns = {name: self._column(name) for name in ("prediction", "accepted", "score", "cost")}
        return pd.DataFrame(columns, index=self.index)

    def evaluate(self, y_true: ArrayLike, *, sample_weight: ArrayLike | None = None) -> dict[str, float]:
        """Measure the decisions against the truth; see `recuse.metrics.evaluate`."""
        return metrics.evaluate(y_true, self, sample_weight=sample_weight)

    def _column(self, name: str) -> Any:
        return getattr(self, name)
