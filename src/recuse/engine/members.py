"""Description of the networks to train: seed, learning rate, cost, surrogate and table of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recuse import surrogates
from recuse.engine.stack import Array
from recuse.surrogates import Surrogate


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
    """

    seed: int
    learning_rate: float
    cost: float = 1.0
    surrogate: str | Surrogate = "mae"
    table: int = 0

    @property
    def rejector_seed(self) -> int:
        """Seed of the rejector, which has other initial weights than the regressor."""
        return (self.seed + 0x9E3779B9) % 2**32


def count_tables(members: Sequence[Member]) -> int:
    """Return the number of tables. Members must be ordered by table, with the same number for each."""
    tables = [member.table for member in members]
    count = max(tables) + 1
    if len(tables) % count or tables != [i * count // len(tables) for i in range(len(tables))]:
        raise ValueError(f"members must be ordered by table, with the same number for each table, got tables {tables}")
    return count


def costs_by_table(members: Sequence[Member]) -> Array:
    """Return the costs of the members as (table, member of the table, 1)."""
    return np.array([member.cost for member in members], np.float32).reshape(count_tables(members), -1, 1)


class SurrogateLosses:
    """The surrogates of all members, grouped so that each is evaluated once."""

    def __init__(self, members: Sequence[Member]) -> None:
        names = list(dict.fromkeys(member.surrogate for member in members))
        places = [[i for i, member in enumerate(members) if member.surrogate == name] for name in names]
        self._groups = [(surrogates.get(name), place) for name, place in zip(names, places, strict=True)]

    def __call__(self, score: Array) -> tuple[Array, Array, Array]:
        """Return l(r,-1), l'(r,-1) and l'(r,+1), each of the shape of the scores r, (table, member, row)."""
        if len(self._groups) == 1:
            return _losses(self._groups[0][0], score)
        flat = score.reshape(-1, score.shape[-1])
        out = np.empty((3, *flat.shape), score.dtype)
        for surrogate, members in self._groups:
            out[:, members] = _losses(surrogate, flat[members])
        accept, d_accept, d_reject = out.reshape(3, *score.shape)
        return accept, d_accept, d_reject


def _losses(surrogate: Surrogate, score: Array) -> tuple[Array, Array, Array]:
    return surrogate(score)[0], *surrogate.derivative(score)
