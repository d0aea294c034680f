"""Import of optional dependencies, with an error that names the pip command."""

from __future__ import annotations

import importlib
from types import ModuleType


def import_extra(module: str, extra: str) -> ModuleType:
    """Import a module that only an extra of the package installs.

    Examples
    --------
    >>> import_extra("no_such_module", extra="plot")
    Traceback (most recent call last):
    ImportError: no_such_module is not installed; get it with: pip install 'recuse[plot]'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = (error.name or module).partition(".")[0]
        raise ImportError(f"{name} is not installed; get it with: pip install 'recuse[{extra}]'") from error
