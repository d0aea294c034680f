"""Blended models: trials in, weighted blends of their models out, which answer about any rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.auto.blend import regressor_weights, risk_weights
from recuse.estimators.auto.trials import Setting, Trial, fit_to_all
from recuse.estimators.parts import Sample, answers
from recuse.losses import TargetLoss

__all__ = ["BlendedRegressor", "BlendedRisk", "Opinion", "blend_regressors", "blend_risks", "risk_inputs"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Opinion:
    """What a blend says about some rows, and its regressors one by one.

    Attributes
    ----------
    each : ndarray of shape (model, row) or (model, row, output)
    prediction : ndarray of shape (row,) or (row, output)
    """

    each: Floats
    prediction: Floats

    @classmethod
    def of(cls, each: Floats, weights: Floats) -> Opinion:
        """Blend what the regressors say."""
        return cls(each, np.tensordot(weights, each, 1))


@dataclass(frozen=True)
class BlendedRegressor:
    """Regressors, each fitted without each fold, and their weights.

    Attributes
    ----------
    models : sequence of tuple
        For each regressor, its copies, one for each fold.
    weights : ndarray of shape (regressor,)
    outputs : int
    """

    models: Sequence[tuple[Any, ...]]
    weights: Floats
    outputs: int

    def by_fold(self, features: Floats) -> list[Opinion]:
        """Give what the regressors of each fold say."""
        folds = zip(*self.models, strict=True)
        return [Opinion.of(np.array([self._ask(model, features) for model in fold]), self.weights) for fold in folds]

    def _ask(self, model: Any, features: Floats) -> Floats:
        return answers([model], features, self.outputs).prediction


@dataclass(frozen=True)
class BlendedRisk:
    """Models of the risk, what each is multiplied with, and their weights."""

    models: Sequence[Any]
    scales: Floats
    weights: Floats

    def __call__(self, inputs: Floats) -> Floats:
        """Give the risk of every row, never below zero."""
        said = np.array([_positive(model.predict(inputs)) for model in self.models])
        return np.asarray((self.weights * self.scales) @ said)


def blend_regressors(
    trials: Sequence[Trial], target: Floats, counts: Floats, loss: TargetLoss
) -> tuple[BlendedRegressor, Opinion]:
    """Blend what was tried; the opinion is about the training rows, by models that have not seen them.

    Parameters
    ----------
    trials : sequence of Trial
    target : ndarray of shape (row,) or (row, output)
    counts : ndarray of shape (row,)
        What the error of each row counts for.
    loss : TargetLoss
    """
    tried = [trial for trial in trials if trial.tried]
    said = np.array([trial.said for trial in tried])
    weights = regressor_weights(said, target, counts, loss)
    outputs = 1 if target.ndim == 1 else target.shape[1]
    return BlendedRegressor([trial.models for trial in tried], weights, outputs), Opinion.of(said, weights)


def blend_risks(trials: Sequence[Trial], sample: Sample, cost: Floats, setting: Setting) -> tuple[BlendedRisk, Floats]:
    """Blend what was tried, each scaled to be right on average; also give their out-of-fold risks (model, row)."""
    tried = [trial for trial in trials if trial.tried]
    _, error, weight = sample
    said = np.array([_positive(trial.said) for trial in tried])
    means = said @ weight
    scales = np.divide(error @ weight, means, out=np.ones(len(tried)), where=means > 0)
    risks = scales[:, None] * said
    weights = risk_weights(risks, error, cost, weight)
    return BlendedRisk([fit_to_all(trial, sample, setting) for trial in tried], scales, weights), risks


def risk_inputs(features: Floats, said: Opinion, scale: float) -> Floats:
    """Give what models of the risk see (row, input): features, prediction, and how far each regressor is from it.

    Parameters
    ----------
    features : ndarray of shape (row, feature)
        With the novelty of each row.
    said : Opinion
    scale : float
        Standard deviation of the target.
    """
    prediction = said.prediction.reshape(len(features), -1) / scale
    if len(said.each) == 1:
        return np.column_stack([features, prediction])
    apart = (said.each.reshape(len(said.each), len(features), -1) / scale) - prediction  # (model, row, output)
    spread = np.sqrt(np.square(apart).mean(axis=(0, 2)))
    return np.column_stack([features, prediction, spread, *apart])


def _positive(said: Any) -> Floats:
    return np.maximum(np.asarray(said, dtype=np.float64).reshape(-1), 0.0)
