"""Binary losses of the rejector: their interface, the paper's five, and the registry of names."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Self, TypeAlias, TypeVar, final

import numpy as np
from joblib import wrap_non_picklable_objects

Scores = TypeVar("Scores")  # a numpy array or a torch tensor
PairFunction: TypeAlias = Callable[[Any], tuple[Any, Any]]  # from scores to two of the same kind

# Distance of the two scores whose losses give a slope.
_DIFFERENCE = 1e-5


def namespace(values: object) -> Any:
    """Return the module with the functions of the array API standard for some values: torch for tensors, else numpy.

    Examples
    --------
    >>> namespace(np.zeros(3)).__name__
    'numpy'
    """
    torch = sys.modules.get("torch")  # there are no tensors unless it is imported
    return torch if torch is not None and isinstance(values, torch.Tensor) else np


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
        Maps scores of any shape, as a numpy array or a torch tensor, to ``(l(r, -1), l(r, +1))``, each of the same
        kind and shape, element by element. Operators work for both, and `namespace` gives functions of the array API
        standard for either.
    analytic_derivative : callable, optional
        Maps scores to ``(dl(r, -1)/dr, dl(r, +1)/dr)``. By default differences of the loss in double precision.
    transfer : RegretTransfer, optional
        The proved regret transfer, if there is one.

    Examples
    --------
    >>> def squares(r):
    ...     xp = namespace(r)
    ...     return xp.clip(1 + r, 0, None) ** 2, xp.clip(1 - r, 0, None) ** 2
    >>> squared_hinge = Surrogate("squared_hinge", squares)
    >>> squared_hinge(np.array([0.0, 2.0]))
    (array([1., 9.]), array([1., 0.]))
    >>> [slope.round(6).tolist() for slope in squared_hinge.derivative(np.array([0.0, 2.0]))]
    [[2.0, 6.0], [-2.0, 0.0]]
    """

    name: str
    function: PairFunction
    analytic_derivative: PairFunction | None = None
    transfer: RegretTransfer | None = None

    def __call__(self, r: Any) -> tuple[Any, Any]:
        """Give (l(r, -1), l(r, +1)): the loss if label -1 is right, and the loss if label +1 is right."""
        return _as_pair(self.function, r, f"surrogate {self.name!r}")

    def derivative(self, r: Any) -> tuple[Any, Any]:
        """Give (dl(r, -1)/dr, dl(r, +1)/dr); at a kink, a slope between those on both sides."""
        if self.analytic_derivative is None:
            return self.differences(r)
        return _as_pair(self.analytic_derivative, r, f"derivative of surrogate {self.name!r}")

    def differences(self, r: Any) -> tuple[Any, Any]:
        """Give the slopes between scores just above and just below r."""
        xp = namespace(r)
        dtype, scores = xp.asarray(r).dtype, xp.asarray(r, dtype=xp.float64)
        above, below = self(scores + _DIFFERENCE), self(scores - _DIFFERENCE)
        slopes = ((high - low) / (2 * _DIFFERENCE) for high, low in zip(above, below, strict=True))
        accepted, rejected = (xp.asarray(slope, dtype=dtype) for slope in slopes)
        return accepted, rejected

    def __reduce__(self) -> tuple[Callable[[_Fields], Surrogate], tuple[_Fields]]:
        fields = (self.name, self.function, self.analytic_derivative, self.transfer)
        return _from_fields, (wrap_non_picklable_objects(fields, keep_wrapper=False),)  # stores lambdas by value

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # immutable


_Fields: TypeAlias = tuple[str, PairFunction, PairFunction | None, RegretTransfer | None]


def _from_fields(fields: _Fields) -> Surrogate:
    return Surrogate(*fields)


def _as_pair(function: PairFunction, r: Any, what: str) -> tuple[Any, Any]:
    tensors = namespace(r) is not np
    r = r if tensors else np.asarray(r)
    try:
        pair: object = function(r)
    except (AttributeError, RuntimeError, TypeError) as error:
        raise TypeError(
            f"{what} must take numpy arrays, to train the networks of tables, and torch tensors, for RejectionLoss, "
            f"but it fails for {'a tensor' if tensors else 'an array'}: {error}. "
            "Use operators and the functions of recuse.surrogates.namespace(r)"
        ) from error
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        found = f"{len(pair)} values" if isinstance(pair, tuple | list) else type(pair).__name__
        raise TypeError(f"{what} must return a pair (for label -1, for label +1), got {found}")
    for label, part in zip(("-1", "+1"), pair, strict=True):
        if not isinstance(part, namespace(r).Tensor if tensors else np.ndarray | np.generic):
            kind = "tensors for tensors" if tensors else "arrays for arrays"
            raise TypeError(f"{what} must return {kind}, got {type(part).__name__} for label {label}")
        if part.shape != r.shape:
            raise ValueError(
                f"{what} must keep the shape of the scores {tuple(r.shape)}, got {tuple(part.shape)} for label {label}"
            )
    accepted, rejected = pair
    return accepted, rejected


# softplus is linear from this score on; the difference, exp(-40), is below the precision of float64
_LINEAR_FROM = 40.0
_LARGEST_EXPONENT = 80.0  # its exponential is finite in single precision


def _mae(r: Any) -> tuple[Any, Any]:
    return abs(r + 1), abs(r - 1)


def _mae_derivative(r: Any) -> tuple[Any, Any]:
    xp = namespace(r)
    return xp.sign(r + 1), xp.sign(r - 1)


def _hinge(r: Any) -> tuple[Any, Any]:
    xp = namespace(r)
    return xp.clip(1 + r, 0, None), xp.clip(1 - r, 0, None)


def _hinge_derivative(r: Any) -> tuple[Any, Any]:
    xp = namespace(r)
    return xp.clip(xp.sign(r + 1), 0, None), xp.clip(xp.sign(r - 1), None, 0)


def _square(r: Any) -> tuple[Any, Any]:
    return (r + 1) ** 2, (r - 1) ** 2


def _square_derivative(r: Any) -> tuple[Any, Any]:
    return 2 * r + 2, 2 * r - 2


def _logistic(r: Any) -> tuple[Any, Any]:
    return _softplus(r), _softplus(-r)


def _softplus(r: Any) -> Any:
    xp = namespace(r)
    return xp.log1p(xp.exp(xp.clip(r, None, _LINEAR_FROM))) + xp.clip(r - _LINEAR_FROM, 0, None)


def _logistic_derivative(r: Any) -> tuple[Any, Any]:
    # the second is sigmoid(r) - 1, which in float32 cancels to 0 from r = 17 on
    return _logistic_function(r), -_logistic_function(-r)


def _logistic_function(r: Any) -> Any:
    xp = namespace(r)
    return 1 / (1 + xp.exp(xp.clip(-r, None, _LARGEST_EXPONENT)))


def _sigmoid(r: Any) -> tuple[Any, Any]:
    return _logistic_function(r), _logistic_function(-r)


def _sigmoid_derivative(r: Any) -> tuple[Any, Any]:
    slope = _logistic_function(r) * _logistic_function(-r)
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
    >>> get("mae")(np.array([0.5]))
    (array([1.5]), array([0.5]))
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
        Maps scores to ``(l(r, -1), l(r, +1))``, element by element; see `Surrogate`.
    derivative : callable, optional
        Maps scores to the two slopes. By default differences of the loss.
    overwrite : bool, default=False
        Replace the loss that is registered under this name, if there is one.

    Examples
    --------
    >>> register("exponential", lambda r: (namespace(r).exp(r), namespace(r).exp(-r)), overwrite=True).name
    'exponential'
    >>> get("exponential")(np.zeros(1))
    (array([1.]), array([1.]))
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
