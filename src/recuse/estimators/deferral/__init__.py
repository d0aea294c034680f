"""Deferral of rows to several experts, each with a fee and a capacity."""

from recuse.estimators.deferral.decision import DeferralDecision
from recuse.estimators.deferral.experts import Expert
from recuse.estimators.deferral.regressor import DeferralRegressor

__all__ = ["DeferralDecision", "DeferralRegressor", "Expert"]
