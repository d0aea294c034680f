"""Conversion of tables and columns of any dataframe library, and alignment of their rows by label.

Pandas and narwhals are imported when they are needed: arrays and lists of numbers need neither.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd

Floats = NDArray[np.float64]

_NOT_NUMBERS = {"complex", "date", "datetime", "datetime64", "period", "time", "timedelta", "timedelta64"}

# Texts that stand for a missing value, in lower case. A category of training with such a name is a category.
MISSING_WORDS = frozenset(
    {
        *("", "-", "--", ".", "?", "n/a", "#n/a", "#n/a n/a", "#na", "na", "<na>", "nan", "-nan", "nat", "nil", "none"),
        *("null", "missing", "unknown", "-1.#ind", "1.#ind", "-1.#qnan", "1.#qnan"),
    }
)
# Name of the labels of rows of a file.
_OF_FILE = "data row"

_NO_TABLES = (np.ndarray, np.generic, list, tuple, str, int, float, type(None))
# Types of cells that are neither dates, times, durations nor complex numbers.
_PLAIN_CELLS = {bool, int, float, str, type(None)} | {
    np.dtype(code).type for code in "?" + np.typecodes["AllInteger"] + np.typecodes["Float"]
}


def is_pandas(data: Any) -> TypeGuard[pd.DataFrame | pd.Series[Any]]:
    """Whether an object is a pandas table or column; pandas is not imported.

    Examples
    --------
    >>> import pandas as pd
    >>> is_pandas(pd.Series([1.0])), is_pandas([1.0])
    (True, False)
    """
    return isinstance(data, _pandas_types("DataFrame", "Series"))


def is_frame(data: Any) -> TypeGuard[pd.DataFrame]:
    """Whether an object is a pandas table; pandas is not imported.

    Examples
    --------
    >>> import pandas as pd
    >>> is_frame(pd.DataFrame({"a": [1.0]})), is_frame(pd.Series([1.0]))
    (True, False)
    """
    return isinstance(data, _pandas_types("DataFrame"))


def _pandas_types(*names: str) -> tuple[type, ...]:
    """Return types of pandas, none if pandas is not imported: then there are no objects of these types."""
    pandas = sys.modules.get("pandas")
    types = (getattr(pandas, name, None) for name in names)  # another thread may be importing pandas now
    return tuple(kind for kind in types if kind is not None)


def to_pandas(data: Any) -> Any:
    """Convert tables and columns of polars, pyarrow and the like to pandas; return anything else unchanged.

    Columns are converted one by one through numpy, so polars data need no pyarrow.

    Examples
    --------
    >>> to_pandas([1.0, 2.0])
    [1.0, 2.0]
    >>> import polars
    >>> to_pandas(polars.DataFrame({"weight": [1.5, None], "origin": ["eu", "us"]}))
       weight origin
    0     1.5     eu
    1     NaN     us
    """
    if isinstance(data, _NO_TABLES) or is_pandas(data):
        return data
    import narwhals as nw

    wrapped = nw.from_native(data, pass_through=True, allow_series=True)
    if isinstance(wrapped, nw.LazyFrame):
        raise TypeError(
            f"a table must be in memory, got {type(data).__module__}.{type(data).__name__}: collect it first"
        )
    if not isinstance(wrapped, nw.DataFrame | nw.Series):
        return data
    if wrapped.implementation.is_pandas_like():
        return wrapped.to_pandas()
    if isinstance(wrapped, nw.Series):
        return _series(wrapped)
    import pandas as pd

    return pd.DataFrame({name: _series(wrapped[name]) for name in wrapped.columns})


def _series(column: nw.Series[Any]) -> pd.Series[Any]:
    import narwhals as nw
    import pandas as pd

    dtype = column.dtype
    if isinstance(dtype, nw.Enum):
        cells = column.cast(nw.String).to_numpy()
        return pd.Series(pd.Categorical(cells, categories=list(dtype.categories)), name=column.name)
    if isinstance(dtype, nw.Categorical):  # its levels may include those of other columns
        column = column.cast(nw.String)
    series: pd.Series[Any] = pd.Series(column.to_numpy(), name=column.name)
    if isinstance(dtype, nw.Datetime) and dtype.time_zone is not None:
        series = series.dt.tz_localize("UTC").dt.tz_convert(dtype.time_zone)
    return series


def row_index(X: Any) -> pd.Index[Any] | None:
    """Return the row labels of a pandas table or column, None for anything else.

    Examples
    --------
    >>> import pandas as pd
    >>> row_index(pd.DataFrame({"a": [1.0]}, index=["first"])).tolist()
    ['first']
    >>> row_index([[1.0]]) is None
    True
    """
    return X.index if is_pandas(X) else None


def row_name(row: int, index: pd.Index[Any] | None = None) -> str:
    """Return the name of a row for error messages: its position and, if labels are not positions, its label.

    Examples
    --------
    >>> import pandas as pd
    >>> row_name(1), row_name(1, pd.RangeIndex(3)), row_name(1, pd.Index(["a", "b"]))
    ('row 1', 'row 1', "row 1 (label 'b')")
    >>> row_name(1, file_rows(3))
    'data row 2'
    """
    if index is None:
        return f"row {row}"
    if index.name == _OF_FILE:
        return f"{_OF_FILE} {index[row]:,}"
    import pandas as pd

    if index.equals(pd.RangeIndex(len(index))):
        return f"row {row}"
    return f"row {row} (label {_label(index[row])})"


def file_rows(count: int, first: int = 0) -> pd.Index[Any]:
    """Return labels for the rows of a file, which errors count from 1; `first` is the number of rows before them."""
    import pandas as pd

    return pd.RangeIndex(first + 1, first + count + 1, name=_OF_FILE)


def aligned(values: Any, index: pd.Index[Any] | None, name: str) -> Any:
    """Return a column or table with one row for each row of X, in the row order of X.

    Rows are matched by label where both sides are pandas objects, and by position otherwise.

    Parameters
    ----------
    values : array-like, Series or DataFrame, or anything else
        Costs, targets, weights or groups. Values without labels are returned as they are, polars and pyarrow data as
        pandas objects.
    index : pandas Index or None
        The labels of the rows of X, see `row_index`.
    name : str
        Name of the values in errors.

    Returns
    -------
    array-like, Series or DataFrame
        Values of another length than X are returned unchanged: the caller checks the length.

    Examples
    --------
    >>> import pandas as pd
    >>> aligned(pd.Series([1.0, 2.0], index=["b", "a"]), pd.Index(["a", "b"]), "y").tolist()
    [2.0, 1.0]
    >>> aligned(pd.Series([1.0, 2.0], index=["b", "c"]), pd.Index(["a", "b"]), "y")
    Traceback (most recent call last):
    ValueError: y must have the row labels of X, got no value for the label 'a' of X; pass an array to match by position
    """
    labelled = is_pandas(values)
    values = to_pandas(values)
    if index is None or not labelled or len(values) != len(index) or values.index.equals(index):
        return values
    hint = "pass an array to match by position"
    absent = ~index.isin(values.index)
    if absent.any():
        label = _label(index[absent][0])
        raise ValueError(f"{name} must have the row labels of X, got no value for the label {label} of X; {hint}")
    if not (index.is_unique and values.index.is_unique):
        twice = index if not index.is_unique else values.index
        label = _label(twice[twice.duplicated()][0])
        raise ValueError(
            f"{name} must have unique row labels or those of X in the same order, got {label} twice; {hint}"
        )
    return values.reindex(index)


def check_target_type(y: Any, name: str = "y") -> None:
    """Raise a TypeError if targets are dates, times, durations or complex numbers.

    Examples
    --------
    >>> check_target_type([1.0, 2.0])
    >>> import pandas as pd
    >>> check_target_type(pd.to_datetime(["2024-01-01"]))
    Traceback (most recent call last):
    TypeError: y must hold numbers, got datetime64...; convert dates and times to numbers, such as days since ...
    """
    kind = _not_numbers(to_pandas(y))
    if kind is not None:
        advice = "" if "complex" in kind else "; convert dates and times to numbers, such as days since a fixed date"
        raise TypeError(f"{name} must hold numbers, got {kind}{advice}")


def float_array(values: Any, name: str) -> Floats:
    """Convert numbers of any array or dataframe library to a float64 array, with NaN for missing values.

    Examples
    --------
    >>> import pandas as pd
    >>> float_array(pd.Series([1, None], dtype="Int64"), "cost")
    array([ 1., nan])
    >>> float_array(["high"], "cost")
    Traceback (most recent call last):
    ValueError: cost must be numeric, got ['high']
    """
    values = to_pandas(values)
    kind = _not_numbers(values)
    if kind is not None:
        raise ValueError(f"{name} must be numeric, got {kind}")
    try:
        if is_pandas(values):
            return values.to_numpy(dtype=np.float64, na_value=np.nan)
        return unmasked(values) if isinstance(values, np.ma.MaskedArray) else np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        shown = values.to_numpy().tolist() if is_pandas(values) else values
        raise ValueError(f"{name} must be numeric, got {shown!r:.80}") from error


def unmasked(values: np.ma.MaskedArray[Any, Any]) -> Floats:
    """Return the numbers of a masked array, NaN where they are masked.

    Examples
    --------
    >>> unmasked(np.ma.array([1, 2], mask=[False, True]))
    array([ 1., nan])
    """
    return np.where(np.ma.getmaskarray(values), np.nan, np.ma.getdata(values).astype(np.float64))


def _not_numbers(values: Any) -> str | None:
    """Return the type of dates, times, durations or complex numbers, None for other values."""
    if is_frame(values):
        return next((kind for place in range(values.shape[1]) if (kind := _not_numbers(values.iloc[:, place]))), None)
    if isinstance(values, list | tuple) and len(values) > 0 and np.ndim(values[0]) == 0:
        return _kind_of_cells(values)
    if hasattr(values, "__array__") and not hasattr(values, "dtype"):  # a pyarrow array, for example
        values = np.asarray(values)
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "kind", None) in ("M", "m", "c") or isinstance(dtype, _pandas_types("PeriodDtype")):
        return str(dtype)
    if getattr(dtype, "kind", None) == "O" and not isinstance(dtype, _pandas_types("CategoricalDtype")):
        return _kind_of_cells(np.ravel(np.asarray(values, dtype=object)))
    return None


def _kind_of_cells(cells: list[Any] | tuple[Any, ...] | NDArray[np.object_]) -> str | None:
    """Return the type of cells that are dates, times, durations or complex numbers, None for other cells."""
    if _PLAIN_CELLS.issuperset(map(type, cells)):
        return None
    from pandas.api.types import infer_dtype

    kind = infer_dtype(cells, skipna=True)
    return kind if kind in _NOT_NUMBERS else None


def _label(label: Any) -> str:
    parts = label if isinstance(label, tuple) else (label,)
    plain = tuple(part.item() if isinstance(part, np.generic) else part for part in parts)
    return repr(plain if isinstance(label, tuple) else plain[0])
