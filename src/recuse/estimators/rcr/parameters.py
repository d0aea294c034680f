"""Arguments and parameters of RcRRegressor, and their checks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf
from numbers import Real
from typing import Any, Literal

from numpy.typing import ArrayLike

from recuse import losses, surrogates
from recuse.costs import Cost, is_constant
from recuse.engine.cost_range import CostRange
from recuse.engine.plan import Plan
from recuse.estimators.rate_search import check_trial_parameters
from recuse.losses import TargetLoss
from recuse.tabular.folds import check_folds
from recuse.validation import is_count, require

__all__ = [
    "CV",
    "HIDDEN",
    "Continuation",
    "FitData",
    "Recipe",
    "check_continuation",
    "check_parameters",
    "choose_recipe",
    "read_cost_range",
    "trains_jointly",
]

# Defaults of parameters that only some kinds of training use.
HIDDEN, CV = (20, 30, 10), 5


@dataclass(frozen=True)
class Recipe:
    """How joint training is done, and the defaults of the parameters that depend on it."""

    steady: bool
    slow_start: int | Literal["auto"]
    batch_size: int
    learning_rate: float | Sequence[float]
    n_members: int
    validation_fraction: float

    def plan(self, epochs: int, device: str, report: Callable[[int], None]) -> Plan:
        """Return the plan of a training, with a callback for its progress."""
        return Plan(epochs, self.slow_start, self.batch_size, device=device, on_epoch=report, steady=self.steady)


_RECIPES = {
    "steady": Recipe(True, "auto", 128, (1e-2, 3e-3), 5, 0.2),
    "paper": Recipe(False, 200, 1024, (1e-1, 1e-2, 1e-3), 5, 0.25),
}
_DEPENDENT = [field.name for field in fields(Recipe) if field.name != "steady"]


def choose_recipe(parameters: Mapping[str, Any], *, online: bool = False) -> Recipe:
    """Return the recipe of an estimator, with the parameters that were given.

    Only joint training in `fit` may be steady. Cross-fitting and `partial_fit` use the defaults of the paper.

    Examples
    --------
    >>> from recuse import RcRRegressor
    >>> recipe = choose_recipe(RcRRegressor(batch_size=64).get_params())
    >>> recipe.steady, recipe.batch_size, recipe.n_members
    (True, 64, 5)
    """
    joint = parameters["residuals"] == "train" and not online
    recipe = _RECIPES[parameters["recipe"] if joint else "paper"]
    return replace(recipe, **{name: parameters[name] for name in _DEPENDENT if parameters[name] is not None})


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Check all parameters except the cost, which is checked with the rows."""
    surrogates.get(parameters["surrogate"])
    losses.get(parameters["loss"])
    slow_start, network, residuals, recipe = (
        parameters[name] for name in ("slow_start", "network", "residuals", "recipe")
    )
    require(isinstance(recipe, str) and recipe in _RECIPES, "recipe", "'steady' or 'paper'", recipe)
    chosen = choose_recipe(parameters)
    check_trial_parameters({**parameters, **{name: getattr(chosen, name) for name in _DEPENDENT}})
    known = slow_start in ("auto", None) or is_count(slow_start, least=0)
    require(known, "slow_start", "an int >= 0 or 'auto'", slow_start)
    known = callable(network) or network in ("mlp", "linear")
    require(known, "network", "'mlp', 'linear' or a callable", network)
    require(residuals in ("train", "crossfit"), "residuals", "'train' or 'crossfit'", residuals)
    check_folds(parameters["cv"])
    _check_effect(parameters)


def _check_effect(parameters: Mapping[str, Any]) -> None:
    """Raise an error for parameters that would have no effect.

    For `cv` this is only a warning, since the estimator checks of scikit-learn set it if it exists.
    """
    if parameters["network"] != "mlp":
        is_default = tuple(parameters["hidden"]) == HIDDEN
        require(is_default, "hidden", "left at its default unless network='mlp'", parameters["hidden"])
    if parameters["residuals"] == "train":
        if not (is_count(parameters["cv"]) and parameters["cv"] == CV):
            warnings.warn("cv has no effect unless residuals='crossfit'", UserWarning, stacklevel=5)
        cost_range = parameters["cost_range"]
        require(cost_range is None, "cost_range", "None unless residuals='crossfit'", cost_range)
        return
    slow_start, warm_start = parameters["slow_start"], parameters["warm_start"]
    unset = slow_start in (None, _RECIPES["paper"].slow_start)
    require(unset, "slow_start", "left at its default with residuals='crossfit'", slow_start)
    require(not warm_start, "warm_start", "False with residuals='crossfit'", warm_start)


def trains_jointly(estimator: Any) -> bool:
    """Check whether `partial_fit` is available."""
    if estimator.residuals == "crossfit":
        raise AttributeError("partial_fit needs residuals='train', got 'crossfit'")
    return True


def read_cost_range(cost_range: tuple[float, float] | None, cost: Cost, default: Cost) -> CostRange | None:
    """Check the range of costs, which excludes a single cost.

    Examples
    --------
    >>> read_cost_range((1, 9), cost=1.0, default=1.0)
    CostRange(low=1.0, high=9.0)
    """
    if cost_range is None:
        return None
    pair = (
        isinstance(cost_range, tuple | list) and len(cost_range) == 2 and all(isinstance(c, Real) for c in cost_range)
    )
    require(
        pair and 0 < cost_range[0] < cost_range[1] < inf, "cost_range", "(low, high) with 0 < low < high", cost_range
    )
    unset = is_constant(cost) and cost == default
    require(unset, "cost", "left out with cost_range; pass it to decide", cost)
    return CostRange(float(cost_range[0]), float(cost_range[1]))


@dataclass(frozen=True)
class FitData:
    """The arguments of `fit` except the cost."""

    X: Any
    y: ArrayLike
    sample_weight: ArrayLike | None = None
    validation: tuple[Any, ...] | None = None
    groups: ArrayLike | None = None


@dataclass(frozen=True)
class Continuation:
    """Settings that restrict how training may continue: the loss of a prediction and the cost."""

    loss: TargetLoss
    cost: Cost


def check_continuation(name: str, now: Continuation, before: Continuation, *, online: bool) -> None:
    """Check that joint training can continue from networks trained earlier.

    Parameters
    ----------
    name : str
        Name of the estimator, for errors.
    now, before : Continuation
        Loss and cost now, and in the earlier training.
    online : bool
        Whether the earlier training was a call of `partial_fit`, which keeps its cost.
    """
    if now.loss != before.loss:
        raise ValueError(
            f"{name} was first fitted for the {before.loss.name} loss and cannot continue with {now.loss.name}: "
            "fit a new estimator"
        )
    if not is_constant(before.cost):
        return
    if not is_constant(now.cost):
        raise ValueError(
            f"{name} was first fitted for the constant cost {before.cost!r}, "
            "so it cannot continue with a cost that varies by row: fit a new estimator"
        )
    if online and now.cost != before.cost:
        raise ValueError(f"partial_fit continues at the cost of its first call, {before.cost!r}, got {now.cost!r}")
