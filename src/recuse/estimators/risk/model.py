"""Cross-fitted models of the conditional risk E[L(h(x) - y) | x]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.crossfitting import Sample, cross_fit, refit
from recuse.estimators.subestimators import fit_subestimator, seeded
from recuse.rules.risk import ScaledRisk, non_negative
from recuse.tabular.folds import Split
from recuse.threads import one_thread

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CrossFittedRisk:
    """Cross-fitted risk models, and their risks of the training rows.

    Attributes
    ----------
    risk : ScaledRisk
    out_of_fold : ndarray of shape (row,)
        Scaled risk of the training rows by models that were not fitted to them; empty without folds.
    estimator : estimator or None
        Not fitted; None without folds.
    """

    risk: ScaledRisk
    out_of_fold: Floats = field(default_factory=lambda: np.empty(0), repr=False)
    estimator: Any = field(default=None, repr=False)


def learn_risk(
    part: Any,
    residuals: Sample,
    splits: Sequence[Split] | None,
    random: np.random.RandomState,
    n_jobs: int | None = None,
    *,
    most_rows: int | None = None,
    on_fit: Callable[[], None] | None = None,
) -> CrossFittedRisk:
    """Fit risk models to the losses of rows.

    For cross-fitting, the losses are first divided by their mean, since trees stop splitting where the variance of a
    target is near the machine precision.

    Parameters
    ----------
    part : estimator
    residuals : Sample
        Inputs, losses and weights.
    splits : sequence of (train, test), optional
        Folds that the models are cross-fitted by; their test parts partition the rows. The scale is then the mean loss
        over the mean out-of-fold risk. None fits one model to all rows as they are, with a scale of 1.
    random : RandomState
    n_jobs : int, optional
    most_rows, on_fit : optional
        As in `cross_fit`.
    """
    if splits is None:
        with one_thread():
            return CrossFittedRisk(ScaledRisk((fit_subestimator(seeded(part, random), *residuals),), 1.0))
    inputs, loss, weight = residuals
    unit = float(np.average(loss, weights=weight)) or 1.0
    sample = Sample(inputs, loss / unit, weight)
    fitted = cross_fit(part, sample, splits, random, n_jobs=n_jobs, most_rows=most_rows, on_fit=on_fit)
    risk = non_negative(fitted.out_of_fold.mean)
    mean = float(np.average(risk, weights=weight))
    scale = unit / mean if mean > 0 else unit
    return CrossFittedRisk(ScaledRisk(fitted.models, scale), scale * risk, part)


def refit_risks(
    risks: Sequence[tuple[CrossFittedRisk, int | None]],
    residuals: Sample,
    random: np.random.RandomState,
    n_jobs: int | None = None,
    *,
    on_fit: Callable[[], None] | None = None,
) -> list[ScaledRisk]:
    """Fit cross-fitted risk models again, each as one model for all rows or a number of them; the scales stay.

    Parameters
    ----------
    risks : sequence of (CrossFittedRisk, int or None)
        Each with the maximum number of rows to fit it to.
    residuals : Sample
    random : RandomState
    n_jobs : int, optional
    on_fit : optional
        As in `cross_fit`.
    """
    inputs, loss, weight = residuals
    unit = float(np.average(loss, weights=weight)) or 1.0
    estimators = [(risk.estimator, most) for risk, most in risks]
    models = refit(estimators, Sample(inputs, loss / unit, weight), random, n_jobs=n_jobs, on_fit=on_fit)
    return [replace(each.risk, models=(model,)) for (each, _), model in zip(risks, models, strict=True)]
