"""Binary losses of the rejector: a name or a function in, a `Surrogate` or a report on it out."""

from recuse.surrogates.checks import check
from recuse.surrogates.registry import SurrogateLike, get, names, register
from recuse.surrogates.report import SurrogateReport
from recuse.surrogates.surrogate import LossPair, PairFunction, RegretTransfer, Surrogate

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
