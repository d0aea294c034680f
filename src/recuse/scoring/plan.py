"""What a run does with every row: the model, the cost, the certificate and the columns to keep."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recuse.model_file.container import read_bytes
from recuse.model_file.served import ServedModel, load_with_digest
from recuse.phrases import counted, short
from recuse.tabular.column_checks import check_name
from recuse.tabular.schema import TableSchema

# The models that this process opened last, by checksum.
_recent: dict[str, ServedModel] = {}
_MOST_RECENT = 4


@dataclass(frozen=True)
class ModelSource:
    """A model by the path of its file, or as it is; each process loads it once.

    Attributes
    ----------
    checksum : str
        SHA-256 of the file, or of the header and the graph.
    path : str or None
        The file; None for a model in memory.
    model : ServedModel or None
        The model in memory.
    """

    checksum: str
    path: str | None = None
    model: ServedModel | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, model: str | os.PathLike[str] | ServedModel | ModelSource) -> ModelSource:
        """Return the source of a path or of a model."""
        if isinstance(model, ModelSource):
            return model
        if isinstance(model, ServedModel):
            header = json.dumps(model.info(), sort_keys=True, default=str).encode()
            return cls(hashlib.sha256(header + model.onnx_graph()).hexdigest(), None, model)
        return cls(hashlib.sha256(read_bytes(model)).hexdigest(), str(Path(model).absolute()))

    def load(self) -> ServedModel:
        """Return the model; raise an error if the file is not the same any more."""
        served = self.model or _recent.get(self.checksum)
        if served is None:
            assert self.path is not None
            served, checksum = load_with_digest(self.path)
            if checksum != self.checksum:
                raise ValueError(f"{self.path} was replaced during the run: start it again")
            _keep(checksum, served)
        return served

    def __reduce__(self) -> tuple[Any, ...]:
        if self.model is None:
            return ModelSource, (self.checksum, self.path)
        return _unpickled, (self.checksum, *self.model.__reduce__()[1])


def _keep(checksum: str, model: ServedModel) -> None:
    for oldest in list(_recent)[: 1 - _MOST_RECENT]:
        _recent.pop(oldest, None)  # another thread may do the same
    _recent[checksum] = model


def _unpickled(checksum: str, *of_model: Any) -> ModelSource:
    model = _recent.get(checksum) or ServedModel(*of_model)
    _keep(checksum, model)
    return ModelSource(checksum, None, model)


@dataclass(frozen=True)
class ScoringPlan:
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


def chosen_cost(
    model: ServedModel, cost: float | str | None = None, certificate: int | None = None
) -> float | str | None:
    """Return the cost that is given, or else that of the certificate or of the model: a number or a column.

    It is None for a model that defers rows to experts, whose fees are the costs.

    Raises
    ------
    ValueError
        If there is no cost, or if it does not fit the model or the certificate.
    """
    if model.experts and cost is None and certificate is None:
        return None
    if certificate is not None:
        if not 1 <= certificate <= len(model.certificates):
            held = counted(len(model.certificates), "certificate")
            rule = "certificate must be the number of a certificate"
            raise ValueError(f"{rule}, the model file has {held}, got {certificate}")
        certified = model.certificates[certificate - 1].cost
        if certified is None and not isinstance(cost, str):
            raise ValueError(f"certificate {certificate} is for one cost per row: give the name of a column as cost")
        if None not in (cost, certified) and cost != certified:
            texts = [f"column {each}" if isinstance(each, str) else f"{each:g}" for each in (certified, cost)]
            raise ValueError(f"cost must be {texts[0]}, which certificate {certificate} is for, got {texts[1]}")
        cost = certified if cost is None else cost
    chosen = model.cost_ if cost is None else cost
    if chosen is None:
        raise ValueError("the model has no cost of its own: give a cost, as a number or as the name of a column")
    if model.cost_range_ is not None and not isinstance(chosen, str):
        low, high = model.cost_range_
        if not low <= chosen <= high:
            raise ValueError(f"cost must be from {low:g} to {high:g}, as in training, got {chosen:g}")
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


def columns_to_read(model: ServedModel, plan: ScoringPlan, names: Sequence[str], source: str) -> list[str]:
    """Return the columns of a table that a run needs, in the order of the table; raise an error if one is missing."""
    for name in plan.keep:
        check_name(names, name, "column to keep", source)
    used = {*model_columns(model, names, plan.cost, source).values(), *plan.keep}
    if isinstance(plan.cost, str):
        check_name(names, plan.cost, "cost column", source)
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
