"""What is to be certified: checked parameters, the rows, and what each row counts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.costs import Cost, is_constant
from recuse.decision import Decision
from recuse.guarantees.attempts import Attempt
from recuse.guarantees.certificate import What
from recuse.guarantees.certified_model import CostGiven
from recuse.guarantees.sequence import BoundedValues
from recuse.typing import RejectingModel
from recuse.validation import is_rate, require

__all__ = [
    "BoundWarning",
    "CertificationRequest",
    "ScoredRows",
    "check_parameters",
    "cost_limit",
    "how_given",
    "stated_cost",
]

Floats = NDArray[np.float64]


class BoundWarning(UserWarning):
    """The bound is the largest loss of the calibration rows, as if it was read off these rows.

    Examples
    --------
    To make it an error:

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", BoundWarning)
    """


@dataclass(frozen=True)
class ScoredRows:
    """Scores, losses and costs of rows.

    Attributes
    ----------
    score, loss, cost : ndarray of shape (row,)
    draw : ndarray of int of shape (row,) or None
        The draw that each row belongs to, in increasing order; None if each row is a draw of its own.
    """

    score: Floats
    loss: Floats
    cost: Floats
    draw: NDArray[np.intp] | None = None

    def __len__(self) -> int:
        return len(self.score)

    def take(self, rows: Any) -> ScoredRows:
        """Return some of the rows."""
        draw = None if self.draw is None else self.draw[rows]
        return ScoredRows(self.score[rows], self.loss[rows], self.cost[rows], draw)

    @property
    def starts(self) -> NDArray[np.intp] | None:
        """The first row of each draw; None if each row is a draw of its own."""
        return None if self.draw is None else np.flatnonzero(np.diff(self.draw, prepend=-1))

    @property
    def n_draws(self) -> int:
        """Number of independent draws."""
        return len(self) if self.starts is None else len(self.starts)

    @property
    def weight(self) -> Floats:
        """The weight of each row in a mean over draws and, within a draw, over its rows."""
        if self.starts is None:
            return np.ones(len(self))
        size = np.diff(np.append(self.starts, len(self)))
        return np.repeat(1.0 / size, size)

    def split(self, n_draws: int) -> tuple[ScoredRows, ScoredRows]:
        """Return the rows of the first draws, and those of the others."""
        first = n_draws if self.starts is None else int(np.append(self.starts, len(self))[n_draws])
        return self.take(slice(0, first)), self.take(slice(first, None))

    def one_of_each_draw(self) -> ScoredRows:
        """Return one row of each draw: independent rows, if the draws are."""
        return self if self.starts is None else self.take(self.starts)


@dataclass(frozen=True)
class CertificationRequest:
    """What is to be certified, at the level of an attempt; the other attributes are those of a certificate."""

    what: What
    target: float
    delta: float
    bound: float
    cost_bound: float | None
    attempt: Attempt

    def __post_init__(self) -> None:
        require(self.target < self.limit, "target", f"below {self.limit:g}, which no row can exceed", self.target)

    @property
    def limit(self) -> float:
        """The largest value that a row can have."""
        return self.bound if self.cost_bound is None else max(self.bound, self.cost_bound)

    def values(self, rows: ScoredRows) -> BoundedValues:
        """Return what each row counts, scaled to [0, 1]."""
        cost = rows.cost if self.what == "rcr_loss" else None
        return BoundedValues.of_rows(rows.loss, cost, self.target, self.bound, self.limit, rows.starts)

    def observed(self, rows: ScoredRows, accepted: NDArray[np.bool_]) -> float:
        """Return the mean that the promise is about; NaN if no row is accepted."""
        clipped, weight = np.minimum(rows.loss, self.bound), rows.weight
        if self.what == "rcr_loss":
            return float(np.average(np.where(accepted, clipped, rows.cost), weights=weight))
        return float(np.average(clipped[accepted], weights=weight[accepted])) if accepted.any() else math.nan


def check_parameters(target: float, delta: float, bound: float | None, what: str) -> None:
    """Raise an error that states the rule if a parameter of `certify` is wrong."""
    if bound is None or not is_rate(bound):
        raise ValueError(
            f"bound must be a finite number > 0 that no loss exceeds or at which losses are clipped, got {bound!r}: "
            "without it, no number of rows bounds a mean loss"
        )
    require(what in ("accepted_loss", "rcr_loss"), "what", "'accepted_loss' or 'rcr_loss'", what)
    require(is_rate(target), "target", "a finite number > 0", target)
    require(is_rate(delta) and delta < 1, "delta", "a number between 0 and 1", delta)


def stated_cost(model: RejectingModel, cost: Cost | None) -> float | str | None:
    """Return the cost as a number or the name of a column; None if it was given in another form."""
    chosen = getattr(model, "cost_", None) if cost is None else cost
    if chosen is None or isinstance(chosen, str):
        return chosen
    return float(chosen) if is_constant(chosen) else None  # type: ignore[arg-type]


def how_given(cost: Cost | None) -> CostGiven:
    """Return how the cost was given.

    Examples
    --------
    >>> how_given(None), how_given(2.0), how_given("fee"), how_given([1.0, 2.0])
    ('own', 'number', 'column', 'per row')
    """
    if cost is None:
        return "own"
    if isinstance(cost, str):
        return "column"
    return "number" if is_constant(cost) else "per row"


def cost_limit(
    what: str, stated: float | str | None, cost_bound: float | None, bound: float, decision: Decision
) -> float | None:
    """Return the largest cost that the certificate covers; None if it does not depend on costs."""
    if what == "accepted_loss":
        require(cost_bound is None, "cost_bound", "None unless what='rcr_loss'", cost_bound)
        return None
    if isinstance(stated, float):
        return stated
    limit = bound if cost_bound is None else cost_bound
    require(is_rate(limit), "cost_bound", "a finite number > 0", cost_bound)
    largest = float(decision.cost.max())
    if largest > limit:
        raise ValueError(
            f"cost must be at most {limit:g}, got {largest:g}: pass cost_bound, the largest cost that can occur, "
            "chosen without the calibration rows"
        )
    return float(limit)
