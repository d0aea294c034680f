"""Signature, input example and metadata that MLflow keeps about a model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from recuse.extras import import_extra
from recuse.model_file.schema import ImageSchema, example_cell, example_row
from recuse.model_file.served import ServedModel
from recuse.tabular.schema import Column, TableSchema


def signature_of(served: ServedModel) -> Any:
    """Return the columns of the model and of its decisions, and the parameters `cost` and `costs`."""
    models, types = import_extra("mlflow.models", "mlflow"), import_extra("mlflow.types.schema", "mlflow")
    params = [types.ParamSpec("cost", "double", None), types.ParamSpec("costs", "double", [], (-1,))]
    return models.ModelSignature(
        inputs=types.Schema(_inputs(served, types)),
        outputs=types.Schema([types.ColSpec(kind, name) for name, kind in served.result_types.items()]),
        params=types.ParamSchema(params),
    )


def _inputs(served: ServedModel, types: Any) -> list[Any]:
    """Return the inputs; columns have the type "any".

    MLflow would refuse whole numbers and missing values in columns with a declared type, and categories of a new type.
    The model reads all of these, and counts a cell that it does not know as novel.
    """
    schema = served.schema
    if isinstance(schema, ImageSchema):
        return [types.TensorSpec(np.dtype(np.float32), (-1, *schema.shape))]
    if schema.matrix is not None:
        return [types.TensorSpec(np.dtype(np.float64), (-1, len(schema.columns)))]
    names = [*schema.names, *([served.cost_] if isinstance(served.cost_, str) else [])]
    return [types.ColSpec(types.AnyType(), str(name)) for name in names]


def summary_of(served: ServedModel) -> dict[str, Any]:
    """Return the kinds and ranges of the columns for the metadata, since the signature does not have them."""
    columns = served.schema.columns if isinstance(served.schema, TableSchema) else ()
    return {
        "estimator": served.estimator,
        "cost": served.cost_,
        "cost_range": None if served.cost_range_ is None else list(served.cost_range_),
        "loss": served.loss_.name,
        "columns": {str(column.name): _column_summary(column) for column in columns if column.kind != "unused"},
    }


def _column_summary(column: Column) -> dict[str, Any]:
    limits = {} if column.low is None else {"low": column.low, "high": column.high}
    return {"kind": column.kind, **limits, **({"categories": len(column.levels)} if column.levels else {})}


def example_rows(served: ServedModel) -> Any:
    """Return one row in the middle of the training ranges, as a DataFrame, or as an array if columns have no names."""
    schema = served.schema
    if isinstance(schema, ImageSchema):
        return np.zeros((1, *schema.shape), np.float32)
    if schema.matrix is not None:
        cells = [example_cell(column) if column.kind == "number" else 0.0 for column in schema.columns]
        return np.array([cells], dtype=np.float64)
    return pd.DataFrame([example_row(served)])
