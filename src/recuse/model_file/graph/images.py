"""Conversion of fitted regressors of images."""

from __future__ import annotations

from recuse.estimators.images.regressor import RcRImageRegressor
from recuse.model_file.graph.builder import Value
from recuse.model_file.graph.operators import DOUBLE, FLOAT
from recuse.model_file.graph.torch_modules.modules import convert_two_heads

__all__ = ["image_decision"]


def image_decision(estimator: RcRImageRegressor, image: Value, cost: Value | None) -> tuple[Value, Value]:
    """Return the prediction and the score (row, 1) of a fitted regressor of images.

    Parameters
    ----------
    estimator : RcRImageRegressor
    image : Value of shape (row, channel, height, width)
        Of type float and the size of the training images, with the numbers that the network sees: bytes must be scaled
        to [-1, 1] by x / 127.5 - 1.
    cost : Value of shape (row, 1) or None
        None if all rows have the cost of `fit`.
    """
    scaled = None if cost is None else (cost.squeeze(1) / estimator._scale**2).cast(FLOAT)
    prediction, score = convert_two_heads(estimator.network_, image, scaled)
    in_units = prediction.cast(DOUBLE) * estimator._scale + estimator._mean
    return in_units.unsqueeze(1), score.cast(DOUBLE).unsqueeze(1)
