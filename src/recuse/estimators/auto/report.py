"""Leaderboard: out-of-fold errors and risks of what was tried in, one table out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.estimators.auto.crossfit import Trial
from recuse.metrics import rcr_loss_rows

__all__ = ["Entry", "leaderboard"]

Floats = NDArray[np.float64]

_COLUMNS = ["part", "name", "weight", "loss", "rcr_loss", "rows", "seconds", "note"]


@dataclass(frozen=True)
class Entry:
    """One line: the errors and risks (row,) that its decisions are made with, None where it was left out."""

    part: str
    name: str
    error: Floats | None
    risk: Floats | None
    weight: float = np.nan
    trial: Trial | None = None


def leaderboard(entries: Iterable[Entry], cost: Floats, weight: Floats) -> pd.DataFrame:
    """Measure every entry, by rising RcR loss; what was left out comes last.

    Parameters
    ----------
    entries : iterable of Entry
    cost, weight : ndarray of shape (row,)

    Examples
    --------
    >>> some, many = np.array([1.0, 9.0]), np.array([2.0, 2.0])
    >>> entries = [Entry("blend", "sure", some, risk=many), Entry("blend", "wary", some, risk=some)]
    >>> leaderboard(entries, cost=np.full(2, 4.0), weight=np.ones(2))[["name", "loss", "rcr_loss"]]
       name  loss  rcr_loss
    0  wary   5.0       2.5
    1  sure   5.0       5.0
    """
    lines = [_line(entry, cost, weight) for entry in entries]
    table = pd.DataFrame(lines, columns=_COLUMNS)
    return table.sort_values("rcr_loss", kind="stable", ignore_index=True)


def _line(entry: Entry, cost: Floats, weight: Floats) -> dict[str, Any]:
    line: dict[str, Any] = {"part": entry.part, "name": entry.name, "weight": round(entry.weight, 6), "note": ""}
    if entry.trial is not None:
        line |= {"rows": entry.trial.rows, "seconds": entry.trial.seconds, "note": entry.trial.note}
    if entry.error is not None and entry.risk is not None:
        paid = rcr_loss_rows(entry.error, entry.risk < cost, cost)
        line |= {name: float(np.average(rows, weights=weight)) for name, rows in _losses(entry.error, paid)}
    return line


def _losses(error: Floats, paid: Floats) -> list[tuple[str, Floats]]:
    return [("loss", error), ("rcr_loss", paid)]
