"""Description of the networks to train: seed, learning rate, cost, surrogate and table of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from recuse.surrogates import Surrogate

__all__ = ["Member", "costs_by_table", "count_tables"]


@dataclass(frozen=True)
class Member:
    """One pair (h, r) of regressor and rejector to train.

    Attributes
    ----------
    seed : int
        Determines the initial weights.
    learning_rate : float
    cost : float
        Cost of a rejection. Ignored where the table has a cost for every row.
    surrogate : str or Surrogate
    table : int
        Index of the table to train on.
    inputs, rejector_inputs : tuple of int, optional
        Inputs that the regressor and the rejector use; all by default.
    """

    seed: int
    learning_rate: float
    cost: float = 1.0
    surrogate: str | Surrogate = "mae"
    table: int = 0
    inputs: tuple[int, ...] | None = None
    rejector_inputs: tuple[int, ...] | None = None

    @property
    def rejector_seed(self) -> int:
        """Seed of the rejector, which has other initial weights than the regressor."""
        return (self.seed + 0x9E3779B9) % 2**32

    def start(self, *, with_rejector: bool = False) -> tuple[int, int, float, float | None]:
        """Return everything that the result of Slow-Start depends on: with a rejector, also the cost."""
        return self.table, self.seed, self.learning_rate, self.cost if with_rejector else None


def count_tables(members: Sequence[Member]) -> int:
    """Return the number of tables. Members must be ordered by table, with the same number for each."""
    tables = [member.table for member in members]
    count = max(tables) + 1
    if len(tables) % count or tables != [i * count // len(tables) for i in range(len(tables))]:
        raise ValueError(f"members must be ordered by table, with the same number for each table, got tables {tables}")
    return count


def costs_by_table(members: Sequence[Member], like: Tensor) -> Tensor:
    """Return the costs of the members as (table, member of the table, 1), of the type and device of a tensor."""
    costs = torch.tensor([member.cost for member in members]).to(like)
    return costs.view(count_tables(members), -1, 1)
