"""The route /predict: decisions about rows of JSON."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from recuse.serving.deciding import Decided, Question, decide_body, find_model, respond
from recuse.serving.errors import RequestError, shown
from recuse.serving.explanation import add_explanations, check_count
from recuse.serving.model_store import LoadedModel
from recuse.serving.openapi import operations
from recuse.serving.payloads.bodies import check_cost, table_of_records
from recuse.serving.payloads.limits import RowLimits
from recuse.serving.payloads.parsing import parse_json
from recuse.serving.payloads.reading import RowReading, check_lenient
from recuse.serving.payloads.records import json_response, records_of

__all__ = ["router"]

router = APIRouter()


@router.post("/predict", **operations.PREDICT)
async def predict(request: Request) -> Response:
    """Decide about one row or several."""
    query = request.query_params
    loaded = find_model(request.app.state, query.get("model"))
    if query.get("explain", "false") not in ("true", "false"):
        raise RequestError(422, f"explain must be true or false, got {shown(query['explain'])}")
    explain = query.get("explain") == "true"
    decided = await decide_body(request, partial(_read, loaded, request.app.state.limits, explain))
    return await (_explain(request, decided) if explain else respond(request, decided, _write))


def _read(loaded: LoadedModel, limits: RowLimits, explain: bool, body: bytes) -> Question:
    content = parse_json(body, limits=limits)
    if not isinstance(content, dict) or ("row" in content) == ("rows" in content):
        raise RequestError(422, 'the body must be an object with either "row" or "rows"')
    rows = [content["row"]] if "row" in content else content["rows"]
    if explain and isinstance(rows, list):
        check_count(len(rows))
    table = table_of_records(RowReading(loaded, limits, check_lenient(content.get("lenient", False))), rows)
    record = content.get("record", True)
    if not isinstance(record, bool):
        raise RequestError(422, f"record must be true or false, got {shown(record)}")
    return Question(loaded, table, check_cost(content.get("cost")), _ids(content.get("ids"), len(rows)), record)


def _ids(ids: Any, count: int) -> list[str] | None:
    if ids is None:
        return None
    if not isinstance(ids, list) or len(ids) != count or not all(isinstance(key, str) for key in ids):
        raise RequestError(422, f"ids must be one text for each of {count} rows, got {shown(ids)}")
    return ids


def _write(decided: Decided) -> Response:
    return _response(decided.question.loaded, records_of(decided))


async def _explain(request: Request, decided: Decided) -> Response:
    question = decided.question
    records = await add_explanations(request.app.state, question.loaded, question.table, records_of(decided))
    return _response(question.loaded, records)


def _response(loaded: LoadedModel, records: list[dict[str, Any]]) -> Response:
    in_force = None if loaded.certificate is None else loaded.certificate.number
    served = {"model": loaded.name, "version": loaded.version, "certificate": in_force}
    return json_response({**served, "decisions": records})
