"""AutoRejector: a cross-fitted blend of several regressors and risk models."""

from recuse.estimators.auto.estimator import AutoRejector

__all__ = ["AutoRejector"]
