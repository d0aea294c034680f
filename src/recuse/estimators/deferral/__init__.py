"""Deferral of rows to several experts, each with a fee and a capacity."""

from recuse.estimators.deferral.regressor import DeferralRegressor

__all__ = ["DeferralRegressor"]
