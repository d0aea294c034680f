"""Networks and ensemble members of RcRRegressor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import torch

from recuse.costs import is_constant
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.plan import Networks
from recuse.engine.stack import Stack
from recuse.engine.user_modules import LoopedModules, NetworkFactory
from recuse.surrogates import SurrogateLike, get
from recuse.tabular.units import Units

__all__ = ["Aim", "NetworkMaker", "make_members"]

StackMaker = Callable[[Sequence[int]], Stack]


@dataclass(frozen=True)
class Aim:
    """The cost and the surrogate that a rejector is trained for.

    Attributes
    ----------
    cost : float or None
        Cost in the user's units; None if it varies by row or over a range.
    surrogate : str, Surrogate or callable
    """

    cost: float | None
    surrogate: SurrogateLike

    @classmethod
    def of(cls, cost: Any, surrogate: SurrogateLike) -> Self:
        """Return the aim at a cost in any form."""
        return cls(float(cost) if is_constant(cost) else None, surrogate)


def make_members(
    units: Units,
    aim: Aim,
    seeds: Sequence[int],
    rates: Sequence[float],
    table: int = 0,
    inputs: tuple[int, ...] | None = None,
    rejector_inputs: tuple[int, ...] | None = None,
) -> list[Member]:
    """Make one member for every seed and learning rate, ordered by seed, to train on one table."""
    cost = 1.0 if aim.cost is None else float(units.cost(np.array(aim.cost)))
    surrogate = aim.surrogate if isinstance(aim.surrogate, str) else get(aim.surrogate)
    return [Member(seed, rate, cost, surrogate, table, inputs, rejector_inputs) for seed in seeds for rate in rates]


@dataclass(frozen=True)
class NetworkMaker:
    """Makes stacks of networks of one kind.

    Attributes
    ----------
    network : {"mlp", "linear"} or callable
    hidden : sequence of int
        Widths of the hidden layers of "mlp".
    device : str
    """

    network: Literal["mlp", "linear"] | NetworkFactory
    hidden: Sequence[int]
    device: str

    def stacks(self, inputs: int, outputs: int = 1) -> StackMaker:
        """Return a function from seeds to a stack of networks with these numbers of inputs and outputs."""
        if callable(self.network):
            return partial(LoopedModules, inputs=inputs, factory=self.network, outputs=outputs, device=self.device)
        hidden = tuple(self.hidden) if self.network == "mlp" else ()
        return partial(StackedMLP, inputs=inputs, hidden=hidden, outputs=outputs, device=self.device)

    def regressors(self, units: Units) -> StackMaker:
        """Return a function from seeds to networks that predict every target from the features."""
        return self.stacks(units.encoder.n_features, units.n_outputs)

    def pairs(self, units: Units) -> Networks:
        """Return new regressors and rejectors; a cost that varies by row is an input of the rejectors."""
        return Networks(self.regressors(units), self.stacks(units.encoder.n_features + (units.log_cost is not None)))

    def copies(self, regressor: Stack, rejector: Stack, n_rates: int) -> Networks:
        """Return copies of trained networks, one for each learning rate."""
        members = [member for member in range(len(regressor)) for _ in range(n_rates)]

        def copied(stack: Stack) -> StackMaker:
            return lambda _: stack.to(torch.float32, self.device).take(members)

        return Networks(copied(regressor), copied(rejector))
