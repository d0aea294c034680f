"""Losses by name: a name, a `Surrogate` or a plain function in, a `Surrogate` out."""

from typing import TypeAlias

from recuse.surrogates.losses import HINGE, LOGISTIC, MAE, SIGMOID, SQUARE
from recuse.surrogates.surrogate import PairFunction, Surrogate

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
