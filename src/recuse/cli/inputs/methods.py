"""The methods and presets of `recuse fit`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from recuse.usage_errors import UsageError

__all__ = ["Method", "Preset", "Settings", "build", "check_settings"]


class Method(StrEnum):
    """The values of --method."""

    AUTO = "auto"
    RCR = "rcr"
    RCR_CROSSFIT = "rcr-crossfit"
    RISK = "risk"
    SELECTIVENET = "selectivenet"
    KNN_PLUG = "knn-plug"
    MLP_PLUG = "mlp-plug"
    NO_REJECTION = "no-rejection"


class Preset(StrEnum):
    """The values of --preset."""

    FAST = "fast"
    DEFAULT = "default"
    BEST = "best"


_RCR = {Preset.FAST: {"epochs": 300, "n_members": 2}, Preset.BEST: {"n_members": 10}}
_PRESETS: Mapping[Method, Mapping[Preset, dict[str, Any]]] = {
    Method.AUTO: {
        Preset.FAST: {"preset": "fast"},
        Preset.BEST: {"preset": "best"},
    },
    Method.RCR: _RCR,
    Method.RCR_CROSSFIT: _RCR,
    Method.RISK: {Preset.FAST: {"cv": 3}, Preset.BEST: {"cv": 10}},
    Method.SELECTIVENET: {Preset.FAST: {"epochs": 200}, Preset.BEST: {"n_members": 4}},
    Method.KNN_PLUG: {},
    Method.MLP_PLUG: {
        Preset.FAST: {"regressor__epochs": 300, "risk__epochs": 300},
        Preset.BEST: {"regressor__n_members": 5, "risk__n_members": 5},
    },
    Method.NO_REJECTION: {Preset.FAST: {"regressor__epochs": 300}, Preset.BEST: {"regressor__n_members": 5}},
}
_WITH_JOBS = {Method.AUTO, Method.RISK, Method.KNN_PLUG, Method.MLP_PLUG, Method.NO_REJECTION}
_SHOWS_PROGRESS = {Method.AUTO, Method.RCR, Method.RCR_CROSSFIT, Method.SELECTIVENET}
_MAX_SEED = 2**32 - 1  # of numpy
_OUT_OF_FOLD = {Method.AUTO, Method.RISK}


@dataclass(frozen=True)
class Settings:
    """What a user chose for the fit."""

    method: Method
    preset: Preset
    loss: str
    seed: int
    time_limit: float | None = None
    jobs: int | None = None
    grouped: bool = False

    @property
    def has_out_of_fold(self) -> bool:
        """Whether the fitted model has results of its training rows by models that were not fitted to them."""
        return self.method in _OUT_OF_FOLD

    @property
    def shows_progress(self) -> bool:
        """Whether the estimator shows its own progress bar."""
        return self.method in _SHOWS_PROGRESS


def check_settings(settings: Settings) -> list[str]:
    """Raise an error for settings that do not fit together; return warnings about settings without effect."""
    from recuse import losses

    method = settings.method
    try:
        losses.get(settings.loss)
    except ValueError as error:
        raise UsageError(f"--loss: {error}") from error
    if not 0 <= settings.seed <= _MAX_SEED:
        raise UsageError(f"--seed must be from 0 to {_MAX_SEED}, got {settings.seed}")
    if settings.time_limit is not None and not 0 < settings.time_limit < math.inf:
        raise UsageError(f"--time-limit must be a number of seconds > 0, got {settings.time_limit:g}")
    if settings.time_limit is not None and method is not Method.AUTO:
        raise UsageError(f"--time-limit needs --method auto, got --method {method}")
    if settings.grouped and method is Method.SELECTIVENET:
        raise UsageError("--groups cannot be used with --method selectivenet, which has no folds")
    warnings = []
    if settings.preset is not Preset.DEFAULT and settings.preset not in _PRESETS[method]:
        warnings.append(f"--preset {settings.preset} has no effect with --method {method}")
    if settings.jobs is not None and method not in _WITH_JOBS:
        warnings.append(f"--jobs has no effect with --method {method}")
    return warnings


def build(settings: Settings, cost: float | str, *, verbose: bool) -> Any:
    """Return the estimator with all parameters."""
    from recuse import estimators

    method = settings.method
    parameters: dict[str, Any] = {"cost": cost, "loss": settings.loss, "random_state": settings.seed}
    parameters |= _PRESETS[method].get(settings.preset, {})
    if method in _WITH_JOBS:
        parameters["n_jobs"] = settings.jobs
    if method in _SHOWS_PROGRESS:
        parameters["verbose"] = verbose
    if method in (Method.MLP_PLUG, Method.NO_REJECTION):
        parameters["regressor__loss"] = settings.loss
    match method:
        case Method.AUTO:
            return estimators.AutoRejector(time_limit=settings.time_limit, **parameters)
        case Method.RCR:
            return estimators.RcRRegressor(**parameters)
        case Method.RCR_CROSSFIT:
            return estimators.RcRRegressor(residuals="crossfit", **parameters)
        case Method.RISK:
            return estimators.RiskRejector(**parameters)
        case Method.SELECTIVENET:
            return estimators.SelectiveNetRegressor(coverage=None, **parameters)
        case Method.KNN_PLUG:
            return estimators.knn_plug(**parameters)
        case Method.MLP_PLUG:
            return estimators.mlp_plug(**parameters)
    return estimators.no_rejection(**parameters)
