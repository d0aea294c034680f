"""Plots of decisions, costs, groups and trainings.

As in scikit-learn, a Display computes in ``from_*`` and draws in ``plot``. Then `ax_` has the axes and `figure_` the
figure.
"""

from recuse.displays.audits import DriftDisplay, GroupAuditDisplay
from recuse.displays.curves import (
    AcceptedLossDisplay,
    CostCurveDisplay,
    LossCalibrationDisplay,
    MoneySavedDisplay,
    RiskCoverageDisplay,
)
from recuse.displays.maps import RejectionMapDisplay
from recuse.displays.style import PALETTE
from recuse.displays.training import TrainingCurveDisplay

__all__ = [
    "PALETTE",
    "AcceptedLossDisplay",
    "CostCurveDisplay",
    "DriftDisplay",
    "GroupAuditDisplay",
    "LossCalibrationDisplay",
    "MoneySavedDisplay",
    "RejectionMapDisplay",
    "RiskCoverageDisplay",
    "TrainingCurveDisplay",
]
