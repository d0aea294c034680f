"""The regressor inside pipelines, searches and transformed targets, and a scorer of its decisions."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest
from sklearn.utils.validation import check_is_fitted

from recuse.costs import Cost, is_constant, resolve
from recuse.losses import SQUARED, TargetLoss
from recuse.metrics.measures import evaluate, mean, squared_error

Floats = NDArray[np.float64]

_PROBES = np.array([-1e3, -1.0, -0.5, 0.5, 2.0, 1e3])
_TOLERANCE = 1e-6


@dataclass(frozen=True)
class Unwrapped:
    """The innermost regressor of a fitted composition.

    Attributes
    ----------
    regressor : estimator
        The last step, best estimator or inner regressor that makes the predictions.
    X : array-like or DataFrame
        The rows as the regressor receives them.
    user_X : array-like or DataFrame
        The rows as the user passed them.
    target_transformers : tuple of transformers
        Fitted transformers of the target, the innermost first.
    """

    regressor: Any
    X: Any
    user_X: Any
    target_transformers: tuple[Any, ...] = ()

    def decide(self, cost: Cost | None = None) -> Any:
        """Give the `recuse.Decision` of the regressor in the user's units, with the index of the user's rows."""
        self._require_method("decide")
        if self.X is self.user_X and not self.target_transformers:
            return self.regressor.decide(self.X, cost=cost)
        loss, unit = self._user_loss()
        user_cost = None if cost is None else self._user_cost(cost)
        decision = self.regressor.decide(self.X, cost=None if user_cost is None else self._inner_cost(user_cost, unit))
        index = self.user_X.index if isinstance(self.user_X, pd.DataFrame) else None
        if not self.target_transformers:
            return replace(decision, index=index)
        # a score is in units of the loss where it is a cost less an expected loss, and has no units otherwise
        score_unit = unit if hasattr(self.regressor, "expected_loss") else 1.0
        return replace(
            decision,
            prediction=self._to_user_target(decision.prediction),
            score=decision.score * score_unit,
            cost=decision.cost * unit if user_cost is None else user_cost,
            index=index,
            loss=loss,
        )

    def expected_loss(self) -> Floats:
        """Give the expected loss of every row in the user's units."""
        self._require_method("expected_loss")
        _, unit = self._user_loss()
        return np.asarray(self.regressor.expected_loss(self.X) * unit)

    def _require_method(self, name: str) -> None:
        if not hasattr(self.regressor, name):
            raise TypeError(
                f"{type(self.regressor).__name__} has no method `{name}`; "
                "pipelines, searches and transformed targets must end in an estimator that has one"
            )

    def _user_cost(self, cost: Cost) -> float | Floats:
        """Evaluate a column name or a callable on the user's rows; a number stays a number."""
        return float(cost) if is_constant(cost) else resolve(cost, self.user_X, len(self.user_X))  # type: ignore[arg-type]

    def _inner_cost(self, cost: float | Floats, unit: float) -> float | Floats:
        """Convert costs to the units of the regressor."""
        if unit == 1.0:
            return cost
        inner, fitted = cost / unit, getattr(self.regressor, "cost_", None)
        if fitted is None or not is_constant(fitted):
            return inner
        # the cost of `fit`, converted to the user's units and back, may differ in its last digit
        return np.where(np.isclose(inner, fitted, rtol=1e-12, atol=0.0), fitted, inner)

    def _user_loss(self) -> tuple[TargetLoss, float]:
        """Give the loss of the user's target, and the value in it of one unit of the regressor's loss."""
        loss: TargetLoss = getattr(self.regressor, "loss_", SQUARED)
        if not self.target_transformers:
            return loss, 1.0
        scale = self._target_scale()
        user_loss = loss.scaled(1 / scale)
        return user_loss, user_loss.unit(scale)

    def _to_user_target(self, values: Floats) -> Floats:
        """Apply the inverse transformations to targets (row,)."""
        column = values[:, None]
        for transformer in self.target_transformers:
            column = np.asarray(transformer.inverse_transform(column), dtype=np.float64).reshape(-1, 1)
        return column[:, 0]

    def _target_scale(self) -> float:
        """Give b of the inverse transformation y = a + b z, or raise an error if it has another form."""
        with np.errstate(all="ignore"):
            shift, *values = self._to_user_target(np.append(0.0, _PROBES))
            scale = (values[-1] - shift) / _PROBES[-1]
            error = np.abs(values - (shift + scale * _PROBES))
            affine = error <= _TOLERANCE * scale * np.abs(_PROBES) + 1e-12 * np.abs(shift)
        if not (np.isfinite(scale) and scale > 0 and affine.all()):
            names = ", ".join(type(transformer).__name__ for transformer in self.target_transformers)
            raise ValueError(
                f"the transformation of the target must be affine and increasing, got {names}: "
                f"{type(self.regressor).__name__} states its cost in units of the transformed target, "
                "which no single factor converts to units of the target"
            )
        return float(scale)


def unwrap(estimator: Any, X: Any) -> Unwrapped:
    """Follow a fitted Pipeline, search or TransformedTargetRegressor, in any nesting, to the regressor inside.

    Parameters
    ----------
    estimator : fitted estimator
    X : array-like or DataFrame
        Rows; the transformers of a Pipeline are applied to them.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> model = make_pipeline(MinMaxScaler(), LinearRegression()).fit([[2.0], [4.0]], [1.0, 2.0])
    >>> unwrap(model, [[3.0]]).regressor, unwrap(model, [[3.0]]).X
    (LinearRegression(), array([[0.5]]))
    """
    if isinstance(estimator, Pipeline):
        rows = estimator[:-1].transform(X) if len(estimator) > 1 else X
        return replace(unwrap(estimator[-1], rows), user_X=X)
    if isinstance(estimator, TransformedTargetRegressor):
        check_is_fitted(estimator)
        inner = unwrap(estimator.regressor_, X)
        return replace(inner, target_transformers=(*inner.target_transformers, estimator.transformer_))
    if is_search(estimator):
        return unwrap(_best_estimator(estimator), X)
    return Unwrapped(estimator, X, X)


def is_search(estimator: Any) -> bool:
    """Whether an estimator is a search over parameters, as GridSearchCV.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.model_selection import GridSearchCV
    >>> is_search(GridSearchCV(Ridge(), {"alpha": [1, 2]})), is_search(Ridge())
    (True, False)
    """
    return hasattr(estimator, "estimator") and hasattr(estimator, "refit")


def _best_estimator(search: Any) -> Any:
    check_is_fitted(search)
    if not hasattr(search, "best_estimator_"):
        raise ValueError(f"{type(search).__name__} must have refit=True to decide, got refit={search.refit!r}")
    return search.best_estimator_


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
        error = squared_error(y, estimator.predict(X))
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
