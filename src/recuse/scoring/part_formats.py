"""The rows of a part as bytes, and parts put together to a file, in each format of the output."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from recuse.extras import import_extra
from recuse.files.names import file_format
from recuse.files.spreadsheets import formula_cells, without_formulas

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["EncodedPart", "encode_part", "joined", "output_format", "write_empty"]


def output_format(path: str) -> str:
    """Return the format of an output by its ending.

    Examples
    --------
    >>> output_format("decisions.pq"), output_format("decisions.tsv.gz"), output_format("-")
    ('parquet', 'tsv.gz', 'csv')
    """
    kind = file_format(path)
    if kind != "csv":
        return kind
    name = path.lower()
    return ("tsv" if name.endswith((".tsv", ".tsv.gz")) else "csv") + (".gz" if name.endswith(".gz") else "")


@dataclass(frozen=True)
class EncodedPart:
    """The bytes of a part, and the number of its cells that spreadsheets would run as formulas."""

    data: Any
    formula_cells: int = 0


def encode_part(table: Any, kind: str, *, header: bool, spreadsheet_safe: bool = False) -> EncodedPart:
    """Return a part as bytes: a piece of a CSV file, or an Arrow file of one record batch for each chunk.

    Parameters
    ----------
    table : DataFrame or pyarrow.Table
    kind : str
        The format of the output.
    header : bool
        Whether a piece of a CSV file starts with the names of the columns.
    spreadsheet_safe : bool, default=False
        Whether cells of a CSV file that spreadsheets would run as formulas get an apostrophe.
    """
    if kind in ("parquet", "arrow"):
        return EncodedPart(_arrow_bytes(table))
    frame = table if hasattr(table, "iloc") else _text_frame(table)
    formulas = formula_cells(frame, header=header)
    if formulas and spreadsheet_safe:
        frame = without_formulas(frame)
    text = frame.to_csv(index=False, header=header, sep="\t" if "tsv" in kind else ",", lineterminator="\n")
    # without a time and a name, equal tables give equal files
    data = text.encode("utf-8")
    return EncodedPart(gzip.compress(data, mtime=0) if kind.endswith(".gz") else data, formulas)


def _arrow_bytes(table: Any) -> Any:
    pa, ipc = import_extra("pyarrow", "files"), import_extra("pyarrow.ipc", "files")
    if not isinstance(table, pa.Table):
        table = pa.Table.from_pandas(table, schema=_schema_of(pa, table), preserve_index=False)
    schema = _plain_schema(pa, table.schema)
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, schema) as writer:
        writer.write_table(table.cast(schema).combine_chunks())
    return sink.getvalue()


def _schema_of(pa: Any, frame: pd.DataFrame) -> Any:
    """Return types that do not depend on the rows, such as text for a column without any value."""
    types = {"f": pa.float64(), "i": pa.int64(), "u": pa.uint64(), "b": pa.bool_()}
    return pa.schema([(name, types.get(frame[name].dtype.kind, pa.string())) for name in frame.columns])


def _plain_schema(pa: Any, schema: Any) -> Any:
    """Return a schema with plain values and texts: dictionaries may differ between parts, and texts between files."""
    values = [each.type.value_type if pa.types.is_dictionary(each.type) else each.type for each in schema]
    texts = {pa.large_string(): pa.string(), pa.string_view(): pa.string(), pa.large_binary(): pa.binary()}
    return pa.schema([(name, texts.get(kind, kind)) for name, kind in zip(schema.names, values, strict=True)])


def _text_frame(table: Any) -> pd.DataFrame:
    """Return an Arrow table for a CSV file: whole numbers and times look alike in every part."""
    import pandas as pd
    import pyarrow as pa

    signed = {8: pd.Int8Dtype, 16: pd.Int16Dtype, 32: pd.Int32Dtype, 64: pd.Int64Dtype}
    unsigned = {8: pd.UInt8Dtype, 16: pd.UInt16Dtype, 32: pd.UInt32Dtype, 64: pd.UInt64Dtype}
    types = {getattr(pa, f"int{bits}")(): kind() for bits, kind in signed.items()}
    types |= {getattr(pa, f"uint{bits}")(): kind() for bits, kind in unsigned.items()}
    frame: pd.DataFrame = table.to_pandas(types_mapper=types.get)
    for name in frame.columns:
        if frame[name].dtype.kind == "M":  # pandas leaves out the time if it is midnight in all rows
            frame[name] = frame[name].astype(object).map(str, na_action="ignore")
    return frame


@contextmanager
def joined(file: BinaryIO, kind: str) -> Iterator[Callable[[Path], object]]:
    """Give a function that appends the rows of a part, given by its path, to a file.

    Parameters
    ----------
    file : binary file
    kind : str
        The format of the output.
    """
    if kind not in ("parquet", "arrow"):
        yield lambda path: file.write(path.read_bytes())
        return
    joiner = _ArrowJoiner(file, kind)
    try:
        yield joiner.append
    except BaseException:
        with suppress(Exception):  # it is only closed, so that pyarrow does not write to a closed file later
            joiner.close()
        raise
    joiner.close()


def write_empty(file: BinaryIO, like: Path) -> None:
    """Write a Parquet file without rows that has the columns of another one."""
    parquet = import_extra("pyarrow.parquet", "files")
    _parquet_writer(file, parquet.read_schema(like)).close()


class _ArrowJoiner:
    """Writes Arrow parts, one after the other, to a Parquet or Arrow file."""

    def __init__(self, file: BinaryIO, kind: str) -> None:
        self._file, self._kind = file, kind
        self._writer: Any = None
        self._schema: Any = None

    def append(self, path: Path) -> None:
        pa, ipc = import_extra("pyarrow", "files"), import_extra("pyarrow.ipc", "files")
        with pa.memory_map(str(path)) as source:
            table = ipc.open_file(source).read_all()
            if self._writer is None:
                self._schema = table.schema
                self._writer = _parquet_writer(self._file, table.schema) if self._kind == "parquet" else None
                self._writer = self._writer or ipc.new_file(self._file, table.schema)
            if table.schema != self._schema:
                raise ValueError(
                    f"kept columns must have the same types in all files, got {_change(self._schema, table)}"
                )
            self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _parquet_writer(file: BinaryIO, schema: Any) -> Any:
    """Return a writer that encodes only repeated values by a dictionary, which is slow for numbers that all differ."""
    pa, parquet = import_extra("pyarrow", "files"), import_extra("pyarrow.parquet", "files")
    numbers = [each.name for each in schema if pa.types.is_floating(each.type) and each.name != "cost"]
    repeated = [name for name in schema.names if name not in numbers]
    return parquet.ParquetWriter(file, schema, compression="snappy", use_dictionary=repeated)


def _change(schema: Any, table: Any) -> str:
    for old, new in zip(schema, table.schema, strict=True):
        if old != new:
            return f"{old.type} and {new.type} in column {new.name!r}"
    return "other columns"
