"""Counts of a review queue, and losses and rates with intervals from the answers to rejected and audited rows."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.audit.significance import mean_interval, rate_interval
from recuse.reviews.database import snapshot
from recuse.reviews.leases import progress
from recuse.reviews.results import Audits, Interval, ModelSummary, QueueSummary, Rejections

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
    saved = stream.rejected.loss - stream.rejected.cost
    least = -float(stream.rejected.cost.max(initial=0.0))  # a loss of 0
    return {
        "accepted_loss": accepted,
        "rejected_loss": rejected,
        "rcr_loss": _rcr_loss(stream, accepted),
        "false_acceptance_rate": _share(stream, high_loss=True),
        "false_rejection_rate": _share(stream, high_loss=False),
        "saved_by_rejecting": weighted_mean(saved, stream.rejected.weight, least),
    }


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


_NOTHING = Estimate(math.nan, math.nan, math.nan, 0)
_FEW = 30  # answers to accepted rows, below which an interval is a rough one


def summary_of(path: Path, version: str | None = None) -> dict[str, Any]:
    """Return what is in a queue, and what the answers say about each model, as plain values.

    Versions of one model are taken together: the estimates are about the rows that were decided under its name.

    Parameters
    ----------
    path : Path
    version : str, optional
        Only rows that this version of a model decided about.

    Returns
    -------
    dict
        A `QueueSummary` as plain values.
    """
    with snapshot(path) as connection:
        counts = progress(connection, None)
        names = [name for (name,) in connection.execute("SELECT DISTINCT name FROM models ORDER BY name")]
        models = [_model(connection, name, version) for name in names]
    found = [model for model in models if model.versions]
    return asdict(QueueSummary(counts.waiting, counts.held, counts.answered, found))


def _model(connection: sqlite3.Connection, name: str, version: str | None) -> ModelSummary:
    chosen = {"name": name, "version": version}
    found = connection.execute(f"SELECT version, loss FROM models WHERE {_CHOSEN} ORDER BY number", chosen).fetchall()
    kinds = {
        bool(rejected): (recorded, answered)
        for rejected, recorded, answered in connection.execute(
            f"SELECT rejected, COUNT(*), COUNT(answer) FROM reviews WHERE {_OF_MODEL} GROUP BY rejected", chosen
        )
    }
    unaudited = connection.execute(
        f"SELECT COALESCE(SUM(accepted), 0) FROM counts WHERE share = 0 AND {_OF_MODEL}", chosen
    ).fetchone()[0]
    stream = stream_of(connection, name, version)
    losses = sorted({row["loss"] for row in found})
    audits, rejections = Audits(*kinds.get(False, (0, 0))), Rejections(*kinds.get(True, (0, 0)))
    return ModelSummary(
        name,
        versions=[row["version"] for row in found],
        loss=", ".join(losses) or None,
        accepted=stream.accepted_rows,
        rejected=stream.rejected_rows,
        audits=audits,
        rejections=rejections,
        estimates={
            key: _interval(estimate if len(losses) == 1 else _NOTHING) for key, estimate in estimates_of(stream).items()
        },
        notes=_notes(audits, rejections, unaudited, losses),
    )


_CHOSEN = "name = :name AND (:version IS NULL OR version = :version)"
_OF_MODEL = f"model IN (SELECT number FROM models WHERE {_CHOSEN})"


def stream_of(connection: sqlite3.Connection, name: str, version: str | None = None) -> Stream:
    """Return the numbers of decided rows of a model, and the losses of the answered ones."""
    chosen = {"name": name, "version": version}
    accepted, rejected = connection.execute(
        f"SELECT COALESCE(SUM(accepted), 0), COALESCE(SUM(rejected), 0) FROM counts WHERE {_OF_MODEL}", chosen
    ).fetchone()
    (paid,) = connection.execute(
        f"SELECT COALESCE(SUM(cost), 0.0) FROM reviews WHERE rejected AND {_OF_MODEL}", chosen
    ).fetchone()
    answers = connection.execute(
        f"SELECT rejected, loss, cost, probability FROM reviews WHERE answer IS NOT NULL AND {_OF_MODEL}", chosen
    ).fetchall()
    rows = np.array([tuple(row) for row in answers], dtype=np.float64).reshape(-1, 4)
    kinds = [rows[rows[:, 0] == kind] for kind in (0, 1)]
    first, second = (Answers(kind[:, 1], kind[:, 2], 1 / kind[:, 3]) for kind in kinds)
    return Stream(accepted, rejected, paid, first, second)


def _interval(estimate: Estimate) -> Interval:
    limits = (estimate.value, estimate.low, estimate.high)
    value, low, high = (each if math.isfinite(each) else None for each in limits)
    return Interval(value, low, high, estimate.answers)


def _notes(audits: Audits, rejections: Rejections, unaudited: int, losses: list[str]) -> list[str]:
    """Say what the estimates assume about the rows without an answer."""
    notes = []
    if len(losses) > 1:
        notes.append(f"The versions have different losses, {', '.join(losses)}: choose one version for estimates.")
    if audits.answered < _FEW:
        notes.append(f"{audits.answered} accepted rows have an answer: with fewer than {_FEW}, intervals are rough.")
    if waiting := audits.drawn - audits.answered:
        notes.append(
            f"{waiting} of {audits.drawn} drawn accepted rows have no answer yet; the estimates assume that "
            "they are missing at random."
        )
    if waiting := rejections.recorded - rejections.answered:
        notes.append(
            f"{waiting} of {rejections.recorded} rejected rows have no answer yet; in the order by "
            "saving, rows with a large expected loss are answered first, so rejected_loss is too high until then."
        )
    if unaudited:
        notes.append(f"{unaudited} rows were accepted while the audit share was 0 and are not represented.")
    return notes
