"""Tables to score: their columns, their parts of bounded size, and the rows of a part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recuse.extras import import_extra
from recuse.files.csv_files import CsvBlocks, open_csv
from recuse.files.names import STANDARD_STREAM, check_names, file_format, source_name, unreadable
from recuse.model_file.served import ServedModel
from recuse.scoring.plan import ScoringPlan, columns_to_read, model_columns, table_schema
from recuse.tabular.column_checks import check_name
from recuse.tabular.schema import Kind

# From here on more processes pay.
_LARGE_ROWS, _LARGE_BYTES = 400_000, 50_000_000
# Cells of a part, about 16 MB of numbers, and limits of its rows.
_CELLS, _FEWEST_ROWS, _MOST_ROWS = 2**21, 2**12, 2**17
# Bytes that are read ahead for each column.
_BUFFER = 2**20


@dataclass(frozen=True)
class Part:
    """Some rows of a file.

    Attributes
    ----------
    number : int
        Position among the parts of all files.
    file : int
        Position of the file.
    first, rows : int
        Number of the first row in the file, and number of rows.
    chunks : tuple of int
        First and last row group or record batch, the last one excluded.
    offset : int
        Rows of these chunks that are before the part.
    """

    number: int
    file: int
    first: int
    rows: int
    chunks: tuple[int, int] = (0, 0)
    offset: int = 0


@dataclass(frozen=True)
class Task:
    """Some successive parts and, for CSV files, the rows and the kept columns of the one part."""

    parts: tuple[Part, ...]
    rows: Any = field(default=None, repr=False)
    kept: Any = field(default=None, repr=False)


def part_rows(columns: int) -> int:
    """Return the number of rows of a part, for a number of columns that are read.

    Examples
    --------
    >>> part_rows(16), part_rows(200)
    (131072, 10485)
    """
    return min(max(_CELLS // max(columns, 1), _FEWEST_ROWS), _MOST_ROWS)


def parts_of(sizes: Sequence[int], limit: int, *, file: int = 0, number: int = 0) -> Iterator[Part]:
    """Divide the chunks of a file, given by their numbers of rows; small chunks are put together.

    Examples
    --------
    >>> for part in parts_of([10, 10, 70], limit=30):
    ...     print(part.first, part.rows, part.chunks, part.offset)
    0 20 (0, 2) 0
    20 30 (2, 3) 0
    50 30 (2, 3) 30
    80 10 (2, 3) 60
    """
    first = start = 0
    while start < len(sizes):
        stop, rows = start + 1, sizes[start]
        while stop < len(sizes) and rows + sizes[stop] <= limit:
            rows += sizes[stop]
            stop += 1
        for offset in range(0, rows, limit):
            yield Part(number, file, first + offset, min(limit, rows - offset), (start, stop), offset)
            number += 1
        first, start = first + rows, stop


class ArrowFile:
    """A Parquet or Arrow file that is open.

    Parameters
    ----------
    path : str

    Attributes
    ----------
    names : list of str
        Names of the columns, without those that pandas stored as the index.
    sizes : list of int
        Numbers of rows of the row groups or record batches.
    """

    def __init__(self, path: str) -> None:
        self.path, self.kind = path, file_format(path)
        pyarrow = import_extra("pyarrow", "files")
        try:
            if self.kind == "parquet":
                parquet = import_extra("pyarrow.parquet", "files")
                # A buffered stream reads page by page; else a row group would be in memory as a whole.
                self._file = parquet.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False)
                schema, metadata = self._file.schema_arrow, self._file.metadata
                self.sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            else:
                self._file = import_extra("pyarrow.ipc", "files").open_file(pyarrow.memory_map(path))
                schema, self.sizes = self._file.schema, _batch_sizes(pyarrow, path, self._file)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, OSError) as error:
            if isinstance(error, FileNotFoundError | PermissionError):
                raise
            raise unreadable(path, self.kind, error) from error
        index = {name for name in (schema.pandas_metadata or {}).get("index_columns", ()) if isinstance(name, str)}
        self.names = [name for name in schema.names if name not in index]
        check_names(self.names, path)

    def batches(self, chunks: tuple[int, int], columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Yield the rows of some chunks as record batches of at most about `rows` rows."""
        if self.kind == "parquet":
            groups = list(range(*chunks))
            yield from self._file.iter_batches(rows, row_groups=groups, columns=list(columns), use_threads=False)
            return
        for place in range(*chunks):
            batch = self._file.get_batch(place).select(list(columns))
            yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))


def _batch_sizes(pyarrow: Any, path: str, file: Any) -> list[int]:
    """Return the number of rows of each record batch, from one narrow column."""
    flat = [place for place, field in enumerate(file.schema) if pyarrow.types.is_primitive(field.type)]
    options = pyarrow.ipc.IpcReadOptions(included_fields=flat[:1] or None)
    narrow = pyarrow.ipc.open_file(pyarrow.memory_map(path), options=options)
    return [narrow.get_batch(place).num_rows for place in range(narrow.num_record_batches)]


class PartReader:
    """Reads parts of Parquet and Arrow files; successive parts of a row group continue where the last one ended.

    Parameters
    ----------
    paths : sequence of str
    columns : sequence of str
    """

    def __init__(self, paths: Sequence[str], columns: Sequence[str]) -> None:
        self._paths, self._columns = paths, list(columns)
        self._file: ArrowFile | None = None
        self._place: tuple[int, tuple[int, int]] | None = None
        self._position, self._rest = 0, None
        self._batches: Iterator[Any] = iter(())

    def read(self, part: Part) -> Any:
        """Return the rows of a part as a pyarrow.Table."""
        import pyarrow as pa

        if self._file is None or self._file.path != self._paths[part.file]:
            self._file, self._place = ArrowFile(self._paths[part.file]), None
        if self._place != (part.file, part.chunks) or self._position > part.offset:
            self._batches = self._file.batches(part.chunks, self._columns, part_rows(len(self._columns)))
            self._place, self._position, self._rest = (part.file, part.chunks), 0, None
        self._take(part.offset - self._position)
        return pa.Table.from_batches(self._take(part.rows)).select(self._columns)

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


class ArrowInputs:
    """Parquet or Arrow files as one table.

    Parameters
    ----------
    paths : sequence of str
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        # The files are closed again, since they may be more than a process can keep open.
        self._tables = [(file.names, file.sizes) for file in map(ArrowFile, paths)]
        self.names = self._tables[0][0]
        self.total = sum(sum(sizes) for _, sizes in self._tables)
        if not self.total:
            raise ValueError(f"{self.paths[0]} has no rows")
        self.is_large = self.total >= _LARGE_ROWS

    def columns(self, model: ServedModel, plan: ScoringPlan) -> tuple[str, ...]:
        """Return the columns to read; raise an error if a file does not have them."""
        columns = columns_to_read(model, plan, self.names, self.paths[0])
        for path, (names, _) in list(zip(self.paths, self._tables, strict=True))[1:]:
            columns_to_read(model, plan, names, path)
            for name in columns:  # those of a model without names are found by position
                check_name(names, name, f"column of {self.paths[0]}", path)
        return tuple(columns)

    def parts(self, columns: Sequence[str]) -> list[Part]:
        """Return the parts of all files."""
        parts: list[Part] = []
        for place, (_, sizes) in enumerate(self._tables):
            parts += parts_of(sizes, part_rows(len(columns)), file=place, number=len(parts))
        return parts

    def tasks(self, plan: ScoringPlan, columns: Sequence[str], jobs: int, done: set[int]) -> Iterator[Task]:
        """Yield the tasks for parts that are not done: about eight for each of several processes.

        A task has successive parts of the same row group: a process that continues a row group need not read its start
        again.
        """
        parts = [part for part in self.parts(columns) if part.number not in done]
        most = 1 if jobs == 1 else max(1, min(8, len(parts) // (8 * jobs)))
        task: list[Part] = []
        for part in parts:
            if task and (len(task) == most or (task[-1].file, task[-1].chunks) != (part.file, part.chunks)):
                yield Task(tuple(task))
                task = []
            task.append(part)
        if task:
            yield Task(tuple(task))

    def progress(self, rows: int) -> int:
        """Return how much of `total` is done."""
        return rows


class CsvInputs:
    """A CSV file, or standard input.

    Parameters
    ----------
    path : str
    file : CsvBlocks
    """

    def __init__(self, path: str, file: CsvBlocks) -> None:
        self.paths, self._file = (path,), file
        self.names, self.total = file.names, file.size
        self.is_large = self.total >= _LARGE_BYTES
        self._numbers: set[str] = set()
        self._text: set[str] = set()

    def columns(self, model: ServedModel, plan: ScoringPlan) -> tuple[str, ...]:
        """Return the columns to read; raise an error if the file does not have them."""
        source = source_name(self.paths[0])
        columns = columns_to_read(model, plan, self.names, source)
        found = model_columns(model, self.names, plan.cost, source)
        numbers = {column.name for column in table_schema(model).used if column.kind == Kind.NUMBER}
        self._numbers = {name for each, name in found.items() if each in numbers}
        self._text = {*found.values(), *plan.keep} - (self._numbers - {*plan.keep})
        self._numbers |= {plan.cost} if isinstance(plan.cost, str) else set()
        return tuple(columns)

    def tasks(self, plan: ScoringPlan, columns: Sequence[str], jobs: int, done: set[int]) -> Iterator[Task]:
        """Yield the tasks for parts that are not done, each with its rows; the rows before them are read again."""
        for number, block in enumerate(self._file.blocks(part_rows(len(self.names)), self._text)):
            if number not in done:
                rows = self._file.with_points(block, self._numbers)[list(columns)]
                part = Part(number, 0, int(block.index[0]), len(block))
                yield Task((part,), rows, block[list(plan.keep)])

    def progress(self, rows: int) -> int:
        """Return how much of `total` is done."""
        return self._file.position


Inputs = ArrowInputs | CsvInputs


@contextmanager
def open_inputs(source: str, encoding: str | None = None) -> Iterator[Inputs]:
    """Open a file, standard input ("-"), or a folder of Parquet files."""
    if source != STANDARD_STREAM and not Path(source).exists():
        raise FileNotFoundError(f"{source} does not exist: check the path of the table")
    if source != STANDARD_STREAM and Path(source).is_dir():
        yield ArrowInputs(_files_of(Path(source)))
    elif file_format(source) != "csv":
        yield ArrowInputs([source])
    else:
        with open_csv(source, encoding) as file:
            yield CsvInputs(source, file)


def _files_of(folder: Path) -> list[str]:
    """Return the Parquet files of a folder by name.

    Raises
    ------
    ValueError
        If a folder has no Parquet files, or others in folders of its own, whose rows would be left out.
    """
    visible = sorted(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    deeper = next((path for path in visible if path.is_dir() and any(map(_is_parquet, path.rglob("*")))), None)
    if deeper is not None:
        raise ValueError(f"{folder} must have its Parquet files in one folder, got others in {deeper.name}/")
    tables = [str(path) for path in visible if path.is_file() and _is_parquet(path)]
    if not tables:
        raise ValueError(f"{folder} is a folder without Parquet files: give the path of a table or of such a folder")
    return tables


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith((".parquet", ".pq"))
