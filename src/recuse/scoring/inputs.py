"""Tables to score: their columns, and tasks with their rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from recuse.files.csv_blocks import CsvBlocks, open_csv
from recuse.files.names import STANDARD_STREAM, file_format, source_name
from recuse.model_file.served import ServedModel
from recuse.scoring.part_tasks import Task, tasks_of
from recuse.scoring.plan import Plan, columns_to_read, model_columns, table_schema
from recuse.scoring.sources.arrow_files import ArrowFile, column_names, file_parts, files_of
from recuse.scoring.sources.csv_files import csv_parts
from recuse.scoring.sources.parts import Part
from recuse.tabular.column_checks import check_name
from recuse.tabular.schema import Kind

__all__ = ["ArrowInputs", "CsvInputs", "Inputs", "open_inputs"]

_LARGE_ROWS, _LARGE_BYTES = 400_000, 50_000_000  # from here on more processes pay


class ArrowInputs:
    """Parquet or Arrow files as one table.

    Parameters
    ----------
    paths : sequence of str
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        self._files = [_closed(ArrowFile(path)) for path in paths]  # more than a process may keep open
        self.names = column_names(self._files[0])
        self.rows = sum(sum(file.sizes) for file in self._files)
        if not self.rows:
            raise ValueError(f"{self.paths[0]} has no rows")
        self.total = self.rows

    @property
    def is_large(self) -> bool:
        """Whether several processes pay."""
        return self.rows >= _LARGE_ROWS

    def columns(self, model: ServedModel, plan: Plan) -> tuple[str, ...]:
        """Return the columns to read; raise an error if a file does not have them."""
        for file in self._files:
            names = column_names(file)
            _check_columns(names, plan, file.path)
            model_columns(model, names, plan.cost, file.path)
        columns = columns_to_read(model, plan, self.names, self.paths[0])
        for file in self._files:
            for name in columns:  # those of a model without names are found by position
                check_name(column_names(file), name, f"column of {self.paths[0]}", file.path)
        return tuple(columns)

    def parts(self, columns: Sequence[str]) -> list[Part]:
        """Return the parts of all files."""
        parts: list[Part] = []
        for place, file in enumerate(self._files):
            parts += file_parts(file, columns, place=place, number=len(parts))
        return parts

    def tasks(self, plan: Plan, columns: Sequence[str], jobs: int, done: set[int]) -> Iterator[Task]:
        """Yield the tasks for parts that are not done."""
        yield from tasks_of([part for part in self.parts(columns) if part.number not in done], jobs)

    def progress(self, rows: int) -> int:
        """Return how much of `total` is done."""
        return rows


def _closed(file: ArrowFile) -> ArrowFile:
    file.close()
    return file


class CsvInputs:
    """A CSV file, or standard input.

    Parameters
    ----------
    path : str
    file : CsvBlocks
    """

    def __init__(self, path: str, file: CsvBlocks) -> None:
        self.paths = (path,)
        self._file = file
        self.names = file.names
        self.total = file.size
        self._model: ServedModel | None = None

    @property
    def is_large(self) -> bool:
        """Whether several processes pay."""
        return self.total >= _LARGE_BYTES

    def columns(self, model: ServedModel, plan: Plan) -> tuple[str, ...]:
        """Return the columns to read; raise an error if the file does not have them."""
        self._model = model
        source = source_name(self.paths[0])
        _check_columns(self.names, plan, source)
        return tuple(columns_to_read(model, plan, self.names, source))

    def tasks(self, plan: Plan, columns: Sequence[str], jobs: int, done: set[int]) -> Iterator[Task]:
        """Yield the tasks for parts that are not done; the rows before them are read again."""
        assert self._model is not None
        found = model_columns(self._model, self.names, plan.cost, source_name(self.paths[0]))
        kinds = {column.name: column.kind for column in table_schema(self._model).used}
        numbers = {name for each, name in found.items() if kinds.get(each) == Kind.NUMBER}
        text = set(found.values()) - numbers
        numbers |= {plan.cost} if isinstance(plan.cost, str) else set()
        for part, rows, kept in csv_parts(self._file, text, numbers, plan.keep):
            if part.number not in done:
                yield Task((part,), rows[list(columns)], kept)

    def progress(self, rows: int) -> int:
        """Return how much of `total` is done."""
        return self._file.position


Inputs = ArrowInputs | CsvInputs


@contextmanager
def open_inputs(source: str, encoding: str | None = None) -> Iterator[Inputs]:
    """Open a file, standard input ("-"), or a folder of Parquet files."""
    if source != STANDARD_STREAM:
        _check_exists(source)
    if source != STANDARD_STREAM and (Path(source).is_dir() or file_format(source) != "csv"):
        yield ArrowInputs(files_of(source))
        return
    with open_csv(source, encoding) as file:
        yield CsvInputs(source, file)


def _check_exists(path: str) -> None:
    if not Path(path).exists():
        raise FileNotFoundError(f"{path} does not exist: check the path of the table")


def _check_columns(names: Sequence[str], plan: Plan, source: str) -> None:
    for name in plan.keep:
        check_name(names, name, "column to keep", source)
    if isinstance(plan.cost, str):
        check_name(names, plan.cost, "cost column", source)
