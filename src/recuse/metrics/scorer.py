"""The negative RcR loss as a scorer for scikit-learn's model selection."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Self

import numpy as np
import sklearn
from numpy.typing import ArrayLike
from sklearn.utils.metadata_routing import MetadataRequest

from recuse.metrics.measures import evaluate
from recuse.metrics.rows import mean, squared_error
from recuse.metrics.unwrapping import unwrap

__all__ = ["rcr_scorer"]


class _RcRScorer:
    """Negative RcR loss of a fitted estimator, by the estimator's own loss; larger is better.

    Pass it as ``scoring=rcr_scorer``. The estimator may be a Pipeline, a search or a TransformedTargetRegressor, in any
    nesting. A regressor that cannot reject accepts every row, so its score is its negative mean squared error.

    With metadata routing enabled, the scorer requests `cost` and `sample_weight`.
    """

    def __init__(self) -> None:
        self._request = MetadataRequest(owner="rcr_scorer")
        for name in ("cost", "sample_weight"):
            self._request.score.add_request(param=name, alias=True)

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        cost: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        inner = unwrap(estimator, X)
        if hasattr(inner.regressor, "decide"):
            return -evaluate(y, inner.decide(cost), sample_weight=sample_weight)["rcr_loss"]
        error = squared_error(y, inner.predict())
        return -mean(error, np.ones(len(error), dtype=np.bool_), sample_weight)

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Give a scorer with other metadata requests; this one stays as it is.

        Parameters
        ----------
        **requests : bool, str or None
            For `cost` and `sample_weight`: True to request it, False to ignore it, None to raise an error if it is
            passed, or the name under which it is passed. A parameter that is not named keeps its request.

        Examples
        --------
        >>> import sklearn
        >>> with sklearn.config_context(enable_metadata_routing=True):
        ...     rcr_scorer.set_score_request(cost="fee").get_metadata_routing()
        {'score': {'cost': 'fee', 'sample_weight': True}}
        """
        if not sklearn.get_config()["enable_metadata_routing"]:
            raise RuntimeError(
                "set_score_request needs metadata routing: call sklearn.set_config(enable_metadata_routing=True)"
            )
        unknown = set(requests) - set(self._request.score.requests)
        if unknown:
            raise TypeError(f"rcr_scorer takes cost and sample_weight, got {', '.join(sorted(unknown))}")
        scorer = deepcopy(self)
        for name, alias in requests.items():
            scorer._request.score.add_request(param=name, alias=alias)
        return scorer

    def get_metadata_routing(self) -> MetadataRequest:
        """Give a copy of the metadata requests."""
        return deepcopy(self._request)

    def __repr__(self) -> str:
        return "rcr_scorer"


rcr_scorer = _RcRScorer()
