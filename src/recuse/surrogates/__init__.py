"""Binary losses of the rejector, by name or from a function, and checks of their properties.

A module of this folder that calls `register` adds a loss.
"""

from importlib import import_module
from pkgutil import iter_modules

from recuse.surrogates.carried import CarriesSurrogates
from recuse.surrogates.check import SurrogateReport, check
from recuse.surrogates.losses import (
    PairFunction,
    RegretTransfer,
    Surrogate,
    SurrogateLike,
    get,
    names,
    namespace,
    register,
)

__all__ = [
    "CarriesSurrogates",
    "PairFunction",
    "RegretTransfer",
    "Surrogate",
    "SurrogateLike",
    "SurrogateReport",
    "check",
    "get",
    "names",
    "namespace",
    "register",
]

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
