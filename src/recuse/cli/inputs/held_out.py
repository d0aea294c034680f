"""Rows that a fitted model is judged on: test rows, or its own out-of-fold rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recuse.cli.inputs.columns import LabelledTable

if TYPE_CHECKING:
    from recuse.decision import Decision

__all__ = ["Held", "as_decision", "split_rows"]


@dataclass(frozen=True)
class Held:
    """Rows to judge a model on.

    Attributes
    ----------
    table : LabelledTable
    name : str
        What rows they are, in words.
    out_of_fold : DataFrame or None
        The out-of-fold results of the rows.
    """

    table: LabelledTable
    name: str
    out_of_fold: Any = None


def as_decision(model: Any, held: Held) -> tuple[Decision, Any, Any]:
    """Return the decisions about the rows, their targets and their weights."""
    weights = held.table.weights if held.table.judge_weights is None else held.table.judge_weights
    if held.out_of_fold is None:
        return model.decide(held.table.X), held.table.y, weights
    from recuse.decision import Decision

    complete = held.out_of_fold.notna().all(axis=1).to_numpy()
    table = held.out_of_fold[complete]
    predictions, targets = (table.filter(regex=f"^{name}(_|$)") for name in ("prediction", "target"))
    several = predictions.shape[1] > 1
    decision = Decision(
        predictions.to_numpy() if several else predictions.iloc[:, 0],
        table["score"] > 0,
        table["score"],
        table["cost"].to_numpy(),
        loss=model.loss_,
    )
    judged = None if weights is None else weights.to_numpy()[complete]
    return decision, targets.to_numpy() if several else targets.iloc[:, 0].to_numpy(), judged


def split_rows(table: LabelledTable, share: float, seed: int) -> tuple[LabelledTable, LabelledTable]:
    """Hold out a share of the rows, or of the groups, at random."""
    import numpy as np
    import pandas as pd

    units = np.arange(len(table)) if table.groups is None else pd.factorize(table.groups)[0]
    count = int(units.max()) + 1
    held_count = round(share * count)
    if not 0 < held_count < count:
        what = "rows" if table.groups is None else "groups"
        raise ValueError(f"{count} {what} are too few to hold out a share of {share:g} for the test")
    chosen = np.random.default_rng(seed).permutation(count)[:held_count]
    held = np.isin(units, chosen)
    return table.take(~held), table.take(held)
