"""Converters of transformers of numeric features, and piecewise linear functions of columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import feature_selection
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value, concat, where
from recuse.model_file.graph.conversion import converts
from recuse.model_file.graph.linear import constant_rows
from recuse.model_file.graph.operators import DOUBLE, FLOAT, INT64
from recuse.tabular.encoder import NumberEncoding, UnusedEncoding

Floats = NDArray[np.float64]

# Scikit-learn's selections of columns, which all have the method `get_support`.
_SELECTORS = [
    each
    for each in vars(feature_selection).values()
    if isinstance(each, type) and issubclass(each, feature_selection.SelectorMixin)
]

# Columns with a smaller scale are not scaled, as in scikit-learn.
_SMALLEST_SCALE = np.finfo(np.float64).eps
_LARGEST_SLOPE = 1e300
# Up to this offset, slope * x + offset is as accurate as slope * (x - start) + value.
_LARGEST_OFFSET = 1e4
# So many pieces are searched in one step.
_FEW = 16


def standardised(encoder: Any, x: Value) -> Value:
    """Return the features of a `TableEncoder` of numeric columns without missing cells."""
    kept = [place for place, column in enumerate(encoder.columns_) if not isinstance(column, UnusedEncoding)]
    columns = [encoder.columns_[place] for place in kept]
    for column in columns:
        if not isinstance(column, NumberEncoding):
            raise ConversionError(
                f"column {column.column.name!r}, a {column.column.kind}, of an encoder inside a model cannot be saved "
                "in a model file: use numeric columns"
            )
    values = x if kept == list(range(x.shape[1])) else x.take(kept, 1)
    if encoder.unseen != "keep":
        low, high = (np.array([column.range.clip(end) for column in columns]) for end in (-np.inf, np.inf))
        values = values.clip(low, high)
    values = (values - [column.mean for column in columns]) / [column.scale for column in columns]
    if not any(column.column.had_missing for column in columns):
        return values
    flag = len(columns)
    order = [place for number, column in enumerate(columns) for place in (number, flag)[: column.n_features]]
    return concat([values, constant_rows(x, [0.0])], 1).take(order, 1)


@converts(QuantileTransformer)
def _quantiles(model: Any, x: Value) -> Value:
    _check_uniform(model)
    return _piecewise(x, [_rank_pieces(column, model.references_) for column in _array(model.quantiles_).T])


def _check_uniform(model: Any) -> None:
    if model.output_distribution != "uniform":
        raise ConversionError(
            f"QuantileTransformer(output_distribution={model.output_distribution!r}) cannot be saved in a model file: "
            "use output_distribution='uniform'"
        )


@converts(StandardScaler)
def _standard_scaler(model: Any, x: Value) -> Value:
    return _centred(x, model.mean_ if model.with_mean else None, model.scale_)


@converts(RobustScaler)
def _robust_scaler(model: Any, x: Value) -> Value:
    return _centred(x, model.center_, model.scale_)


def _centred(x: Value, centre: Any, scale: Any) -> Value:
    x = x if centre is None else x - _array(centre)
    return x if scale is None else x / _array(scale)


@converts(MinMaxScaler)
def _min_max_scaler(model: Any, x: Value) -> Value:
    x = x * _array(model.scale_) + _array(model.min_)
    return x.clip(*model.feature_range) if model.clip else x


@converts(MaxAbsScaler)
def _max_abs_scaler(model: Any, x: Value) -> Value:
    x = x / _array(model.scale_)
    return x.clip(-1.0, 1.0) if getattr(model, "clip", False) else x


@converts(Normalizer)
def _normalizer(model: Any, x: Value) -> Value:
    match model.norm:
        case "l1":
            norm = x.unary("Abs").sum(axis=1, keepdims=True)
        case "l2":
            norm = (x * x).sum(axis=1, keepdims=True).unary("Sqrt")
        case _:
            norm = x.unary("Abs").max(axis=1, keepdims=True)
    return x / where(norm.equals(0.0), 1.0, norm)


@converts(PolynomialFeatures)
def _polynomial(model: Any, x: Value) -> Value:
    """Multiply as many columns as the degree, where place 0 stands for the factor 1."""
    powers = model.powers_
    factors = np.zeros((len(powers), max(1, powers.sum(axis=1).max())), np.int64)
    for row, power in zip(factors, powers, strict=True):
        row[: power.sum()] = np.repeat(np.arange(len(power)), power) + 1
    extended = concat([constant_rows(x, [1.0]), x], 1)
    result = extended.take(factors[:, 0], 1)
    for places in factors.T[1:]:
        result = result * extended.take(places, 1)
    return result


@converts(SimpleImputer)
def _imputer(model: Any, x: Value) -> Value:
    if model._fit_dtype.kind not in "fiu" or not isinstance(model.missing_values, Real):
        raise ConversionError(
            f"SimpleImputer(strategy={model.strategy!r}, missing_values={model.missing_values!r}) of values that are "
            "not numbers cannot be saved in a model file: use it on columns of numbers"
        )
    fill = _array(model.statistics_)
    absent = float(model.missing_values)
    missing = x.unary("IsNaN") if np.isnan(absent) else x.equals(absent)
    result = where(missing, np.nan_to_num(fill), x)
    if np.isnan(fill).any() and not model.keep_empty_features:
        result = result.take(np.flatnonzero(~np.isnan(fill)), 1)
    if model.add_indicator and len(model.indicator_.features_):
        result = concat([result, missing.cast(DOUBLE).take(model.indicator_.features_, 1)], 1)
    return result


@converts(PCA)
def _principal_components(model: Any, x: Value) -> Value:
    scale = np.sqrt(model.explained_variance_) if model.whiten else np.ones(len(model.components_))
    matrix: Floats = _array(model.components_) / np.maximum(scale, _SMALLEST_SCALE)[:, None]
    return (x - _array(model.mean_)) @ matrix.T


@converts(TruncatedSVD)
def _truncated_svd(model: Any, x: Value) -> Value:
    return x @ _array(model.components_).T


@converts(*_SELECTORS)
def _selection(model: Any, x: Value) -> Value:
    return x.take(model.get_support(indices=True), 1)


@converts(FunctionTransformer)
def _function(model: Any, x: Value) -> Value:
    return _function_values("func", model.func, model.kw_args, x)


def _function_values(name: str, function: Any, arguments: Any, x: Value) -> Value:
    if function is None:
        return x
    for known, apply in _FUNCTIONS:
        if function is known and not arguments:
            return apply(x)
    raise ConversionError(
        f"FunctionTransformer({name}={function!r}) with arguments {arguments!r} cannot be saved in a model file: use "
        f"one of the functions {', '.join(known.__name__ for known, _ in _FUNCTIONS)} of numpy without arguments"
    )


def _log1p(x: Value) -> Value:
    """Return log(1 + x); the factor x / ((1 + x) - 1) removes the rounding error of the sum."""
    shifted = x + 1.0
    exact = shifted - 1.0
    return where(exact.equals(0.0), x, shifted.unary("Log") * (x / exact))


def _expm1(x: Value) -> Value:
    """Return exp(x) - 1, without cancellation near zero."""
    power = x.unary("Exp")
    near = where(power.equals(1.0), x, (power - 1.0) * (x / power.unary("Log")))
    return where(x.unary("Abs") < 0.5, near, power - 1.0)


_FUNCTIONS: tuple[tuple[Any, Callable[[Value], Value]], ...] = (
    (np.log, lambda x: x.unary("Log")),
    (np.log1p, _log1p),
    (np.exp, lambda x: x.unary("Exp")),
    (np.expm1, _expm1),
    (np.sqrt, lambda x: x.unary("Sqrt")),
    (np.square, lambda x: x * x),
    (np.abs, lambda x: x.unary("Abs")),
)


_INVERTIBLE = (StandardScaler, RobustScaler, MaxAbsScaler, MinMaxScaler, FunctionTransformer, QuantileTransformer)


def inverse(model: Any, y: Value) -> Value:
    """Return the inverse transform of a fitted transformer."""
    if type(model) not in _INVERTIBLE:
        raise ConversionError(
            f"the inverse of {type(model).__name__} cannot be saved in a model file: use one of "
            f"{', '.join(each.__name__ for each in _INVERTIBLE)}"
        )
    match model:
        case StandardScaler():
            return _uncentred(y, model.mean_ if model.with_mean else None, model.scale_)
        case RobustScaler():
            return _uncentred(y, model.center_, model.scale_)
        case MaxAbsScaler():
            return y * _array(model.scale_)
        case MinMaxScaler():
            return (y - _array(model.min_)) / _array(model.scale_)
        case FunctionTransformer():
            return _function_values("inverse_func", model.inverse_func, model.inv_kw_args, y)
    _check_uniform(model)
    return _piecewise(y, [_interpolated(model.references_, column) for column in _array(model.quantiles_).T])


def _uncentred(y: Value, centre: Any, scale: Any) -> Value:
    y = y if scale is None else y * _array(scale)
    return y if centre is None else y + _array(centre)


def _array(values: Any) -> Floats:
    return np.asarray(values, np.float64)


@dataclass(frozen=True)
class _Pieces:
    """Pieces value + slope * (x - start) of a function of a column.

    Attributes
    ----------
    start, slope, value : ndarray of shape (piece,)
    ends : ndarray of shape (piece,)
        Each piece holds up to and including its end; the last end is infinite.
    """

    start: Floats
    slope: Floats
    value: Floats
    ends: Floats

    def padded(self, size: int) -> _Pieces:
        """Return as many pieces as given; those added are never reached."""
        more = size - len(self.start)
        start, slope, value = (np.pad(each, (0, more)) for each in (self.start, self.slope, self.value))
        return _Pieces(start, slope, value, np.pad(self.ends, (0, more), constant_values=np.inf))


def _rank_pieces(quantiles: Floats, ranks: Floats) -> _Pieces:
    """Return the ranks of a column, as `QuantileTransformer` computes them.

    It averages an interpolation from the left and one from the right, so the rank of a repeated quantile is the mean
    of its first and last rank. Such a quantile is a piece of its own.

    Examples
    --------
    >>> _rank_pieces(np.array([1.0, 2.0, 4.0]), np.array([0.0, 0.5, 1.0]))
    _Pieces(start=array([1., 1., 2., 4.]), slope=array([0.  , 0.5 , 0.25, 0.  ]),
           value=array([0. , 0. , 0.5, 1. ]), ends=array([ 1.,  2.,  4., inf]))
    """
    knot, first, count = np.unique(quantiles, return_index=True, return_counts=True)
    low, high = ranks[first], ranks[first + count - 1]
    at = (low + high) / 2
    at[-1], at[0], low[0] = 1.0, 0.0, 0.0
    single = np.flatnonzero(at != low)
    rise = (low[1:] - high[:-1]) / np.maximum(np.diff(knot), 1 / _LARGEST_SLOPE)
    ends = np.where(at != low, np.nextafter(knot, -np.inf), knot)
    # the pieces to the left of each knot, the piece right of all knots, and those of repeated quantiles
    order = np.argsort(np.concatenate([np.arange(len(knot) + 1), single + 0.5]))
    return _Pieces(
        np.concatenate([knot[:1], knot, knot[single]])[order],
        np.concatenate([[0.0], rise, [0.0], np.zeros(len(single))])[order],
        np.concatenate([[0.0], high[:-1], [1.0], at[single]])[order],
        np.concatenate([ends, [np.inf], knot[single]])[order],
    )


def _interpolated(knots: Floats, values: Floats) -> _Pieces:
    """Return the linear interpolation between increasing knots; beyond them it is constant."""
    return _Pieces(
        np.concatenate([knots[:1], knots]),
        np.concatenate([[0.0], np.diff(values) / np.diff(knots), [0.0]]),
        np.concatenate([values[:1], values]),
        np.concatenate([knots, [np.inf]]),
    )


def _piecewise(x: Value, columns: list[_Pieces]) -> Value:
    """Apply a piecewise linear function to each column of x."""
    size = max(len(each.start) for each in columns)
    padded = [each.padded(size) for each in columns]
    start, slope, value, ends = (
        np.stack([getattr(each, name) for each in padded]) for name in ("start", "slope", "value", "ends")
    )
    place = _places(x, ends)
    if np.abs(slope * start).max() < _LARGEST_OFFSET:
        return x * _cells(place, slope) + _cells(place, value - slope * start)
    return (x - _cells(place, start)) * _cells(place, slope) + _cells(place, value)


def _cells(place: Value, table: Floats) -> Value:
    """Return the cells of a table (column, piece) at places (row, column)."""
    return place.graph.constant(table.reshape(-1)).take(place, 0)


def _places(x: Value, ends: Floats) -> Value:
    """Return the place in a table (column, piece) of the first end that is not below each value.

    A search in two steps compares each value with about 2 sqrt(n) of n ends.
    """
    columns, size = ends.shape
    first: Floats = np.arange(columns, dtype=np.float64) * size
    if size <= _FEW:
        return (_count_below(x, ends[:, :-1]) + first).cast(INT64)
    width = int(np.ceil(np.sqrt(size)))
    blocks = -(-size // width)
    padded = np.full((columns, blocks * width), np.inf)
    padded[:, :size] = ends
    padded = padded.reshape(columns, blocks, width)
    block = _count_below(x, padded[:, :-1, -1])
    inner = x.graph.constant(padded[:, :, :-1].reshape(columns * blocks, -1))
    rows: Floats = np.arange(columns, dtype=np.float64) * blocks
    near = inner.take((block + rows).cast(INT64), 0)
    place = (x.unsqueeze(2) > near).cast(FLOAT).sum(axis=2).cast(DOUBLE)
    return (block * float(width) + place + first).cast(INT64)


def _count_below(x: Value, ends: Floats) -> Value:
    """Return how many of the ends (column, end) are below each value.

    Copies of x and a product of matrices cost less than a comparison with broadcasting and a sum over an axis.
    """
    columns, count = ends.shape
    below = concat([x] * count, 1) > ends.T.reshape(-1)
    return (below.cast(FLOAT) @ np.tile(np.eye(columns), (count, 1))).cast(DOUBLE)
