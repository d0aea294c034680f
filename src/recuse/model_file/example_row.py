"""A row that a saved model can decide about, for descriptions of its interfaces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from recuse.model_file.served import ServedModel
from recuse.tabular.schema import Column, TableSchema

__all__ = ["example_cell", "example_row"]


def example_row(model: ServedModel) -> dict[str, Any]:
    """Return a row in the middle of the training ranges, by the names of the columns as text.

    Parameters
    ----------
    model : ServedModel
        A model of rows, not of images.
    """
    assert isinstance(model.schema, TableSchema)
    row = {str(column.name): example_cell(column) for column in model.schema.columns if column.kind != "unused"}
    return {**row, model.cost_: 1.0} if isinstance(model.cost_, str) else row


def example_cell(column: Column) -> Any:
    """Return a value of a column that training rows had, or that lies among theirs.

    Examples
    --------
    >>> from recuse.tabular.schema import Kind
    >>> example_cell(Column("weight", Kind.NUMBER, low=1613.0, high=5140.0))
    3380.0
    """
    if column.kind == "category":
        return next((level.text if level.value is None else level.value for level in column.levels if level.seen), None)
    low, high = column.low or 0.0, column.high or 0.0
    middle, width = (low + high) / 2, high - low
    if column.kind == "date":
        return str(np.datetime64(int(middle), "s").astype("M8[D]"))
    return round(middle, 2 - math.floor(math.log10(width))) if width > 0 else middle
