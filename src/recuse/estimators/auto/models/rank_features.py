"""Regression on ranks of the features and a standardised target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.preprocessing import QuantileTransformer
from sklearn.utils import Tags, get_tags

from recuse.estimators.joint_fits import Rows, fit_all
from recuse.tabular.units import target_moments

__all__ = ["RankFeatures"]

Floats = NDArray[np.float64]

_HALF_WIDTH = 3**0.5  # of a uniform distribution with standard deviation 1
_MAX_QUANTILES = 100


class RankFeatures(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Fit a regressor to the rank of each value in its column, and to a standardised target.

    Ranks help networks and kernel methods on skewed columns. The scaled target helps trees, which stop splitting where
    the variance of the target is near the machine precision. The ranks are uniform on [-1.7, 1.7], so that their
    standard deviation is 1. Columns with one or two distinct values are left as they are.

    Parameters
    ----------
    regressor : estimator
    ranks : {"beside", "instead", "none"}, default="beside"
        Use the ranks in addition to the values, instead of them, or not at all.
    scale_target : bool, default=True

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> X = np.array([[1.0], [10.0], [100.0], [1000.0]])
    >>> RankFeatures(Ridge(1e-6), ranks="instead").fit(X, np.arange(4.0)).predict(X).round(2) + 0.0
    array([0., 1., 2., 3.])
    """

    def __init__(
        self, regressor: Any, ranks: Literal["beside", "instead", "none"] = "beside", scale_target: bool = True
    ) -> None:
        self.regressor = regressor
        self.ranks = ranks
        self.scale_target = scale_target

    def __sklearn_tags__(self) -> Tags:
        """Describe the estimator to scikit-learn: several targets if the regressor can predict them."""
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = get_tags(self.regressor).target_tags.multi_output
        return tags

    def fit(self, X: Floats, y: Floats, sample_weight: Floats | None = None) -> Self:
        """Learn ranks and scales, then fit the regressor."""
        self.fit_together([self], [(X, y, sample_weight)])
        return self

    @staticmethod
    def fit_together(estimators: Sequence[RankFeatures], rows: Sequence[Rows], n_jobs: int | None = None) -> None:
        """Fit several estimators, each to its own rows; see `recuse.estimators.joint_fits`."""
        regressors = [clone(estimator.regressor) for estimator in estimators]
        inside = [estimator._learn(*own) for estimator, own in zip(estimators, rows, strict=True)]
        for estimator, regressor in zip(estimators, fit_all(regressors, inside, n_jobs), strict=True):
            estimator.regressor_ = regressor

    def _learn(self, X: Floats, y: Floats, sample_weight: Floats | None) -> Rows:
        """Learn ranks and scales, and return the rows of the regressor."""
        self._learn_ranks(X)
        weight = np.ones(len(y)) if sample_weight is None else sample_weight
        self.target_ = target_moments(y, weight) if self.scale_target else (0.0, 1.0)
        mean, scale = self.target_ = self.target_[0], self.target_[1] or 1.0
        return self._inputs(X), (y - mean) / scale, sample_weight

    def predict(self, X: Floats) -> Floats:
        """Predict every row, in the user's units."""
        mean, scale = self.target_
        return np.asarray(self.regressor_.predict(self._inputs(X)) * scale + mean)

    def _learn_ranks(self, X: Floats) -> None:
        ranked = [self.ranks != "none" and len(np.unique(column)) > 2 for column in X.T]
        self.columns_ = np.flatnonzero(ranked)
        if len(self.columns_):
            quantiles = min(_MAX_QUANTILES, len(X))
            self.ranks_ = QuantileTransformer(n_quantiles=quantiles, random_state=0).fit(X[:, self.columns_])

    def _inputs(self, X: Floats) -> Floats:
        if not len(self.columns_):
            return X
        ranks = (2 * self.ranks_.transform(X[:, self.columns_]) - 1) * _HALF_WIDTH
        kept = X if self.ranks == "beside" else np.delete(X, self.columns_, axis=1)
        return np.column_stack([kept, ranks])
