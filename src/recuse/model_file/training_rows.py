"""Hashes of the training rows in a model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from recuse.model_file.errors import ModelFileError
from recuse.model_file.tables import pack_table, unpack_table
from recuse.row_hashes import Singles
from recuse.tabular.fingerprint import HashedColumn, TrainingRows

__all__ = ["PART", "pack_training_rows", "unpack_training_rows"]

PART = "training_rows"

_KINDS = ("numbers", "dates or times", "categories")


def pack_training_rows(rows: TrainingRows) -> tuple[dict[str, Any], bytes]:
    """Return what the header says about the training rows, and the part with their hashes.

    Examples
    --------
    >>> rows = TrainingRows((), 0, np.array([7], np.uint64), np.array([False]), 1, Singles(1, 1, 1, 1, 1))
    >>> unpack_training_rows(*pack_training_rows(rows)).hashes
    array([7], dtype=uint64)
    """
    values = {"rows": rows.count, "width": rows.width, "columns": [asdict(column) for column in rows.columns]}
    values["singles"] = asdict(rows.singles)
    return values, pack_table({"hash": rows.hashes.view(np.int64), "repeated": rows.repeated})


def unpack_training_rows(values: Mapping[str, Any], part: bytes) -> TrainingRows:
    """Read the result of `pack_training_rows`; raise a ModelFileError if it is wrong."""
    table = unpack_table(part)
    hashes, repeated = table.get("hash"), table.get("repeated")
    if not isinstance(hashes, np.ndarray) or hashes.dtype != np.int64 or not isinstance(repeated, np.ndarray):
        raise ModelFileError("the hashes of the training rows cannot be read: save the model again")
    columns, count, width = values.get("columns"), values.get("rows"), values.get("width")
    if type(count) is not int or type(width) is not int or count < 0 or not isinstance(columns, list):
        raise ModelFileError("the header has no valid description of the training rows")
    return TrainingRows(
        tuple(_column(column, width) for column in columns),
        width,
        hashes.view(np.uint64),
        repeated.astype(np.bool_),
        count,
        _singles(values.get("singles"), count),
    )


def _singles(values: Any, count: int) -> Singles:
    names = {each.name for each in fields(Singles)}
    valid = isinstance(values, dict) and set(values) == names and values["count"] == count
    if not valid or not all(type(each) is int and 0 <= each <= count for each in values.values()):
        raise ModelFileError("the header has no valid description of the training rows")
    return Singles(**values)


def _column(values: Any, width: int) -> HashedColumn:
    valid = (
        isinstance(values, dict)
        and set(values) == {"name", "place", "kind", "zone"}
        and type(values["name"]) in (str, int)
        and type(values["place"]) is int
        and 0 <= values["place"] < width
        and values["kind"] in _KINDS
        and (values["zone"] is None or isinstance(values["zone"], str))
    )
    if not valid:
        raise ModelFileError(f"the header has no valid description of a column of the training rows: {values!r:.80}")
    return HashedColumn(**values)
