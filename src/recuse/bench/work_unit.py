"""The unit of work: one data set, model, surrogate and repeat -> the measures at every cost.

A group is one stack: all costs and learning rates are trained side by side on the same split. Its numbers
depend on nothing outside it, so groups may run in any order, in any process, today or tomorrow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from recuse import datasets, metrics
from recuse.bench.spec import Protocol
from recuse.decision import Decision
from recuse.engine.batches import Table
from recuse.engine.best_epoch import Trained
from recuse.engine.loop import train_pairs, train_regressors
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.plan import Networks, Plan
from recuse.engine.stack import Stack, outputs
from recuse.tabular.encoder import TableEncoder

__all__ = ["SUPERVISED", "Decide", "Fitted", "Group", "Part", "fit_group", "measures", "run_decisions", "run_group"]

SUPERVISED = "sup"  # stands in the place of a surrogate where the regressor is trained alone
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
    """What is trained together.

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
        For methods that reject a given share: that share, beside each cost.
    apart : bool
        Whether other costs are other groups, which may run at the same time and so need files of their own.
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


# a method: the group, the protocol, training rows, validation rows and test features -> one decision per cost
Decide = Callable[[Group, Protocol, Part, Part, pd.DataFrame], list[Decision]]


def run_group(group: Group, protocol: Protocol) -> dict[str, Any]:
    """Train and test one group of the paper's own networks.

    Returns
    -------
    dict
        ``group`` and ``protocol`` as they were, and ``cells``: one record of measures per cost, or the one
        measure "sup" of the regressor alone.
    """
    train, validation, (X, y) = datasets.split(datasets.load(group.dataset), group.repeat)
    fitted = fit_group(group, protocol, _first(train, group.share), validation)
    target, prediction = np.asarray(y, dtype=np.float64), fitted.predictions(X)
    if group.surrogate == SUPERVISED:
        cells = _supervised(prediction, target)
    else:
        cells = _cells(prediction, fitted.scores(X), target, group.costs)
    for cell, choice in zip(cells, fitted.choices, strict=True):
        cell |= choice
    return {"group": asdict(group), "protocol": asdict(protocol), "cells": cells}


def run_decisions(group: Group, protocol: Protocol, decide: Decide) -> dict[str, Any]:
    """Let any method decide about the test rows of one group, and measure; the result is as of `run_group`.

    Each cell also holds ``oracle``, the loss if the method had known the errors of its own predictions.
    """
    torch.set_num_threads(1)
    train, validation, (X, y) = datasets.split(datasets.load(group.dataset), group.repeat)
    target = np.asarray(y, dtype=np.float64)
    decisions = decide(group, protocol, train, validation, X)
    oracles = [d.evaluate(target)["oracle"] for d in decisions]
    cells = [
        {"cost": cost, **measures(d, target), "oracle": oracle}
        for cost, d, oracle in zip(group.costs, decisions, oracles, strict=True)
    ]
    return {"group": asdict(group), "protocol": asdict(protocol), "cells": cells}


def fit_group(group: Group, protocol: Protocol, train: Part, validation: Part) -> Fitted:
    """Train all costs and learning rates of a group side by side; the validation rows choose among the rates."""
    torch.set_num_threads(1)
    encoder = TableEncoder(unseen="keep").fit(train[0])
    units = Units.learn(protocol.target[group.model], _targets(train))
    hidden = protocol.hidden if group.model == "mlp" else ()
    build = partial(StackedMLP, inputs=encoder.n_features, hidden=hidden)
    tables = tuple([_table(part, encoder, units, group.repeat)] for part in (train, validation))
    members = _members(group, protocol, units)
    plan = Plan(protocol.epochs, protocol.slow_start, protocol.batch_size)
    loop = train_regressors if group.surrogate == SUPERVISED else train_pairs
    trained = loop(tables[0], tables[1], members, Networks(build, build), plan)
    return Fitted(encoder, units, trained, members, _best_rates(trained, len(protocol.learning_rates)))


@dataclass(frozen=True)
class Fitted:
    """The trained networks of a group; those of the best learning rate of each cost count."""

    encoder: TableEncoder
    units: Units
    trained: Trained
    members: list[Member]
    best: list[int]

    def predictions(self, X: pd.DataFrame) -> Floats:
        """Give h(x) in original units (cost, row)."""
        return self.units.restore(_outputs(self.trained.regressor, self.best, self.encoder.transform(X)))

    def scores(self, X: pd.DataFrame) -> Floats:
        """Give r(x), > 0 to accept (cost, row)."""
        assert self.trained.rejector is not None  # not for the regressor alone
        return _outputs(self.trained.rejector, self.best, self.encoder.transform(X))

    @property
    def choices(self) -> list[dict[str, Any]]:
        """Learning rate and epoch chosen for each cost."""
        return [
            {"learning_rate": self.members[each].learning_rate, "epoch": int(self.trained.epoch[each])}
            for each in self.best
        ]


@dataclass(frozen=True)
class Units:
    """The units the target is trained in: y -> (y - shift) / scale, and costs by the square of the scale."""

    shift: float = 0.0
    scale: float = 1.0

    @classmethod
    def learn(cls, target: str, y: Floats) -> Self:
        """Original, centred or standardised units, by the training rows."""
        if target == "original":
            return cls()
        if target == "centred":
            return cls(float(y.mean()))
        if target == "standardised":
            return cls(float(y.mean()), float(y.std()))
        raise ValueError(f"target must be 'original', 'centred' or 'standardised', got {target!r}")

    def restore(self, prediction: Floats) -> Floats:
        """Back to original units."""
        return prediction * self.scale + self.shift


def _first(part: Part, share: float) -> Part:
    count = max(2, round(share * len(part[1])))
    return part[0].iloc[:count], part[1].iloc[:count]


def _table(part: Part, encoder: TableEncoder, units: Units, seed: int) -> Table:
    features = torch.as_tensor(encoder.transform(part[0]), dtype=torch.float32)
    target = (_targets(part) - units.shift) / units.scale
    return Table(features, torch.as_tensor(target, dtype=torch.float32), seed=seed)


def _targets(part: Part) -> Floats:
    return np.asarray(part[1], dtype=np.float64)


def _members(group: Group, protocol: Protocol, units: Units) -> list[Member]:
    """All learning rates of a cost stand together."""
    surrogate = "mae" if group.surrogate == SUPERVISED else group.surrogate
    costs = [cost / units.scale**2 for cost in group.costs or (1.0,)]
    return [Member(group.repeat, rate, cost, surrogate) for cost in costs for rate in protocol.learning_rates]


def _best_rates(trained: Trained, rates: int) -> list[int]:
    best = trained.loss.view(-1, rates).argmin(dim=1).tolist()
    return [cost * rates + rate for cost, rate in enumerate(best)]


def _outputs(stack: Stack, chosen: list[int], X: Floats) -> Floats:
    return outputs(stack.take(chosen).to(torch.float64), X)


def _supervised(prediction: Floats, y: Floats) -> list[dict[str, Any]]:
    return [{"sup": float(metrics.squared_error(y, prediction[0]).mean())}]


def _cells(prediction: Floats, score: Floats, y: Floats, costs: tuple[float, ...]) -> list[dict[str, Any]]:
    decisions = [Decision(h, r > 0, r, cost) for h, r, cost in zip(prediction, score, costs, strict=True)]
    return [{"cost": cost, **measures(d, y)} for cost, d in zip(costs, decisions, strict=True)]


def measures(decision: Decision, y: Floats) -> dict[str, float | None]:
    """The paper's measures in its units; None where there is nothing to take the mean of."""
    measured = decision.evaluate(y)
    scaled = {short: measured[name] * (100 if short in _PERCENT else 1) for short, name in _NAMES.items()}
    return {short: None if np.isnan(value) else value for short, value in scaled.items()}
