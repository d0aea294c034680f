"""Public names of a package that are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def lazy_names(
    package: str, sources: Mapping[str, str], modules: Iterable[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package (PEP 562).

    Type checkers do not follow these names, so the package also imports them under ``if TYPE_CHECKING``.

    Parameters
    ----------
    package : str
        The name of the package.
    sources : mapping of str to str
        The module that defines each name.
    modules : iterable of str
        Modules of the package, which are imported as they are.

    Returns
    -------
    get, list_names : callables

    Examples
    --------
    >>> get, list_names = lazy_names("recuse", {"by_cost": "recuse.guarantees.thresholds"}, ["guarantees"])
    >>> get("guarantees").by_cost is get("by_cost")
    True
    >>> get("by_hand")
    Traceback (most recent call last):
    AttributeError: module 'recuse' has no attribute 'by_hand'
    """
    submodules = frozenset(modules)

    def get(name: str) -> Any:
        if name in submodules:
            return importlib.import_module(f"{package}.{name}")
        if name not in sources:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(sources[name]), name)
        setattr(sys.modules[package], name, value)  # the next use finds it without this function
        return value

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *sources, *submodules})

    return get, list_names
