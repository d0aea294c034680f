"""Binary losses of the rejector: a name or a function in, a `Surrogate` or a report on it out."""

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
