"""ConditionalRisk: losses of rows in, a model of E[L(h(x) - y) | x] that is right on average out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.subestimators import Sample, fit_parts

__all__ = ["ConditionalRisk", "learn_risk"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ConditionalRisk:
    """A regressor fitted to the losses of rows, and what its predictions are multiplied with."""

    model: Any
    scale: float

    def __call__(self, inputs: Floats) -> Floats:
        """Give the risk of every row, never below zero."""
        return self.scale * _positive(self.model, inputs)


def learn_risk(
    part: Any,
    residuals: Sample,
    fold: NDArray[np.intp] | None,
    random: np.random.RandomState,
    n_jobs: int | None = None,
) -> ConditionalRisk:
    """Fit the part to the losses, once to all of them and once without each fold.

    Parameters
    ----------
    part : estimator
    residuals : tuple (inputs, losses, weights)
    fold : ndarray of shape (row,), optional
        The fold of each row. What the models fitted without a fold say about it is, but for the scale, what the
        model will say about new rows; so the scale is the mean loss over the mean of that. None leaves it at 1.
    random : RandomState
    n_jobs : int, optional

    Returns
    -------
    ConditionalRisk
    """
    inputs, error, weight = residuals
    folds = [] if fold is None or np.ptp(fold) == 0 else [fold == number for number in np.unique(fold)]
    samples = [residuals, *((inputs[~left_out], error[~left_out], weight[~left_out]) for left_out in folds)]
    model, *others = fit_parts(part, samples, random, n_jobs)
    said = np.zeros_like(error)
    for left_out, other in zip(folds, others, strict=True):
        said[left_out] = _positive(other, inputs[left_out])
    mean = float(np.average(said, weights=weight))
    return ConditionalRisk(model, float(np.average(error, weights=weight)) / mean if mean > 0 else 1.0)


def _positive(model: Any, inputs: Floats) -> Floats:
    return np.maximum(np.asarray(model.predict(inputs), dtype=np.float64).reshape(-1), 0.0)
