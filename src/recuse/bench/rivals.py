"""The paper's rivals at its rejection rates: a data set, a method and a repeat -> the measures at every cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from recuse import datasets
from recuse.bench.groups import Group, measures
from recuse.bench.spec import Paper, Protocol
from recuse.bench.tables import COLUMNS, over_repeats
from recuse.calibration import by_budget
from recuse.decision import Decision
from recuse.estimators import SelectiveNetRegressor, mlp_plug

__all__ = ["compare", "rival_groups", "run_rival"]

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
    """List one group for each data set, method and repeat of the comparison table."""
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
    """Fit a method on the training rows, find its threshold on the validation rows, measure on the test rows."""
    torch.set_num_threads(1)
    train, validation, (X, y) = datasets.split(datasets.load(group.dataset), group.repeat)
    decide = _RIVALS[group.model]
    decisions = decide(group, protocol, train, validation, X)
    target = np.asarray(y, dtype=np.float64)
    cells = [{"cost": float(d.cost[0]), **measures(d, target)} for d in decisions]
    return {"group": asdict(group), "protocol": asdict(protocol), "cells": cells}


def _mlp_plug(group: Group, protocol: Protocol, train: Any, validation: Any, X: pd.DataFrame) -> list[Decision]:
    settings = {"epochs": protocol.epochs, "batch_size": protocol.batch_size, "hidden": protocol.hidden}
    both = {f"{part}__{name}": value for part in ("regressor", "risk") for name, value in settings.items()}
    model = mlp_plug(random_state=group.repeat, **both).fit(train[0], train[1])
    known, score = model.decision_function(validation[0]), model.decision_function(X)
    thresholds = [by_budget(known, budget, finite_sample=False) for budget in group.budgets]
    prediction = model.predict(X)
    return [
        Decision(prediction, score > threshold, score - threshold, cost)
        for threshold, cost in zip(thresholds, group.costs, strict=True)
    ]


def _selectivenet(group: Group, protocol: Protocol, train: Any, validation: Any, X: pd.DataFrame) -> list[Decision]:
    """Each coverage is a network of its own; the settings are those of the original."""
    epochs = min(protocol.epochs, SelectiveNetRegressor().epochs)
    decisions = []
    for budget, cost in zip(group.budgets, group.costs, strict=True):
        model = SelectiveNetRegressor(1 - budget, cost, epochs=epochs, random_state=group.repeat)
        decisions.append(model.fit(train[0], train[1], validation=validation).decide(X))
    return decisions


_RIVALS = {"mlp_plug": _mlp_plug, "selectivenet": _selectivenet}


def compare(records: pd.DataFrame, paper: Paper) -> pd.DataFrame:
    """The comparison table: our runs of all three methods beside the printed ones.

    Parameters
    ----------
    records : DataFrame
        Of the rivals and of the paper's method with the MLP and the mae surrogate.
    paper : Paper
    """
    ours = records.assign(model=records["model"].where(records["surrogate"] == _BUDGET, "rcr_mae"))
    printed = _printed(paper)
    cells = over_repeats(ours, _METRICS).drop(columns="surrogate")
    surrogate = printed["model"].map(lambda method: "mae" if method == "rcr_mae" else "")
    table = printed.assign(surrogate=surrogate).merge(cells, on=["dataset", "model", "cost", "metric"])
    return table[COLUMNS]


def _printed(paper: Paper) -> pd.DataFrame:
    parts = [
        paper.comparison.assign(
            model=paper.comparison["method"],
            metric=metric,
            paper_mean=paper.comparison[f"{metric}_mean"],
            paper_std=paper.comparison[f"{metric}_std"],
        )
        for metric in _METRICS
    ]
    # cell by cell as printed: the three methods of a cost stand together
    return pd.concat(parts).rename_axis("row").reset_index().sort_values(["row", "metric"], kind="stable")
