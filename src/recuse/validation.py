"""Checks of parameters, with errors that state the rule and the value."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any


def require(holds: bool, name: str, rule: str, value: object) -> None:
    """Raise a ValueError unless the rule holds.

    Examples
    --------
    >>> require(False, "epochs", "an int >= 1", 0)
    Traceback (most recent call last):
    ValueError: epochs must be an int >= 1, got 0
    """
    if not holds:
        raise ValueError(f"{name} must be {rule}, got {value!r}")


def is_count(value: Any, least: int = 1) -> bool:
    """Whether a value is an int of at least `least`.

    Examples
    --------
    >>> is_count(3), is_count(0), is_count(2.0), is_count(True)
    (True, False, False, False)
    """
    if isinstance(value, bool):
        return False
    return isinstance(value, Integral) and int(value) >= least


def is_rate(value: Any) -> bool:
    """Whether a value is a finite number above 0.

    Examples
    --------
    >>> is_rate(0.1), is_rate(0.0), is_rate(float("inf"))
    (True, False, False)
    """
    return isinstance(value, Real) and 0 < float(value) < math.inf


def check_count(name: str, value: Any, least: int) -> int:
    """Return `value` as an int, or raise a ValueError if it is not an integer of at least `least`.

    Examples
    --------
    >>> check_count("repeat", 3, least=0)
    3
    >>> check_count("repeat", -1, least=0)
    Traceback (most recent call last):
    ValueError: repeat must be an integer >= 0, got -1
    """
    require(is_count(value, least), name, f"an integer >= {least}", value)
    return int(value)
