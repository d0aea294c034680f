"""The one rule the makers of data share: a count enters, the same count leaves, or a clear error."""

import numpy as np


def check_count(name: str, value: object, least: int) -> int:
    """Return `value` as an int, or raise a ValueError if it is not a whole number from `least` on.

    Examples
    --------
    >>> check_count("repeat", 3, least=0)
    3
    >>> check_count("repeat", -1, least=0)
    Traceback (most recent call last):
    ValueError: repeat must be an integer >= 0, got -1
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    return int(value)
