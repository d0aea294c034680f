"""The routes of the service's own JSON: /predict, with reasons for decisions, and /models."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from fastapi import APIRouter, Request, Response

from recuse.dataframes import MISSING_WORDS
from recuse.model_file.table_report import CellComparison
from recuse.serving import messages
from recuse.serving.bodies import RowLimits, RowReader, check_cost, check_lenient, parse_json
from recuse.serving.deciding import DecidedRequest, DecisionRequest, answer_rows, find_model
from recuse.serving.messages import RequestError, json_response, shown
from recuse.serving.model_store import LoadedModel
from recuse.serving.openapi import GUARDED, POSTED, operation
from recuse.tabular.schema import Column, Kind, TableSchema

_MOST_EXPLAINED = 100  # rows in one request: each takes some milliseconds
_OF_CERTIFICATE = ("what", "target", "delta", "threshold", "cost")

router = APIRouter()


@router.post(
    "/predict", **operation(messages.PredictAnswer, *POSTED, body=messages.PredictRequest, query=messages.PredictQuery)
)
async def predict(request: Request) -> Response:
    """Decide about one row or several."""
    query = request.query_params if request.scope["query_string"] else {}
    loaded = find_model(request.app.state, query.get("model"))
    if query.get("explain", "false") not in ("true", "false"):
        raise RequestError(422, f"explain must be true or false, got {shown(query['explain'])}")
    explain = query.get("explain") == "true"
    read = partial(_read, loaded, request.app.state.limits, explain)
    return await answer_rows(request, loaded, read, partial(_write, explain), is_quick=not explain)


def _read(loaded: LoadedModel, limits: RowLimits, explain: bool, body: bytes) -> DecisionRequest:
    content = parse_json(body, limits=limits)
    if not isinstance(content, dict) or ("row" in content) == ("rows" in content):
        raise RequestError(422, 'the body must be an object with either "row" or "rows"')
    given = [content["row"]] if "row" in content else content["rows"]
    if explain and isinstance(given, list) and len(given) > _MOST_EXPLAINED:
        rule = f"a request with explain=true may have at most {_MOST_EXPLAINED} rows"
        raise RequestError(413, f"{rule}, got {len(given)}")
    rows = RowReader(loaded, limits, check_lenient(content.get("lenient", False))).of_records(given)
    ids, record = content.get("ids"), content.get("record", True)
    if not isinstance(record, bool):
        raise RequestError(422, f"record must be true or false, got {shown(record)}")
    if ids is not None and (
        not isinstance(ids, list) or len(ids) != rows.count or not {str}.issuperset(map(type, ids))
    ):
        raise RequestError(422, f"ids must be one text for each of {rows.count} rows, got {shown(ids)}")
    return DecisionRequest(loaded, rows, check_cost(content.get("cost")), ids, record)


def _write(explain: bool, decided: DecidedRequest) -> Response:
    loaded, records = decided.question.loaded, decided.records()
    if explain:
        _explain(decided, records)
    answer: messages.PredictAnswer = {
        "model": loaded.name,
        "version": loaded.version,
        "certificate": loaded.certificate_number,
        "decisions": records,
    }
    return json_response(answer)


def _explain(decided: DecidedRequest, records: list[messages.DecisionRecord]) -> None:
    """Add to each record what is new in its row, and the training rows near it."""
    loaded, table = decided.question.loaded, decided.question.rows.table
    compared = loaded.model.read(table, warn=False).comparison  # that of the outcome may lack the cells
    near = _neighbours(loaded, table)
    for row, record in enumerate(records):
        record["new"] = [] if compared is None else _new_cells(compared, row)
        record["neighbours"] = None if near is None else near[row]


def _new_cells(compared: CellComparison, row: int) -> list[messages.NewCell]:
    """Describe the cells of one row that no training row had."""
    return [
        {
            "column": str(problem.column),
            "problem": problem.problem,
            "value": problem.example,
            "expected": problem.expected,
        }
        for problem in compared.of_row(row).problems()
    ]


def check_training_rows(loaded: LoadedModel) -> None:
    """Raise a ValueError if a table of training rows lacks a column of its model."""
    absent = _absent(loaded)
    if absent:
        raise ValueError(
            f"the training rows of {loaded.name!r} must have the columns of the model, {absent[0]!r} is not there"
        )


def _absent(loaded: LoadedModel) -> list[str]:
    """Return the columns that the training rows lack; their names are text."""
    assert loaded.training is not None
    return [str(column.name) for column in _used(loaded) if str(column.name) not in loaded.training.columns]


def _used(loaded: LoadedModel) -> tuple[Column, ...]:
    return loaded.model.schema.used if isinstance(loaded.model.schema, TableSchema) else ()


def _neighbours(loaded: LoadedModel, table: dict[str | int, Any]) -> list[list[messages.Neighbour]] | None:
    """Return the nearest training rows of each row; None without a table of training rows that fits the model."""
    if loaded.training is None or _absent(loaded):
        return None
    from recuse.inspection.explanations import nearest_rows

    columns, training = _used(loaded), loaded.training
    rows = pd.DataFrame(
        {name: cells if isinstance(cells, list) else [cells] for name, cells in table.items()}, dtype=object
    )
    named = training.rename(columns={str(column.name): column.name for column in columns})
    places, distances = nearest_rows(rows, named, columns)
    target = _target(loaded, training)
    return [
        [
            {
                "distance": float(distance),
                "row": {str(column.name): _plain(named[column.name].iloc[place]) for column in columns},
                "target": None if target is None else _plain(training[target].iloc[place]),
            }
            for place, distance in zip(*of_row, strict=True)
        ]
        for of_row in zip(places, distances, strict=True)
    ]


def _target(loaded: LoadedModel, training: pd.DataFrame) -> str | None:
    """Return the column of the target: that of its name, or the only column that the model does not read."""
    if loaded.target in training.columns:
        return loaded.target
    others = [name for name in training.columns if name not in loaded.column_names]
    return others[0] if len(others) == 1 else None


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


@router.get("/models", **operation(list[messages.ModelDescription], *GUARDED))
async def models(request: Request) -> Response:
    """List the models, the default first."""
    state = request.app.state
    served = [state.models.get(name) for name in state.models.names]
    return json_response([_describe(each, has_queue=state.settings.queue is not None) for each in served])


def _describe(loaded: LoadedModel, *, has_queue: bool) -> messages.ModelDescription:
    """Return what a caller needs to know of a model."""
    model, in_force = loaded.model, loaded.certificate
    any_cost, cost, cost_range = model.serves_any_cost, model.cost_, model.cost_range_
    if in_force is not None and in_force.cost is not None:  # it covers no other cost
        any_cost, cost, cost_range = False, in_force.cost, None
    certificates: Any = [
        {"number": number, "statement": str(each), **{name: getattr(each, name) for name in _OF_CERTIFICATE}}
        for number, each in enumerate(model.certificates, start=1)
    ]
    return {
        "name": loaded.name,
        "version": loaded.version,
        "estimator": model.estimator,
        "cost": cost,
        "serves_any_cost": any_cost,
        "cost_range": None if cost_range is None else list(cost_range),
        "has_expected_loss": loaded.has_expected_loss,
        "experts": [expert.name for expert in model.experts],
        "loss": model.loss_.name,
        "target": loaded.target,
        "columns": [_describe_column(column) for column in _used(loaded)],
        "missing_words": sorted(MISSING_WORDS),
        "training_rows": loaded.training is not None,
        "certificates": certificates,
        "certificate": loaded.certificate_number,
        "review_queue": has_queue and loaded.reads_rows,
    }


def _describe_column(column: Column) -> messages.ColumnDescription:
    assert column.kind is not Kind.UNUSED
    described: messages.ColumnDescription = {
        "name": str(column.name),
        "kind": column.kind,
        "had_missing": column.had_missing,
    }
    if column.kind is Kind.CATEGORY:
        seen = [level for level in column.levels if level.seen]
        described["levels"] = [level.text if level.value is None else level.value for level in seen]
    else:
        described["low"], described["high"] = column.low, column.high
    return described
