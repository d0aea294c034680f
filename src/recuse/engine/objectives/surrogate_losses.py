"""Surrogate losses of all members, each with its own surrogate."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from recuse import surrogates
from recuse.engine.members import Member
from recuse.surrogates import Surrogate

__all__ = ["SurrogateLosses"]


class SurrogateLosses:
    """The surrogates of all members, grouped so that each is evaluated once.

    Parameters
    ----------
    members : sequence of Member
    device : torch.device
    """

    def __init__(self, members: Sequence[Member], device: torch.device) -> None:
        names = list(dict.fromkeys(member.surrogate for member in members))
        places = [[i for i, member in enumerate(members) if member.surrogate == name] for name in names]
        self._groups = [
            (surrogates.get(name), torch.tensor(place, device=device))
            for name, place in zip(names, places, strict=True)
        ]

    def __call__(self, score: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return l(r,-1), l'(r,-1) and l'(r,+1), each (member, row), for scores r of shape (member, row)."""
        if len(self._groups) == 1:
            return _losses(self._groups[0][0], score)
        out = torch.empty_like(score), torch.empty_like(score), torch.empty_like(score)
        for surrogate, members in self._groups:
            for whole, part in zip(out, _losses(surrogate, score[members]), strict=True):
                whole[members] = part
        return out


def _losses(surrogate: Surrogate, score: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return surrogate(score)[0], *surrogate.derivative(score)
