"""Binary losses of the rejector: their interface, the paper's five, and the registry of names."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Self, TypeAlias, final

import torch
from joblib import wrap_non_picklable_objects
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
    """The proved forms of xi in: target regret <= xi(surrogate regret u).

    Examples
    --------
    >>> get("square").transfer is RegretTransfer.ROOT
    True
    """

    IDENTITY = "u"
    DOUBLE = "2u"
    ROOT = "max(2u, 2 sqrt((M + C) u))"


@final
@dataclass(frozen=True)
class Surrogate:
    """A binary loss l(r, z) that replaces the accept-or-reject step of the RcR loss.

    The training loss built from it is psi = (h - y)^2 l(r, -1) + c l(r, +1): the first entry of the pair
    weights the squared error, the second the cost. It can be pickled, also if its functions are lambdas.

    Parameters
    ----------
    name : str
        Name of the loss in messages and reports.
    function : callable
        Maps scores of any shape, dtype and device to ``(l(r, -1), l(r, +1))``, each of the same shape,
        element by element.
    analytic_derivative : callable, optional
        Maps scores to ``(dl(r, -1)/dr, dl(r, +1)/dr)``. By default automatic differentiation computes them.
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
        """Give (l(r, -1), l(r, +1)): the loss if label -1 is right, and the loss if label +1 is right."""
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

    def __reduce__(self) -> tuple[Callable[[_Fields], Surrogate], tuple[_Fields]]:
        fields = (self.name, self.function, self.analytic_derivative, self.transfer)
        return _from_fields, (wrap_non_picklable_objects(fields, keep_wrapper=False),)  # stores lambdas by value

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # immutable


_Fields: TypeAlias = tuple[str, PairFunction, PairFunction | None, RegretTransfer | None]


def _from_fields(fields: _Fields) -> Surrogate:
    return Surrogate(*fields)


def _slope(loss: Tensor, scores: Tensor) -> Tensor:
    if not loss.requires_grad:  # a constant loss has no graph
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


# softplus is linear from this score on; the difference, exp(-40), is below the precision of float64
_LINEAR_FROM = 40.0


def _mae(r: Tensor) -> LossPair:
    return (r + 1).abs(), (r - 1).abs()


def _mae_derivative(r: Tensor) -> LossPair:
    return sign(r + 1), sign(r - 1)


def _hinge(r: Tensor) -> LossPair:
    return relu(1 + r), relu(1 - r)


def _hinge_derivative(r: Tensor) -> LossPair:
    # a clamped sign is more than twice as fast as comparing and casting
    return sign(r + 1).clamp_(min=0), sign(r - 1).clamp_(max=0)


def _square(r: Tensor) -> LossPair:
    return (r + 1).square(), (r - 1).square()


def _square_derivative(r: Tensor) -> LossPair:
    doubled = 2 * r
    return doubled + 2, doubled - 2


def _logistic(r: Tensor) -> LossPair:
    return softplus(r, threshold=_LINEAR_FROM), softplus(-r, threshold=_LINEAR_FROM)


def _logistic_derivative(r: Tensor) -> LossPair:
    # the second is sigmoid(r) - 1, which in float32 cancels to 0 from r = 17 on
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

_PAPER = {surrogate.name: surrogate for surrogate in (MAE, HINGE, SQUARE, LOGISTIC, SIGMOID)}
_REGISTRY = dict(_PAPER)
_RECEIVED: dict[str, bytes] = {}  # pickled losses from unpickled estimators


def names() -> tuple[str, ...]:
    """List the known losses, the paper's five first.

    Examples
    --------
    >>> names()[:5]
    ('mae', 'hinge', 'square', 'logistic', 'sigmoid')
    """
    return (*_REGISTRY, *(name for name in _RECEIVED if name not in _REGISTRY))


def get(surrogate: SurrogateLike) -> Surrogate:
    """Look up a loss by name, or wrap a function as a `Surrogate`.

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
    if name in _REGISTRY:
        return _REGISTRY[name]
    if name not in _RECEIVED:
        raise ValueError(f"surrogate must be one of {', '.join(names())}, got {name!r}")
    try:
        return _restored(_RECEIVED[name])
    except Exception as error:  # unpickling calls the user's code, which may raise anything
        raise ValueError(f"surrogate {name!r} came with a pickled estimator and cannot be restored: {error}") from error


@lru_cache(maxsize=64)
def _restored(pickled: bytes) -> Surrogate:
    surrogate: Surrogate = pickle.loads(pickled)
    return surrogate


def register(
    name: str, function: PairFunction, *, derivative: PairFunction | None = None, overwrite: bool = False
) -> Surrogate:
    """Register a loss under a name, and return it.

    The pickle of an estimator that uses the name contains the loss, so that the worker processes of a grid search can
    use it.

    Parameters
    ----------
    name : str
        A new name; the names of the paper's five losses are fixed.
    function : callable
        Maps scores to ``(l(r, -1), l(r, +1))``, element by element.
    derivative : callable, optional
        Maps scores to the two slopes. By default automatic differentiation computes them.
    overwrite : bool, default=False
        Replace the loss that is registered under this name, if there is one.

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
    if name in _PAPER:
        raise ValueError(f"name must not be that of one of the paper's losses ({', '.join(_PAPER)}), got {name!r}")
    if name in _REGISTRY and not overwrite:
        raise ValueError(f"name {name!r} is already taken; pass overwrite=True to replace it")
    _REGISTRY[name] = Surrogate(name, function, derivative)
    return _REGISTRY[name]


def registered() -> tuple[str, ...]:
    """List the names of the losses that are not the paper's.

    Examples
    --------
    >>> "mae" in registered()
    False
    """
    return tuple(name for name in names() if name not in _PAPER)


def receive(name: str, pickled: bytes) -> None:
    """Keep a pickled loss of another process under its name; a loss that this process registers takes precedence.

    A loss that is received later replaces an earlier one of the same name. The loss is unpickled when it is first used.
    """
    _RECEIVED[name] = pickled
