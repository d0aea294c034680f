"""The things a user fits."""

from recuse.estimators.base import RejectingRegressor
from recuse.estimators.joint import RcRRegressor

__all__ = ["RcRRegressor", "RejectingRegressor"]
