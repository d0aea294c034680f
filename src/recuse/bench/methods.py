"""The methods that the leaderboard and the comparison run. A method is one class; `METHODS` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from recuse.bench.method import APART, BenchMethod, BenchSplit
from recuse.bench.rcr import RcR, RcRAnyCost
from recuse.decision import Decision
from recuse.estimators import AutoRejector, RiskRejector, SelectiveNetRegressor, knn_plug, mlp_plug, no_rejection
from recuse.guarantees.thresholds import by_budget
from recuse.validation import require


class Auto(BenchMethod):
    """AutoRejector, fitted once for all costs, at their geometric mean."""

    name, title = "auto", "AutoRejector"
    description = "a cross-fitted blend, weighted by out-of-fold RcR loss; fitted once"

    def fit(self, split: BenchSplit) -> AutoRejector:
        """Fit to training and validation rows."""
        middle = float(np.exp(np.log(split.costs).mean()))
        return AutoRejector(middle, random_state=split.repeat).fit(*split.both)


class BoostedTrees(BenchMethod):
    """The default of RiskRejector."""

    name, title = "risk_rejector", "RiskRejector"
    description = "the default: boosted trees, and extra-trees for their risk, cross-fitted"

    def fit(self, split: BenchSplit) -> RiskRejector:
        """Fit to training and validation rows."""
        return RiskRejector(random_state=split.repeat).fit(*split.both)


class SelectiveNet(BenchMethod):
    """SelectiveNet with the settings of the original."""

    name, title, rows = "selectivenet", "SelectiveNet", APART
    description = "networks for ten coverages; at each cost, network and threshold with the lowest validation loss"

    def decide(self, split: BenchSplit) -> Sequence[Decision]:
        """Use the best network for each cost or, for matched rejection rates, one network for each of them."""
        epochs = min(split.protocol.epochs, SelectiveNetRegressor().epochs)
        options: dict[str, Any] = {"epochs": epochs, "random_state": split.repeat}
        if split.rates is None:
            one = SelectiveNetRegressor(None, split.costs[0], **options).fit(*split.train, validation=split.validation)
            return [one.decide(split.X, cost=cost) for cost in split.costs]
        models = [
            SelectiveNetRegressor(1 - rate, cost, **options)
            for rate, cost in zip(split.rates, split.costs, strict=True)
        ]
        return [model.fit(*split.train, validation=split.validation).decide(split.X) for model in models]


class MLPPlug(BenchMethod):
    """MLP-Plug with the paper's network for the prediction and for the risk."""

    name, title = "mlp_plug", "MLP-Plug"
    description = "a network, and another for its residuals on the same rows"

    def fit(self, split: BenchSplit) -> RiskRejector:
        """Fit to training and validation rows or, for matched rejection rates, to the training rows alone."""
        both = {f"{part}__{name}": value for part in ("regressor", "risk") for name, value in _network(split).items()}
        return mlp_plug(random_state=split.repeat, **both).fit(*(split.both if split.rates is None else split.train))

    def decide(self, split: BenchSplit) -> Sequence[Decision]:
        """Decide by the cost or, for matched rejection rates, by thresholds that reject them among validation rows."""
        if split.rates is None:
            return super().decide(split)
        model = self.fit(split)
        prediction, score = model.predict(split.X), model.decision_function(split.X)
        known = model.decision_function(split.validation[0])
        thresholds = [by_budget(known, rate, finite_sample=False) for rate in split.rates]
        return [
            Decision(prediction, score > threshold, score - threshold, cost)
            for threshold, cost in zip(thresholds, split.costs, strict=True)
        ]


class KnnPlug(BenchMethod):
    """Knn-Plug with ten neighbours."""

    name, title = "knn_plug", "Knn-Plug"
    description = "ten nearest neighbours, also for the residuals"

    def fit(self, split: BenchSplit) -> RiskRejector:
        """Fit to training and validation rows."""
        return knn_plug(random_state=split.repeat).fit(*split.both)


class NoRejection(BenchMethod):
    """No-rejection learning with the paper's network."""

    name, title = "no_rejection", "No-rejection"
    description = "a network, and a kernel average of its errors"

    def fit(self, split: BenchSplit) -> RiskRejector:
        """Fit to training and validation rows, a part of which is held out for the risk."""
        shape = {f"regressor__{name}": value for name, value in _network(split).items()}
        return no_rejection(random_state=split.repeat, **shape).fit(*split.both)


def _network(split: BenchSplit) -> dict[str, Any]:
    """Return the paper's network as parameters of an estimator."""
    protocol = split.protocol
    return {
        "hidden": protocol.hidden,
        "epochs": protocol.epochs,
        "batch_size": protocol.batch_size,
        "learning_rate": protocol.learning_rates,
    }


_METHODS: tuple[BenchMethod, ...] = (
    Auto(),
    BoostedTrees(),
    RcRAnyCost(),
    RcR("mlp", "mae"),
    RcR("mlp", "logistic"),
    RcR("mlp", "square"),
    SelectiveNet(),
    MLPPlug(),
    KnnPlug(),
    NoRejection(),
)
METHODS = {method.name: method for method in _METHODS}


def choose(names: Sequence[str] | None, more: Sequence[BenchMethod] = ()) -> list[BenchMethod]:
    """Find methods by name, or give all of them.

    Parameters
    ----------
    names : sequence of str, optional
    more : sequence of BenchMethod
        Methods of the user, which may replace one of the same name.

    Examples
    --------
    >>> [method.title for method in choose(["knn_plug", "selectivenet"])]
    ['Knn-Plug', 'SelectiveNet']
    """
    known: Mapping[str, BenchMethod] = METHODS | {method.name: method for method in more}
    for name in names or ():
        require(name in known, "methods", f"among {', '.join(known)}", name)
    require(names is None or len(names) > 0, "methods", f"some of {', '.join(known)}", names)
    return [known[name] for name in dict.fromkeys(known if names is None else names)]
