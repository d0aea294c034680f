"""One binary loss: scores r in, the pair (l(r, -1), l(r, +1)) or its slopes out."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, final

import torch
from torch import Tensor

LossPair: TypeAlias = tuple[Tensor, Tensor]
PairFunction: TypeAlias = Callable[[Tensor], LossPair]


class RegretTransfer(StrEnum):
    """The proved forms of xi in: target regret <= xi(surrogate regret u)."""

    IDENTITY = "u"
    DOUBLE = "2u"
    ROOT = "max(2u, 2 sqrt((M + C) u))"


@final
@dataclass(frozen=True)
class Surrogate:
    """A binary loss l(r, z) that stands in for the accept-or-reject step of the RcR loss.

    The training loss built from it is psi = (h - y)^2 l(r, -1) + c l(r, +1): the first entry of the pair
    weighs the squared error, the second the cost.

    Parameters
    ----------
    name : str
        What messages and reports call the loss.
    function : callable
        Maps scores of any shape, dtype and device to ``(l(r, -1), l(r, +1))``, each of the same shape,
        element by element.
    analytic_derivative : callable, optional
        Maps scores to ``(dl(r, -1)/dr, dl(r, +1)/dr)``. Automatic differentiation takes its place if omitted.
    transfer : RegretTransfer, optional
        The proved regret transfer, if there is one.

    Examples
    --------
    >>> import torch
    >>> squared_hinge = Surrogate("squared_hinge", lambda r: ((1 + r).relu() ** 2, (1 - r).relu() ** 2))
    >>> squared_hinge(torch.tensor([0.0, 2.0]))
    (tensor([1., 9.]), tensor([1., 0.]))
    >>> squared_hinge.derivative(torch.tensor([0.0, 2.0]))
    (tensor([2., 6.]), tensor([-2., -0.]))
    """

    name: str
    function: PairFunction
    analytic_derivative: PairFunction | None = None
    transfer: RegretTransfer | None = None

    def __call__(self, r: Tensor) -> LossPair:
        """Give (l(r, -1), l(r, +1)): the loss if r accepts wrongly, the loss if it rejects wrongly."""
        return _as_pair(self.function(r), r, f"surrogate {self.name!r}")

    def derivative(self, r: Tensor) -> LossPair:
        """Give (dl(r, -1)/dr, dl(r, +1)/dr), with torch's choice of subgradient at a kink."""
        if self.analytic_derivative is None:
            return self.autograd_derivative(r)
        return _as_pair(self.analytic_derivative(r), r, f"derivative of surrogate {self.name!r}")

    def autograd_derivative(self, r: Tensor) -> LossPair:
        """Differentiate the loss itself, also under ``torch.no_grad`` and ``torch.inference_mode``."""
        # the clone leaves inference mode: an inference tensor can never require a gradient
        with torch.inference_mode(False), torch.enable_grad():
            scores = r.detach().clone().requires_grad_()
            accepted, rejected = self(scores)
            return _slope(accepted, scores), _slope(rejected, scores)


def _slope(loss: Tensor, scores: Tensor) -> Tensor:
    if not loss.requires_grad:  # a constant loss leaves no graph behind
        return torch.zeros_like(scores)
    # element i of the loss depends on score i alone, so the gradient of the sum holds every slope
    (slope,) = torch.autograd.grad(loss.sum(), scores, retain_graph=True, allow_unused=True, materialize_grads=True)
    return slope


def _as_pair(pair: object, r: Tensor, what: str) -> LossPair:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        found = f"{len(pair)} values" if isinstance(pair, tuple | list) else type(pair).__name__
        raise TypeError(f"{what} must return a pair of tensors (for label -1, for label +1), got {found}")
    for label, part in zip(("-1", "+1"), pair, strict=True):
        if not isinstance(part, Tensor):
            raise TypeError(f"{what} must return tensors, got {type(part).__name__} for label {label}")
        if part.shape != r.shape:
            raise ValueError(
                f"{what} must keep the shape of the scores {tuple(r.shape)}, got {tuple(part.shape)} for label {label}"
            )
    accepted, rejected = pair
    return accepted, rejected
