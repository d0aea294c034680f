"""What is to be certified: the rows, what each counts, the thresholds to test, and the refusal."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recuse.costs import Cost, is_constant
from recuse.decision import Decision, RejectingModel
from recuse.guarantees.attempts import Attempt
from recuse.guarantees.betting import bets_to_choose_from, imagined_value
from recuse.guarantees.certificate import CannotCertify, CostGiven, What, needed_rows
from recuse.validation import is_rate, require

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

# Number of thresholds, at equal steps of the share of accepted rows.
_LEVELS = 100


@dataclass(frozen=True)
class BoundedValues:
    """What a draw counts in a certificate, scaled to [0, 1].

    The accepted loss counts accepted rows only. In the RcR loss an accepted row counts its loss and a rejected row its
    cost. A draw is a row, or a group of rows.

    Attributes
    ----------
    loss : ndarray of shape (row, ...)
        Losses, clipped and divided by `limit`.
    cost : ndarray of shape (row, ...) or None
        Costs divided by `limit`; None for the accepted loss.
    mean : float
        The target, divided by `limit`.
    starts : ndarray of int of shape (draw,) or None
        The first row of each draw, if a draw has several rows; the rows of a draw follow each other.
    """

    loss: Floats
    cost: Floats | None
    mean: float
    starts: NDArray[np.intp] | None = None

    @classmethod
    def of_rows(
        cls,
        loss: Floats,
        cost: Floats | None,
        target: float,
        bound: float,
        limit: float,
        starts: NDArray[np.intp] | None = None,
    ) -> Self:
        """Clip the losses at their bound, and scale by the largest value that a row can have."""
        return cls(np.minimum(loss, bound) / limit, None if cost is None else cost / limit, target / limit, starts)

    def at(self, accepted: Flags) -> tuple[Floats, Flags | None]:
        """Return the values and which of them count, for acceptances (row, ..., threshold)."""
        if self.cost is None:
            values, used = self.loss[..., None], accepted
        else:
            values, used = np.where(accepted, self.loss[..., None], self.cost[..., None]), None
        return (values, used) if self.starts is None else self._of_draws(self.starts, values, used)

    def counted(self, accepted: Flags) -> Floats:
        """Return the values that count, for acceptances (row, 1) at one threshold."""
        values, used = self.at(accepted)
        return values[:, 0] if used is None else values[used[:, 0], 0]

    def growth(self, accepted: Flags) -> float:
        """Return the largest logarithm of the wealth that one constant bet gains on these rows."""
        counted = self.counted(accepted)
        if len(counted) == 0:
            return 0.0
        bets = bets_to_choose_from(self.mean)
        gains = np.log1p(-bets[:, None] * (counted - self.mean)).sum(axis=1)
        return float((gains - imagined_value(bets, self.mean)).max())

    def _of_draws(self, starts: NDArray[np.intp], values: Floats, used: Flags | None) -> tuple[Floats, Flags | None]:
        """Return one value for each draw.

        A draw g counts Z_g, the mean over its rows of A (L - m), where A is 1 for rows that count and m is the target.
        The promise is E[Z_g] <= 0, that is E[mean A L] <= m E[mean A] for a draw taken at random. Draws are
        independent and have the same distribution, whatever the dependence of the rows within them, and Z_g is a mean
        of numbers in [-m, 1 - m], so it is in there too. Hence 1 - b Z_g >= 0 for every bet b < 1 / (1 - m), and if the
        promise does not hold, its expectation given earlier draws is at most 1: the wealth stays a supermartingale. The
        value returned is m + Z_g, in [0, 1]; a draw without a row that counts has Z_g = 0, which leaves the wealth as
        it was, and is not counted among the draws to come.
        """
        excess = values - self.mean if used is None else np.where(used, values - self.mean, 0.0)
        size = np.diff(np.append(starts, len(excess)))
        mean = np.add.reduceat(excess, starts, axis=0) / size.reshape(-1, *[1] * (excess.ndim - 1))
        of_draws = np.clip(self.mean + mean, 0.0, 1.0)  # against rounding
        return of_draws, None if used is None else np.logical_or.reduceat(used, starts, axis=0)


def thresholds_to_test(score: Floats, values: BoundedValues, n_rows: int, n_least: int = 0) -> Floats:
    """Return thresholds on the score from strict to accepting, that is in decreasing order.

    They are quantiles of the scores of rows that are no calibration rows, and 0. The first one is where a bet gains
    most on these rows, since a first threshold that few rows pass, or whose loss is near the target, would end the
    sequence at once.

    Parameters
    ----------
    score : ndarray of shape (row,)
    values : BoundedValues
        Of the same rows.
    n_rows : int
        Number of calibration rows, or of their groups.
    n_least : int, default=0
        Number of accepted calibration rows to expect at the first threshold, or half of the rows if that is fewer.

    Examples
    --------
    >>> score = np.linspace(-1.0, 1.0, 201)
    >>> loss = np.where(score > 0, 0.01, 0.5)
    >>> t = thresholds_to_test(score, BoundedValues(loss, None, mean=0.1), n_rows=500)
    >>> bool(t[0] <= 0.05), bool(t[-1] < -0.99), bool(np.all(np.diff(t) < 0))
    (True, True, True)
    """
    ranked = np.sort(score)[::-1]
    places = np.ceil(np.linspace(0, len(ranked), _LEVELS + 1)[1:]).astype(np.intp) - 1
    candidates = np.unique(np.append(np.nextafter(ranked[places], -np.inf), 0.0))[::-1]
    accepted = score[:, None] > candidates
    growth = np.array([values.growth(column[:, None]) for column in accepted.T])
    growth[accepted.mean(axis=0) * n_rows < min(n_least, n_rows / 2)] = -np.inf
    return candidates[int(growth.argmax()) :]


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


@dataclass(frozen=True)
class CertificationRequest:
    """What is to be certified; the attributes are those of a certificate."""

    what: What
    target: float
    delta: float
    bound: float
    cost_bound: float | None

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


def refusal(
    request: CertificationRequest, attempt: Attempt, rows: ScoredRows, threshold: float, n_draws: int
) -> CannotCertify:
    """Return the error for the tested rows at the first threshold, with what it would take.

    `n_draws` counts the draws that were set aside, too: of more rows, the same share would be set aside.
    """
    accepted, values = rows.score > threshold, request.values(rows)
    counted, least = values.counted(accepted[:, None]), needed_rows(values.mean, attempt.level)
    share = len(counted) / n_draws
    name = "mean loss of accepted rows" if request.what == "accepted_loss" else "RcR loss"
    unit, with_accepted = ("rows", "accepted rows") if rows.draw is None else ("groups", "groups with accepted rows")
    of_groups = "" if rows.draw is None else f" in {rows.n_draws:,} groups"
    # The level is not corrected for earlier attempts of this process.
    corrected = attempt.number > 1 and attempt.level != request.delta
    tested = f" in attempt {attempt.number} with these rows, tested at level {attempt.level:.3g}" if corrected else ""
    start = (
        f"cannot certify a {name} of at most {request.target:g} with confidence {1 - request.delta:g} and bound "
        f"{request.bound:g} from {len(accepted):,} calibration rows{of_groups}{tested}"
    )
    kind = with_accepted if request.what == "accepted_loss" else unit
    minimum = f"it takes at least {least:,} {kind}, even without any loss"
    if len(counted) == 0:
        return CannotCertify(f"{start}: no row is accepted at the first threshold; {minimum}", least, None)
    mean = request.observed(rows, accepted)
    seen = f"at the first threshold {int(accepted.sum()):,} are accepted and the {name} is {mean:.4g}"
    growth = float(np.log1p(-bets_to_choose_from(values.mean)[:, None] * (counted - values.mean)).mean(axis=1).max())
    if growth <= 0 or counted.mean() >= values.mean:
        advice = "so more rows would not help, but a higher target or a better model"
        return CannotCertify(f"{start}: {seen}, {advice}; {minimum}", least, None)
    total = math.ceil(max(least, math.log(1 / attempt.level) / growth) / share)
    unit = "calibration rows" if rows.draw is None else unit
    hint = f"{minimum}, that is {math.ceil(least / share):,} {unit} at this coverage"
    return CannotCertify(f"{start}: {seen}; {hint}, and about {total:,} with such losses", least, total)
