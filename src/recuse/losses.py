"""Losses of a prediction as functions of its residual h(x) - y, with their slopes.

The squared error is the default, and the paper's theorems assume it. The following holds for any loss L >= 0 of the
residual, with D(h) = E[L(h(x) - y) | x] instead of the conditional squared error:

- The best pair predicts h*(x), which minimises D, and accepts iff D(h*) < c(x). h* is the mean for the squared error,
  the median for the absolute error and the q-quantile for the pinball loss.
- The surrogate psi = L(h(x) - y) l(r, -1) + c l(r, +1) has the conditional risk D(h) l(r, -1) + c l(r, +1), which
  depends on the loss through D only. So if l is classification-calibrated, the r that minimises it accepts where
  D(h) < c and rejects where D(h) > c, for any h; and if l is positive everywhere, h* minimises it, for any r.

The paper's bound of the estimation error uses properties of the squared error and does not extend to other losses.

A cost is in the units of the loss: those of the squared target for the squared error and for Huber's loss, those
of the target itself for the absolute error and the pinball loss.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

__all__ = ["SQUARED", "Absolute", "Huber", "LossLike", "Pinball", "Squared", "TargetLoss", "get", "names"]

Values: TypeAlias = NDArray[Any]  # residuals, in single or double precision


class TargetLoss(ABC):
    """A loss of the residual e = h(x) - y, element by element.

    To define another loss, derive a frozen dataclass from this class, so that equal losses compare equal.

    Examples
    --------
    >>> import numpy as np
    >>> loss = get("absolute")
    >>> isinstance(loss, TargetLoss), loss.name, loss(np.array([-2.0, 1.0])).tolist()
    (True, 'absolute', [2.0, 1.0])
    """

    @abstractmethod
    def __call__(self, residual: Values) -> Values:
        """Return L(e) >= 0 of every residual."""

    @abstractmethod
    def slope(self, residual: Values, weight: Values | float = 1.0) -> Values:
        """Return dL/dh of every residual times its weight; at a kink, any slope between the one-sided slopes."""

    @abstractmethod
    def scaled(self, scale: float) -> TargetLoss:
        """Return the loss for a target in units of `scale`: ``L(scale * e) = unit(scale) * scaled(scale)(e)``."""

    @abstractmethod
    def unit(self, scale: float) -> float:
        """Return the value, in units of this loss, of one unit of ``scaled(scale)``."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name for `get` and for messages."""


@final
@dataclass(frozen=True)
class Squared(TargetLoss):
    """The squared error e^2; the best prediction is the mean.

    Examples
    --------
    >>> Squared()(np.array([-2.0, 1.0]))
    array([4., 1.])
    """

    def __call__(self, residual: Values) -> Values:
        """Return e^2."""
        return residual * residual

    def slope(self, residual: Values, weight: Values | float = 1.0) -> Values:
        """Return 2 e times the weight."""
        return residual * (2 * weight)

    def scaled(self, scale: float) -> Squared:
        """Return this loss, which does not depend on the scale."""
        return self

    def unit(self, scale: float) -> float:
        """Return the square of the scale."""
        return scale**2

    @property
    def name(self) -> str:
        """The name "squared"."""
        return "squared"


@final
@dataclass(frozen=True)
class Absolute(TargetLoss):
    """The absolute error ``|e|``; the best prediction is the median.

    Examples
    --------
    >>> Absolute()(np.array([-2.0, 1.0]))
    array([2., 1.])
    """

    def __call__(self, residual: Values) -> Values:
        """Return ``|e|``."""
        return np.abs(residual)

    def slope(self, residual: Values, weight: Values | float = 1.0) -> Values:
        """Return the sign of e times the weight; zero at zero."""
        return np.sign(residual) * weight

    def scaled(self, scale: float) -> Absolute:
        """Return this loss, which does not depend on the scale."""
        return self

    def unit(self, scale: float) -> float:
        """Return the scale."""
        return scale

    @property
    def name(self) -> str:
        """The name "absolute"."""
        return "absolute"


@final
@dataclass(frozen=True)
class Huber(TargetLoss):
    """Huber's loss: e^2 / 2 up to ``|e| = delta``, and linear beyond, with the same slope at delta.

    Parameters
    ----------
    delta : float, default=1.0
        In the units of the target.

    Examples
    --------
    >>> Huber(delta=1.0)(np.array([-0.5, 3.0]))
    array([0.125, 2.5  ])
    """

    delta: float = 1.0

    def __post_init__(self) -> None:
        if not (_is_number(self.delta) and 0 < self.delta < math.inf):
            raise ValueError(f"delta of Huber's loss must be a finite number > 0, got {self.delta!r}")

    def __call__(self, residual: Values) -> Values:
        """Return e^2 / 2, or ``delta |e| - delta^2 / 2`` beyond delta."""
        near = self._near(residual)
        return near * (residual - near / 2)

    def slope(self, residual: Values, weight: Values | float = 1.0) -> Values:
        """Return e, clipped to [-delta, delta], times the weight."""
        return self._near(residual) * weight

    def _near(self, residual: Values) -> Values:
        return residual.clip(-self.delta, self.delta)

    def scaled(self, scale: float) -> Huber:
        """Return Huber's loss whose delta is in units of the scale."""
        return Huber(self.delta / scale)

    def unit(self, scale: float) -> float:
        """Return the square of the scale."""
        return scale**2

    @property
    def name(self) -> str:
        """The name "huber:" and delta."""
        return f"huber:{float(self.delta)!r}"


@final
@dataclass(frozen=True)
class Pinball(TargetLoss):
    """The pinball loss: ``q |e|`` where the prediction is too low, ``(1 - q) |e|`` where it is too high.

    The best prediction is the q-quantile: too low with probability 1 - q.

    Parameters
    ----------
    quantile : float, default=0.5
        The q above, between 0 and 1; 0.5 gives half the absolute error.

    Examples
    --------
    >>> Pinball(quantile=0.75)(np.array([-2.0, 2.0]))
    array([1.5, 0.5])
    """

    quantile: float = 0.5

    def __post_init__(self) -> None:
        if not (_is_number(self.quantile) and 0 < self.quantile < 1):
            raise ValueError(f"quantile of the pinball loss must be between 0 and 1, got {self.quantile!r}")

    def __call__(self, residual: Values) -> Values:
        """Return ``q |e|`` below zero and ``(1 - q) |e|`` above."""
        return residual.clip(min=0) * (1 - self.quantile) + (-residual).clip(min=0) * self.quantile

    def slope(self, residual: Values, weight: Values | float = 1.0) -> Values:
        """Return -q below zero and 1 - q above, times the weight, and their mean at zero."""
        return (np.sign(residual) * 0.5 + (0.5 - self.quantile)) * weight

    def scaled(self, scale: float) -> Pinball:
        """Return this loss, which does not depend on the scale."""
        return self

    def unit(self, scale: float) -> float:
        """Return the scale."""
        return scale

    @property
    def name(self) -> str:
        """The name "pinball:" and the quantile."""
        return f"pinball:{float(self.quantile)!r}"


LossLike: TypeAlias = str | TargetLoss

SQUARED = Squared()

_BY_NAME: dict[str, type[Any]] = {"squared": Squared, "absolute": Absolute, "huber": Huber, "pinball": Pinball}
_WITH_PARAMETER = ("huber", "pinball")


def names() -> tuple[str, ...]:
    """List the known losses, the default first.

    Examples
    --------
    >>> names()
    ('squared', 'absolute', 'huber', 'pinball')
    """
    return tuple(_BY_NAME)


def get(loss: LossLike) -> TargetLoss:
    """Look up a loss.

    Parameters
    ----------
    loss : str or TargetLoss
        "squared", "absolute", "huber" or "pinball", the last two optionally with their parameter, as in "huber:1.35"
        and "pinball:0.9"; or a loss, which is returned as it is.

    Examples
    --------
    >>> get("pinball:0.9")
    Pinball(quantile=0.9)
    >>> get("absolute") == Absolute() == get(Absolute())
    True
    """
    if isinstance(loss, TargetLoss):
        return loss
    if not isinstance(loss, str):
        raise TypeError(f"loss must be a name or a TargetLoss, got {loss!r}")
    name, colon, number = loss.partition(":")
    if name not in _BY_NAME:
        raise ValueError(f"loss must be one of {', '.join(_BY_NAME)}, got {loss!r}")
    if not colon:
        return _create(name)
    if name not in _WITH_PARAMETER:
        raise ValueError(f"the {name} loss takes no number, got {loss!r}")
    return _create(name, _number(number, loss))


def _create(name: str, *numbers: float) -> TargetLoss:
    loss: TargetLoss = _BY_NAME[name](*numbers)
    return loss


def _number(text: str, loss: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"a loss must have a number after the colon, as in 'pinball:0.9', got {loss!r}") from error


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
