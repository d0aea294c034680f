"""The unit of work of the table experiments: one data set, model, surrogate and repeat, at every cost.

A group trains all costs and learning rates at once on the same split. Its results do not depend on other groups, so
groups can run in any order and in any process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse import datasets, metrics
from recuse.bench.spec import Protocol
from recuse.decision import Decision
from recuse.estimators import RcRRegressor, StackedMLPRegressor, fit_costs
from recuse.threads import one_thread

__all__ = [
    "SUPERVISED",
    "Decide",
    "Group",
    "Part",
    "fit_regressor",
    "measures",
    "run_decisions",
    "run_group",
]

SUPERVISED = "sup"  # used as the surrogate of groups that train the regressor alone
_SCALE_TARGET: dict[str, bool | Literal["centre"]] = {"original": False, "centred": "centre", "standardised": True}
_NAMES = {  # the paper's names of the measures, and ours
    "rcrloss": "rcr_loss",
    "al": "accepted_loss",
    "rl": "rejected_loss",
    "rej": "rejection_rate",
    "ar": "false_rejection_rate",
    "ra": "false_acceptance_rate",
}
_PERCENT = {"rej", "ar", "ra"}

Floats = NDArray[np.float64]
Part = tuple[pd.DataFrame, "pd.Series[float]"]


@dataclass(frozen=True)
class Group:
    """Trainings that are run together.

    Attributes
    ----------
    dataset, model, surrogate : str
        The surrogate is "sup" for the regressor alone.
    repeat : int
        Seeds the split and the initial weights.
    costs : tuple of float
        Empty for the regressor alone.
    share : float
        Share of the training rows used.
    budgets : tuple of float
        For methods that reject a given share: the share at each cost.
    apart : bool
        Whether other costs are other groups, which may run at the same time and so need separate files.
    """

    dataset: str
    model: str
    surrogate: str
    repeat: int
    costs: tuple[float, ...] = ()
    share: float = 1.0
    budgets: tuple[float, ...] = ()
    apart: bool = False

    @property
    def key(self) -> str:
        """A name that is also a file name."""
        share = "" if self.share == 1.0 else f"-{self.share:g}"
        costs = "".join(f"-{cost:g}" for cost in self.costs) if self.apart else ""
        return f"{self.dataset}-{self.model}-{self.surrogate}{share}{costs}-{self.repeat}"


# A method decides about test rows: (group, protocol, training rows, validation rows, X) -> one decision per cost.
Decide = Callable[[Group, Protocol, Part, Part, pd.DataFrame], list[Decision]]


def run_group(group: Group, protocol: Protocol) -> dict[str, Any]:
    """Train and test one group of the paper's method, or of its regressor alone.

    Returns
    -------
    dict
        ``group`` and ``protocol`` as passed, and ``cells``: one record of measures per cost, or the one measure "sup"
        of the regressor alone.
    """
    train, validation, (X, y) = datasets.split(datasets.load(group.dataset), group.repeat)
    train, target = _first(train, group.share), np.asarray(y, dtype=np.float64)
    with one_thread():
        if group.surrogate == SUPERVISED:
            alone = fit_regressor(group, protocol, train, validation)
            loss = float(metrics.squared_error(target, alone.predict(X)).mean())
            cells = [{"sup": loss, **_choice(alone)}]
        else:
            models = _fit_pairs(group, protocol, train, validation)
            cells = [{"cost": m.cost_, **measures(m.decide(X), target), **_choice(m)} for m in models]
    return {"group": asdict(group), "protocol": asdict(protocol), "cells": cells}


def run_decisions(group: Group, protocol: Protocol, decide: Decide) -> dict[str, Any]:
    """Measure the decisions of any method on the test rows of one group; the result has the form of `run_group`.

    Each cell also contains ``oracle``, the loss of the best decisions about the predictions of the method.
    """
    train, validation, (X, y) = datasets.split(datasets.load(group.dataset), group.repeat)
    target = np.asarray(y, dtype=np.float64)
    with one_thread():
        decisions = decide(group, protocol, train, validation, X)
    cells = [
        {"cost": cost, **measures(decision, target), "oracle": decision.evaluate(target)["oracle"]}
        for cost, decision in zip(group.costs, decisions, strict=True)
    ]
    return {"group": asdict(group), "protocol": asdict(protocol), "cells": cells}


def fit_regressor(group: Group, protocol: Protocol, train: Part, validation: Part) -> StackedMLPRegressor:
    """Fit the paper's network to the squared error alone."""
    hidden = protocol.hidden if group.model == "mlp" else ()
    scale = _scale_target(group, protocol)
    model = StackedMLPRegressor(
        hidden=hidden, scale_target=scale, sort_rows=False, **_protocol_parameters(group, protocol)
    )
    return model.fit(*train, validation=validation)


def _fit_pairs(group: Group, protocol: Protocol, train: Part, validation: Part) -> Sequence[RcRRegressor]:
    """Fit the paper's method at all costs of the group."""
    shape = {"hidden": protocol.hidden} if group.model == "mlp" else {"network": "linear"}
    model = RcRRegressor(
        surrogate=group.surrogate,
        slow_start=protocol.slow_start,
        **shape,
        **_protocol_parameters(group, protocol),
    )
    scale = _scale_target(group, protocol)
    return fit_costs(model, *train, costs=group.costs, validation=validation, scale_target=scale)


def _protocol_parameters(group: Group, protocol: Protocol) -> dict[str, Any]:
    """Give the parameters that pairs and regressors alone share: one network, seeded by the repeat."""
    return {
        "epochs": protocol.epochs,
        "batch_size": protocol.batch_size,
        "learning_rate": protocol.learning_rates,
        "n_members": 1,
        "random_state": [group.repeat],
        "unseen": "keep",
    }


def _scale_target(group: Group, protocol: Protocol) -> bool | Literal["centre"]:
    target = protocol.target[group.model]
    if target not in _SCALE_TARGET:
        raise ValueError(f"target must be one of {', '.join(map(repr, _SCALE_TARGET))}, got {target!r}")
    return _SCALE_TARGET[target]


def _choice(model: RcRRegressor | StackedMLPRegressor) -> dict[str, Any]:
    return {"learning_rate": model.learning_rate_[0], "epoch": model.best_epoch_[0]}


def _first(part: Part, share: float) -> Part:
    count = max(2, round(share * len(part[1])))
    return part[0].iloc[:count], part[1].iloc[:count]


def measures(decision: Decision, y: Floats) -> dict[str, float | None]:
    """Give the paper's measures in its units; None for a mean over no rows."""
    measured = decision.evaluate(y)
    scaled = {short: measured[name] * (100 if short in _PERCENT else 1) for short, name in _NAMES.items()}
    return {short: None if np.isnan(value) else value for short, value in scaled.items()}
