"""Convex weights of a blend, fitted to out-of-fold predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from recuse.losses import TargetLoss

Floats = NDArray[np.float64]

_SPAN = 4.0  # costs from a quarter to four times the given cost are used
_PRIOR = 25.0  # prior strength of equal weights, in pseudo-rows
_TOLERANCE = 1e-6
# relative increase of the loss without a model, below which the model is not needed; the loss over costs varies less
_NEEDED, _NEEDED_RISK = 0.005, 0.001


def loss_over_costs(error: Floats, risk: Floats, cost: Floats) -> Floats:
    """Return the RcR loss of each row, averaged over the logarithm of costs from c/4 to 4c, where c is the given cost.

    A row of risk R is accepted at costs above R. So its loss is the error e at costs from R to b = 4c, and the cost
    from a = c/4 to R. With the measure dc/c, the integral is e log(b/R) + (R - a), where R is clipped to [a, b]. Up to
    terms without R this is the Poisson deviance of e and R. It is lowest for a risk that is correct near the cost, and
    varies far less than the loss at one cost.

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
    """Share of these costs at which a row is accepted: the weight of its error in `loss_over_costs`.

    Examples
    --------
    >>> share_accepted(np.array([0.1, 2.0, 9.0]), np.full(3, 2.0))
    array([1. , 0.5, 0. ])
    """
    low, high = cost / _SPAN, cost * _SPAN
    return _per_span(_log_ratio(high, np.clip(risk, low, high)))


def _log_ratio(high: Floats, risk: Floats) -> Floats:
    """Give log(high / risk); zero where a rejection is free."""
    return np.asarray(np.log(np.divide(high, risk, out=np.ones_like(risk), where=risk > 0)))


def _per_span(values: Floats) -> Floats:
    return np.asarray(values / np.log(_SPAN**2))


def convex_weights(objective: Callable[[Floats], tuple[float, Floats]], models: int, rows: int) -> Floats:
    """Minimise a function of weights >= 0 that sum to one, with a prior of equal weights.

    The result is never worse than equal weights or any single model. If the solver does not converge and its
    result is worse than one of those, that one is returned with a ConvergenceWarning.

    Parameters
    ----------
    objective : callable
        Function from weights (model,) to its value and gradient (model,); its value at equal weights is about 1.
    models : int
    rows : int
        Number of rows; the effect of the prior decreases with it.

    Examples
    --------
    >>> slopes = np.array([0.5, 1.5])
    >>> for rows in (5, 5000):
    ...     print(convex_weights(lambda weights: (float(weights @ slopes), slopes), 2, rows).round(3) + 0.0)
    [0.55 0.45]
    [1. 0.]
    """
    equal, strength = np.full(models, 1 / models), _PRIOR / rows

    def penalised(weights: Floats) -> tuple[float, Floats]:
        value, gradient = objective(weights)
        difference = weights - equal
        return value + strength * float(difference @ difference), gradient + 2 * strength * difference

    found = minimize(
        penalised,
        equal,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * models,
        constraints={"type": "eq", "fun": lambda weights: weights.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-10, "maxiter": 200},
    )
    weights = np.clip(np.nan_to_num(found.x), 0.0, None)
    weights = weights / weights.sum() if weights.sum() > 0 else equal
    starts = [equal, *np.eye(models)]
    values = [penalised(start)[0] for start in starts]
    if penalised(weights)[0] <= min(values) + _TOLERANCE:
        return np.asarray(weights)
    if not found.success:
        warnings.warn(f"the weights of a blend did not converge: {found.message}", ConvergenceWarning, stacklevel=2)
    return np.asarray(starts[int(np.argmin(values))])


def regressor_weights(predictions: Floats, target: Floats, weight: Floats, loss: TargetLoss) -> Floats:
    """Return the weights of the blend of regressors with the lowest mean loss.

    Parameters
    ----------
    predictions : ndarray of shape (model, row) or (model, row, output)
        Predictions of rows that the models were not fitted to.
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
    scale = float(loss(predictions.mean(axis=0) - target) @ share) or 1.0

    def mean_loss(weights: Floats) -> tuple[float, Floats]:
        residual = np.tensordot(weights, predictions, 1) - target
        slope = loss.slope(residual, share)
        return float(loss(residual) @ share) / scale, predictions @ slope / scale

    return convex_weights(mean_loss, len(predictions), len(target))


def sparse_weights(
    predictions: Floats, target: Floats, weight: Floats, loss: TargetLoss, needed: float = _NEEDED
) -> Floats:
    """Return weights as `regressor_weights` does, but zero for models without which the mean loss is hardly higher.

    Parameters
    ----------
    predictions, target, weight, loss
        As in `regressor_weights`.
    needed : float
        The model of the smallest weight is left out as long as the loss rises by less than this share in all.

    Examples
    --------
    >>> from recuse.losses import SQUARED
    >>> target = np.zeros(500)
    >>> sparse_weights(np.array([target + 1, target - 1, target + 9]), target, np.ones(500), SQUARED).round(3)
    array([0.5, 0.5, 0. ])
    """
    share = weight / weight.sum()

    def blend(models: NDArray[np.intp]) -> tuple[Floats, float]:
        weights = np.zeros(len(predictions))
        weights[models] = regressor_weights(predictions[models], target, weight, loss)
        return weights, float(loss(np.tensordot(weights, predictions, 1) - target) @ share)

    return _without_needless(blend, len(predictions), needed)


def _without_needless(blend: Callable[[NDArray[np.intp]], tuple[Floats, float]], models: int, needed: float) -> Floats:
    """Leave out the model of the smallest weight as long as the loss rises by less than this share.

    Parameters
    ----------
    blend : callable
        Function from the models to their weights (model,), zero for others, and the loss.
    models : int
    needed : float
    """
    kept = np.arange(models)
    weights, lowest = blend(kept)
    while len(kept) > 1:
        fewer = np.delete(kept, weights[kept].argmin())
        without, value = blend(fewer)
        if value > (1 + needed) * lowest:
            break
        kept, weights, lowest = fewer, without, min(value, lowest)
    return weights


def risk_weights(risks: Floats, error: Floats, cost: Floats, weight: Floats) -> Floats:
    """Return the weights of the blend of risk models with the lowest RcR loss, averaged over costs around the given.

    Parameters
    ----------
    risks : ndarray of shape (model, row)
        Predictions of rows that the models were not fitted to.
    error, cost, weight : ndarray of shape (row,)
    """
    share = weight / weight.sum()
    scale = float(loss_over_costs(error, risks.mean(axis=0), cost) @ share) or 1.0
    low, high = cost / _SPAN, cost * _SPAN

    def mean_loss(weights: Floats) -> tuple[float, Floats]:
        risk = weights @ risks
        inside = (risk > low) & (risk < high)
        slope = _per_span(1 - np.divide(error, risk, out=np.ones_like(risk), where=inside))
        return float(loss_over_costs(error, risk, cost) @ share) / scale, risks @ (share * slope) / scale

    return convex_weights(mean_loss, len(risks), len(error))


def sparse_risk_weights(risks: Floats, error: Floats, cost: Floats, weight: Floats) -> Floats:
    """Return weights as `risk_weights` does, but zero for models without which the loss is hardly higher.

    Parameters
    ----------
    risks, error, cost, weight
        As in `risk_weights`.

    Examples
    --------
    >>> error = np.random.RandomState(0).exponential(size=500) * np.linspace(0.1, 2, 500)
    >>> risks = np.array([np.linspace(0.1, 2, 500), np.full(500, 5.0)])
    >>> sparse_risk_weights(risks, error, np.ones(500), np.ones(500)).round(3)
    array([1., 0.])
    """
    share = weight / weight.sum()

    def blend(models: NDArray[np.intp]) -> tuple[Floats, float]:
        weights = np.zeros(len(risks))
        weights[models] = risk_weights(risks[models], error, cost, weight)
        return weights, float(loss_over_costs(error, weights @ risks, cost) @ share)

    return _without_needless(blend, len(risks), _NEEDED_RISK)
