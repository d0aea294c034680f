"""Decisions of rejecting regressors inside scikit-learn meta-estimators, and cross-validated decisions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.model_selection import GroupKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

from recuse.costs import Cost, needs_rows, row_values
from recuse.dataframes import aligned, row_index, row_name
from recuse.decision import Decision
from recuse.metrics.scorer import is_search, unwrap

Floats = NDArray[np.float64]
Split = tuple[NDArray[np.intp], NDArray[np.intp]]

# The default of scikit-learn.
_DEFAULT_FOLDS = 5


def decide(estimator: Any, X: Any, cost: Cost | None = None) -> Decision:
    """Decide with a rejecting regressor inside other estimators.

    scikit-learn's meta-estimators have no method `decide`. This function follows a Pipeline, a GridSearchCV or
    RandomizedSearchCV and a TransformedTargetRegressor, in any nesting, to the rejecting regressor inside.

    Parameters
    ----------
    estimator : fitted estimator
        A rejecting regressor, or a composition that ends in one.
    X : array-like or DataFrame of shape (n_rows, n_features)
        Rows, before the transformers of a Pipeline.
    cost : float, array-like, callable or str, optional
        Used instead of the cost of `fit`, in units of the user's target. A callable or a column name refers to `X`.

    Returns
    -------
    Decision
        In units of the user's target, with the index of `X`.

    Notes
    -----
    The parameter `cost` of a regressor inside a TransformedTargetRegressor is in units of the transformed target. For
    an increasing affine transformation y = a + b z, the factor between the two units is ``loss.unit(b)``. Costs,
    expected losses, and scores in units of the loss are converted by it. Any other transformation has no such factor
    and raises a ValueError.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from recuse import RiskRejector, datasets
    >>> from recuse.estimators import decide
    >>> X, y, mean, variance = datasets.make_heteroscedastic(300, random_state=0)
    >>> model = make_pipeline(StandardScaler(), RiskRejector(cost=1.0, random_state=0)).fit(X, y)
    >>> len(decide(model, X))
    300
    """
    decision: Decision = unwrap(estimator, X).decide(cost)
    return decision


def expected_loss(estimator: Any, X: Any) -> Floats:
    """Return the expected loss of every row by a rejecting regressor inside other estimators.

    Parameters
    ----------
    estimator : fitted estimator
        A regressor with a method `expected_loss`, such as RiskRejector and AutoRejector, or a composition that ends in
        one; see `decide`.
    X : array-like or DataFrame of shape (n_rows, n_features)
        Rows, before the transformers of a Pipeline.

    Returns
    -------
    ndarray of shape (n_rows,)
        In units of the user's target.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from recuse import RiskRejector, datasets
    >>> from recuse.estimators import expected_loss
    >>> X, y, mean, variance = datasets.make_heteroscedastic(300, random_state=0)
    >>> model = make_pipeline(StandardScaler(), RiskRejector(random_state=0)).fit(X, y)
    >>> expected_loss(model, X).shape
    (300,)
    """
    return unwrap(estimator, X).expected_loss()


def cross_val_decide(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = None,
    groups: ArrayLike | None = None,
    cost: Cost | None = None,
    sample_weight: ArrayLike | None = None,
    n_jobs: int | None = None,
) -> Decision:
    """Decide on every row with a copy of the estimator that was fitted without that row.

    Parameters
    ----------
    estimator : estimator
        A rejecting regressor, or a composition that ends in one; see `decide`.
    X : array-like or DataFrame of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    cv : int, splitter or iterable of (train, test), optional
        The test parts must partition the rows. By default 5 folds. With groups, a number of folds gives a GroupKFold.
    groups : array-like of shape (n_rows,), optional
        Passed to the splitter, and to `fit` if the estimator takes groups.
    cost : float, array-like, callable or str, optional
        Passed to `fit` and to `decide`, and divided into folds if it has one value per row. With a
        TransformedTargetRegressor it is passed to `decide` only, since `fit` takes costs in units of the transformed
        target.
    sample_weight : array-like of shape (n_rows,), optional
        Passed to `fit`.
    n_jobs : int, optional
        Processes, as in joblib.

    Returns
    -------
    Decision
        One row for each row of `X`, in the same order and with the same index.

    Examples
    --------
    >>> from sklearn.model_selection import KFold
    >>> from recuse import RiskRejector, datasets
    >>> from recuse.estimators import cross_val_decide
    >>> cars, folds = datasets.load("auto_mpg"), KFold(5, shuffle=True, random_state=0)
    >>> decision = cross_val_decide(RiskRejector(random_state=0), cars.X, cars.y, cv=folds, cost=6.0)
    >>> measures = decision.evaluate(cars.y)
    >>> measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"])
    True
    """
    X, y, groups, sample_weight = indexable(X, y, groups, sample_weight)
    index = row_index(X)
    y, groups = aligned(y, index, "y"), aligned(groups, index, "groups")
    sample_weight = aligned(sample_weight, index, "sample_weight")
    if cost is not None and needs_rows(cost):
        cost = row_values(aligned(cost, index, "cost"), "cost", len(y))
    splits = _splits(cv, X, y, groups)
    options = _fit_options(estimator, groups=groups, cost=cost, sample_weight=sample_weight)
    parts = Parallel(n_jobs=n_jobs)(
        delayed(_fit_and_decide)(clone(estimator), X, y, options, cost, split) for split in splits
    )
    place = np.argsort(np.concatenate([test for _, test in splits]))
    return Decision.concatenate(parts)[place]


def _splits(cv: Any, X: Any, y: Any, groups: Any) -> list[Split]:
    """Divide the rows; every row must be in exactly one test part."""
    if groups is not None and (cv is None or isinstance(cv, int)):
        cv = GroupKFold(_DEFAULT_FOLDS if cv is None else cv)
    splits = list(check_cv(cv).split(X, y, groups))
    counts = np.bincount(np.concatenate([test for _, test in splits]), minlength=len(y))
    if (counts != 1).any():
        row = int((counts != 1).argmax())
        name = row_name(row, row_index(X))
        raise ValueError(f"cv must put every row into exactly one test part, got {name} in {counts[row]} of them")
    return splits


def _fit_options(estimator: Any, *, groups: Any, cost: Any, sample_weight: Any) -> dict[str, Any]:
    """Return the keyword arguments of `fit`; without metadata routing, a Pipeline needs the names of its steps."""
    levels = list(_levels(estimator))
    prefix, regressor = levels[-1]
    options: dict[str, Any] = {}
    if sample_weight is not None:
        options[f"{prefix}sample_weight"] = sample_weight
    transformed = any(isinstance(level, TransformedTargetRegressor) for _, level in levels)
    if cost is not None and not transformed and has_fit_parameter(regressor, "cost"):
        options[f"{prefix}cost"] = cost
    takes_groups = [path for path, level in levels if is_search(level) or has_fit_parameter(level, "groups")]
    if groups is not None and takes_groups:
        options[f"{takes_groups[0]}groups"] = groups
    return options


def _levels(estimator: Any) -> Iterator[tuple[str, Any]]:
    """Return every estimator from the outermost to the innermost, with the prefix of its parameters of `fit`."""
    routing, prefix = sklearn.get_config()["enable_metadata_routing"], ""
    while estimator is not None:
        yield prefix, estimator
        if isinstance(estimator, Pipeline):
            name, estimator = estimator.steps[-1]
            prefix = "" if routing else f"{prefix}{name}__"
        elif isinstance(estimator, TransformedTargetRegressor):
            estimator = estimator.regressor
        else:
            estimator = estimator.estimator if is_search(estimator) else None


def _fit_and_decide(
    estimator: Any, X: Any, y: Any, options: dict[str, Any], cost: Cost | None, split: Split
) -> Decision:
    train, test = split
    fold_options = {name: _of_rows(value, train) for name, value in options.items()}
    estimator.fit(_safe_indexing(X, train), _safe_indexing(y, train), **fold_options)
    return decide(estimator, _safe_indexing(X, test), cost=_of_rows(cost, test))


def _of_rows(value: Any, rows: NDArray[np.intp]) -> Any:
    """Select the values of some rows; return a number, a callable or a name unchanged."""
    return value if value is None or not needs_rows(value) else _safe_indexing(value, rows)
