"""What a rejecting regressor is worth: targets, predictions, acceptances, costs -> numbers.

With a = accepted and e the loss of a row, all measures are means over rows. The loss is the squared error unless
another of `recuse.losses` is named; with several targets, (n_rows, n_outputs), it is the mean over them. A measure over
no rows at all (the accepted loss when everything was rejected, say) is NaN, never 0.
"""

from recuse.metrics.curves import area_under_risk_coverage, cost_curve, risk_coverage_curve
from recuse.metrics.measures import (
    accepted_loss,
    evaluate,
    false_acceptance_rate,
    false_rejection_rate,
    rcr_loss,
    rejected_loss,
    rejection_rate,
)
from recuse.metrics.rows import DecisionLike, rcr_loss_rows, row_losses, squared_error
from recuse.metrics.scorer import rcr_scorer

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
