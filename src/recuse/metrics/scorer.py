"""rcr_scorer: a fitted estimator and rows in, its negative RcR loss out, for scikit-learn's model selection."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from recuse.metrics.measures import evaluate

__all__ = ["rcr_scorer"]


class _RcRScorer:
    """``scoring=rcr_scorer``: the negative RcR loss of ``estimator.decide(X)``, by the estimator's own loss.

    The estimator may be the last step of a pipeline.
    """

    def __call__(
        self,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        cost: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        if isinstance(estimator, Pipeline):
            features = estimator[:-1].transform(X) if len(estimator) > 1 else X
            return self(estimator[-1], features, y, cost, sample_weight)
        return -evaluate(y, estimator.decide(X, cost=cost), sample_weight=sample_weight)["rcr_loss"]

    def get_metadata_routing(self) -> MetadataRequest:
        """Ask scikit-learn for `cost` and `sample_weight` where the user passes them."""
        request = MetadataRequest(owner="rcr_scorer")
        for name in ("cost", "sample_weight"):
            request.score.add_request(param=name, alias=True)
        return request

    def __repr__(self) -> str:
        return "rcr_scorer"


rcr_scorer = _RcRScorer()
