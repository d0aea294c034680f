"""Answered rows as a table to learn from, with weights for how they were selected."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.reviews.database import snapshot

Floats = NDArray[np.float64]

_LEAST_EFFECTIVE = 0.5  # share of the rows


@dataclass(frozen=True)
class AnsweredRows:
    """The answered rows of one model.

    Attributes
    ----------
    model : str
    target : str or None
        Name of the target, if the model knows it.
    rows : DataFrame
        The rows as callers gave them, as objects.
    answers, cost : ndarray of shape (n_rows,)
    rejected : ndarray of bool of shape (n_rows,)
    weight : ndarray of shape (n_rows,)
        Rows of the stream that a row represents, in units of what an answered rejected row represents: 1 for rejected
        rows, and 1 / probability for accepted ones, corrected for the shares of the two kinds that have an answer.
    """

    model: str
    target: str | None
    rows: pd.DataFrame
    answers: Floats
    cost: Floats
    rejected: NDArray[np.bool_]
    weight: Floats

    def __len__(self) -> int:
        return len(self.rows)


def answered_rows(path: Path, model: str | None = None) -> AnsweredRows:
    """Read the answered rows of a model.

    Parameters
    ----------
    path : Path
    model : str, optional
        Needed if the queue has answers for several models.

    Raises
    ------
    ValueError
        If there is no answer, or if it is not clear for which model.
    """
    with snapshot(path) as connection:
        name = _name_of(connection, path, model)
        found = connection.execute(
            "SELECT reviews.*, target FROM reviews JOIN models ON models.number = model "
            "WHERE name = ? AND answer IS NOT NULL ORDER BY reviews.number",
            (name,),
        ).fetchall()
        shares = {bool(kind): share for kind, share in connection.execute(_ANSWERED_SHARE, (name,))}
    targets = {row["target"] for row in found}
    if len(targets) > 1:
        raise ValueError(f"the versions of model {name!r} in {path} must have the same target")
    rejected = np.array([bool(row["rejected"]) for row in found])
    represented = np.array([1 / (row["probability"] * shares[bool(row["rejected"])]) for row in found])
    return AnsweredRows(
        name,
        targets.pop(),
        pd.DataFrame([json.loads(row["row"]) for row in found], dtype=object),  # 7 beside a gap stays 7
        np.array([row["answer"] for row in found], dtype=np.float64),
        np.array([row["cost"] for row in found], dtype=np.float64),
        rejected,
        represented * shares.get(True, 1.0),
    )


_ANSWERED_SHARE = (
    "SELECT rejected, 1.0 * COUNT(answer) / COUNT(*) FROM reviews JOIN models ON models.number = model "
    "WHERE name = ? GROUP BY rejected HAVING COUNT(answer) > 0"
)


def _name_of(connection: sqlite3.Connection, path: Path, model: str | None) -> str:
    """Return the name of the model whose answers are wanted."""
    with_answers = "SELECT DISTINCT name FROM models JOIN reviews ON model = models.number WHERE answer IS NOT NULL"
    names = [name for (name,) in connection.execute(with_answers)]
    if not names:
        raise ValueError(f"{path} has no answers yet")
    if model is None and len(names) > 1:
        raise ValueError(f"{path} has answers for several models, {', '.join(sorted(names))}: name one of them")
    if model is not None and model not in names:
        raise ValueError(f"{path} has no answers for model {model!r}, only for {', '.join(sorted(names))}")
    return names[0] if model is None else model


def capped(weight: Floats, others: Floats) -> Floats:
    """Cap large weights so that all rows together count as at least half as many rows of equal weight.

    A few accepted rows that represent 50 rows each would otherwise decide the fit, with their noise. The cap is the
    largest one for which Kish's effective number of rows, `effective_rows`, is at least half of the rows.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,)
        Weights of the answered rows.
    others : ndarray of shape (n_others,)
        Weights of the rows of the training table, which are not capped.

    Examples
    --------
    >>> capped(np.array([1.0, 1.0, 50.0]), np.ones(1)).round(2).tolist()
    [1.0, 1.0, 6.46]
    """

    def effective(cap: float) -> float:
        return effective_rows(np.concatenate([np.minimum(weight, cap), others]))

    least = _LEAST_EFFECTIVE * (len(weight) + len(others))
    high = float(weight.max(initial=1.0))
    if effective(high) >= least:
        return weight
    low = float(weight.min(initial=1.0))
    for _ in range(60):  # effective rows fall when the cap grows
        middle = (low + high) / 2
        low, high = (middle, high) if effective(middle) >= least else (low, middle)
    return np.minimum(weight, low)


def effective_rows(weight: Floats) -> float:
    """Return how many rows of equal weight give a mean of the same variance (Kish, 1965).

    Examples
    --------
    >>> effective_rows(np.ones(7)), effective_rows(np.array([1.0, 0.0]))
    (7.0, 1.0)
    """
    return float(weight.sum() ** 2 / (weight**2).sum())


def export_table(path: Path, version: str | None = None) -> pd.DataFrame:
    """Return the answered rows with their answers, decisions and weights, for a file.

    Columns of the queue are named `review.answer` and so on, columns of the rows as they are.

    Parameters
    ----------
    path : Path
    version : str, optional
        Only rows that this version of a model decided about.
    """
    with snapshot(path) as connection:
        found = connection.execute(
            "SELECT reviews.*, models.name, models.version FROM reviews "
            "JOIN models ON models.number = model "
            "WHERE answer IS NOT NULL AND (:version IS NULL OR version = :version) ORDER BY reviews.number",
            {"version": version},
        ).fetchall()
    if not found:
        raise ValueError(f"{path} has no answers{'' if version is None else f' of version {version!r}'} yet")
    rows = pd.DataFrame([json.loads(row["row"]) for row in found])
    facts = pd.DataFrame([_facts(row) for row in found])
    return pd.concat([rows, facts], axis=1)


def _facts(row: sqlite3.Row) -> dict[str, Any]:
    names = ("answer", "prediction", "id", "loss", "cost", "score", "expected_loss", "saved", "probability")
    facts = {name: row[name] for name in names}
    facts |= {"model": row["name"], "version": row["version"], "rejected": bool(row["rejected"])}
    facts |= {"weight": 1 / row["probability"], "recorded": row["recorded"], "answered": row["answered"]}
    return {f"review.{name}": value for name, value in facts.items()}
