"""The paper's joint training, its regressor alone, and its cross-fitted form as methods of the experiments."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Literal, Self

from recuse import surrogates
from recuse.bench.method import APART, BOTH, BenchMethod, BenchSplit
from recuse.decision import Decision
from recuse.estimators import RcRRegressor, RcRRegressorCV, StackedMLPRegressor, fit_costs
from recuse.validation import require

_SCALE_TARGET: dict[str, bool | Literal["centre"]] = {"original": False, "centred": "centre", "standardised": True}


class AcceptAll(BenchMethod):
    """The paper's network ("mlp") or a linear model, trained on the squared error alone; `Sup` in the paper."""

    title = "always accept"
    description = "the paper's network, trained on squared error alone"
    rows = APART

    def __init__(self, model: str = "mlp") -> None:
        self.model = model
        self.name = "always_accept" if model == "mlp" else f"always_accept_{model}"

    def decide(self, split: BenchSplit) -> Sequence[Decision]:
        """Accept every row."""
        model = StackedMLPRegressor(
            hidden=split.protocol.hidden if self.model == "mlp" else (),
            scale_target=_scale_target(self.model, split),
            sort_rows=False,
            **_settings(split),
        )
        prediction = model.fit(*split.train, validation=split.validation).predict(split.X)
        accepted = [True] * len(prediction)
        return [Decision(prediction, accepted, accepted, cost) for cost in split.costs]


class RcR(BenchMethod):
    """Joint training as in the paper, for one surrogate."""

    rows = APART

    def __init__(self, model: str = "mlp", surrogate: str = "mae") -> None:
        self.model, self.surrogate = model, surrogate
        self.name = f"rcr_{surrogate}" if model == "mlp" else f"rcr_{surrogate}_{model}"
        self.title = f"RcR, {surrogate}"
        self.description = f"joint training as in the paper, {surrogate} surrogate"
        self.family = f"rcr_{model}"
        self._loss = surrogates.get(surrogate)  # known in other processes, also if the user registered it

    def decide(self, split: BenchSplit) -> Sequence[Decision]:
        """Train for each cost."""
        return self.decide_together([(self, split.costs)], split)[0]

    @classmethod
    def decide_together(
        cls, cells: Sequence[tuple[Self, tuple[float, ...]]], split: BenchSplit
    ) -> list[list[Decision]]:
        """Train at all costs with all surrogates, which share the first epochs, in which the regressor is alone."""
        first, _ = cells[0]
        shape: dict[str, Any] = {"network": "linear"}
        if first.model == "mlp":
            shape = {"hidden": split.protocol.hidden}
        model = RcRRegressor(slow_start=split.protocol.slow_start, **shape, **_settings(split))
        costs = sorted({cost for _, some in cells for cost in some})
        losses = {method.surrogate: method._loss for method, _ in cells}
        fitted = fit_costs(
            model,
            *split.train,
            costs=costs,
            surrogates=list(losses.values()),
            validation=split.validation,
            scale_target=_scale_target(first.model, split),
        )
        aims = [(cost, surrogate) for cost in costs for surrogate in losses]
        models = dict(zip(aims, fitted, strict=True))
        return [[models[cost, method.surrogate].decide(split.X) for cost in some] for method, some in cells]

    def code(self) -> str:
        """Return the source of the class, of the functions it uses and of the surrogate."""
        try:
            surrogate = inspect.getsource(self._loss.function)
        except (OSError, TypeError):  # a function that was typed in, or compiled
            surrogate = repr(vars(self._loss))
        return super().code() + inspect.getsource(_settings) + surrogate


class RcRAnyCost(BenchMethod):
    """The cross-fitted estimator with the paper's network, and ten folds for few rows."""

    name, title, rows = "rcr_any_cost", "RcR, any cost", BOTH
    description = "RcR, square surrogate, 8 members per fold; rejectors learn from out-of-fold errors; fitted once"

    def fit(self, split: BenchSplit) -> RcRRegressorCV:
        """Fit once for the range of the costs."""
        low, high = min(split.costs), max(split.costs)
        X, y = split.both
        model = RcRRegressorCV(
            cost_range=(low, max(high, 1.1 * low)),  # the two ends must differ, also for a single cost
            hidden=split.protocol.hidden,
            epochs=max(1, split.protocol.epochs * 3 // 20),
            random_state=split.repeat,
            cv=10 if len(y) < 2000 else 5,
        )
        return model.fit(X, y)


def _scale_target(model: str, split: BenchSplit) -> bool | Literal["centre"]:
    units = split.protocol.target.get(model, "standardised")
    require(units in _SCALE_TARGET, "target", f"one of {', '.join(_SCALE_TARGET)}", units)
    return _SCALE_TARGET[units]


def _settings(split: BenchSplit) -> dict[str, Any]:
    """Return the parameters of both trainings: one network, seeded by the split."""
    return {
        "epochs": split.protocol.epochs,
        "batch_size": split.protocol.batch_size,
        "learning_rate": split.protocol.learning_rates,
        "n_members": 1,
        "random_state": [split.repeat],
        "unseen": "keep",
    }
