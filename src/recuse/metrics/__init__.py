"""Measures of regression with rejection, curves, and a scorer for scikit-learn.

All measures are means over rows. The loss of a row is the squared error, unless `loss` names another of
`recuse.losses`. A mean over no rows, for example the accepted loss if every row is rejected, is NaN.
"""

from typing import TYPE_CHECKING

from recuse.lazy_names import lazy_names
from recuse.metrics.curves import area_under_risk_coverage, cost_curve, risk_coverage_curve
from recuse.metrics.measures import (
    DecisionLike,
    accepted_loss,
    evaluate,
    false_acceptance_rate,
    false_rejection_rate,
    rcr_loss,
    rcr_loss_rows,
    rejected_loss,
    rejection_rate,
    row_losses,
    squared_error,
)

if TYPE_CHECKING:
    from recuse.metrics.scorer import rcr_scorer
else:  # the scorer needs scikit-learn
    __getattr__, __dir__ = lazy_names(__name__, {"rcr_scorer": "recuse.metrics.scorer"})

__all__ = [
    "DecisionLike",
    "accepted_loss",
    "area_under_risk_coverage",
    "cost_curve",
    "evaluate",
    "false_acceptance_rate",
    "false_rejection_rate",
    "rcr_loss",
    "rcr_loss_rows",
    "rcr_scorer",
    "rejected_loss",
    "rejection_rate",
    "risk_coverage_curve",
    "row_losses",
    "squared_error",
]
