"""Networks that choose an action, trained on the surrogate of the total cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from recuse.engine.batches import Table
from recuse.engine.loop import train_deferrers
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.plan import Plan
from recuse.engine.stack import Stack, outputs
from recuse.estimators.rate_search import best_trials, draw_seeds, report_diverged
from recuse.tabular.folds import folds_of
from recuse.tabular.rows import Rows
from recuse.tabular.units import moments

__all__ = ["ChoosingNetworks"]

Floats = NDArray[np.float64]

_RATE = 3e-3
_STEPS = 6_000  # of a training, about
_FLOOR = 1e-3  # of the mean fee; keeps the logarithm of a zero fee finite


@dataclass(frozen=True)
class ChoosingNetworks:
    """Networks with one score for each action.

    Attributes
    ----------
    stack : Stack
    fees : tuple of (int, float, float, float)
        For each expert whose fee varies: its place, and floor, mean and scale of the logarithm of its fee, which is an
        input of the networks.
    """

    stack: Stack
    fees: tuple[tuple[int, float, float, float], ...]

    @classmethod
    def learn(
        cls,
        rows: Rows,
        features: Floats,
        costs: Floats,
        fees: Floats,
        *,
        hidden: Sequence[int],
        epochs: int | None,
        n_members: int,
        random: np.random.RandomState,
    ) -> Self:
        """Train one network for each of `n_members` folds, whose validation rows are those of the fold.

        Parameters
        ----------
        rows : Rows
        features : ndarray of shape (row, feature)
        costs : ndarray of shape (row, action)
            Losses plus fees, not expected but observed ones where they are known.
        fees : ndarray of shape (row, expert)
        hidden, epochs, n_members
            As in `DeferralRegressor`.
        random : RandomState
        """
        varying = tuple(_log_scale(place, fee, rows.weight) for place, fee in enumerate(fees.T) if np.ptp(fee) > 0)
        inputs = _inputs(features, fees, varying)
        unit = float(np.average(costs.mean(axis=1), weights=rows.weight)) or 1.0
        batch = 256 if len(rows) < 20_000 else 1024
        plan = Plan(epochs=epochs or min(100, max(20, _STEPS * batch // len(rows))), batch_size=batch)
        no_marks = np.empty((len(rows), 0), np.int8)  # the folds are not those of a user's splitter
        splits = folds_of(replace(rows, part=no_marks), n_members, random)
        members = [Member(seed, _RATE, table=table) for table, seed in enumerate(draw_seeds(random, len(splits)))]
        whole = Table(_tensor(inputs), _tensor(costs / unit), _tensor(rows.weight))
        train, held_out = (_padded(whole, [split[part] for split in splits], members) for part in (0, 1))
        build = partial(StackedMLP, inputs=inputs.shape[1], hidden=tuple(hidden), outputs=costs.shape[1])
        trained = train_deferrers(train, held_out, members, build, plan)
        report_diverged(trained, members, 1, stacklevel=6)
        chosen = best_trials(trained.loss.cpu(), [_RATE])
        return cls(trained.regressor.take(chosen).to(torch.float64), varying)

    def shares(self, features: Floats, fees: Floats) -> Floats:
        """Return the softmax of the scores (row, action), as the mean over the networks."""
        scores = torch.as_tensor(outputs(self.stack, _inputs(features, fees, self.fees)))
        return np.asarray(torch.softmax(scores, dim=1).mean(dim=0).T.numpy())

    def costs(self, features: Floats, fees: Floats, total: Floats) -> Floats:
        """Return the costs (row, action) that the networks imply, given the sum over the actions (row,).

        At the minimum of the surrogate, the share of an action is the sum of the other costs over J times the sum of
        all, where J is the number of experts.
        """
        return np.asarray(total[:, None] * (1 - fees.shape[1] * self.shares(features, fees)))


def _log_scale(place: int, fee: Floats, weight: Floats) -> tuple[int, float, float, float]:
    floor = _FLOOR * float(fee.mean())
    mean, scale = moments(np.log(fee + floor), weight)
    return place, floor, mean, scale or 1.0


def _inputs(features: Floats, fees: Floats, varying: Sequence[tuple[int, float, float, float]]) -> Floats:
    logs = [(np.log(fees[:, place] + floor) - mean) / scale for place, floor, mean, scale in varying]
    return np.column_stack([features, *logs])


def _padded(table: Table, parts: Sequence[NDArray[np.intp]], members: Sequence[Member]) -> list[Table]:
    """Return the rows of each member's part, padded to the same number with rows of weight zero."""
    most = max(len(part) for part in parts)
    tables = [table.take(torch.as_tensor(part)).padded(most) for part in parts]
    return [replace(each, seed=member.seed) for each, member in zip(tables, members, strict=True)]


def _tensor(values: Floats) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32)
