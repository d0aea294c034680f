"""Reasons for decisions: cells that are unlike the training rows, and the nearest training rows."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recuse.model_file.table_report import IGNORED_COLUMN, table_report
from recuse.serving.errors import RequestError
from recuse.serving.messages import DecisionRecord, Neighbour, NewCell, Reasons
from recuse.serving.model_store import LoadedModel
from recuse.tabular.schema import Column, TableSchema

if TYPE_CHECKING:
    import pandas as pd
    from starlette.datastructures import State

__all__ = ["add_explanations", "check_count", "check_training_rows"]

_MOST_ROWS = 100  # in one request: each takes some milliseconds


def check_count(rows: int) -> None:
    """Raise a RequestError if a request has too many rows to explain them."""
    if rows > _MOST_ROWS:
        raise RequestError(413, f"a request with explain=true may have at most {_MOST_ROWS} rows, got {rows}")


def check_training_rows(loaded: LoadedModel) -> None:
    """Raise a ValueError if a table of training rows lacks a column of its model."""
    absent = _absent(loaded)
    if absent:
        raise ValueError(
            f"the training rows of {loaded.name!r} must have the columns of the model, {absent[0]!r} is not there"
        )


async def add_explanations(
    state: State, loaded: LoadedModel, table: Any, records: Sequence[DecisionRecord]
) -> list[DecisionRecord]:
    """Return the records of decisions with their reasons.

    Parameters
    ----------
    state : State
        The state of the application, whose threads do the work.
    loaded : LoadedModel
    table : DataFrame, or mapping of column names to the values of one row
    records : sequence of dict
    """
    import pandas as pd

    frame = pd.DataFrame({name: [cell] for name, cell in table.items()}) if isinstance(table, Mapping) else table
    loop = asyncio.get_running_loop()
    reasons = await loop.run_in_executor(state.threads, _reasons, loaded, frame)
    return [{**record, **reason} for record, reason in zip(records, reasons, strict=True)]


def _reasons(loaded: LoadedModel, frame: pd.DataFrame) -> list[Reasons]:
    near = _neighbours(loaded, frame)
    rows = range(len(frame))
    return [
        {"new": _new_cells(loaded, frame.iloc[[row]]), "neighbours": None if near is None else near[row]}
        for row in rows
    ]


def _new_cells(loaded: LoadedModel, row: pd.DataFrame) -> list[NewCell]:
    """Describe the cells of one row that no training row had."""
    schema = loaded.model.schema
    assert isinstance(schema, TableSchema)
    known = row[[column.name for column in schema.columns]]
    return [
        {
            "column": str(problem.column),
            "problem": problem.problem,
            "value": problem.example,
            "expected": problem.expected,
        }
        for problem in table_report(schema, known)
        if problem.problem != IGNORED_COLUMN
    ]


def _neighbours(loaded: LoadedModel, frame: pd.DataFrame) -> list[list[Neighbour]] | None:
    """Return the nearest training rows of each row; None without a table of training rows that fits the model."""
    if loaded.training is None or _absent(loaded):
        return None
    from recuse.inspection.explanations import nearest_rows

    columns, training = _used(loaded), loaded.training
    places, distances = nearest_rows(frame, _named(training, columns), columns)
    targets = _targets(loaded)
    return [
        [
            {
                "distance": float(distance),
                "row": {str(column.name): _plain(training[str(column.name)].iloc[place]) for column in columns},
                "target": _target(training, targets, place),
            }
            for place, distance in zip(places[row], distances[row], strict=True)
        ]
        for row in range(len(frame))
    ]


def _used(loaded: LoadedModel) -> list[Column]:
    schema = loaded.model.schema
    return [column for column in schema.columns if column.kind != "unused"] if isinstance(schema, TableSchema) else []


def _absent(loaded: LoadedModel) -> list[str]:
    """Return the columns that the training rows lack; their names are text."""
    assert loaded.training is not None
    return [str(column.name) for column in _used(loaded) if str(column.name) not in loaded.training.columns]


def _named(training: pd.DataFrame, columns: Sequence[Column]) -> pd.DataFrame:
    return training.rename(columns={str(column.name): column.name for column in columns})


def _targets(loaded: LoadedModel) -> list[str]:
    """Return the columns of the targets: those of their names, or the only column that the model does not read."""
    assert loaded.training is not None
    names = loaded.model.info()["targets"]["names"]
    columns = list(loaded.training.columns)
    if names and set(names) <= set(columns):
        return list(names)
    others = [name for name in columns if name not in loaded.column_names]
    return others if len(others) == 1 else []


def _target(training: pd.DataFrame, names: list[str], place: int) -> Any:
    values = [_plain(training[name].iloc[place]) for name in names]
    return values[0] if len(values) == 1 else values or None


def _plain(cell: Any) -> Any:
    """Return a cell as a value of JSON.

    Examples
    --------
    >>> _plain(np.float64(2.5)), _plain(float("nan")), _plain(np.datetime64("2024-05-01"))
    (2.5, None, '2024-05-01')
    """
    value = cell.item() if isinstance(cell, np.generic) and cell.dtype.kind in "biufU" else cell
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, str | int | bool) else str(value)
