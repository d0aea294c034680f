"""Regression with rejection from images."""

from recuse.estimators.images.regressor import RcRImageRegressor

__all__ = ["RcRImageRegressor"]
