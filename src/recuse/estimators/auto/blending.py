"""Blended models: trials in, weighted blends of their models out, which answer about any rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from recuse.estimators.auto.crossfit import Setting, Trial, fit_to_all
from recuse.estimators.subestimators import Sample, answers
from recuse.losses import TargetLoss

__all__ = [
    "BlendedRegressor",
    "BlendedRisk",
    "Opinion",
    "blend_regressors",
    "blend_risks",
    "convex_weights",
    "loss_over_costs",
    "precision",
    "regressor_weights",
    "risk_inputs",
    "risk_weights",
    "share_accepted",
]

Floats = NDArray[np.float64]

_SPAN = 4.0  # costs from a quarter to four times the user's own count
_PULL = 25.0  # rows that speak for equal weights, as it were


def loss_over_costs(error: Floats, risk: Floats, cost: Floats) -> Floats:
    """RcR loss of each row, averaged over costs from a quarter to four times the given one, evenly in the logarithm.

    A row of risk R is accepted at the costs above R. So it pays its error e at the costs from R to b = 4c, and the
    cost itself from a = c/4 to R. With dc/c as the measure that is e log(b/R) + (R - a), where R is clipped to
    [a, b]: up to terms without R, the Poisson deviance of e and R. It asks for a risk that is right near the cost,
    and is far less noisy than the loss at one cost.

    Examples
    --------
    >>> error, cost = np.ones(3), np.full(3, 2.0)
    >>> loss_over_costs(error, np.array([0.5, 1.0, 4.0]), cost).round(3)
    array([1.   , 0.93 , 1.512])
    """
    low, high = cost / _SPAN, cost * _SPAN
    clipped = np.clip(risk, low, high)
    return _per_span(error * _log_ratio(high, clipped) + clipped - low)


def share_accepted(risk: Floats, cost: Floats) -> Floats:
    """Share of those costs at which a row is accepted: what its error counts for in `loss_over_costs`.

    Examples
    --------
    >>> share_accepted(np.array([0.1, 2.0, 9.0]), np.full(3, 2.0))
    array([1. , 0.5, 0. ])
    """
    low, high = cost / _SPAN, cost * _SPAN
    return _per_span(_log_ratio(high, np.clip(risk, low, high)))


def precision(risk: Floats) -> Floats:
    """Weights by which a row counts the more, the less noise it has; their mean is one.

    Least squares that count each row by the inverse of its variance are the best there are (Aitken, 1935). Risks below
    a twentieth of their mean count as that much, so that no handful of rows decides.

    Examples
    --------
    >>> precision(np.array([1.0, 1.0, 4.0])).round(2)
    array([1.33, 1.33, 0.33])
    """
    inverse = 1 / np.maximum(risk, max(float(risk.mean()) / 20, np.finfo(np.float64).tiny))
    return np.asarray(inverse / inverse.mean())


def _log_ratio(high: Floats, risk: Floats) -> Floats:
    """log(high / risk); where a rejection is free, nothing is ever accepted."""
    return np.asarray(np.log(np.divide(high, risk, out=np.ones_like(risk), where=risk > 0)))


def _per_span(values: Floats) -> Floats:
    return np.asarray(values / np.log(_SPAN**2))


def convex_weights(objective: Callable[[Floats], tuple[float, Floats]], models: int, rows: int) -> Floats:
    """Minimise a function of weights >= 0 that sum to one, pulled towards equal ones where there are few rows.

    Parameters
    ----------
    objective : callable
        Weights (model,) in, its value and gradient (model,) out; about 1 where the weights are equal.
    models : int
    rows : int

    Examples
    --------
    >>> slopes = np.array([0.5, 1.5])
    >>> for rows in (5, 5000):
    ...     print(convex_weights(lambda weights: (float(weights @ slopes), slopes), 2, rows).round(3) + 0.0)
    [0.55 0.45]
    [1. 0.]
    """
    equal, pull = np.full(models, 1 / models), _PULL / rows

    def pulled(weights: Floats) -> tuple[float, Floats]:
        value, gradient = objective(weights)
        return value + pull * float(np.square(weights - equal).sum()), gradient + 2 * pull * (weights - equal)

    found = minimize(
        pulled,
        equal,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * models,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-10, "maxiter": 200},
    )
    weights = np.clip(found.x, 0.0, None)
    return np.asarray(weights / weights.sum())


def regressor_weights(said: Floats, target: Floats, weight: Floats, loss: TargetLoss) -> Floats:
    """Weights of the blend of least mean loss.

    Parameters
    ----------
    said : ndarray of shape (model, row) or (model, row, output)
        What each regressor says about rows it was not fitted to.
    target : ndarray of shape (row,) or (row, output)
    weight : ndarray of shape (row,)
    loss : TargetLoss

    Examples
    --------
    >>> from recuse.losses import SQUARED
    >>> target = np.arange(4.0)
    >>> regressor_weights(np.array([target + 1, target - 1]), target, np.ones(4), SQUARED).round(3)
    array([0.5, 0.5])
    """
    share = weight / weight.sum()
    by_cell = share if target.ndim == 1 else np.repeat(share[:, None], target.shape[1], 1) / target.shape[1]
    scale = float(loss.of_rows(said.mean(axis=0) - target) @ share) or 1.0

    def mean_loss(weights: Floats) -> tuple[float, Floats]:
        residual = np.tensordot(weights, said, 1) - target
        slope = loss.slope(residual, by_cell)
        return float(loss.of_rows(residual) @ share) / scale, np.tensordot(said, slope, target.ndim) / scale

    return convex_weights(mean_loss, len(said), len(target))


def risk_weights(said: Floats, error: Floats, cost: Floats, weight: Floats) -> Floats:
    """Weights of the blend of least RcR loss over the costs round the given ones.

    Parameters
    ----------
    said : ndarray of shape (model, row)
        What each model of the risk says about rows it was not fitted to.
    error, cost, weight : ndarray of shape (row,)
    """
    share = weight / weight.sum()
    scale = float(loss_over_costs(error, said.mean(axis=0), cost) @ share) or 1.0
    low, high = cost / _SPAN, cost * _SPAN

    def mean_loss(weights: Floats) -> tuple[float, Floats]:
        risk = weights @ said
        inside = (risk > low) & (risk < high)
        slope = _per_span(1 - np.divide(error, risk, out=np.ones_like(risk), where=inside))
        return float(loss_over_costs(error, risk, cost) @ share) / scale, said @ (share * slope) / scale

    return convex_weights(mean_loss, len(said), len(error))


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
