"""The routes of MLflow's scoring server: /invocations, /ping, /health and /version."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from recuse._version import __version__
from recuse.serving.deciding import DecidedRequest, DecisionRequest, decide_body, find_model, respond
from recuse.serving.errors import RequestError, shown
from recuse.serving.messages import InvocationsAnswer, InvocationsQuery, InvocationsRequest, json_response, records_of
from recuse.serving.openapi import GUARDED, POSTED, operation
from recuse.serving.parsing import parse_json
from recuse.serving.tables import (
    RowReading,
    check_cost,
    check_lenient,
    table_of_columns,
    table_of_csv,
    table_of_lists,
    table_of_records,
)

__all__ = ["router"]

router = APIRouter()

_FORMATS = ("dataframe_split", "dataframe_records", "instances", "inputs")


@router.post("/invocations", **operation(InvocationsAnswer, *POSTED, body=InvocationsRequest, query=InvocationsQuery))
async def invocations(request: Request) -> Response:
    """Decide about rows in a format of MLflow: one record for each row."""
    loaded = find_model(request.app.state, request.query_params.get("model"))
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind not in ("application/json", "text/csv"):
        raise RequestError(415, f"the content type must be application/json or text/csv, got {shown(kind)}")
    read = _read_csv if kind == "text/csv" else _read_json
    lenient = check_lenient(request.query_params.get("lenient", False))
    reading = RowReading(loaded, request.app.state.limits, lenient)
    return await respond(request, await decide_body(request, partial(read, reading)), _write)


def _read_csv(reading: RowReading, body: bytes) -> DecisionRequest:
    return DecisionRequest(reading.loaded, table_of_csv(reading, body))


def _read_json(reading: RowReading, body: bytes) -> DecisionRequest:
    content = parse_json(body, nan_is_missing=True, limits=reading.limits)
    given = [name for name in _FORMATS if name in content] if isinstance(content, dict) else []
    if len(given) != 1:
        raise RequestError(422, f"the body must be an object with one of {', '.join(_FORMATS)}, got {given}")
    table = _table(reading, given[0], content[given[0]])
    return DecisionRequest(reading.loaded, table, _cost(content.get("params")))


def _cost(params: Any) -> Any:
    if params is None:
        return None
    if not isinstance(params, dict) or not params.keys() <= {"cost"}:
        raise RequestError(422, f"params may be an object with cost and nothing else, got {shown(params)}")
    return check_cost(params.get("cost"))


def _table(reading: RowReading, name: str, rows: Any) -> Any:
    if name == "dataframe_split":
        if not isinstance(rows, dict) or not isinstance(rows.get("columns", []), list):
            raise RequestError(422, "dataframe_split must be an object with the lists columns and data")
        return table_of_lists(reading, rows.get("data"), rows.get("columns"))
    if name == "inputs" and isinstance(rows, dict):
        return table_of_columns(reading, {text: _column(cells) for text, cells in rows.items()})
    if isinstance(rows, list) and rows and isinstance(rows[0], list) and name != "dataframe_records":
        return table_of_lists(reading, rows)
    return table_of_records(reading, rows)


def _column(cells: Any) -> list[Any]:
    """Return the values of a column, which may be a list of lists of one value, or one value."""
    values = cells if isinstance(cells, list) else [cells]
    return [cell[0] if isinstance(cell, list) and len(cell) == 1 else cell for cell in values]


def _write(decided: DecidedRequest) -> Response:
    answer: InvocationsAnswer = {"predictions": records_of(decided)}
    if (number := decided.question.loaded.certificate_number) is not None:
        answer["certificate"] = number
    return json_response(answer)


@router.get("/ping", **operation(str))
@router.get("/health", **operation(str))
async def health() -> Response:
    """Say that the service is ready."""
    return Response("\n", media_type="text/plain")


@router.get("/version", **operation(str, *GUARDED))
async def version() -> Response:
    """Return the version of recuse."""
    return Response(__version__, media_type="text/plain")
