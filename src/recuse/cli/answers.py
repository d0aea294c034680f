"""Answers of a review queue as further training rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recuse.cli.tables import LabelledTable, Roles
from recuse.phrases import counted, short

if TYPE_CHECKING:
    import pandas as pd

    from recuse.reviews.learning import AnsweredRows

__all__ = ["AddedReviews", "add_reviews"]


@dataclass(frozen=True)
class AddedReviews:
    """What answers added to a training table.

    Attributes
    ----------
    table : LabelledTable
        The rows of the table, then the answered ones; with weights to fit by, and weights to judge by.
    model : str
        Name of the model in the queue.
    rejected, accepted : int
        Numbers of answered rows.
    weight, fit_weight : float
        Largest weight of an answered row, and the same after the cap.
    effective_rows : float
        Rows of equal weight that all rows count as.
    """

    table: LabelledTable
    model: str
    rejected: int
    accepted: int
    weight: float
    fit_weight: float
    effective_rows: float

    def facts(self) -> dict[str, Any]:
        """Return all but the table as plain values."""
        return {name: fact for name, fact in vars(self).items() if name != "table"}

    def describe(self) -> str:
        """Return the numbers in words."""
        cap = f", capped at {self.fit_weight:.3g}" if self.fit_weight < self.weight else ""
        return (
            f"{counted(self.rejected + self.accepted, 'answer')} of model {self.model}: {self.rejected:,} rejected "
            f"rows with weight 1, {self.accepted:,} accepted rows with weights up to {self.weight:.3g}{cap}; "
            f"all rows count as {self.effective_rows:,.0f} of equal weight"
        )


def add_reviews(table: LabelledTable, roles: Roles, path: Path, model: str | None) -> AddedReviews:
    """Add the answered rows of a queue to a training table.

    Rows of the table have weight 1, or their own. An answered row has the weight of the rows of the service that it
    represents; `recuse.reviews.learning.capped` caps the weights for the fit.

    Raises
    ------
    ValueError
        If the queue has no answers, or if targets or columns are not those of the table.
    """
    import numpy as np
    import pandas as pd

    from recuse.reviews.learning import answered_rows, capped, effective_rows

    found = answered_rows(path, model)
    _check_targets(found, roles, path)
    own = np.ones(len(table)) if table.weights is None else table.weights.to_numpy(dtype=float)
    unit = float(own.mean())
    fit_weight = capped(found.weight, own / unit)
    answers = pd.DataFrame(found.answers, columns=list(roles.targets))
    y = answers if answers.shape[1] > 1 else answers[roles.targets[0]]
    joined = replace(
        table,
        X=pd.concat([table.X, _features(found, table.X, roles, path)], ignore_index=True),
        y=pd.concat([table.y, y], ignore_index=True),
        groups=None if table.groups is None else pd.concat([table.groups, _groups(found, roles)], ignore_index=True),
        weights=pd.Series(np.concatenate([own, unit * fit_weight])),
        judge_weights=pd.Series(np.concatenate([own, unit * found.weight])),
    )
    rejected = int(found.rejected.sum())
    largest, kept = float(found.weight.max()), float(fit_weight.max())
    effective = effective_rows(joined.weights.to_numpy())
    return AddedReviews(joined, found.model, rejected, len(found) - rejected, largest, kept, effective)


def _check_targets(found: AnsweredRows, roles: Roles, path: Path) -> None:
    names, given = found.targets, list(roles.targets)
    if names is not None and names != given:
        raise ValueError(f"{path} has answers for the target {short(names)}, got --target {' --target '.join(given)}")
    if found.answers.shape[1] != len(given):
        raise ValueError(f"{path} has answers for {found.answers.shape[1]} targets, got {len(given)} with --target")


def _features(found: AnsweredRows, X: pd.DataFrame, roles: Roles, path: Path) -> pd.DataFrame:
    """Return the columns of the table for the answered rows, with the types of the table."""
    import pandas as pd

    absent = [name for name in X.columns if name not in found.rows.columns and name != roles.cost]
    if absent:
        raise ValueError(
            f"the rows of {path} have no column {absent[0]!r}, which the model did not read: leave it out by --drop"
        )
    columns = {
        name: pd.Series(found.cost) if name == roles.cost else _conformed(found.rows[name], X[name])
        for name in X.columns
    }
    return pd.DataFrame(columns)


def _conformed(cells: pd.Series[Any], example: pd.Series[Any]) -> pd.Series[Any]:
    """Return cells of JSON with the type of a column of the table; what it cannot hold becomes missing."""
    import pandas as pd

    from recuse.tabular.schema import Kind, kind_of

    if example.dtype.kind in "iuf":
        return pd.to_numeric(cells, errors="coerce")
    if example.dtype.kind == "M":
        times = pd.to_datetime(cells, errors="coerce", utc=True, format="ISO8601")
        zone = getattr(example.dtype, "tz", None)
        return times.dt.tz_localize(None) if zone is None else times.dt.tz_convert(zone)
    is_text = example.notna().any() and kind_of(example) is Kind.CATEGORY and example.dtype.kind != "b"
    if not is_text:
        return cells
    return cells.map(lambda cell: cell if isinstance(cell, str) or pd.isna(cell) else str(cell))


def _groups(found: AnsweredRows, roles: Roles) -> pd.Series[str]:
    """Return the groups of the answered rows; a row without one is a group of its own."""
    import pandas as pd

    if roles.groups in found.rows.columns:
        return found.rows[roles.groups].astype(str)
    return pd.Series([f"\0review {place}" for place in range(len(found))])
