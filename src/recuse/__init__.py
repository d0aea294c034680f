"""Regression that knows when to step aside.

Say what a rejection costs; `recuse` learns what to predict and when to leave a row to somebody else.

Names and modules are imported when they are first used. So a process that only applies decisions needs neither torch
nor scikit-learn.
"""

from typing import TYPE_CHECKING

from recuse._version import __version__
from recuse.lazy_names import lazy_names

# A public name belongs in three places: the imports for type checkers, the module that defines it, and `__all__`,
# unless it needs an extra: then it is not in `__all__`, so that ``from recuse import *`` works without the extra.
if TYPE_CHECKING:
    from recuse import (
        audit,
        costs,
        datasets,
        displays,
        estimators,
        guarantees,
        losses,
        metrics,
        model_file,
        report,
        serving,
        surrogates,
        theory,
    )
    from recuse.decision import Decision
    from recuse.deep.loss import RejectionLoss as RejectionLoss
    from recuse.deep.two_heads import TwoHeads as TwoHeads
    from recuse.estimators import (
        AutoRejector,
        DeferralRegressor,
        RcRRegressor,
        RcRRegressorCV,
        RiskRejector,
        SelectiveNetRegressor,
    )
    from recuse.images import RcRImageRegressor as RcRImageRegressor
    from recuse.model_file import ServedModel, load, save
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "AutoRejector": "recuse.estimators",
            "Decision": "recuse.decision",
            "DeferralRegressor": "recuse.estimators",
            "RcRImageRegressor": "recuse.images",
            "RcRRegressor": "recuse.estimators",
            "RcRRegressorCV": "recuse.estimators",
            "RejectionLoss": "recuse.deep.loss",
            "RiskRejector": "recuse.estimators",
            "SelectiveNetRegressor": "recuse.estimators",
            "ServedModel": "recuse.model_file",
            "TwoHeads": "recuse.deep.two_heads",
            "load": "recuse.model_file",
            "save": "recuse.model_file",
        },
    )

__all__ = [
    "AutoRejector",
    "Decision",
    "DeferralRegressor",
    "RcRRegressor",
    "RcRRegressorCV",
    "RiskRejector",
    "SelectiveNetRegressor",
    "ServedModel",
    "__version__",
    "audit",
    "costs",
    "datasets",
    "displays",
    "estimators",
    "guarantees",
    "load",
    "losses",
    "metrics",
    "model_file",
    "report",
    "save",
    "serving",
    "surrogates",
    "theory",
]
