"""What a model file keeps of training: the leaderboard, out-of-fold results and hashes of the rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recuse.model_file.container import OUT_OF_FOLD, TRAINING_HASHES, TRAINING_REPEATED, pack_array, unpack_array
from recuse.model_file.errors import ModelFileError
from recuse.model_file.schema import ImageSchema
from recuse.row_hashes import Singles
from recuse.tabular.fingerprint import TrainingRows
from recuse.tabular.schema import TableSchema

__all__ = ["Column", "leaderboard_of", "out_of_fold_of", "pack_training", "training_rows_of"]

Column: TypeAlias = NDArray[np.float64] | list[str]


def pack_training(model: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return what the header says about the training of an estimator, and the arrays of it."""
    values: dict[str, Any] = {"fingerprint": model.fingerprint, "rows": None, "leaderboard": None, "out_of_fold": None}
    arrays: dict[str, bytes] = {}
    if hasattr(model, "leaderboard_"):
        table = model.leaderboard_
        values["leaderboard"] = {name: _plain(table[name].tolist()) for name in table.columns}
    if hasattr(model, "out_of_fold_"):
        values["out_of_fold"] = [str(name) for name in model.out_of_fold_.columns]
        arrays[OUT_OF_FOLD] = pack_array(OUT_OF_FOLD, model.out_of_fold_.to_numpy().T)
    rows = model.training_rows_
    if rows is not None:
        values.update(rows=rows.count, singles=asdict(rows.singles))
        arrays[TRAINING_HASHES] = pack_array(TRAINING_HASHES, rows.hashes)
        arrays[TRAINING_REPEATED] = pack_array(TRAINING_REPEATED, rows.repeated)
    return values, arrays


def _plain(column: list[Any]) -> list[Any]:
    """Return a column as JSON has it, with None for numbers that are not known."""
    return [None if isinstance(value, float) and not math.isfinite(value) else value for value in column]


def leaderboard_of(values: Mapping[str, Any]) -> dict[str, Column] | None:
    """Read the leaderboard from the header: lists of text, and arrays of numbers with NaN for missing ones.

    Examples
    --------
    >>> leaderboard_of({"leaderboard": {"name": ["blend", "forest"], "rows": [None, 300.0]}})
    {'name': ['blend', 'forest'], 'rows': array([ nan, 300.])}
    """
    table = values.get("leaderboard")
    if table is None:
        return None
    if not isinstance(table, dict) or not all(isinstance(column, list) for column in table.values()):
        raise ModelFileError("the header has a leaderboard that cannot be read")
    if len({len(column) for column in table.values()}) > 1:
        raise ModelFileError("the header has a leaderboard with columns of several lengths")
    return {name: _leaderboard_column(column) for name, column in table.items()}


def _leaderboard_column(values: list[Any]) -> Column:
    if all(type(value) is str for value in values):
        return values
    if not all(value is None or type(value) in (int, float) for value in values):
        raise ModelFileError("the header has a leaderboard with columns of several kinds")
    return np.array([math.nan if value is None else float(value) for value in values])


def out_of_fold_of(values: Mapping[str, Any], arrays: Mapping[str, bytes]) -> dict[str, NDArray[np.float64]] | None:
    """Read the out-of-fold results: one array for each column."""
    names = values.get("out_of_fold")
    if names is None:
        return None
    table = unpack_array(OUT_OF_FOLD, arrays.get(OUT_OF_FOLD, b""))
    if not isinstance(names, list) or not all(type(name) is str for name in names) or len(set(names)) != len(table):
        raise ModelFileError(f"the header must name the {len(table)} columns of {OUT_OF_FOLD}, got {names!r:.80}")
    return dict(zip(names, table, strict=True))


def training_rows_of(
    schema: TableSchema | ImageSchema, values: Mapping[str, Any], arrays: Mapping[str, bytes]
) -> TrainingRows | None:
    """Read the hashes of the training rows; None for images."""
    count = values.get("rows")
    if count is None or isinstance(schema, ImageSchema):
        return None
    if type(count) is not int or count < 0:
        raise ModelFileError("the header has no valid description of the training rows")
    hashes = unpack_array(TRAINING_HASHES, arrays.get(TRAINING_HASHES, b""))
    repeated = unpack_array(TRAINING_REPEATED, arrays.get(TRAINING_REPEATED, b""))
    if len(hashes) != len(repeated):
        raise ModelFileError(f"{TRAINING_HASHES} and {TRAINING_REPEATED} must have the same length")
    return TrainingRows(schema, hashes, repeated, count, _singles(values.get("singles"), count))


def _singles(values: Any, count: int) -> Singles:
    names = {each.name for each in fields(Singles)}
    valid = isinstance(values, dict) and set(values) == names and values["count"] == count
    if not valid or not all(type(each) is int and 0 <= each <= count for each in values.values()):
        raise ModelFileError("the header has no valid description of the training rows")
    return Singles(**values)
