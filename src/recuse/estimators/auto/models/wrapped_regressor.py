"""Base class of estimators that prepare the rows of another regressor."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import Tags, get_tags

from recuse.estimators.joint_fits import Rows, fit_all

Floats = NDArray[np.float64]


class WrappedRegressor(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Fit the regressor in the parameter `regressor` to prepared rows, as `regressor_`.

    Several estimators are fitted together if their regressors can be; see `recuse.estimators.joint_fits`.
    """

    regressor: Any

    def __sklearn_tags__(self) -> Tags:
        """Describe the estimator to scikit-learn: several targets if the regressor can predict them."""
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = get_tags(self.regressor).target_tags.multi_output
        return tags

    def fit(self, X: Floats, y: Floats, sample_weight: Floats | None = None) -> Self:
        """Prepare the rows, then fit the regressor."""
        self.fit_together([self], [(np.asarray(X), np.asarray(y), sample_weight)])
        return self

    @classmethod
    def fit_together(cls, estimators: Sequence[Any], rows: Sequence[Rows], n_jobs: int | None = None) -> None:
        """Fit several estimators of this class, each to its own rows."""
        inside = cls._prepared(estimators, rows, n_jobs)
        regressors = [clone(estimator.regressor) for estimator in estimators]
        for estimator, regressor in zip(estimators, fit_all(regressors, inside, n_jobs), strict=True):
            estimator.regressor_ = regressor

    @classmethod
    @abstractmethod
    def _prepared(cls, estimators: Sequence[Any], rows: Sequence[Rows], n_jobs: int | None) -> list[Rows]:
        """Learn what the estimators need to prepare rows, and return the rows of their regressors."""
