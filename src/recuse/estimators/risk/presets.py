"""Published methods as presets of RiskRejector, and the kernel regression that one of them uses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils import check_random_state
from sklearn.utils.extmath import softmax

from recuse.estimators.base import CheckedRegressor
from recuse.estimators.mlp import StackedMLPRegressor
from recuse.estimators.risk.rejector import RiskRejector
from recuse.tabular.encoder import TableEncoder
from recuse.validation import is_count, is_rate, require

Floats = NDArray[np.float64]

# Widths to try, in units of the median distance between rows.
_GRID = 2.0 ** np.arange(-5, 2.5, 0.5)
# Number of distances that are in memory at once.
_CELLS = 2**22


class KernelAverage(CheckedRegressor):
    """Average the targets with weights exp(-d^2 / (2 w^2)), where d is the distance and w the width.

    Features are standardised first. Far from all training rows, the prediction is the target of the nearest one.

    Parameters
    ----------
    width : float, optional
        In standard deviations of the features. By default the best of a grid by leave-one-out squared error.
    max_rows : int, default=1000
        Number of training rows, drawn at random, on which the width is chosen.
    random_state : int, RandomState or None, default=None
        Draws these rows.

    Attributes
    ----------
    width_ : float
    n_features_in_, feature_names_in_ : as in scikit-learn

    Examples
    --------
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = KernelAverage().fit(X, np.sin(X[:, 0]))
    >>> model.predict([[1.5], [4.5]]).round(1)
    array([ 1., -1.])
    """

    def __init__(
        self,
        width: float | None = None,
        max_rows: int = 1000,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.width = width
        self.max_rows = max_rows
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Keep the rows, and choose the width.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        KernelAverage
        """
        with self._all_or_nothing():
            require(self.width is None or is_rate(self.width), "width", "None or a finite number > 0", self.width)
            require(is_count(self.max_rows), "max_rows", "an int >= 1", self.max_rows)
            rows = self._training_rows(X, y, 1.0, sample_weight)
            self.encoder_ = TableEncoder().fit(rows.X, rows.weight, rows.schema)
            self.rows_, self.targets_, self.weight_ = self.encoder_.transform(rows.X), rows.y, rows.weight
            self.width_ = self._best_width() if self.width is None else float(self.width)
        return self

    def predict(self, X: Any) -> Floats:
        """Predict every row.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows = self._check_new_rows(X)
        features = self.encoder_.transform(rows)
        blocks = (self._square_distances(features[part]) for part in self._blocks(np.arange(len(features))))
        return np.concatenate([self._average(square, self.width_) for square in blocks])

    def _blocks(self, rows: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
        """Divide the rows into blocks whose distances to the training rows fit into memory."""
        size = max(1, _CELLS // len(self.rows_))
        return (rows[start : start + size] for start in range(0, len(rows), size))

    def _square_distances(self, features: Floats) -> Floats:
        """Return the squared distances (row, training row)."""
        return np.asarray(euclidean_distances(features, self.rows_, squared=True))

    def _average(self, square: Floats, width: float) -> Floats:
        # softmax is stable even where all weights would underflow
        share = softmax(np.log(self.weight_) - square / (2 * width**2))
        return np.asarray(share @ self.targets_)

    def _best_width(self) -> float:
        """Find the width with the lowest leave-one-out squared error."""
        chosen = check_random_state(self.random_state).permutation(len(self.rows_))[: self.max_rows]
        widths = self._median_distance(chosen) * _GRID
        loss = np.zeros(len(widths))
        for part in self._blocks(chosen):
            square = self._square_distances(self.rows_[part])
            square[np.arange(len(part)), part] = np.inf  # leave the row itself out
            error = np.array([self._average(square, width) - self.targets_[part] for width in widths])
            loss += error**2 @ self.weight_[part]
        return float(widths[loss.argmin()])

    def _median_distance(self, chosen: NDArray[np.intp]) -> float:
        """Return the median distance between some rows and all rows."""
        square = self._square_distances(self.rows_[chosen[:100]])
        apart = square[square > 0]
        return float(np.sqrt(np.median(apart))) if len(apart) else 1.0


def knn_plug(**parameters: Any) -> RiskRejector:
    """Knn-Plug: nearest neighbours for h, and again for its squared residuals on the same rows.

    This is the plug-in rule of Zaoui, Denis and Hebiri, "Regression with reject option and application to kNN",
    NeurIPS 2020, with ten neighbours by default. Every row is among its own neighbours, so the estimated risk is too
    small, as in the published method; ``residuals="crossfit"`` avoids that.

    Parameters
    ----------
    **parameters
        Those of `RiskRejector` and of its parts, such as ``regressor__n_neighbors``.

    Examples
    --------
    >>> knn_plug(cost=4.0, regressor__n_neighbors=5).regressor
    KNeighborsRegressor()
    """
    return _plug(KNeighborsRegressor(10), KNeighborsRegressor(10), "train", parameters)


def mlp_plug(**parameters: Any) -> RiskRejector:
    """MLP-Plug: a network for h, and one of the same shape for its squared residuals on the same rows.

    Parameters
    ----------
    **parameters
        Those of `RiskRejector` and of its parts, such as ``regressor__epochs`` and ``risk__epochs``.

    Examples
    --------
    >>> mlp_plug(cost=4.0, regressor__epochs=100).regressor
    StackedMLPRegressor(epochs=100)
    """
    return _plug(StackedMLPRegressor(), StackedMLPRegressor(), "train", parameters)


def no_rejection(**parameters: Any) -> RiskRejector:
    """No-rejection learning: a network for h, trained without rejection, and a kernel average for its risk.

    The squared error is averaged over rows held out from the network (Li et al., "When No-Rejection Learning is
    Consistent for Regression with Rejection", AISTATS 2024); the width of the kernel is chosen by leaving one out.

    Parameters
    ----------
    **parameters
        Those of `RiskRejector` and of its parts, such as ``regressor__epochs`` and ``risk__width``.

    Examples
    --------
    >>> no_rejection(cost=4.0, risk__width=0.5).risk
    KernelAverage(width=0.5)
    """
    return _plug(StackedMLPRegressor(), KernelAverage(), "holdout", parameters)


def _plug(regressor: Any, risk: Any, residuals: Any, parameters: dict[str, Any]) -> RiskRejector:
    """Return a RiskRejector whose risk model uses only the features and is not rescaled."""
    model = RiskRejector(regressor, risk, residuals, sees_prediction=False, rescale=False, unseen="keep")
    return model.set_params(**parameters)  # type: ignore[no-any-return]
