"""Regression that knows when to step aside.

Say what a rejection costs; `recuse` learns what to predict and when to leave a row to somebody else.
"""

from recuse import calibration, costs, datasets, estimators, guarantees, losses, metrics, surrogates, theory
from recuse._version import __version__
from recuse.decision import Decision
from recuse.deep.loss import RejectionLoss
from recuse.deep.two_heads import TwoHeads
from recuse.estimators import AutoRejector, RcRImageRegressor, RcRRegressor, RiskRejector, SelectiveNetRegressor

__all__ = [
    "AutoRejector",
    "Decision",
    "RcRImageRegressor",
    "RcRRegressor",
    "RejectionLoss",
    "RiskRejector",
    "SelectiveNetRegressor",
    "TwoHeads",
    "__version__",
    "calibration",
    "costs",
    "datasets",
    "estimators",
    "guarantees",
    "losses",
    "metrics",
    "surrogates",
    "theory",
]
