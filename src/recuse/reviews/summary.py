"""Counts and estimates of a review queue."""

from __future__ import annotations

import math
import sqlite3
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from recuse.reviews.database import snapshot
from recuse.reviews.estimates import Answers, Estimate, Stream, estimates_of
from recuse.reviews.leases import progress
from recuse.reviews.results import Audits, Interval, ModelSummary, QueueSummary, Rejections

__all__ = ["stream_of", "summary_of"]

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
