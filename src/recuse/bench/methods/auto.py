"""Runs of AutoRejector in the experiments, at the paper's costs and rejection rates."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse import datasets
from recuse.bench.spec import Paper, Protocol
from recuse.bench.work_unit import Group, Part, measures
from recuse.decision import Decision
from recuse.estimators import AutoRejector
from recuse.guarantees.thresholds import by_budget
from recuse.threads import one_thread

__all__ = ["OURS", "at_rejection_rates", "fit_auto", "our_group", "run_ours", "together", "with_ours"]

Floats = NDArray[np.float64]

OURS = "auto"
_COST, _BUDGET = "cost", "budget"  # used as the surrogate of groups: decisions by cost or by budget
_AT_RATE = "at_rate_"  # prefix of measures at a rejection rate
_METRICS = ("al", "rej", "rcrloss")


def our_group(paper: Paper, dataset: str, repeat: int) -> Group:
    """Give the group of all costs of a data set, with the rejection rates of the comparison where it has any."""
    table = with_ours(paper.comparison)
    ours = table[(table["method"] == OURS) & (table["dataset"] == dataset)].set_index("cost")["target_rejection"] / 100
    costs = paper.costs[dataset]
    budgets = tuple(float(ours[cost]) if cost in ours.index else -1.0 for cost in costs)  # -1: none
    return Group(dataset, OURS, _COST, repeat, costs, budgets=budgets)


def with_ours(comparison: pd.DataFrame) -> pd.DataFrame:
    """Add AutoRejector to each cell, at the lowest rejection rate required of, or reported for, any other method."""
    rate = comparison["target_rejection"].fillna(comparison["rej_mean"])
    lowest = comparison.assign(target_rejection=rate).groupby(["dataset", "cost"], sort=False)["target_rejection"].min()
    ours = lowest.reset_index().assign(method=OURS)
    cells = list(zip(ours["dataset"], ours["cost"], strict=True))
    table = pd.concat([comparison, ours], ignore_index=True)
    place = [cells.index(cell) for cell in zip(table["dataset"], table["cost"], strict=True)]
    return table.assign(place=place).sort_values("place", kind="stable", ignore_index=True).drop(columns="place")


def run_ours(group: Group, protocol: Protocol, **parameters: Any) -> dict[str, Any]:
    """Fit once to training and validation rows; decide about test rows at every cost and every rejection rate.

    At a rejection rate, this share of the test rows is rejected, rounded down to whole rows: those with the highest
    expected losses, as on a risk-coverage curve. So a loss is compared with the printed one at the same rate.
    """
    train, validation, (X, y) = datasets.split(datasets.load(group.dataset), group.repeat)
    with one_thread():
        model = fit_auto(group, train, validation, **parameters)
        decision = model.decide(X, cost=group.costs[0])
    target = np.asarray(y, dtype=np.float64)
    prediction, score = decision.prediction, decision.score - decision.cost
    cells = []
    for cost, budget in zip(group.costs, group.budgets, strict=True):
        by_cost = Decision(prediction, score + cost > 0, score + cost, cost)
        cell = {"cost": cost, **measures(by_cost, target), "oracle": by_cost.evaluate(target)["oracle"]}
        if budget >= 0:
            threshold = by_budget(score, budget, finite_sample=False)
            by_rate = measures(Decision(prediction, score > threshold, score - threshold, cost), target)
            cell |= {f"{_AT_RATE}{name}": by_rate[name] for name in _METRICS}
        cells.append(cell)
    return {"group": asdict(group), "protocol": asdict(protocol), "cells": cells}


def fit_auto(group: Group, train: Part, validation: Part, **parameters: Any) -> AutoRejector:
    """Fit AutoRejector to training and validation rows, once for all costs, at their geometric mean."""
    middle = float(np.exp(np.log(group.costs).mean()))
    return AutoRejector(middle, random_state=group.repeat, **parameters).fit(*together(train, validation))


def together(train: Part, validation: Part) -> Part:
    """Concatenate training and validation rows, for methods that divide their rows themselves."""
    return pd.concat([train[0], validation[0]]), pd.concat([train[1], validation[1]])


def at_rejection_rates(records: pd.DataFrame) -> pd.DataFrame:
    """Give the measures at the rejection rates as records of the same form as those of the other methods."""
    names = {f"{_AT_RATE}{name}": name for name in _METRICS}
    kept = records.drop(columns=list(_METRICS)).rename(columns=names).dropna(subset=list(_METRICS))
    return kept.assign(surrogate=_BUDGET)
