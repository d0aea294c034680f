"""Regressors with a reject option, presets of published methods, and a regressor without rejection."""

from recuse.estimators.auto import AutoRejector
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.composition import cross_val_decide, decide, expected_loss
from recuse.estimators.deferral import DeferralRegressor
from recuse.estimators.mlp import StackedMLPRegressor
from recuse.estimators.rcr import RcRRegressor, RcRRegressorCV, fit_costs
from recuse.estimators.risk.presets import KernelAverage, knn_plug, mlp_plug, no_rejection
from recuse.estimators.risk.rejector import RiskRejector
from recuse.estimators.selectivenet.regressor import SelectiveNetRegressor
from recuse.experts.decision import DeferralDecision
from recuse.experts.expert import Expert

__all__ = [
    "AutoRejector",
    "DeferralDecision",
    "DeferralRegressor",
    "Expert",
    "KernelAverage",
    "RcRRegressor",
    "RcRRegressorCV",
    "RejectingRegressor",
    "RiskRejector",
    "SelectiveNetRegressor",
    "StackedMLPRegressor",
    "cross_val_decide",
    "decide",
    "expected_loss",
    "fit_costs",
    "knn_plug",
    "mlp_plug",
    "no_rejection",
]
