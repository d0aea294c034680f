"""Methods of the leaderboard.

A method is one entry of `METHODS`: its names and a function that decides about the test rows. To add a method, write
the function and the entry; tables, figures and ranks then include it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from recuse.bench.methods.auto import OURS, our_group, run_ours, together
from recuse.bench.methods.published import mlp_plug_model, network_parameters, selectivenet_model
from recuse.bench.spec import Paper, Protocol
from recuse.bench.work_unit import SUPERVISED, Decide, Group, Part, fit_regressor, run_decisions, run_group
from recuse.decision import Decision
from recuse.estimators import (
    RcRRegressorCV,
    RejectingRegressor,
    RiskRejector,
    knn_plug,
    no_rejection,
)

__all__ = ["ALWAYS_ACCEPT", "METHODS", "Method", "choose", "method_groups", "run_method"]

_COST = "cost"  # used as the surrogate of methods that decide by the cost
_NETWORK = "mlp"  # the paper's model
_APART = "training; selection on validation"
_BOTH = "training and validation together"


@dataclass(frozen=True)
class Method:
    """One entry of the leaderboard.

    Attributes
    ----------
    name : str
        Used in files and on the command line.
    title : str
        Used on the page and in figures.
    description : str
        One line.
    rows : str
        Which rows it learns from.
    decide : callable, optional
        (group, protocol, train, validation, X) -> one Decision for each cost of the group. Without it, the method is
        AutoRejector, or the joint training of the paper as `recuse bench paper` runs it.
    surrogate : str
        Surrogate of the joint training.
    """

    name: str
    title: str
    description: str
    rows: str
    decide: Decide | None = None
    surrogate: str = _COST

    @property
    def model(self) -> str:
        """The model name of its groups; the groups of joint training are shared with the reproduction."""
        return _NETWORK if self.decide is None and self.name != OURS else self.name

    def group(self, paper: Paper, dataset: str, repeat: int) -> Group:
        """Give the unit of work."""
        if self.name == OURS:
            return our_group(paper, dataset, repeat)
        return Group(dataset, self.model, self.surrogate, repeat, paper.costs[dataset])


def method_groups(
    methods: Sequence[Method], paper: Paper, *, repeats: int | None = None, datasets: Sequence[str] | None = None
) -> list[Group]:
    """List one group for each method, data set and repeat."""
    return [
        method.group(paper, dataset, repeat)
        for method in methods
        for dataset in paper.costs
        if datasets is None or dataset in datasets
        for repeat in range(repeats or paper.protocol.repeats)
    ]


def run_method(group: Group, protocol: Protocol, methods: Sequence[Method]) -> dict[str, Any]:
    """Run one group of one of the methods."""
    if group.model == OURS:
        return run_ours(group, protocol)
    decide = next(method.decide for method in methods if method.model == group.model)
    return run_group(group, protocol) if decide is None else run_decisions(group, protocol, decide)


def choose(names: Sequence[str] | None, known: Mapping[str, Method] | None = None) -> list[Method]:
    """Find methods by name, or give all of them.

    Examples
    --------
    >>> [method.title for method in choose(["knn_plug", "selectivenet"])]
    ['Knn-Plug', 'SelectiveNet']
    """
    methods = METHODS if known is None else known
    for name in names or ():
        if name not in methods:
            raise ValueError(f"methods must be among {list(methods)}, got {name!r}")
    return [methods[name] for name in (methods if names is None else names)]


def _at_every_cost(model: RejectingRegressor, group: Group, X: pd.DataFrame) -> list[Decision]:
    return [model.decide(X, cost=cost) for cost in group.costs]


def _always_accept(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    alone = Group(group.dataset, _NETWORK, SUPERVISED, group.repeat)
    prediction = fit_regressor(alone, protocol, train, validation).predict(X)
    everything = np.ones(len(prediction))
    return [Decision(prediction, everything, everything, cost) for cost in group.costs]


def _crossfitted(group: Group, protocol: Protocol, n_rows: int) -> RcRRegressorCV:
    """Give the cross-fitted estimator with the paper's network.

    Surrogate, batch size and folds were chosen on validation rows of auto-mpg, housing, concrete and abalone.
    """
    return RcRRegressorCV(
        hidden=protocol.hidden,
        epochs=max(1, protocol.epochs * 3 // 20),
        random_state=group.repeat,
        cv=10 if n_rows < 2000 else 5,
    )


def _rcr_crossfit(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    rows = together(train, validation)
    model = _crossfitted(group, protocol, len(rows[1]))
    return [model.fit(*rows, cost=cost).decide(X) for cost in group.costs]


def _rcr_any_cost(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    low, high = min(group.costs), max(group.costs)
    cost_range = (low, max(high, 1.1 * low))  # the two ends must differ, also for a single cost
    rows = together(train, validation)
    model = _crossfitted(group, protocol, len(rows[1])).set_params(cost_range=cost_range)
    return _at_every_cost(model.fit(*rows), group, X)


def _selectivenet(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    model = selectivenet_model(group, protocol, group.costs[0])
    return _at_every_cost(model.fit(*train, validation=validation), group, X)


def _knn_plug(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    return _at_every_cost(knn_plug(random_state=group.repeat).fit(*together(train, validation)), group, X)


def _mlp_plug(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    return _at_every_cost(mlp_plug_model(group, protocol).fit(*together(train, validation)), group, X)


def _no_rejection(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    shape = {f"regressor__{key}": value for key, value in network_parameters(protocol).items()}
    return _at_every_cost(no_rejection(random_state=group.repeat, **shape).fit(*together(train, validation)), group, X)


def _risk_rejector(group: Group, protocol: Protocol, train: Part, validation: Part, X: pd.DataFrame) -> list[Decision]:
    return _at_every_cost(RiskRejector(random_state=group.repeat).fit(*together(train, validation)), group, X)


# the source of the reference lines of the leaderboard; not ranked
ALWAYS_ACCEPT = Method(
    "always_accept",
    "always accept",
    "the paper's network, trained on squared error alone",
    _APART,
    _always_accept,
    SUPERVISED,
)
_ENTRIES = (
    Method(OURS, "AutoRejector", "a cross-fitted blend, weighted by out-of-fold RcR loss; fitted once", _BOTH),
    Method(
        "risk_rejector",
        "RiskRejector",
        "the default: boosted trees, and extra-trees for their risk, cross-fitted",
        _BOTH,
        _risk_rejector,
    ),
    Method(
        "rcr_crossfit",
        "RcR, cross-fitted",
        "RcR, square surrogate, 8 members per fold; rejectors learn from out-of-fold errors; fitted for each cost",
        _BOTH,
        _rcr_crossfit,
    ),
    Method(
        "rcr_any_cost",
        "RcR, any cost",
        "as RcR, cross-fitted, but fitted once for the whole range of costs",
        _BOTH,
        _rcr_any_cost,
    ),
    Method("rcr_mae", "RcR, mae", "joint training as in the paper, mae surrogate", _APART, surrogate="mae"),
    Method("rcr_logistic", "RcR, logistic", "joint training, logistic surrogate", _APART, surrogate="logistic"),
    Method("rcr_square", "RcR, square", "joint training, square surrogate", _APART, surrogate="square"),
    Method(
        "selectivenet",
        "SelectiveNet",
        "networks for ten coverages; at each cost, network and threshold with the lowest validation loss",
        _APART,
        _selectivenet,
    ),
    Method("mlp_plug", "MLP-Plug", "a network, and another for its residuals on the same rows", _BOTH, _mlp_plug),
    Method("knn_plug", "Knn-Plug", "ten nearest neighbours, also for the residuals", _BOTH, _knn_plug),
    Method("no_rejection", "No-rejection", "a network, and a kernel average of its errors", _BOTH, _no_rejection),
)
METHODS = {method.name: method for method in _ENTRIES}
