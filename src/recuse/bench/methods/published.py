"""The paper's rivals at its rejection rates: a data set, a method and a repeat -> measures; the comparison table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.bench.methods.auto import OURS, with_ours
from recuse.bench.paper.tables import COLUMNS, over_repeats
from recuse.bench.spec import Paper, Protocol
from recuse.bench.work_unit import Decide, Group, Part, run_decisions
from recuse.decision import Decision
from recuse.estimators import SelectiveNetRegressor, mlp_plug
from recuse.guarantees.thresholds import by_budget

__all__ = ["compare", "lowest_accepted_loss", "rival_groups", "run_rival"]

Floats = NDArray[np.float64]
_METRICS = ("al", "rej", "rcrloss")
_BUDGET = "budget"  # stands in the place of a surrogate: these methods reject a given share


def rival_groups(
    paper: Paper,
    *,
    repeats: int | None = None,
    names: Sequence[str] | None = None,
    costs: Sequence[float] | None = None,
) -> list[Group]:
    """List one group for each data set, published method and repeat of the comparison table."""
    rivals = paper.comparison.dropna(subset=["target_rejection"])
    rivals = rivals if costs is None else rivals[rivals["cost"].isin(costs)]
    return [
        Group(str(dataset), str(method), _BUDGET, repeat, tuple(cells["cost"]), budgets=_budgets(cells))
        for (dataset, method), cells in rivals.groupby(["dataset", "method"], sort=False)
        if names is None or dataset in names
        for repeat in range(repeats or paper.protocol.repeats)
    ]


def _budgets(cells: pd.DataFrame) -> tuple[float, ...]:
    return tuple((cells["target_rejection"] / 100).tolist())


def run_rival(group: Group, protocol: Protocol) -> dict[str, Any]:
    """Fit a method, find its threshold without the test rows, measure on the test rows."""
    return run_decisions(group, protocol, _RIVALS[group.model])


def _mlp_plug(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    settings = {"epochs": protocol.epochs, "batch_size": protocol.batch_size, "hidden": protocol.hidden}
    both = {f"{part}__{name}": value for part in ("regressor", "risk") for name, value in settings.items()}
    model = mlp_plug(random_state=group.repeat, **both).fit(train[0], train[1])
    return _at_budgets(group, model.predict(X), model.decision_function(X), model.decision_function(validation[0]))


def _at_budgets(group: Group, prediction: Floats, score: Floats, known: Floats) -> list[Decision]:
    """Decide by the thresholds that reject the budgets among the known scores."""
    thresholds = [by_budget(known, budget, finite_sample=False) for budget in group.budgets]
    return [
        Decision(prediction, score > threshold, score - threshold, cost)
        for threshold, cost in zip(thresholds, group.costs, strict=True)
    ]


def _selectivenet(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    """Each coverage is a network of its own; the settings are those of the original."""
    epochs = min(protocol.epochs, SelectiveNetRegressor().epochs)
    decisions = []
    for budget, cost in zip(group.budgets, group.costs, strict=True):
        model = SelectiveNetRegressor(1 - budget, cost, epochs=epochs, random_state=group.repeat)
        decisions.append(model.fit(train[0], train[1], validation=validation).decide(X))
    return decisions


_RIVALS: dict[str, Decide] = {"mlp_plug": _mlp_plug, "selectivenet": _selectivenet}


def compare(records: pd.DataFrame, paper: Paper) -> pd.DataFrame:
    """The comparison table: our runs of all three methods beside the printed ones, and our best estimator.

    Parameters
    ----------
    records : DataFrame
        Of the rivals, ours, and the paper's method with the MLP and the mae surrogate.
    paper : Paper
    """
    ours = records.assign(model=records["model"].where(records["surrogate"] == _BUDGET, "rcr_mae"))
    printed = _printed(paper)
    cells = over_repeats(ours, _METRICS).drop(columns="surrogate")
    surrogate = printed["model"].map(lambda method: "mae" if method == "rcr_mae" else "")
    table = printed.assign(surrogate=surrogate).merge(cells, on=["dataset", "model", "cost", "metric"])
    return table[COLUMNS]


def _printed(paper: Paper) -> pd.DataFrame:
    methods = with_ours(paper.comparison)
    parts = [
        methods.assign(
            model=methods["method"],
            metric=metric,
            paper_mean=methods[f"{metric}_mean"],
            paper_std=methods[f"{metric}_std"],
        )
        for metric in _METRICS
    ]
    # cell by cell as printed: the methods of a cost stand together
    return pd.concat(parts).rename_axis("row").reset_index().sort_values(["row", "metric"], kind="stable")


def lowest_accepted_loss(table: pd.DataFrame) -> dict[str, int]:
    """Count the cells in which our best estimator has the lowest accepted loss.

    Parameters
    ----------
    table : DataFrame
        As `compare` gives it.

    Returns
    -------
    dict
        ``cells``, and of them those in which ours is below ``our_runs`` of all other methods, below all ``printed``
        numbers, and below ``both``.
    """
    loss = table[table["metric"] == "al"].set_index(["dataset", "cost"])
    others = loss[loss["model"] != OURS].groupby(level=[0, 1], sort=False)
    ours = loss.loc[loss["model"] == OURS, "mean"]
    runs, printed = (ours < others[column].min().reindex(ours.index) for column in ("mean", "paper_mean"))
    counts = {"cells": len(ours), "our_runs": runs.sum(), "printed": printed.sum(), "both": (runs & printed).sum()}
    return {name: int(count) for name, count in counts.items()}
