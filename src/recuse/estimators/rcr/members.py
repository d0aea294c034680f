"""Pairs: the parameters of RcRRegressor in, an error or the makers of its networks out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import MethodType
from typing import Any, Literal, TypeVar, cast

import numpy as np
import torch

from recuse import losses, surrogates
from recuse.costs import Cost, is_constant
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.plan import Networks
from recuse.engine.stack import Stack
from recuse.engine.user_modules import LoopedModules, NetworkFactory
from recuse.estimators.rate_search import check_trial_parameters
from recuse.surrogates import Surrogate
from recuse.tabular.folds import check_folds
from recuse.tabular.units import Units
from recuse.validation import is_count, require

__all__ = ["NotByCrossfit", "PairMaker", "check_going_on", "check_pair_parameters", "joint_only"]

Method = TypeVar("Method", bound=Callable[..., Any])
StackMaker = Callable[[Sequence[int]], Stack]


def check_pair_parameters(estimator: Any) -> None:
    """Check every parameter but the cost, which is checked with the rows."""
    surrogates.get(estimator.surrogate)
    losses.get(estimator.loss)
    check_trial_parameters(estimator)
    slow_start, network, residuals = estimator.slow_start, estimator.network, estimator.residuals
    require(slow_start == "auto" or is_count(slow_start, least=0), "slow_start", "an int >= 0 or 'auto'", slow_start)
    known = callable(network) or network in ("mlp", "linear")
    require(known, "network", "'mlp', 'linear' or a callable", network)
    require(residuals in ("train", "crossfit"), "residuals", "'train' or 'crossfit'", residuals)
    check_folds(estimator.cv)
    goes_on = estimator.warm_start and residuals == "crossfit"
    require(not goes_on, "warm_start", "False with residuals='crossfit'", estimator.warm_start)


class NotByCrossfit(ValueError, AttributeError):
    """A method that residuals="crossfit" rules out; as an AttributeError, it lets `hasattr` say so."""


def joint_only(method: Method) -> Method:
    """Make a method one that is there unless residuals="crossfit"."""
    return cast(Method, _JointOnly(method))


class _JointOnly:
    def __init__(self, method: Callable[..., Any]) -> None:
        self._method, self.__doc__ = method, method.__doc__

    def __get__(self, estimator: Any, owner: type) -> Callable[..., Any]:
        if estimator is None:
            return self._method
        if estimator.residuals == "crossfit":
            raise NotByCrossfit(f"residuals must be 'train' for {self._method.__name__}, got 'crossfit'")
        return MethodType(self._method, estimator)


def check_going_on(estimator: Any, cost: Cost, *, streaming: bool, crossfitted: bool) -> None:
    """Check that training can go on from what the estimator learned before, at this cost."""
    name, before = type(estimator).__name__, estimator.cost_
    if crossfitted:
        raise ValueError(f"{name} was fitted with residuals='crossfit' and cannot go on from there: fit it afresh")
    loss = losses.get(estimator.loss)
    if loss != estimator.loss_:
        raise ValueError(
            f"{name} was first fitted for the {estimator.loss_.name} loss and cannot go on with {loss.name}: "
            "fit it afresh"
        )
    if estimator.serves_any_cost:
        return
    if not is_constant(cost):
        raise ValueError(
            f"{name} was first fitted for the constant cost {before}, "
            "so it cannot go on with a cost that varies by row: fit it afresh"
        )
    if streaming and cost != before:
        raise ValueError(f"partial_fit goes on at the cost of its first call, {before}, got {cost!r}")


@dataclass(frozen=True)
class PairMaker:
    """Makes members, and stacks of regressors and rejectors of one kind.

    Attributes
    ----------
    units : Units
    network : {"mlp", "linear"} or callable
    hidden : sequence of int
    device : str
    surrogate : str or Surrogate
    rates : sequence of float
    """

    units: Units
    network: Literal["mlp", "linear"] | NetworkFactory
    hidden: Sequence[int]
    device: str
    surrogate: str | Surrogate
    rates: Sequence[float]

    def members(self, seeds: Sequence[int], cost: Cost) -> list[Member]:
        """Every learning rate for every seed; the rates of one seed stand together."""
        constant = np.asarray(cost, dtype=np.float64) if is_constant(cost) else np.ones(())
        in_units = float(self.units.cost(constant))
        return [Member(seed, rate, in_units, self.surrogate) for seed in seeds for rate in self.rates]

    def new(self) -> Networks:
        """New networks; the rejectors also see the cost where it varies by row."""
        inputs = self.units.encoder.n_features
        return Networks(self.regressors(), self.of_inputs(inputs + (self.units.log_cost is not None)))

    def regressors(self) -> StackMaker:
        """From seeds to networks that see the features and predict every target."""
        return self.of_inputs(self.units.encoder.n_features, self.units.n_outputs)

    def of_inputs(self, inputs: int, outputs: int = 1) -> StackMaker:
        """From seeds to networks of so many inputs and outputs."""
        if callable(self.network):
            return partial(LoopedModules, inputs=inputs, factory=self.network, outputs=outputs, device=self.device)
        hidden = tuple(self.hidden) if self.network == "mlp" else ()
        return partial(StackedMLP, inputs=inputs, hidden=hidden, outputs=outputs, device=self.device)

    def again(self, regressor: Stack, rejector: Stack) -> Networks:
        """Go on from these networks, each of them once for each learning rate."""
        members = [member for member in range(len(regressor)) for _ in self.rates]

        def copies(stack: Stack) -> StackMaker:
            return lambda _: stack.to(torch.float32, self.device).take(members)

        return Networks(copies(regressor), copies(rejector))
