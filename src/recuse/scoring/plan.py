"""What a run does with every row: the model, the cost, the certificate and the columns to keep."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from recuse.model_file.container import read_bytes
from recuse.model_file.served import ServedModel, load_with_digest
from recuse.tabular.schema import TableSchema

__all__ = ["ModelSource", "Plan", "chosen_cost", "columns_to_read", "kept_names", "model_columns", "table_schema"]


@dataclass(frozen=True)
class ModelSource:
    """A model by the path of its file, or as it is; each process loads it once.

    Attributes
    ----------
    checksum : str
        SHA-256 of the file, or of the header and the graph.
    path : str or None
    model : ServedModel or None
    """

    checksum: str
    path: str | None = None
    model: ServedModel | None = field(default=None, compare=False)

    @classmethod
    def of(cls, model: str | os.PathLike[str] | ServedModel | ModelSource) -> ModelSource:
        """Return the source of a path or of a model."""
        if isinstance(model, ModelSource):
            return model
        if isinstance(model, ServedModel):
            header = json.dumps(model.info(), sort_keys=True, default=str).encode()
            return cls(hashlib.sha256(header + model.onnx_graph()).hexdigest(), None, model)
        return cls(_loaded(model)[1], str(Path(model).absolute()))

    def load(self) -> ServedModel:
        """Return the model; raise an error if the file is not the same any more."""
        if self.model is not None:
            return self.model
        served = _recent.get(self.checksum)
        if served is not None:
            return served
        assert self.path is not None
        served, checksum = _loaded(self.path)
        if checksum != self.checksum:
            raise ValueError(f"{self.path} was replaced during the run: start it again")
        return served

    def __reduce__(self) -> tuple[Any, ...]:
        if self.model is None:
            return ModelSource, (self.checksum, self.path)
        return _unpickled, (self.checksum, *self.model.__reduce__()[1])


_recent: dict[str, ServedModel] = {}  # models by checksum, so that a process opens each of them once
_lock = threading.Lock()


def _loaded(path: str | os.PathLike[str]) -> tuple[ServedModel, str]:
    """Return the model of a file, and the checksum of the file."""
    checksum = hashlib.sha256(read_bytes(path)).hexdigest()
    served = _recent.get(checksum)
    if served is None:
        served, checksum = load_with_digest(path)
        _keep(checksum, served)
    return served, checksum


def _keep(checksum: str, model: ServedModel) -> None:
    with _lock:
        while len(_recent) >= 4:
            del _recent[next(iter(_recent))]
        _recent[checksum] = model


def _unpickled(checksum: str, *of_model: Any) -> ModelSource:
    model = _recent.get(checksum)
    if model is None:
        model = ServedModel(*of_model)
        _keep(checksum, model)
    return ModelSource(checksum, None, model)


@dataclass(frozen=True)
class Plan:
    """The decisions to make.

    Attributes
    ----------
    model : ModelSource
    cost : float, str or None
        A number, or the name of a column; None if rows are deferred to experts, whose fees are the costs.
    certificate : int or None
        Number of a certificate of the model file, counted from 1.
    keep : tuple of str
        Columns of the data to write, too.
    kept_as : tuple of str
        Their names in the output.
    output : str
        Format of the output by its ending, such as "parquet" or "csv.gz"; empty if no file is written.
    encoding : str or None
        Encoding of a CSV file.
    spreadsheet_safe : bool
        Whether text cells that spreadsheets would run as formulas get an apostrophe.
    """

    model: ModelSource
    cost: float | str | None
    certificate: int | None = None
    keep: tuple[str, ...] = ()
    kept_as: tuple[str, ...] = ()
    output: str = ""
    encoding: str | None = None
    spreadsheet_safe: bool = False

    def describe(self) -> dict[str, Any]:
        """Return all fields as plain values; that of the model is the checksum."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**values, "model": self.model.checksum}


def chosen_cost(model: ServedModel, cost: float | str | None, certificate: int | None) -> float | str | None:
    """Return the cost that is given, or else that of the certificate or of the model: a number or a column.

    It is None for a model that defers rows to experts, whose fees are the costs.
    """
    if model.experts and cost is None and certificate is None:
        return None
    if certificate is not None and not 1 <= certificate <= len(model.certificates):
        count = len(model.certificates)
        raise ValueError(f"certificate must be from 1 to {count}, the number in the model file, got {certificate}")
    if cost is None and certificate is not None:
        cost = model.certificates[certificate - 1].cost
    chosen = model.cost_ if cost is None else cost
    if chosen is None:
        raise ValueError("the model has no cost of its own: give cost, a number or the name of a column")
    return chosen if isinstance(chosen, str) else float(chosen)


def table_schema(model: ServedModel) -> TableSchema:
    """Return the columns that a model reads; raise an error if it reads images."""
    if not isinstance(model.schema, TableSchema):
        raise ValueError(f"{model.estimator} reads images, not tables: load the model in Python, with recuse.load")
    return model.schema


def model_columns(
    model: ServedModel, names: Sequence[str], cost: float | str | None, source: str
) -> dict[str | int, str]:
    """Return the name in a table of each column of the model; raise an error if columns are missing.

    The names of columns can be numbers, which are text in a file. A model of an array reads columns by position, so the
    columns of the target and of the cost are left out.

    Parameters
    ----------
    model : ServedModel
    names : sequence of str
        Names of the columns of the table.
    cost : float, str or None
        A number, or the name of a column.
    source : str
        Name of the table in errors.
    """
    from recuse.phrases import short

    schema = table_schema(model)
    if schema.matrix is not None:
        others = {each for each in (cost, model.cost_) if isinstance(each, str)}
        others |= set(model.info()["targets"]["names"] or ())
        features = [name for name in names if name not in others]
        if len(features) != len(schema.columns):
            raise ValueError(f"{source} must have {len(schema.columns)} columns, as in training, got {len(features)}")
        return {column.name: name for column, name in zip(schema.columns, features, strict=True)}
    used = {column.name: str(column.name) for column in schema.columns if column.kind != "unused"}
    absent = [name for name in used.values() if name not in names]
    if absent:
        several = "the columns" if len(absent) > 1 else "the column"
        raise ValueError(f"{source} must have {several} {short(absent, 10)}, as in training")
    return used


def columns_to_read(model: ServedModel, plan: Plan, names: Sequence[str], source: str) -> list[str]:
    """Return the columns of a table that a run needs, in the order of the table."""
    used = {*model_columns(model, names, plan.cost, source).values(), *plan.keep}
    if isinstance(plan.cost, str):
        used.add(plan.cost)
    return [name for name in names if name in used]


def kept_names(keep: Sequence[str], results: Sequence[str]) -> tuple[str, ...]:
    """Return the names of kept columns in the output; a name that a result has gets a prefix that makes it new.

    Examples
    --------
    >>> kept_names(["id", "score"], ["prediction", "score"])
    ('id', 'input_score')
    """
    used, renamed = {*keep, *results}, []
    for name in keep:
        new = name
        while new in results or (new != name and new in used):
            new = f"input_{new}"
        used.add(new)
        renamed.append(new)
    return tuple(renamed)
