"""Decision: what a rejecting regressor says about some rows - predictions, acceptances, scores, costs."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from recuse import losses, metrics
from recuse.costs import resolve
from recuse.losses import SQUARED, LossLike, TargetLoss

__all__ = ["Decision"]


@dataclass(frozen=True, eq=False)
class Decision:
    """An immutable table of decisions, one row per row of the input.

    Parameters
    ----------
    prediction : array-like of shape (n_rows,) or (n_rows, n_outputs)
        h(x), also where the row was rejected: a rejection is a field of its own, never a magic value.
    accepted : array-like of bool of shape (n_rows,)
    score : array-like of shape (n_rows,)
        How clearly the row was accepted; larger is more acceptable.
    cost : float or array-like of shape (n_rows,)
        What rejecting each row costs, in the units of the loss.
    index : pandas Index, optional
        The labels of the rows when the input was a DataFrame.
    loss : str or TargetLoss, default="squared"
        What the cost is weighed against, and what `evaluate` measures by; see `recuse.losses`.

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

    With several targets a row is accepted or rejected as a whole:

    >>> Decision([[3.0, 1.0], [8.0, 5.0]], [True, False], [0.7, -0.1], 2.0, loss="absolute").to_frame()
       prediction_0  prediction_1  accepted  score  cost
    0           3.0           1.0      True    0.7   2.0
    1           8.0           5.0     False   -0.1   2.0
    """

    prediction: NDArray[np.float64]
    accepted: NDArray[np.bool_]
    score: NDArray[np.float64]
    cost: NDArray[np.float64]
    index: pd.Index[Any] | None = field(default=None, repr=False)
    loss: TargetLoss = SQUARED

    def __init__(
        self,
        prediction: ArrayLike,
        accepted: ArrayLike,
        score: ArrayLike,
        cost: ArrayLike,
        index: pd.Index[Any] | None = None,
        loss: LossLike = SQUARED,
    ) -> None:
        rows, flags = np.array(prediction, dtype=np.float64), np.array(accepted)
        n_rows = _count_rows(rows)
        if not np.isin(flags, (0, 1)).all():
            raise ValueError(f"accepted must be True or False, got {flags[~np.isin(flags, (0, 1))][0]}")
        columns = {
            "accepted": flags.astype(np.bool_),
            "score": np.array(score, dtype=np.float64),
            "cost": resolve(cost, None, n_rows),
        }
        for name, column in columns.items():
            if column.shape != (n_rows,):
                raise ValueError(f"{name} must have one value for each of {n_rows} rows, got shape {column.shape}")
        for name, column in {"prediction": rows, **columns}.items():
            column.flags.writeable = False
            object.__setattr__(self, name, column)
        if index is not None and len(index) != n_rows:
            raise ValueError(f"index must have one label for each of {n_rows} rows, got {len(index)}")
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "loss", losses.get(loss))

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
            loss=self.loss,
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
        by = "" if self.loss == SQUARED else f"; {self.loss.name} loss"
        return f"Decision({len(self)} rows: {accepted} accepted, {len(self) - accepted} rejected{by})"

    @property
    def rejection_rate(self) -> float:
        """Share of rows rejected; NaN when there are no rows."""
        return float(np.mean(~self.accepted)) if len(self) else float("nan")

    def to_frame(self) -> pd.DataFrame:
        """Give one column per field, and one for each target of several, indexed like the input."""
        columns = {name: self._column(name) for name in ("accepted", "score", "cost")}
        return pd.DataFrame({**self._predictions(), **columns}, index=self.index)

    def _predictions(self) -> dict[str, NDArray[np.float64]]:
        if self.prediction.ndim == 1:
            return {"prediction": self.prediction}
        return {f"prediction_{output}": column for output, column in enumerate(self.prediction.T)}

    def evaluate(self, y_true: ArrayLike, *, sample_weight: ArrayLike | None = None) -> dict[str, float]:
        """Measure the decisions against the truth, by their own loss; see `recuse.metrics.evaluate`."""
        return metrics.evaluate(y_true, self, sample_weight=sample_weight)

    def _column(self, name: str) -> Any:
        return getattr(self, name)


def _count_rows(prediction: NDArray[np.float64]) -> int:
    """Count the rows of predictions of one target (row,) or of several (row, output)."""
    if prediction.ndim == 1 or (prediction.ndim == 2 and prediction.shape[1] > 1):
        return len(prediction)
    raise ValueError(f"prediction must have one value for each of {prediction.size} rows, got shape {prediction.shape}")
