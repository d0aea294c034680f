"""The things a user fits."""

from recuse.estimators.auto import AutoRejector
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.cost_path import fit_costs
from recuse.estimators.images import RcRImageRegressor
from recuse.estimators.joint import RcRRegressor
from recuse.estimators.kernel import KernelAverage
from recuse.estimators.mlp import StackedMLPRegressor
from recuse.estimators.presets import knn_plug, mlp_plug, no_rejection
from recuse.estimators.risk import RiskRejector
from recuse.estimators.selective import SelectiveNetRegressor

__all__ = [
    "AutoRejector",
    "KernelAverage",
    "RcRImageRegressor",
    "RcRRegressor",
    "RejectingRegressor",
    "RiskRejector",
    "SelectiveNetRegressor",
    "StackedMLPRegressor",
    "fit_costs",
    "knn_plug",
    "mlp_plug",
    "no_rejection",
]
