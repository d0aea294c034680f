"""The leaderboard of AutoRejector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.estimators.auto.trials import Trial
from recuse.metrics import rcr_loss_rows

Floats = NDArray[np.float64]

_COLUMNS = ["part", "name", "weight", "loss", "rcr_loss", "rows", "seconds", "note"]


@dataclass(frozen=True)
class Entry:
    """A line of the leaderboard, with errors and risks (row,), or None if the candidate was left out."""

    part: str
    name: str
    error: Floats | None
    risk: Floats | None
    weight: float = np.nan
    trial: Trial[Any] | None = None


def trial_entries(
    part: str, trials: Iterable[Trial[Any]], weights: Floats, results: Sequence[tuple[Floats, Floats]]
) -> Iterator[Entry]:
    """Yield an entry for each trial; `weights` and `results` (errors, risks) are those of the fitted ones."""
    fitted = zip(weights, results, strict=True)
    for trial in trials:
        if trial.fitted is None:
            yield Entry(part, trial.name, None, None, 0.0, trial)
        else:
            weight, (error, risk) = next(fitted)
            yield Entry(part, trial.name, error, risk, float(weight), trial)


def leaderboard(entries: Iterable[Entry], cost: Floats, weight: Floats) -> pd.DataFrame:
    """Compute the losses of all entries, and sort them by RcR loss; candidates that were left out come last.

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
        losses = {"loss": entry.error, "rcr_loss": paid}
        line |= {name: float(np.average(rows, weights=weight)) for name, rows in losses.items()}
    return line
