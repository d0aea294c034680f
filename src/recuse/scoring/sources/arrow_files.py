"""Parquet and Arrow files: their parts, and the rows of a part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from recuse.extras import import_extra
from recuse.files.names import check_names, file_format, unreadable
from recuse.scoring.sources.parts import Part, part_rows, parts_of

__all__ = ["ArrowFile", "PartReader", "column_names", "file_parts", "files_of"]

_BUFFER = 2**20  # bytes read ahead for each column


def files_of(source: str) -> list[str]:
    """Return the Parquet files of a folder by name, or the path of a file itself.

    Raises
    ------
    ValueError
        If a folder has no Parquet files, or others in folders of its own, whose rows would be left out.
    """
    folder = Path(source)
    if not folder.is_dir():
        return [source]
    visible = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    deeper = next((path for path in visible if path.is_dir() and any(map(_is_parquet, path.rglob("*")))), None)
    if deeper is not None:
        raise ValueError(f"{source} must have its Parquet files in one folder, got others in {deeper.name}/")
    tables = [str(path) for path in visible if path.is_file() and _is_parquet(path)]
    if not tables:
        raise ValueError(f"{source} is a folder without Parquet files: give the path of a table or of such a folder")
    return tables


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith((".parquet", ".pq"))


class ArrowFile:
    """A Parquet or Arrow file that is open.

    Parameters
    ----------
    path : str
    """

    def __init__(self, path: str) -> None:
        self.path = path
        kind = file_format(path)
        pyarrow = import_extra("pyarrow", "files")
        try:
            self._open(pyarrow, kind)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, OSError) as error:
            if isinstance(error, FileNotFoundError | PermissionError):
                raise
            raise unreadable(path, kind, error) from error

    def _open(self, pyarrow: Any, kind: str) -> None:
        if kind == "parquet":
            parquet = import_extra("pyarrow.parquet", "files")
            # a buffered stream reads page by page; else a row group would be in memory as a whole
            self._file = parquet.ParquetFile(self.path, buffer_size=_BUFFER, pre_buffer=False)
            self.schema, metadata = self._file.schema_arrow, self._file.metadata
            self.sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        else:
            ipc = import_extra("pyarrow.ipc", "files")
            self._file = ipc.open_file(pyarrow.memory_map(self.path))
            self.schema = self._file.schema
            self.sizes = _batch_sizes(pyarrow, ipc, self.path, self._file)
        self.kind = kind

    def close(self) -> None:
        """Close the file; the schema and the sizes stay."""
        self._file = None

    def batches(self, chunks: tuple[int, int], columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield the rows of some chunks as record batches of at most about `rows` rows."""
        if self.kind == "parquet":
            groups = list(range(*chunks))
            yield from self._file.iter_batches(rows, row_groups=groups, columns=list(columns), use_threads=False)
            return
        for place in range(*chunks):
            batch = self._file.get_batch(place).select(list(columns))
            yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def _batch_sizes(pyarrow: Any, ipc: Any, path: str, file: Any) -> list[int]:
    """Return the number of rows of each record batch, from one narrow column."""
    types = pyarrow.types
    flat = [place for place, field in enumerate(file.schema) if types.is_primitive(field.type)]
    options = ipc.IpcReadOptions(included_fields=flat[:1]) if flat else ipc.IpcReadOptions()
    narrow = ipc.open_file(pyarrow.memory_map(path), options=options)
    return [narrow.get_batch(place).num_rows for place in range(narrow.num_record_batches)]


def column_names(file: ArrowFile) -> list[str]:
    """Return the names of the columns, without those that pandas stored as the index."""
    metadata = file.schema.pandas_metadata or {}
    index = {name for name in metadata.get("index_columns", ()) if isinstance(name, str)}
    names = [name for name in file.schema.names if name not in index]
    check_names(names, file.path)
    return names


def file_parts(file: ArrowFile, columns: Sequence[str], *, place: int, number: int) -> list[Part]:
    """Return the parts of a file of which some columns are read."""
    return list(parts_of(file.sizes, part_rows(len(columns)), file=place, number=number))


class PartReader:
    """Reads parts of files; successive parts of a row group continue where the last one ended.

    Parameters
    ----------
    paths : sequence of str
    columns : sequence of str
    """

    def __init__(self, paths: Sequence[str], columns: Sequence[str]) -> None:
        self._paths, self._columns = paths, columns
        self._file: ArrowFile | None = None
        self._place: tuple[int, tuple[int, int]] | None = None
        self._position, self._rest = 0, None
        self._batches: Iterator[Any] = iter(())

    def read(self, part: Part) -> Any:
        """Return the rows of a part as a pyarrow.Table."""
        import pyarrow as pa

        path = self._paths[part.file]
        if self._file is None or self._file.path != path:
            self._file, self._place = ArrowFile(path), None
        if self._place != (part.file, part.chunks) or self._position > part.offset:
            limit = part_rows(len(self._columns))
            self._batches, self._rest = self._file.batches(part.chunks, self._columns, limit), None
            self._place, self._position = (part.file, part.chunks), 0
        self._take(part.offset - self._position)
        return pa.Table.from_batches(self._take(part.rows)).select(list(self._columns))

    def _take(self, rows: int) -> list[Any]:
        """Return record batches of exactly `rows` rows, from the current position."""
        taken: list[Any] = []
        self._position += rows
        while rows > 0:
            batch = next(self._batches) if self._rest is None else self._rest
            self._rest = batch.slice(rows) if batch.num_rows > rows else None
            taken.append(batch.slice(0, rows))
            rows -= taken[-1].num_rows
        return taken
