"""Losses by name: a name, a `Surrogate` or a plain function in, a `Surrogate` out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, final

import torch
from torch import Tensor, sigmoid, sign
from torch.nn.functional import relu, softplus

__all__ = [
    "HINGE",
    "LOGISTIC",
    "MAE",
    "SIGMOID",
    "SQUARE",
    "LossPair",
    "PairFunction",
    "RegretTransfer",
    "Surrogate",
    "SurrogateLike",
    "get",
    "names",
    "register",
]

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


# softplus turns linear past this score; the step there, exp(-40), is below the precision of float64
_LINEAR_FROM = 40.0


def _mae(r: Tensor) -> LossPair:
    return (r + 1).abs(), (r - 1).abs()


def _mae_derivative(r: Tensor) -> LossPair:
    return sign(r + 1), sign(r - 1)


def _hinge(r: Tensor) -> LossPair:
    return relu(1 + r), relu(1 - r)


def _hinge_derivative(r: Tensor) -> LossPair:
    # a clamped sign: comparing and casting gives the same and takes more than twice the time
    return sign(r + 1).clamp_(min=0), sign(r - 1).clamp_(max=0)


def _square(r: Tensor) -> LossPair:
    return (r + 1).square(), (r - 1).square()


def _square_derivative(r: Tensor) -> LossPair:
    doubled = 2 * r
    return doubled + 2, doubled - 2


def _logistic(r: Tensor) -> LossPair:
    return softplus(r, threshold=_LINEAR_FROM), softplus(-r, threshold=_LINEAR_FROM)


def _logistic_derivative(r: Tensor) -> LossPair:
    # s(r) - 1 would do for the second, but cancels to 0 from r = 17 on in float32
    return sigmoid(r), sigmoid(-r).neg()


def _sigmoid(r: Tensor) -> LossPair:
    return sigmoid(r), sigmoid(-r)


def _sigmoid_derivative(r: Tensor) -> LossPair:
    slope = sigmoid(r) * sigmoid(-r)
    return slope, -slope


MAE = Surrogate("mae", _mae, _mae_derivative, RegretTransfer.IDENTITY)
HINGE = Surrogate("hinge", _hinge, _hinge_derivative, RegretTransfer.IDENTITY)
SQUARE = Surrogate("square", _square, _square_derivative, RegretTransfer.ROOT)
LOGISTIC = Surrogate("logistic", _logistic, _logistic_derivative, RegretTransfer.ROOT)
SIGMOID = Surrogate("sigmoid", _sigmoid, _sigmoid_derivative, RegretTransfer.DOUBLE)


SurrogateLike: TypeAlias = str | Surrogate | PairFunction

_REGISTRY = {surrogate.name: surrogate for surrogate in (MAE, HINGE, SQUARE, LOGISTIC, SIGMOID)}


def names() -> tuple[str, ...]:
    """List the known losses, the paper's five first.

    Examples
    --------
    >>> names()[:5]
    ('mae', 'hinge', 'square', 'logistic', 'sigmoid')
    """
    return tuple(_REGISTRY)


def get(surrogate: SurrogateLike) -> Surrogate:
    """Look a loss up, or wrap a function as one.

    Parameters
    ----------
    surrogate : str, Surrogate or callable
        A registered name, a `Surrogate` (returned as it is), or a function of the scores that returns
        ``(l(r, -1), l(r, +1))``.

    Examples
    --------
    >>> import torch
    >>> get("mae")(torch.tensor([0.5]))
    (tensor([1.5000]), tensor([0.5000]))
    """
    if isinstance(surrogate, Surrogate):
        return surrogate
    if isinstance(surrogate, str):
        return _by_name(surrogate)
    if not callable(surrogate):
        raise TypeError(f"surrogate must be a name, a Surrogate or a callable, got {surrogate!r}")
    return Surrogate(getattr(surrogate, "__name__", type(surrogate).__name__), surrogate)


def _by_name(name: str) -> Surrogate:
    if name not in _REGISTRY:
        raise ValueError(f"surrogate must be one of {', '.join(names())}, got {name!r}")
    return _REGISTRY[name]


def register(
    name: str, function: PairFunction, *, derivative: PairFunction | None = None, overwrite: bool = False
) -> Surrogate:
    """Make a loss known by name, and return it.

    Parameters
    ----------
    name : str
        The new name.
    function : callable
        Scores in, ``(l(r, -1), l(r, +1))`` out, element by element.
    derivative : callable, optional
        Scores in, the two slopes out. Automatic differentiation takes its place if omitted.
    overwrite : bool, default=False
        Whether the name may already be taken.

    Examples
    --------
    >>> import torch
    >>> register("exponential", lambda r: (torch.exp(r), torch.exp(-r)), overwrite=True).name
    'exponential'
    >>> get("exponential")(torch.zeros(1))
    (tensor([1.]), tensor([1.]))
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"name must be a non-empty string, got {name!r}")
    if not callable(function):
        raise TypeError(f"function must be callable, got {function!r}")
    if name in _REGISTRY and not overwrite:
        raise ValueError(f"name {name!r} is already taken; pass overwrite=True to replace it")
    _REGISTRY[name] = Surrogate(name, function, derivative)
    return _REGISTRY[name]
