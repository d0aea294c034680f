"""Regression that knows when to step aside.

Say what a rejection costs; `recuse` learns what to predict and when to leave a row to somebody else.
"""

from recuse import calibration, costs, datasets, estimators, metrics, surrogates, theory
from recuse._version import __version__
from recuse.decision import Decision
from recuse.estimators import RcRRegressor, RiskRejector, SelectiveNetRegressor

__all__ = [
    "Decision",
    "RcRRegressor",
    "RiskRejector",
    "SelectiveNetRegressor",
    "__version__",
    "calibration",
    "costs",
    "datasets",
    "estimators",
    "metrics",
    "surrogates",
    "theory",
]
