"""Online training of regressors and rejectors, for `partial_fit`."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from torch import Tensor

from recuse.engine.batches import Batches, Table
from recuse.engine.loop import run_epochs
from recuse.engine.members import Member
from recuse.engine.objectives.pairs import Pairs, Regressors
from recuse.engine.plan import Networks
from recuse.engine.stack import Stack, threads_for
from recuse.estimators.rate_search import RandomStateLike, best_trials, draw_seeds, member_seeds
from recuse.estimators.rcr.joint import JointTraining, joint_rule
from recuse.estimators.rcr.networks import Aim, make_members
from recuse.losses import SQUARED, TargetLoss
from recuse.rules.networks import CostGrid, RcRRule
from recuse.tabular.units import Units

__all__ = ["OnlineTraining", "online_seeds"]

_DECAY = 0.9  # weight of the earlier losses in the running loss


class OnlineTraining:
    """Pairs of regressor and rejector that are evaluated on each new table and then trained on it for one epoch.

    On the first table they are evaluated after training, since before it the networks of all learning rates are equal.

    Parameters
    ----------
    members : sequence of Member
        One for every seed and learning rate, ordered by seed.
    networks : Networks
    rates : sequence of float
    slow_start : int
        Number of tables on which only the regressors are trained.
    loss : TargetLoss
        Loss of a prediction, in the units of the tables.

    Attributes
    ----------
    loss : Tensor of shape (member,)
        Running RcR loss, by which the learning rate is chosen.
    calls : int
        Number of tables so far.
    """

    def __init__(
        self,
        members: Sequence[Member],
        networks: Networks,
        rates: Sequence[float],
        slow_start: int,
        loss: TargetLoss = SQUARED,
    ) -> None:
        self.calls, self.rates, self.slow_start, self.loss = 0, rates, slow_start, torch.zeros(len(members))
        regressors = Regressors(members, networks.regressors([m.seed for m in members]), loss)
        self._pairs = Pairs(regressors, networks.rejectors([m.rejector_seed for m in members]))

    @classmethod
    def start(
        cls, training: JointTraining, units: Units, aim: Aim, seeds: Sequence[int], slow_start: int | Literal["auto"]
    ) -> OnlineTraining:
        """Start with the networks of a joint training."""
        if slow_start == "auto":
            raise ValueError("slow_start must be an int for partial_fit, which has no validation rows, got 'auto'")
        members = make_members(units, aim, seeds, training.rates)
        return cls(members, training.networks(units), training.rates, slow_start, units.engine_loss)

    @property
    def chosen_rates(self) -> list[float]:
        """The best learning rate of each member."""
        return [self.rates[trial % len(self.rates)] for trial in best_trials(self.loss, self.rates)]

    def loss_in(self, units: Units) -> float:
        """Return the mean loss of the chosen members, in the user's units."""
        return float(units.loss(self.loss[best_trials(self.loss, self.rates)].double().numpy()).mean())

    def best_rule(self, units: Units, cost: NDArray[np.float64], seen: CostGrid | None) -> RcRRule:
        """Return the members of the best learning rates, for the costs of the last rows and of the grid `seen`."""
        grid = CostGrid.of(cost) if seen is None else seen.extended(cost)
        chosen = best_trials(self.loss, self.rates)
        return joint_rule(units, self.regressor, self.rejector, chosen, None if units.log_cost is None else grid)

    def trained_on(self, table: Table, batch_size: int) -> OnlineTraining:
        """Return a copy that is evaluated on the table and then trained on it; this object does not change.

        Parameters
        ----------
        table : Table
        batch_size : int
        """
        after = copy.deepcopy(self)
        after._learn(table, batch_size)
        return after

    def _learn(self, table: Table, batch_size: int) -> None:
        batches = Batches([table], self.regressor.parameters.device)
        rows = min(batch_size, batches.rows)
        with threads_for(self._pairs.stacks, rows):
            if self.calls > 0:
                self.loss = _DECAY * self.loss + (1 - _DECAY) * self._measure(batches)
            run_epochs(
                self._pairs.regressors if self.calls < self.slow_start else self._pairs,
                lambda _: batches.shuffled(batch_size, 0, self.calls),
                epochs=1,
                batch_rows=rows,
            )
            if self.calls == 0:
                self.loss = self._measure(batches)
        self.calls += 1
        for stack in self._pairs.stacks:
            stack.end_training()

    def _measure(self, batches: Batches) -> Tensor:
        loss: Tensor = self._pairs.validate(batches).cpu()
        return loss.nan_to_num(nan=torch.inf)  # so that a diverged member never has the lowest loss

    @property
    def regressor(self) -> Stack:
        """The current regressors."""
        return self._pairs.regressors.stack

    @property
    def rejector(self) -> Stack:
        """The current rejectors."""
        return self._pairs.rejector


def online_seeds(random_state: RandomStateLike, n_members: int) -> list[int]:
    """Return the seed of each member; a sequence is used as it is."""
    if isinstance(random_state, Sequence | np.ndarray):
        return member_seeds(random_state, n_members)[1]
    return draw_seeds(check_random_state(random_state), n_members)
