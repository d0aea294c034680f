"""Public names of a package that are imported when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def lazy_names(package: str, sources: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the functions `__getattr__` and `__dir__` of a package (PEP 562), whose modules are names, too.

    Type checkers do not follow these names, so the package also imports them under ``if TYPE_CHECKING``.

    Parameters
    ----------
    package : str
        The name of the package.
    sources : mapping of str to str
        The module that defines each name.

    Returns
    -------
    get, list_names : callables

    Examples
    --------
    >>> get, list_names = lazy_names("recuse", {"by_cost": "recuse.guarantees.thresholds"})
    >>> get("guarantees").by_cost is get("by_cost")
    True
    >>> get("by_hand")
    Traceback (most recent call last):
    AttributeError: module 'recuse' has no attribute 'by_hand'
    """

    def get(name: str) -> Any:
        if name in sources:
            value = getattr(import_module(sources[name]), name)
            setattr(sys.modules[package], name, value)  # the next use finds it without this function
            return value
        if name.startswith("_") or find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return import_module(f"{package}.{name}")

    def list_names() -> list[str]:
        from pkgutil import iter_modules

        modules = [each.name for each in iter_modules(sys.modules[package].__path__)]
        return sorted({*vars(sys.modules[package]), *sources, *modules})

    return get, list_names
