"""Conversion of fitted regressors of images."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from recuse.estimators.images.regressor import RcRImageRegressor
from recuse.model_file.graph.builder import GraphBuilder, Value
from recuse.model_file.graph.modules import convert_two_heads
from recuse.model_file.graph.operators import DOUBLE, FLOAT, ROWS

__all__ = ["image_decision"]


def image_decision(estimator: RcRImageRegressor, graph: GraphBuilder) -> dict[str, Value]:
    """Convert a fitted regressor of images.

    The input "image" (row, channel, height, width) has type float and the size of the training images. It holds the
    numbers that the network sees: bytes must be scaled to [-1, 1] by x / 127.5 - 1. If the estimator serves any cost,
    the input "cost" (row,) has type double and the squared units of the target.

    Parameters
    ----------
    estimator : RcRImageRegressor
    graph : GraphBuilder

    Returns
    -------
    dict
        "prediction" and "score", each of shape (row,) and type double.
    """
    check_is_fitted(estimator)
    image, cost = graph.input("image", FLOAT, (ROWS, *estimator.image_shape_)), None
    if estimator.network_.cost_input:
        cost = (graph.input("cost", DOUBLE, (ROWS,)) / estimator._scale**2).cast(FLOAT)
    prediction, score = convert_two_heads(estimator.network_, image, cost)
    return {"prediction": prediction.cast(DOUBLE) * estimator._scale + estimator._mean, "score": score.cast(DOUBLE)}
