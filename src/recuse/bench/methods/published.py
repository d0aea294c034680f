"""MLP-Plug and SelectiveNet with the settings of the experiments, and their runs at the paper's rejection rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.bench.spec import Paper, Protocol
from recuse.bench.work_unit import Decide, Group, Part, run_decisions
from recuse.decision import Decision
from recuse.estimators import RiskRejector, SelectiveNetRegressor, mlp_plug
from recuse.guarantees.thresholds import by_budget

__all__ = ["BUDGET", "mlp_plug_model", "network_parameters", "rival_groups", "run_rival", "selectivenet_model"]

Floats = NDArray[np.float64]
BUDGET = "budget"  # used as the surrogate of groups that reject a given share


def network_parameters(protocol: Protocol) -> dict[str, Any]:
    """Give the paper's network as parameters of an estimator."""
    return {
        "hidden": protocol.hidden,
        "epochs": protocol.epochs,
        "batch_size": protocol.batch_size,
        "learning_rate": protocol.learning_rates,
    }


def mlp_plug_model(group: Group, protocol: Protocol) -> RiskRejector:
    """Give MLP-Plug with the paper's network for the prediction and for the risk."""
    network = network_parameters(protocol)
    both = {f"{part}__{name}": value for part in ("regressor", "risk") for name, value in network.items()}
    return mlp_plug(random_state=group.repeat, **both)


def selectivenet_model(
    group: Group, protocol: Protocol, cost: float, coverage: float | None = None
) -> SelectiveNetRegressor:
    """Give SelectiveNet with the settings of the original, at one coverage or at the best for the cost."""
    epochs = min(protocol.epochs, SelectiveNetRegressor().epochs)
    return SelectiveNetRegressor(coverage, cost, epochs=epochs, random_state=group.repeat)


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
        Group(str(dataset), str(method), BUDGET, repeat, tuple(cells["cost"]), budgets=_budgets(cells))
        for (dataset, method), cells in rivals.groupby(["dataset", "method"], sort=False)
        if names is None or dataset in names
        for repeat in range(repeats or paper.protocol.repeats)
    ]


def _budgets(cells: pd.DataFrame) -> tuple[float, ...]:
    return tuple((cells["target_rejection"] / 100).tolist())


def run_rival(group: Group, protocol: Protocol) -> dict[str, Any]:
    """Fit a method, choose its threshold without the test rows, and measure it on the test rows."""
    return run_decisions(group, protocol, _RIVALS[group.model])


def _mlp_plug(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    model = mlp_plug_model(group, protocol).fit(*train)
    return _at_budgets(group, model.predict(X), model.decision_function(X), model.decision_function(validation[0]))


def _at_budgets(group: Group, prediction: Floats, score: Floats, known: Floats) -> list[Decision]:
    """Decide by the thresholds that reject the budgets among the known scores."""
    thresholds = [by_budget(known, budget, finite_sample=False) for budget in group.budgets]
    return [
        Decision(prediction, score > threshold, score - threshold, cost)
        for threshold, cost in zip(thresholds, group.costs, strict=True)
    ]


def _selectivenet(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    """Fit a separate network for each coverage."""
    models = [
        selectivenet_model(group, protocol, cost, 1 - budget)
        for budget, cost in zip(group.budgets, group.costs, strict=True)
    ]
    return [model.fit(*train, validation=validation).decide(X) for model in models]


_RIVALS: dict[str, Decide] = {"mlp_plug": _mlp_plug, "selectivenet": _selectivenet}
