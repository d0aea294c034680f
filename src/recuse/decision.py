"""The decisions of a rejecting regressor: predictions, acceptances, scores and costs of rows; what makes them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from recuse import losses, metrics
from recuse.costs import resolve
from recuse.dataframes import aligned, is_frame, to_pandas
from recuse.losses import SQUARED, LossLike, TargetLoss

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LOSS_SAVED", "SURROGATE_SCORE", "Decision", "RejectingModel"]

LOSS_SAVED = "loss saved by accepting"
SURROGATE_SCORE = "surrogate score, no unit"

_COLUMNS = ("prediction", "accepted", "score", "cost")


@dataclass(frozen=True, eq=False)
class Decision:
    """An immutable table of decisions, one row per row of the input.

    Parameters
    ----------
    prediction : array-like of shape (n_rows,)
        h(x) of all rows, also of rejected ones; only `accepted` marks rejections.
    accepted : array-like of bool of shape (n_rows,), optional
        By default the rows whose score is > 0.
    score : array-like of shape (n_rows,)
        Estimators accept a row if its score is > 0; rows with a larger score are accepted first.
    cost : float or array-like of shape (n_rows,)
        The cost of rejecting each row, in the units of the loss.
    index : pandas Index, optional
        Labels of the rows, if the input was a pandas DataFrame.
    loss : str or TargetLoss, default="squared"
        The loss that the cost is compared with and that `evaluate` measures; see `recuse.losses`.
    score_unit : str, optional
        What the score measures. Estimators use `LOSS_SAVED`, "loss saved by accepting", for the cost less the expected
        loss, in the units of the loss; and `SURROGATE_SCORE`, "surrogate score, no unit", where only the sign and the
        order of the scores have a meaning.
    takes : array-like of str of shape (n_rows,), optional
        Who takes each row, if rejected rows go to several experts: "model" or the name of an expert.

    Examples
    --------
    >>> d = Decision(prediction=[3.0, 8.0], score=[0.7, -0.1], cost=2.0)
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
    loss: TargetLoss = SQUARED
    score_unit: str | None = None
    takes: NDArray[np.object_] | None = None

    def __init__(
        self,
        prediction: ArrayLike,
        accepted: ArrayLike | None = None,
        score: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        index: pd.Index[Any] | None = None,
        loss: LossLike = SQUARED,
        score_unit: str | None = None,
        takes: ArrayLike | None = None,
    ) -> None:
        rows, scores = np.array(prediction, dtype=np.float64), np.array(score, dtype=np.float64)
        if rows.ndim != 1:
            raise ValueError(f"prediction must have one value for each of {rows.size} rows, got shape {rows.shape}")
        flags = scores > 0 if accepted is None else np.array(accepted)
        wrong = ~np.isin(flags, (0, 1))
        if wrong.any():
            raise ValueError(f"accepted must be True or False, got {flags[wrong][0]}")
        costs = resolve(aligned(cost, index, "cost"), None, len(rows))
        takers = None if takes is None else np.array(takes, dtype=object)
        for name, column in {"score": scores, "accepted": flags, "takes": takers}.items():
            if column is not None and column.shape != rows.shape:
                raise ValueError(f"{name} must have one value for each of {len(rows)} rows, got shape {column.shape}")
        if index is not None and len(index) != len(rows):
            raise ValueError(f"index must have one label for each of {len(rows)} rows, got {len(index)}")
        self._store(rows, flags.astype(np.bool_), scores, costs, index, losses.get(loss), score_unit, takers)

    @classmethod
    def of_checked(cls, *values: Any, **named: Any) -> Self:
        """Return a decision of values that meet all checks of the constructor, which takes much longer for one row.

        The arguments are those of the constructor, of the types of the attributes. The arrays are not copied but made
        read-only, so the caller must not write to them later.
        """
        decision = cls.__new__(cls)
        decision._store(*values, **named)
        return decision

    def _store(
        self,
        prediction: NDArray[np.float64],
        accepted: NDArray[np.bool_],
        score: NDArray[np.float64],
        cost: NDArray[np.float64],
        index: pd.Index[Any] | None = None,
        loss: TargetLoss = SQUARED,
        score_unit: str | None = None,
        takes: NDArray[np.object_] | None = None,
    ) -> None:
        columns = {"prediction": prediction, "accepted": accepted, "score": score, "cost": cost}
        for column in columns.values():
            column.flags.writeable = False
        vars(self).update(columns, index=index, loss=loss, score_unit=score_unit, takes=takes)

    @classmethod
    def concatenate(cls, decisions: Iterable[Decision]) -> Self:
        """Put the rows of several decisions one after the other.

        Parameters
        ----------
        decisions : iterable of Decision
            At least one. All have the same loss and unit of the score, and either all or none have an index.

        Returns
        -------
        Decision

        Examples
        --------
        >>> d = Decision([3.0, 8.0], [True, False], [0.7, -0.1], cost=2.0)
        >>> Decision.concatenate([d, d[:1]]).accepted
        array([ True, False,  True])
        """
        each = list(decisions)
        if not each:
            raise ValueError("decisions must hold at least one Decision, got none")
        for name in ("loss", "score_unit"):
            values = list(dict.fromkeys(repr(getattr(decision, name)) for decision in each))
            if len(values) > 1:
                raise ValueError(f"all decisions must have the same {name}, got {values[0]} and {values[1]}")
        indices = [decision.index for decision in each if decision.index is not None]
        if len(indices) not in (0, len(each)):
            raise ValueError(f"either all decisions or none must have an index, got {len(indices)} of {len(each)}")
        names = each[0]._row_columns()
        columns = {name: np.concatenate([getattr(decision, name) for decision in each]) for name in names}
        index = indices[0].append(indices[1:]) if indices else None
        return cls.of_checked(**{**vars(each[0]), **columns, "index": index})

    @classmethod
    def from_frame(cls, frame: Any, *, loss: LossLike = SQUARED) -> Self:
        """Return the decision whose `to_frame` is this table; other columns are ignored.

        Parameters
        ----------
        frame : DataFrame
            The columns "prediction", "score" and "cost"; "accepted", without which the rows with a score > 0 are
            accepted; and "takes" of rows that go to several experts.
        loss : str or TargetLoss, default="squared"
            The loss that the cost is compared with, which a table does not tell.

        Returns
        -------
        Decision

        Examples
        --------
        >>> d = Decision([3.0, 8.0], score=[0.7, -0.1], cost=2.0)
        >>> Decision.from_frame(d.to_frame()) == d
        True
        >>> Decision.from_frame(d.to_frame()[["prediction", "score"]])
        Traceback (most recent call last):
        ValueError: frame must have the columns 'prediction', 'score' and 'cost' of decisions, got no 'cost' among ...
        """
        table = to_pandas(frame)
        if not is_frame(table):
            raise TypeError(f"frame must be a table of decisions, got {type(frame).__name__}")
        absent = [name for name in ("prediction", "score", "cost") if name not in table.columns]
        if absent:
            raise ValueError(
                f"frame must have the columns 'prediction', 'score' and 'cost' of decisions, got no {absent[0]!r} "
                f"among {list(table.columns)!r:.300}"
            )
        columns = {name: table[name].to_numpy() for name in (*_COLUMNS, "takes") if name in table.columns}
        return cls(**columns, index=table.index, loss=loss, score_unit=table.attrs.get("score_unit"))

    def __len__(self) -> int:
        return len(self.prediction)

    def __getitem__(self, rows: Any) -> Self:
        """Select rows by a slice, a mask or positions; a single position gives a Decision of one row."""
        if isinstance(rows, int | np.integer):
            rows = [rows]
        columns = {name: column[rows] for name, column in self._row_columns().items()}
        index = None if self.index is None else self.index[rows]
        if columns["accepted"].ndim == 1:
            return self.of_checked(**{**vars(self), **columns, "index": index})
        return replace(self, **columns, index=index)  # the constructor refuses what is not a selection of rows

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal, where rows without labels are labelled by their positions."""
        if not isinstance(other, Decision):
            return NotImplemented
        same = (self.loss, self.score_unit) == (other.loss, other.score_unit)
        return same and self.to_frame().equals(other.to_frame())

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        """Unpickle by the constructor, which makes the arrays read-only."""
        return type(self), tuple(getattr(self, each.name) for each in fields(self))

    def __repr__(self) -> str:
        accepted = int(self.accepted.sum())
        loss = "" if self.loss == SQUARED else f"; {self.loss.name} loss"
        unit = "" if self.score_unit is None else f"; score: {self.score_unit}"
        return f"Decision({len(self)} rows: {accepted} accepted, {len(self) - accepted} rejected{loss}{unit})"

    @property
    def rejection_rate(self) -> float:
        """Share of rows rejected; NaN when there are no rows."""
        return float(np.mean(~self.accepted)) if len(self) else float("nan")

    def at_threshold(self, threshold: float) -> Self:
        """Return the same rows, accepted where their score is above a threshold.

        The scores stay as they are, so their sign no longer tells which rows are accepted.

        Parameters
        ----------
        threshold : float

        Returns
        -------
        Decision

        Examples
        --------
        >>> d = Decision([3.0, 8.0, 5.0], [True, False, True], [0.7, -0.1, 0.2], cost=2.0)
        >>> d.at_threshold(0.5).accepted
        array([ True, False, False])
        """
        if math.isnan(threshold):
            raise ValueError("threshold must be a number, got nan")
        return self.of_checked(**{**vars(self), "accepted": self.score > threshold})

    def to_frame(self) -> pd.DataFrame:
        """Return a table with the columns `prediction`, `accepted`, `score` and `cost`.

        Of rows that go to several experts there is also `takes`. The table has the index of the input, and
        ``attrs["score_unit"]`` is the unit of the score, if it is known.
        """
        import pandas as pd

        frame = pd.DataFrame(self._row_columns(), index=self.index)
        if self.score_unit is not None:
            frame.attrs["score_unit"] = self.score_unit
        return frame

    def evaluate(self, y_true: Any, *, sample_weight: ArrayLike | None = None) -> dict[str, float]:
        """Compute all measures of these decisions with their loss; see `recuse.metrics.evaluate`.

        Pandas targets and weights are matched to the rows by label.
        """
        return metrics.evaluate(y_true, self, sample_weight=sample_weight)

    def _row_columns(self) -> dict[str, NDArray[Any]]:
        columns = {name: getattr(self, name) for name in _COLUMNS}
        return columns if self.takes is None else {**columns, "takes": self.takes}


class RejectingModel(Protocol):
    """A fitted model that decides about rows: an estimator, a model file, or a class of your own.

    Examples
    --------
    >>> class AcceptAll:
    ...     fingerprint = "all"
    ...     def decide(self, X, cost=None):
    ...         return Decision(np.zeros(len(X)), np.ones(len(X), bool), np.ones(len(X)), 1.0)
    >>> model: RejectingModel = AcceptAll()
    >>> model.decide([[1.0], [2.0]]).rejection_rate
    0.0
    """

    @property
    def fingerprint(self) -> str:
        """A text that is another one after another fit."""

    def decide(self, X: Any, cost: Any = None) -> Decision:
        """Return a decision about each row."""
