"""The methods and presets of `recuse fit`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True)
class _Recipe:
    """How an estimator is made for a method.

    Attributes
    ----------
    estimator : str
        Name in `recuse.estimators`.
    presets : mapping of Preset to dict
        Parameters of each preset that has an effect.
    parameters : dict
        Parameters of all presets.
    has_jobs : bool
        Whether it takes a number of processes.
    shows_progress : bool
        Whether it shows its own progress bar.
    """

    estimator: str
    presets: Mapping[Preset, dict[str, Any]]
    parameters: dict[str, Any] = field(default_factory=dict)
    has_jobs: bool = False
    shows_progress: bool = False


def _presets(fast: dict[str, Any], best: dict[str, Any]) -> dict[Preset, dict[str, Any]]:
    return {Preset.FAST: fast, Preset.BEST: best}


_RCR = _presets({"epochs": 300, "n_members": 2}, {"n_members": 10})
_PLUG = _presets({"regressor__epochs": 300, "risk__epochs": 300}, {"regressor__n_members": 5, "risk__n_members": 5})
_ALWAYS = _presets({"regressor__epochs": 300}, {"regressor__n_members": 5})
_AUTO = _presets({"preset": "fast"}, {"preset": "best"})
_RECIPES = {
    Method.AUTO: _Recipe("AutoRejector", _AUTO, has_jobs=True, shows_progress=True),
    Method.RCR: _Recipe("RcRRegressor", _RCR, shows_progress=True),
    Method.RCR_CROSSFIT: _Recipe("RcRRegressor", _RCR, {"residuals": "crossfit"}, shows_progress=True),
    Method.RISK: _Recipe("RiskRejector", _presets({"cv": 3}, {"cv": 10}), has_jobs=True),
    Method.SELECTIVENET: _Recipe(
        "SelectiveNetRegressor", _presets({"epochs": 200}, {"n_members": 4}), {"coverage": None}, shows_progress=True
    ),
    Method.KNN_PLUG: _Recipe("knn_plug", {}, has_jobs=True),
    Method.MLP_PLUG: _Recipe("mlp_plug", _PLUG, has_jobs=True),
    Method.NO_REJECTION: _Recipe("no_rejection", _ALWAYS, has_jobs=True),
}
_OUT_OF_FOLD = {Method.AUTO, Method.RISK}
# Methods whose regressor is a network with a loss of its own.
_WITH_NETWORK = {Method.MLP_PLUG, Method.NO_REJECTION}
# The largest seed that numpy takes.
_MAX_SEED = 2**32 - 1


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
        return _RECIPES[self.method].shows_progress


def check_settings(settings: Settings) -> list[str]:
    """Raise an error for settings that do not fit together; return warnings about settings without effect."""
    from recuse import losses

    method, limit = settings.method, settings.time_limit
    try:
        losses.get(settings.loss)
    except ValueError as error:
        raise UsageError(f"--loss: {error}") from error
    if not 0 <= settings.seed <= _MAX_SEED:
        raise UsageError(f"--seed must be from 0 to {_MAX_SEED}, got {settings.seed}")
    if limit is not None and not 0 < limit < math.inf:
        raise UsageError(f"--time-limit must be a number of seconds > 0, got {limit:g}")
    if limit is not None and method is not Method.AUTO:
        raise UsageError(f"--time-limit needs --method auto, got --method {method}")
    if settings.grouped and method is Method.SELECTIVENET:
        raise UsageError("--groups cannot be used with --method selectivenet, which has no folds")
    warnings = []
    if settings.preset not in (Preset.DEFAULT, *_RECIPES[method].presets):
        warnings.append(f"--preset {settings.preset} has no effect with --method {method}")
    if settings.jobs is not None and not _RECIPES[method].has_jobs:
        warnings.append(f"--jobs has no effect with --method {method}")
    return warnings


def build(settings: Settings, cost: float | str, *, verbose: bool) -> Any:
    """Return the estimator with all parameters."""
    from recuse import estimators

    recipe = _RECIPES[settings.method]
    parameters: dict[str, Any] = {"cost": cost, "loss": settings.loss, "random_state": settings.seed}
    parameters |= recipe.parameters | recipe.presets.get(settings.preset, {})
    if recipe.has_jobs:
        parameters["n_jobs"] = settings.jobs
    if recipe.shows_progress:
        parameters["verbose"] = verbose
    if settings.method is Method.AUTO:
        parameters["time_limit"] = settings.time_limit
    if settings.method in _WITH_NETWORK:
        parameters["regressor__loss"] = settings.loss
    return getattr(estimators, recipe.estimator)(**parameters)
