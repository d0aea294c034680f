"""Converters of averages of the targets of near rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsRegressor

from recuse.estimators.risk.kernel_average import KernelAverage
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value, where
from recuse.model_file.graph.conversion import converts
from recuse.model_file.graph.operators import DOUBLE, INT64
from recuse.model_file.graph.regressors.kernels import square_distances, summed_differences
from recuse.model_file.graph.regressors.preprocessing import standardised

__all__: list[str] = []

Floats = NDArray[np.float64]

_MOST_FEATURES = 32  # up to which differences to all rows are taken feature by feature


@converts(KernelAverage)
def _kernel_average(model: KernelAverage, x: Value) -> Value:
    known = model._weight > 0
    rows, factor = model._rows[known], 1 / (2 * model.width_**2)
    # the term |x|^2 of the squared distances does not change the softmax
    constant = np.log(model._weight[known]) - factor * (rows**2).sum(axis=1)
    logits = standardised(model._encoder, x) @ (2 * factor * rows.T) + np.asarray(constant, np.float64)
    return logits.unary("Softmax", axis=1) @ np.asarray(model._y[known], np.float64).reshape(-1, 1)


@converts(KNeighborsRegressor)
def _neighbours(model: Any, x: Value) -> Value:
    rows = np.asarray(model._fit_X, np.float64)
    targets = np.asarray(model._y, np.float64).reshape(len(rows), -1)
    order = _order(model)
    number = x.graph.constant([model.n_neighbors], INT64)
    _, places = x.graph.nodes("TopK", _distances(model, x, rows, order), number, axis=1, largest=0, sorted=1)
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


def _distances(model: Any, x: Value, rows: Floats, order: int) -> Value:
    """Return values (row, stored row) in the order of the distances.

    Search trees compare exact distances, so the order of equally distant rows depends on them.
    """
    if order == 1:
        return summed_differences(x, rows, lambda each: each.unary("Abs"))
    if model._fit_method == "brute" or x.shape[1] > _MOST_FEATURES:
        return square_distances(x, rows)
    return summed_differences(x, rows, lambda each: each * each)


def _inverse_distances(x: Value, rows: Floats, places: Value, order: int) -> Value:
    """Return weights (row, neighbour); neighbours at distance zero share all the weight."""
    difference = x.unsqueeze(1) - x.graph.constant(rows).take(places, 0)
    if order == 1:
        distance = difference.unary("Abs").sum(axis=2)
    else:
        distance = (difference * difference).sum(axis=2).unary("Sqrt")
    equal = distance.equals(0.0).cast(DOUBLE)
    return where(equal.max(axis=1, keepdims=True) > 0.0, equal, 1.0 / distance)
