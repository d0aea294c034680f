"""Conversion of the columns of Arrow tables to the inputs of a graph, without a Python object for each cell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse.model_file.reading import Feeds, TableReader
from recuse.model_file.schema import MISSING_TIME, ColumnSchema
from recuse.model_file.table_report import TableProblem, column_report

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ArrowReader"]

Cells = NDArray[Any] | None  # None if the column must be read by pandas
Converter = Callable[[ColumnSchema, Any], Any]  # from a column of pandas to one of the types that the model expects


class ArrowReader:
    """Reads Arrow tables as a schema describes them, and compares them with the training rows.

    Numbers, times without a zone and text are converted as whole columns. Columns of other types, and columns with
    cells that must raise an error, are read by pandas, as `TableReader` reads them.

    Parameters
    ----------
    reader : TableReader
    convert : callable, optional
        Applied to the columns that pandas reads: takes the schema of the column and a Series, and returns a Series.
    """

    def __init__(self, reader: TableReader, convert: Converter | None = None) -> None:
        self._reader, self._convert = reader, convert
        self._schema = reader.schema
        self._fast = {"number": self._numbers, "date": self._times, "category": self._texts}

    def read(self, columns: dict[str | int, Any], index: pd.RangeIndex) -> tuple[Feeds, list[TableProblem]]:
        """Return one array for each input of the graph, and the differences from the training rows.

        Parameters
        ----------
        columns : dict of str or int to pyarrow.ChunkedArray
            By the names of the schema.
        index : RangeIndex
            Numbers of the rows, for errors.
        """
        used = [column for column in self._schema.columns if column.kind != "unused"]
        problems: list[TableProblem] = []
        cells = {}
        for column in used:
            values, found = self._read_column(column, columns[column.name], index)
            cells[column.name] = values
            problems += found
        if self._schema.matrix is None:
            return {column.input: cells[column.name][:, None] for column in used}, problems
        matrix = np.full((len(index), len(self._schema.columns)), np.nan)
        for place, column in enumerate(self._schema.columns):
            if column.kind != "unused":
                matrix[:, place] = cells[column.name]
        return {self._schema.matrix: matrix}, problems

    def _read_column(
        self, column: ColumnSchema, cells: Any, index: pd.RangeIndex
    ) -> tuple[NDArray[Any], list[TableProblem]]:
        values = self._fast[column.kind](column, cells)
        if values is not None:
            report = column_report(column, _series(column, cells, index)) if self._is_new(column, values) else ()
            return values, list(report)
        series = _series(column, cells, index)
        if self._convert is not None:
            series = self._convert(column, series)
        return self._reader._read_column(column, series, warn=False)[:, 0], list(column_report(column, series))

    def _is_new(self, column: ColumnSchema, values: NDArray[Any]) -> bool:
        """Whether a column that was read fast may differ from the training rows."""
        if column.kind != "number":
            return column.kind == "date" or self._has_new_texts(column, values)
        low, high = values.min(), values.max()  # NaN if a value is missing
        if column.low is None or column.high is None:
            return bool(np.isnan(low))
        return not (low >= column.low and high <= column.high)

    def _numbers(self, column: ColumnSchema, cells: Any) -> Cells:
        from pyarrow import float64, types

        if not (types.is_integer(cells.type) or types.is_floating(cells.type)):
            return None
        array = _whole(cells.cast(float64(), safe=False))
        values: NDArray[np.float64] = array.to_numpy(zero_copy_only=False)
        if np.isinf(values).any():
            return None
        return None if self._must_be_known(column) and np.isnan(values).any() else values

    def _times(self, column: ColumnSchema, cells: Any) -> Cells:
        from pyarrow import types

        if not types.is_timestamp(cells.type) or cells.type.tz is not None:
            return None
        times = _whole(cells).to_numpy(zero_copy_only=False).astype("datetime64[us]").astype(np.int64)
        missing = self._must_be_known(column) and (times == MISSING_TIME).any()
        return None if missing else np.asarray(times)

    def _texts(self, column: ColumnSchema, cells: Any) -> Cells:
        from pyarrow import types

        kind = cells.type.value_type if types.is_dictionary(cells.type) else cells.type
        if not (types.is_string(kind) or types.is_large_string(kind)) or not _has_texts(column):
            return None
        if self._schema.unseen == "error":  # new categories raise an error, too
            return None
        encoded = _whole(cells if types.is_dictionary(cells.type) else cells.dictionary_encode())
        texts = self._reader._texts[column.name]
        found = [column.missing if level is None else texts.of(level) for level in encoded.dictionary.to_pylist()]
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.asarray(np.array([*found, column.missing], dtype=object)[codes])

    def _has_new_texts(self, column: ColumnSchema, values: NDArray[Any]) -> bool:
        known = {level.text for level in column.levels if level.seen}
        if column.had_missing:
            known.add(column.missing)
        return not known.issuperset(values.tolist())

    def _must_be_known(self, column: ColumnSchema) -> bool:
        """Whether a missing value is an error."""
        return self._schema.unseen == "error" and not column.had_missing


def _has_texts(column: ColumnSchema) -> bool:
    """Whether all categories of a column are texts, so that a text needs no conversion."""
    return all(isinstance(level.value, str) for level in column.levels)


def _whole(cells: Any) -> Any:
    """Return the one array of a chunked array."""
    return cells.chunk(0) if cells.num_chunks == 1 else cells.combine_chunks()


def _series(column: ColumnSchema, cells: Any, index: pd.RangeIndex) -> pd.Series[Any]:
    from pyarrow import types

    if types.is_dictionary(cells.type) and any(chunk.dictionary.null_count for chunk in cells.chunks):
        cells = cells.cast(cells.type.value_type)  # pandas has no missing category
    series: pd.Series[Any] = cells.to_pandas()
    return series.set_axis(index).rename(column.name)
