"""Counts and lists of names in words, for messages."""

from __future__ import annotations

from collections.abc import Sequence


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number with a noun.

    Examples
    --------
    >>> counted(1, "row"), counted(2500, "row")
    ('1 row', '2,500 rows')
    """
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def short(names: Sequence[str], most: int = 5) -> str:
    """Join names, the first few of many.

    Examples
    --------
    >>> short(["a", "b", "c"], most=2)
    'a, b and 1 more'
    """
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} more"
