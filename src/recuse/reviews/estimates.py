"""Estimates of losses and error rates from the answers to rejected rows and to a random share of the accepted ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recuse.audit.significance import mean_interval, rate_interval

__all__ = ["Answers", "Estimate", "Stream", "estimates_of", "weighted_mean"]

Floats = NDArray[np.float64]

_CONFIDENCE = 0.95
# a sample of skewed losses often lacks the rare large ones, so intervals of the usual length end below the mean
_TAIL_BELOW, _TAIL_ABOVE = 0.025, 0.005


@dataclass(frozen=True)
class Estimate:
    """An estimate with its 95% interval, and the number of answers that it is made of."""

    value: float
    low: float
    high: float
    answers: int


@dataclass(frozen=True)
class Answers:
    """The answered rows of one kind, rejected or accepted.

    Attributes
    ----------
    loss, cost : ndarray of shape (n_answers,)
    weight : ndarray of shape (n_answers,)
        1 / probability of being sent to review.
    """

    loss: Floats
    cost: Floats
    weight: Floats


@dataclass(frozen=True)
class Stream:
    """The decided rows of a model.

    Attributes
    ----------
    accepted_rows, rejected_rows : int
        Numbers of decided rows, whether they were sent to review or not.
    rejected_cost : float
        Sum of the costs of the rejected rows.
    accepted, rejected : Answers
    """

    accepted_rows: int
    rejected_rows: int
    rejected_cost: float
    accepted: Answers
    rejected: Answers


def weighted_mean(values: Floats, weight: Floats, least: float = 0.0) -> Estimate:
    """Estimate the mean of a population from rows that were drawn with probabilities 1 / weight (Hajek).

    The interval is that of `recuse.audit.significance.mean_interval` for the linearised values, with nominal errors of
    2.5% below and 0.5% above. The mean of skewed losses is above an interval more often than the theory of large
    samples says, so these limits together hold the mean of heavy-tailed losses in about 95% of samples.

    Parameters
    ----------
    values, weight : ndarray of shape (n,)
    least : float, default=0.0
        No value of the population is below it, so the interval is not, either.

    Examples
    --------
    >>> weighted_mean(np.array([1.0, 3.0, 2.0]), np.array([1.0, 1.0, 2.0])).value
    2.0
    """
    count = len(values)
    if count == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = float(np.average(values, weights=weight))
    influence = mean + weight / weight.mean() * (values - mean)
    low = mean_interval(influence, 1 - 2 * _TAIL_BELOW)[0]
    high = mean_interval(influence, 1 - 2 * _TAIL_ABOVE)[1]
    return Estimate(mean, max(low, least), high, count)


def estimates_of(stream: Stream) -> dict[str, Estimate]:
    """Return the measures of `recuse.metrics.evaluate` that decided rows and their answers allow to estimate.

    The costs of rejected rows are known without answers, so the RcR loss needs answers to accepted rows only.
    """
    accepted = weighted_mean(stream.accepted.loss, stream.accepted.weight)
    rejected = weighted_mean(stream.rejected.loss, stream.rejected.weight)
    return {
        "accepted_loss": accepted,
        "rejected_loss": rejected,
        "rcr_loss": _rcr_loss(stream, accepted),
        "false_acceptance_rate": _share(stream, high_loss=True),
        "false_rejection_rate": _share(stream, high_loss=False),
        "saved_by_rejecting": _saved(stream.rejected),
    }


def _saved(rejected: Answers) -> Estimate:
    least = -float(rejected.cost.max(initial=0.0))  # a loss of 0
    return weighted_mean(rejected.loss - rejected.cost, rejected.weight, least)


def _rcr_loss(stream: Stream, accepted: Estimate) -> Estimate:
    rows = stream.accepted_rows + stream.rejected_rows
    if rows == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    share, paid = stream.accepted_rows / rows, stream.rejected_cost / rows
    if stream.accepted_rows == 0:
        return Estimate(paid, paid, paid, 0)
    value, low, high = (paid + share * limit for limit in (accepted.value, accepted.low, accepted.high))
    return Estimate(value, low, high, accepted.answers)


def _share(stream: Stream, *, high_loss: bool) -> Estimate:
    """Estimate the share accepted among rows whose loss is at least the cost, or rejected among the other ones.

    With the rates p and q of such rows among accepted and rejected rows, the share is a p / (a p + b q) or its
    complement. It grows in one of the rates and falls in the other, so its limits follow from those of the rates.
    """
    sides = [(stream.accepted, stream.accepted_rows), (stream.rejected, stream.rejected_rows)]
    if not high_loss:
        sides.reverse()
    # with all rejected rows answered, their rate is known and needs no interval; that of no rows does not matter
    known = [rows == 0 or (len(answers.loss) == rows and answers is stream.rejected) for answers, rows in sides]
    confidence = _CONFIDENCE if any(known) else math.sqrt(_CONFIDENCE)
    rates = [
        _rate(answers, confidence, high_loss=high_loss, known=exact)
        for (answers, _), exact in zip(sides, known, strict=True)
    ]
    (_, n_first), (_, n_second) = sides
    first, second = rates
    count = first.answers + second.answers
    value = _ratio(n_first * first.value, n_second * second.value)
    low, high = _ratio(n_first * first.low, n_second * second.high), _ratio(n_first * first.high, n_second * second.low)
    return Estimate(value, low, high, count)


def _rate(answers: Answers, confidence: float, *, high_loss: bool, known: bool) -> Estimate:
    """Estimate the share of rows whose loss is at least the cost, or below it."""
    count = len(answers.loss)
    if count == 0:
        return Estimate(0.0, 0.0, 0.0, 0) if known else Estimate(math.nan, 0.0, 1.0, 0)
    wanted = (answers.loss >= answers.cost) == high_loss
    rate = float(np.average(wanted, weights=answers.weight))
    if known:
        return Estimate(rate, rate, rate, count)
    effective = float(answers.weight.sum() ** 2 / (answers.weight**2).sum())  # Kish: rows of equal weight
    low, high = rate_interval(rate * effective, effective, confidence)
    return Estimate(rate, low, high, count)


def _ratio(part: float, rest: float) -> float:
    return part / (part + rest) if part + rest > 0 else math.nan
