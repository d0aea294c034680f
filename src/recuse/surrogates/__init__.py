"""Binary losses of the rejector, by name or from a function, and checks of their properties."""

from recuse.surrogates.carried import CarriesSurrogates
from recuse.surrogates.check import SurrogateReport, check
from recuse.surrogates.losses import (
    LossPair,
    PairFunction,
    RegretTransfer,
    Surrogate,
    SurrogateLike,
    get,
    names,
    register,
)

__all__ = [
    "CarriesSurrogates",
    "LossPair",
    "PairFunction",
    "RegretTransfer",
    "Surrogate",
    "SurrogateLike",
    "SurrogateReport",
    "check",
    "get",
    "names",
    "register",
]
