"""Experts: their predictions, fees and capacities, and the checks of these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.costs import Cost, is_constant, needs_rows, row_values
from recuse.dataframes import aligned, float_array, row_index, row_name, to_pandas
from recuse.validation import is_count, require

Floats = NDArray[np.float64]

# The name of action 0, which is the own prediction.
MODEL = "model"
# A share of the rows that is below a whole number by this much is a rounding error.
_ROUNDING = 1e-9
# Names of lines of `DeferralDecision.evaluate`, beside "always ...".
_LINES = ("total", "oracle")


@dataclass(frozen=True, eq=False)
class Expert:
    """An expert that rows can be deferred to.

    Parameters
    ----------
    source : estimator, callable, array-like of shape (n_rows,) or str
        A fitted model with `predict`, which was fitted to other rows; a callable from the features to predictions;
        recorded predictions of the rows passed to `fit`; or the name of a column of `X` with recorded predictions,
        which is then not a feature. A recorded NaN means that the expert did not look at the row.
    fee : float, array-like of shape (n_rows,), callable or str, default=0.0
        Price of an answer, in the units of the loss: a number, one value for each row passed to `fit`, a callable of
        the features, or the name of a column of `X`, which is then not a feature.
    capacity : int, float or None, default=None
        Largest number of rows that the expert takes in one call of `decide`, if an int; largest share of these rows,
        from 0.0 to 1.0, if a float. So 1 is one row, and 1.0 is all of them. None is no limit.

    Examples
    --------
    >>> Expert("night_shift", fee=0.5, capacity=0.1)
    Expert(source='night_shift', fee=0.5, capacity=0.1)
    """

    source: Any
    fee: Cost = 0.0
    capacity: int | float | None = None


def read_experts(experts: Any) -> dict[str, Expert]:
    """Check the parameter `experts`, and return an `Expert` for each name.

    Examples
    --------
    >>> read_experts({"night": ("night_shift", 0.5)})
    {'night': Expert(source='night_shift', fee=0.5, capacity=None)}
    """
    require(isinstance(experts, Mapping) and len(experts) > 0, "experts", "a mapping with at least one expert", experts)
    known = {name: _read(name, given) for name, given in experts.items()}
    sources = [expert.source for expert in known.values() if isinstance(expert.source, str)]
    fees = {expert.fee for expert in known.values() if isinstance(expert.fee, str)}
    for column in sources:
        once = sources.count(column) == 1 and column not in fees
        require(once, "the columns of recorded predictions", "used once", f"{column!r} more than once")
    return known


def _read(name: Any, given: Any) -> Expert:
    require(isinstance(name, str) and name != "", "the name of an expert", "a text that is not empty", name)
    require(name != MODEL, "the name of an expert", f"other than {MODEL!r}, which is the own prediction", name)
    line = name in _LINES or name.startswith("always ")
    require(not line, "the name of an expert", "other than 'total', 'oracle' and 'always ...', used by evaluate", name)
    if isinstance(given, tuple) and len(given) in (2, 3):
        given = Expert(*given)
    rule = "an Expert, or a tuple (source, fee) or (source, fee, capacity)"
    require(isinstance(given, Expert), f"experts[{name!r}]", rule, given)
    expert: Expert = given
    usable = expert.source is not None and not isinstance(expert.source, type)
    rule = "a fitted model, a callable, recorded predictions or the name of a column"
    require(usable, f"the source of {name!r}", rule, expert.source)
    fee: Any = expert.fee
    if is_constant(fee):
        row_values(fee, f"the fee of {name!r}", 1)
    _check_capacity(name, expert.capacity)
    return expert


def _check_capacity(name: str, capacity: Any) -> None:
    share = isinstance(capacity, float | np.floating) and bool(0 <= capacity <= 1)
    rule = "None, an int >= 0 (rows) or a float from 0.0 to 1.0 (share of the rows)"
    require(capacity is None or is_count(capacity, least=0) or share, f"the capacity of {name!r}", rule, capacity)


def is_always_available(expert: Expert) -> bool:
    """Whether the expert is a model or a callable, which predicts any row."""
    return not isinstance(expert.source, str) and (hasattr(expert.source, "predict") or callable(expert.source))


def unanswered(experts: Mapping[str, Expert], predictions: Floats) -> NDArray[np.bool_]:
    """Return where (row, expert) an expert that is always available has no prediction, so it cannot take the row.

    Examples
    --------
    >>> experts = {"rule": Expert(np.sqrt), "night": Expert("night_shift")}
    >>> unanswered(experts, np.array([[2.0, np.nan], [np.nan, np.nan]]))
    array([[False, False],
           [ True, False]])
    """
    available = np.array([is_always_available(expert) for expert in experts.values()])
    return np.asarray(np.isnan(predictions) & available)


def without_named_columns(X: Any, experts: Mapping[str, Expert], fees: Mapping[str, Any] | None = None) -> Any:
    """Return the features: the table without the columns of recorded predictions and fees.

    Examples
    --------
    >>> table = pd.DataFrame({"x": [1.0], "night": [2.0]})
    >>> without_named_columns(table, {"night": Expert("night")}).columns.tolist()
    ['x']
    """
    of_experts = [value for expert in experts.values() for value in (expert.source, expert.fee)]
    named = [value for value in [*of_experts, *(fees or {}).values()] if isinstance(value, str)]
    X = to_pandas(X) if named else X
    if not isinstance(X, pd.DataFrame):
        return X
    if X.columns.has_duplicates:
        twice = X.columns[X.columns.duplicated()][0]
        raise ValueError(f"column names must be unique, got {twice!r} more than once")
    return X.drop(columns=named, errors="ignore")


def predictions_of(experts: Mapping[str, Expert], X: Any, features: Any, *, fitting: bool) -> Floats:
    """Return the predictions (row, expert) of all experts, NaN where there are none.

    Parameters
    ----------
    experts : mapping of str to Expert
    X : array-like or DataFrame
        The rows as passed by the user, with the columns of recorded predictions.
    features : DataFrame or ndarray
        The checked features, for models and callables.
    fitting : bool
        Whether these are the rows of `fit`. If not, recorded arrays are unknown, and columns may be absent.
    """
    table, index = to_pandas(X), row_index(X)
    columns = [_predictions(name, expert, table, index, features, fitting) for name, expert in experts.items()]
    return np.column_stack(columns)


def _predictions(
    name: str, expert: Expert, X: Any, index: pd.Index[Any] | None, features: Any, fitting: bool
) -> Floats:
    source, label = expert.source, f"the predictions of {name!r}"
    if isinstance(source, str):
        if not fitting and not (isinstance(X, pd.DataFrame) and source in X.columns):
            return np.full(len(features), np.nan)
        values = _column(X, source, f"the source of {name!r}")
    elif hasattr(source, "predict"):
        values = source.predict(features)
    elif callable(source):
        values = source(features)
    elif not fitting:
        return np.full(len(features), np.nan)
    else:
        values = aligned(source, index, label)
    return _checked(float_array(values, label), label, len(features), index)


def _checked(values: Floats, label: str, n_rows: int, index: pd.Index[Any] | None) -> Floats:
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (n_rows,):
        raise ValueError(f"{label} must have one value for each of {n_rows} rows, got shape {values.shape}")
    wrong = np.isinf(values)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"{label} must be finite or NaN, got {values[row]} at {row_name(row, index)}")
    return values


def fees_of(
    experts: Mapping[str, Expert], X: Any, features: Any, given: Mapping[str, Any] | None = None, *, fitting: bool
) -> Floats:
    """Return the fees (row, expert); `given` replaces those of some experts.

    Examples
    --------
    >>> X = np.zeros((2, 1))
    >>> fees_of({"day": Expert("day", 1.0), "night": Expert("night", 2.0)}, X, X, {"night": [3.0, 4.0]}, fitting=False)
    array([[1., 3.],
           [1., 4.]])
    """
    check_names(given, experts, "fees")
    fees = {name: (given or {}).get(name, expert.fee) for name, expert in experts.items()}
    for name, fee in fees.items():
        if not fitting and needs_rows(fee) and name not in (given or {}):
            raise ValueError(
                f"the fee of {name!r} has one value for each row of fit, so new rows need theirs: "
                f"pass fees={{{name!r}: ...}}, a number or one value per row"
            )
    table, index = to_pandas(X), row_index(X)
    return np.column_stack([_fee(name, fee, table, index, features) for name, fee in fees.items()])


def _fee(name: str, fee: Any, X: Any, index: pd.Index[Any] | None, features: Any) -> Floats:
    label = f"the fee of {name!r}"
    if isinstance(fee, str):
        fee = _column(X, fee, label)
    elif callable(fee):
        fee = fee(features)
    return row_values(aligned(fee, index, label), label, len(features), index)


def check_names(given: Mapping[str, Any] | None, experts: Mapping[str, Expert], parameter: str) -> None:
    """Check that a mapping has no names but those of experts."""
    for name in given or {}:
        require(name in experts, parameter, f"a mapping with names among {list(experts)}", name)


def capacities_of(
    experts: Mapping[str, Expert], n_rows: int, given: Mapping[str, Any] | None = None
) -> NDArray[np.intp]:
    """Return the largest number of rows of each expert; `given` replaces the capacities of some.

    Examples
    --------
    >>> capacities_of({"day": Expert("day"), "night": Expert("night", capacity=0.29)}, 100, {"day": 7})
    array([ 7, 29])
    """
    check_names(given, experts, "capacities")
    limits = {name: (given or {}).get(name, expert.capacity) for name, expert in experts.items()}
    for name, limit in limits.items():
        _check_capacity(name, limit)
    return np.array([_count(limit, n_rows) for limit in limits.values()], dtype=np.intp)


def _count(capacity: int | float | None, n_rows: int) -> int:
    if capacity is None:
        return n_rows
    if is_count(capacity, least=0):
        return min(int(capacity), n_rows)
    return math.floor(capacity * n_rows + _ROUNDING)


def _column(X: Any, name: str, label: str) -> pd.Series[Any]:
    if not isinstance(X, pd.DataFrame):
        raise ValueError(f"{label} names the column {name!r}, so X must be a DataFrame, got {type(X).__name__}")
    if name not in X.columns:
        raise ValueError(f"{label} must be a column of X, got {name!r} for columns {list(X.columns)}")
    return X[name]
