"""Converters of models that compare rows with the training rows: kernel methods and nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.svm import SVR, NuSVR

from recuse.estimators.auto.models.gaussian_process import GaussianProcess
from recuse.estimators.auto.models.risk_process import RiskProcess
from recuse.estimators.risk.presets import KernelAverage
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value, concat, where
from recuse.model_file.graph.conversion import converts
from recuse.model_file.graph.linear import affine, constant_rows
from recuse.model_file.graph.operators import DOUBLE, INT64
from recuse.model_file.graph.preprocessing import standardised

Floats = NDArray[np.float64]

# Up to so many features, differences to all rows are taken feature by feature.
_MOST_FEATURES = 32
_KERNELS = ("linear", "rbf", "poly", "polynomial", "sigmoid", "laplacian")


def square_distances(x: Value, rows: Floats, sign: float = 1.0, plus: float = 0.0) -> Value:
    """Return the squared distances (row, stored row) times a sign, plus a number.

    One product of matrices computes |x|^2 - 2 x r + |r|^2, without a pass over the distances. Without `plus`, distances
    near zero may have the wrong sign by a rounding error.
    """
    square = (x * x).sum(axis=1, keepdims=True)
    extended = concat([x, square, constant_rows(x, [1.0])], 1)
    norm = (rows**2).sum(axis=1)
    return extended @ np.vstack([-2 * sign * rows.T, np.full((1, len(rows)), sign), sign * norm + plus])


def _summed_differences(x: Value, rows: Floats, function: Callable[[Value], Value]) -> Value:
    """Return the sums (row, stored row) over the features of a function of x - r; exact but slow."""
    terms = [function(x.columns(place, place + 1) - column) for place, column in enumerate(rows.T)]
    return reduce(add, terms)


@converts(GaussianProcess)
def _process(model: GaussianProcess, x: Value) -> Value:
    return _rational(model, x)


@converts(RiskProcess)
def _risk_process(model: RiskProcess, x: Value) -> Value:
    return (_rational(model, x) + model.level_).clip(*model.limits_).unary("Exp")


def _rational(model: GaussianProcess | RiskProcess, x: Value) -> Value:
    """Return the sum of the kernels at the centres, times their coefficients."""
    total: Value | None = None
    for each in model.sums_:
        scale = 0.5**0.5 / each.lengths
        kernel = 1.0 / square_distances(x * scale, each.centres * scale, plus=1.0)
        part: Value = kernel @ each.coefficients[:, None]
        total = part if total is None else total + part
    assert total is not None
    return total


def _gaussian(x: Value, rows: Floats, scale: float) -> Value:
    """Return exp(-d^2), where d is the distance of scaled rows."""
    return square_distances(x * scale, rows * scale, sign=-1.0).unary("Exp")


@converts(SVR, NuSVR)
def _support_vectors(model: Any, x: Value) -> Value:
    rows, weights = (_dense(each) for each in (model.support_vectors_, model.dual_coef_))
    return _named(model, float(model._gamma), x, rows, weights.T) + np.asarray(model.intercept_, np.float64)


def _dense(matrix: Any) -> Floats:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, np.float64)


@converts(KernelRidge)
def _kernel_ridge(model: Any, x: Value) -> Value:
    gamma = 1 / x.shape[1] if model.gamma is None else float(model.gamma)
    rows = _dense(model.X_fit_)
    return _named(model, gamma, x, rows, np.asarray(model.dual_coef_, np.float64).reshape(-1, 1))


def _named(model: Any, gamma: float, x: Value, rows: Floats, weights: Floats) -> Value:
    """Return the product of weights and the kernel that a model names; rows without weight are left out."""
    if model.kernel not in _KERNELS:
        raise ConversionError(
            f"{type(model).__name__}(kernel={model.kernel!r}) cannot be saved in a model file: use kernel='rbf'"
        )
    kept = weights.any(axis=1)
    if not kept.any():
        return constant_rows(x, [0.0])
    rows, weights = rows[kept], weights[kept]
    match model.kernel:
        case "linear":
            return affine(x, weights.T @ rows, [0.0])
        case "rbf":
            return _gaussian(x, rows, gamma**0.5) @ weights
        case "poly" | "polynomial":
            return (_products(x, rows, gamma, model.coef0) ** float(model.degree)) @ weights
        case "sigmoid":
            return _products(x, rows, gamma, model.coef0).unary("Tanh") @ weights
    distance = _summed_differences(x * gamma, rows * gamma, lambda each: each.unary("Abs"))
    return (-distance).unary("Exp") @ weights


def _products(x: Value, rows: Floats, gamma: float, shift: float) -> Value:
    return affine(x, rows * gamma, np.full(len(rows), shift))


@converts(KernelAverage)
def _kernel_average(model: KernelAverage, x: Value) -> Value:
    known = model.weight_ > 0
    rows, factor = model.rows_[known], 1 / (2 * model.width_**2)
    # the term |x|^2 of the squared distances does not change the softmax
    constant = np.log(model.weight_[known]) - factor * (rows**2).sum(axis=1)
    logits = standardised(model.encoder_, x) @ (2 * factor * rows.T) + np.asarray(constant, np.float64)
    return logits.unary("Softmax", axis=1) @ np.asarray(model.targets_[known], np.float64).reshape(-1, 1)


@converts(KNeighborsRegressor)
def _neighbours(model: Any, x: Value) -> Value:
    rows = np.asarray(model._fit_X, np.float64)
    targets = np.asarray(model._y, np.float64).reshape(-1, 1)
    order = _order(model)
    number = x.graph.constant([model.n_neighbors], INT64)
    _, places = x.graph.nodes("TopK", _sortable_distances(model, x, rows, order), number, axis=1, largest=0, sorted=1)
    near = x.graph.constant(targets).take(places, 0)
    match model.weights:
        case None | "uniform":
            return near.mean(axis=1)
        case "distance":
            weight = _inverse_distances(x, rows, places, order).unsqueeze(2)
            return (near * weight).sum(axis=1) / weight.sum(axis=1)
    raise ConversionError(
        f"KNeighborsRegressor(weights={model.weights!r}) cannot be saved in a model file: use weights='uniform' or "
        "'distance'"
    )


def _order(model: Any) -> int:
    """Return the order 1 or 2 of the norm."""
    match model.effective_metric_:
        case "euclidean" | "l2":
            return 2
        case "manhattan" | "cityblock" | "l1":
            return 1
    raise ConversionError(
        f"KNeighborsRegressor(metric={model.metric!r}, p={model.p!r}, metric_params={model.metric_params!r}) cannot be "
        "saved in a model file: use metric='minkowski' with p=1 or p=2"
    )


def _sortable_distances(model: Any, x: Value, rows: Floats, order: int) -> Value:
    """Return values (row, stored row) in the order of the distances.

    Search trees compare exact distances, so the order of equally distant rows depends on them.
    """
    if order == 1:
        return _summed_differences(x, rows, lambda each: each.unary("Abs"))
    if model._fit_method == "brute" or x.shape[1] > _MOST_FEATURES:
        return square_distances(x, rows)
    return _summed_differences(x, rows, lambda each: each * each)


def _inverse_distances(x: Value, rows: Floats, places: Value, order: int) -> Value:
    """Return weights (row, neighbour); neighbours at distance zero share all the weight."""
    difference = x.unsqueeze(1) - x.graph.constant(rows).take(places, 0)
    if order == 1:
        distance = difference.unary("Abs").sum(axis=2)
    else:
        distance = (difference * difference).sum(axis=2).unary("Sqrt")
    equal = distance.equals(0.0).cast(DOUBLE)
    return where(equal.max(axis=1, keepdims=True) > 0.0, equal, 1.0 / distance)
