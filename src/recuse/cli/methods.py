"""The methods and presets of `recuse fit`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from recuse.usage_errors import UsageError


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


class FitPreset(StrEnum):
    """The values of --preset."""

    FAST = "fast"
    DEFAULT = "default"
    BEST = "best"


@dataclass(frozen=True)
class _MethodRecipe:
    """How an estimator is made for a method.

    Attributes
    ----------
    estimator : str
        Name in `recuse.estimators`.
    fast, best : dict
        Parameters of these presets; empty if they have no effect.
    takes : tuple of str
        What else it takes, of the parameters that `build` knows.
    """

    estimator: str
    fast: dict[str, Any] = field(default_factory=dict)
    best: dict[str, Any] = field(default_factory=dict)
    takes: tuple[str, ...] = ()

    def of_preset(self, preset: FitPreset) -> dict[str, Any]:
        """Return the parameters of a preset alone."""
        return {FitPreset.FAST: self.fast, FitPreset.BEST: self.best}.get(preset, {})


_SHORT, _SEVERAL = {"regressor__epochs": 300}, {"regressor__n_members": 5}
_RECIPES = {
    Method.AUTO: _MethodRecipe(
        "AutoRejector", {"preset": "fast"}, {"preset": "best"}, ("n_jobs", "verbose", "time_limit")
    ),
    Method.RCR: _MethodRecipe("RcRRegressor", {"epochs": 300}, {"n_members": 10}, ("verbose",)),
    Method.RCR_CROSSFIT: _MethodRecipe("RcRRegressorCV", {"n_members": 2}, {"cv": 10}, ("verbose",)),
    Method.RISK: _MethodRecipe("RiskRejector", {"cv": 3}, {"cv": 10}, ("n_jobs",)),
    Method.SELECTIVENET: _MethodRecipe(
        "SelectiveNetRegressor", {"epochs": 200}, {"n_members": 4}, ("verbose", "coverage")
    ),
    Method.KNN_PLUG: _MethodRecipe("knn_plug", takes=("n_jobs",)),
    Method.MLP_PLUG: _MethodRecipe(
        "mlp_plug",
        {**_SHORT, "risk__epochs": 300},
        {**_SEVERAL, "risk__n_members": 5},
        takes=("n_jobs", "regressor__loss"),
    ),
    Method.NO_REJECTION: _MethodRecipe("no_rejection", _SHORT, _SEVERAL, ("n_jobs", "regressor__loss")),
}
# Methods that judge their training rows by models that were not fitted to them.
_OUT_OF_FOLD = {Method.AUTO, Method.RISK}
# Share of the rows to test on, for methods without out-of-fold results.
_TEST_SHARE = 0.2
# The largest seed that numpy takes.
_MAX_SEED = 2**32 - 1


@dataclass(frozen=True)
class FitSettings:
    """What a user chose for the fit."""

    method: Method
    preset: FitPreset
    loss: str
    seed: int
    time_limit: float | None = None
    jobs: int | None = None
    test: str | None = None
    test_share: float | None = None
    test_rows: Path | None = None

    @property
    def held_share(self) -> float:
        """The share of the rows to test on, by default only for methods without out-of-fold results."""
        if self.test_share is not None:
            return self.test_share
        return 0.0 if self.test is not None or self.method in _OUT_OF_FOLD else _TEST_SHARE

    @property
    def shows_progress(self) -> bool:
        """Whether the estimator shows its own progress bar."""
        return "verbose" in _RECIPES[self.method].takes


def check_settings(settings: FitSettings, *, grouped: bool) -> list[str]:
    """Raise an error for settings that do not fit together; return warnings about settings without effect."""
    from recuse import losses

    method, limit, share = settings.method, settings.time_limit, settings.test_share
    if settings.test_rows is not None and not share:
        raise UsageError("--test-rows needs --test-share, the share of the rows to write")
    if settings.test is not None and share is not None:
        raise UsageError("--test and --test-share cannot both be given")
    if share is not None and not 0 <= share < 1:
        raise UsageError(f"--test-share must be at least 0 and below 1, got {share:g}")
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
    if grouped and method is Method.SELECTIVENET:
        raise UsageError("--groups cannot be used with --method selectivenet, which has no folds")
    warnings = []
    if settings.preset is not FitPreset.DEFAULT and not _RECIPES[method].of_preset(settings.preset):
        warnings.append(f"--preset {settings.preset} has no effect with --method {method}")
    if settings.jobs is not None and "n_jobs" not in _RECIPES[method].takes:
        warnings.append(f"--jobs has no effect with --method {method}")
    return warnings


def build(settings: FitSettings, cost: float | str, *, verbose: bool) -> Any:
    """Return the estimator with all parameters."""
    from recuse import estimators

    recipe = _RECIPES[settings.method]
    # the cost decides how many rows are accepted, so no share of them is given
    known: dict[str, Any] = {
        "regressor__loss": settings.loss,
        "n_jobs": settings.jobs,
        "verbose": verbose,
        "time_limit": settings.time_limit,
        "coverage": None,
    }
    parameters: dict[str, Any] = {"cost": cost, "loss": settings.loss, "random_state": settings.seed}
    parameters |= {name: known[name] for name in recipe.takes} | recipe.of_preset(settings.preset)
    return getattr(estimators, recipe.estimator)(**parameters)
