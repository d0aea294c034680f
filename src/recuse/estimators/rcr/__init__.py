"""Regression with cost-based rejection by a surrogate loss: the joint training of the paper, and cross-fitting."""

from recuse.estimators.rcr.cv_regressor import RcRRegressorCV
from recuse.estimators.rcr.regressor import RcRRegressor, fit_costs

__all__ = ["RcRRegressor", "RcRRegressorCV", "fit_costs"]
