"""Files that a run writes: one for all rows or one for each input, put together from encoded parts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from operator import and_, itemgetter
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from recuse.extras import import_extra
from recuse.files.atomic import check_writable, draft_file, mode_of, publish, sync_folder
from recuse.files.names import STANDARD_STREAM, file_format
from recuse.files.tables import csv_bytes, formula_cells, without_formulas
from recuse.scoring.working_folder import PartStore


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


def encode_part(table: Any, kind: str, *, header: bool, spreadsheet_safe: bool = False) -> tuple[Any, int]:
    """Return a part as bytes, and the number of its cells that spreadsheets would run as formulas.

    The bytes are a piece of a CSV file, or an Arrow file of one record batch for each chunk.

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
        return _arrow_bytes(table), 0
    frame = table if hasattr(table, "iloc") else _text_frame(table)
    formulas = formula_cells(frame, header=header)
    if formulas and spreadsheet_safe:
        frame = without_formulas(frame)
    return csv_bytes(frame, kind, header=header), formulas


def _arrow_bytes(table: Any) -> Any:
    """Return an Arrow file with types that do not depend on the rows.

    A column of pandas without any value is text, dictionaries are plain values, since they may differ between parts,
    and all texts have one type, since they may differ between files.
    """
    pa, ipc = import_extra("pyarrow", "files"), import_extra("pyarrow.ipc", "files")
    if not isinstance(table, pa.Table):
        types = {"f": pa.float64(), "i": pa.int64(), "u": pa.uint64(), "b": pa.bool_()}
        given = pa.schema([(name, types.get(table[name].dtype.kind, pa.string())) for name in table.columns])
        table = pa.Table.from_pandas(table, schema=given, preserve_index=False)
    values = [each.type.value_type if pa.types.is_dictionary(each.type) else each.type for each in table.schema]
    texts = {pa.large_string(): pa.string(), pa.string_view(): pa.string(), pa.large_binary(): pa.binary()}
    schema = pa.schema([(name, texts.get(kind, kind)) for name, kind in zip(table.column_names, values, strict=True)])
    sink = pa.BufferOutputStream()
    with ipc.new_file(sink, schema) as writer:
        writer.write_table(table.cast(schema).combine_chunks())
    return sink.getvalue()


def _text_frame(table: Any) -> pd.DataFrame:
    """Return an Arrow table for a CSV file: whole numbers and times look alike in every part."""
    import pyarrow as pa

    names = [f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)]
    types = {getattr(pa, name.lower())(): pd.api.types.pandas_dtype(name) for name in names}
    frame: pd.DataFrame = table.to_pandas(types_mapper=types.get)
    for name in frame.columns:
        if frame[name].dtype.kind == "M":  # pandas leaves out the time if it is midnight in all rows
            frame[name] = frame[name].astype(object).map(str, na_action="ignore")
    return frame


def _join(file: BinaryIO, kind: str, parts: Iterable[Path]) -> None:
    """Write the rows of parts, one after the other, to a file."""
    if kind not in ("parquet", "arrow"):
        for path in parts:
            file.write(path.read_bytes())
        return
    pa, ipc = import_extra("pyarrow", "files"), import_extra("pyarrow.ipc", "files")
    writer = schema = None
    try:
        for path in parts:
            with pa.memory_map(str(path)) as source:
                table = ipc.open_file(source).read_all()
                if writer is None:
                    schema = table.schema
                    writer = _parquet_writer(file, schema) if kind == "parquet" else ipc.new_file(file, schema)
                if table.schema != schema:
                    change = _change(schema, table.schema)
                    raise ValueError(f"kept columns must have the same types in all files, got {change}")
                writer.write_table(table)
    except BaseException:
        with suppress(Exception):  # it is only closed, so that pyarrow does not write to a closed file later
            writer.close()  # type: ignore[union-attr]
        raise
    assert writer is not None
    writer.close()


def _parquet_writer(file: BinaryIO, schema: Any) -> Any:
    """Return a writer that encodes only repeated values by a dictionary, which is slow for numbers that all differ."""
    pa, parquet = import_extra("pyarrow", "files"), import_extra("pyarrow.parquet", "files")
    numbers = [each.name for each in schema if pa.types.is_floating(each.type) and each.name != "cost"]
    repeated = [name for name in schema.names if name not in numbers]
    return parquet.ParquetWriter(file, schema, compression="snappy", use_dictionary=repeated)


def _change(schema: Any, other: Any) -> str:
    for old, new in zip(schema, other, strict=True):
        if old != new:
            return f"{old.type} and {new.type} in column {new.name!r}"
    return "other columns"


@dataclass(frozen=True)
class Targets:
    """The files to write.

    Attributes
    ----------
    place : Path
        The file or the folder.
    files : tuple of Path
        One file, or one for each input.
    kind : str
        The format.
    is_folder : bool
        Whether there is one file for each input.
    mode : int or None
        The permissions that all existing files of the output give; None if there are no such files.
    """

    place: Path
    files: tuple[Path, ...]
    kind: str
    is_folder: bool
    mode: int | None

    def drafts(self, store: PartStore, parts: Iterator[tuple[int, int]]) -> list[Path]:
        """Put parts together, given by their file and their number, to drafts of the files.

        Parameters
        ----------
        store : PartStore
            Where the parts are, and where the drafts are written.
        parts : iterator of pairs
        """
        drafts = [store.folder / f"{place}.{self.kind}" for place in range(len(self.files))]
        for draft in drafts:
            draft.unlink(missing_ok=True)  # an earlier, interrupted run may have left it
        written, paths = None, ((place * self.is_folder, store.path(number)) for place, number in parts)
        for place, group in groupby(paths, key=itemgetter(0)):
            with draft_file(drafts[place], mode_of(self.files[place])) as file:
                _join(file, self.kind, map(itemgetter(1), group))
            written = drafts[place]
        for draft, target in zip(drafts, self.files, strict=True):
            if not draft.exists():  # an input without rows has a file with the columns of the others
                with draft_file(draft, mode_of(target)) as file:
                    _parquet_writer(file, import_extra("pyarrow.parquet", "files").read_schema(written)).close()
        return drafts

    def publish(self, drafts: Sequence[Path]) -> None:
        """Give the drafts their final names."""
        if self.is_folder and not self.place.exists():
            self.place.mkdir()
            sync_folder(self.place.parent)
        for draft, target in zip(drafts, self.files, strict=True):
            publish(draft, target)


def targets_of(output: str, source: str, paths: Sequence[str]) -> Targets:
    """Return the files to write for an output path; it is a folder if it ends with "/" or is one.

    Raises
    ------
    ValueError
        If the output would be an input of the next run, or its name has no known ending.
    OSError
        If the output cannot be written.
    """
    place = Path(os.path.realpath(output))
    origin = Path(source).resolve()
    if origin.is_dir() and origin in place.parents:
        raise ValueError(f"{output} must not be in the folder {source} of the input: give another place")
    is_folder = output.endswith(("/", os.sep)) or place.is_dir()
    files: tuple[Path, ...] = (place,)
    if not is_folder:
        kind = output_format(output)
        if source != STANDARD_STREAM and place == origin:
            raise ValueError(f"{output} must not be the input, which it would replace: give another name")
        check_writable(place)
    else:
        if source == STANDARD_STREAM:
            raise ValueError(f"{output} must be a file, since standard input has no name, got a folder")
        if place in (origin, *(Path(path).resolve().parent for path in paths)):
            raise ValueError(f"{output} must not be the folder of the input: give another folder")
        files, kind = tuple(place / Path(path).name for path in paths), output_format(paths[0])
        _check_new_folder(place)
    modes = [mode for mode in map(mode_of, files) if mode is not None]
    return Targets(place, files, kind, is_folder, reduce(and_, modes) if modes else None)


def _check_new_folder(place: Path) -> None:
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(f"{place} is a file, so it cannot be the folder of the output: give another name")
    if not place.exists():
        check_writable(place)
        return
    check_writable(place / "new")
    check_writable(place.with_name(f"{place.name}.new"))  # the finished parts are beside the folder
