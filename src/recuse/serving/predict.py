"""The routes of the service's own JSON: /predict and /models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response

from recuse.model_file.served import ServedModel
from recuse.serving import messages
from recuse.serving.deciding import DecidedRequest, DecisionRequest, decide_body, find_model, respond
from recuse.serving.errors import RequestError, shown
from recuse.serving.explanation import add_explanations, check_count
from recuse.serving.messages import json_response, records_of
from recuse.serving.model_store import LoadedModel
from recuse.serving.openapi import GUARDED, POSTED, operation
from recuse.serving.parsing import RowLimits, parse_json
from recuse.serving.tables import RowReading, check_cost, check_lenient, table_of_records
from recuse.tabular.codecs import MISSING_WORDS
from recuse.tabular.schema import Column, Kind, TableSchema

__all__ = ["predict", "router"]

router = APIRouter()


@router.post(
    "/predict", **operation(messages.PredictAnswer, *POSTED, body=messages.PredictRequest, query=messages.PredictQuery)
)
async def predict(request: Request) -> Response:
    """Decide about one row or several."""
    query = request.query_params
    loaded = find_model(request.app.state, query.get("model"))
    if query.get("explain", "false") not in ("true", "false"):
        raise RequestError(422, f"explain must be true or false, got {shown(query['explain'])}")
    explain = query.get("explain") == "true"
    decided = await decide_body(request, partial(_read, loaded, request.app.state.limits, explain))
    return await (_explain(request, decided) if explain else respond(request, decided, _write))


def _read(loaded: LoadedModel, limits: RowLimits, explain: bool, body: bytes) -> DecisionRequest:
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
    return DecisionRequest(loaded, table, check_cost(content.get("cost")), _ids(content.get("ids"), len(rows)), record)


def _ids(ids: Any, count: int) -> list[str] | None:
    if ids is None:
        return None
    if not isinstance(ids, list) or len(ids) != count or not all(isinstance(key, str) for key in ids):
        raise RequestError(422, f"ids must be one text for each of {count} rows, got {shown(ids)}")
    return ids


def _write(decided: DecidedRequest) -> Response:
    return _response(decided.question.loaded, records_of(decided))


async def _explain(request: Request, decided: DecidedRequest) -> Response:
    question = decided.question
    records = await add_explanations(request.app.state, question.loaded, question.table, records_of(decided))
    return _response(question.loaded, records)


def _response(loaded: LoadedModel, records: list[messages.DecisionRecord]) -> Response:
    answer: messages.PredictAnswer = {
        "model": loaded.name,
        "version": loaded.version,
        "certificate": loaded.certificate_number,
        "decisions": records,
    }
    return json_response(answer)


@router.get("/models", **operation(list[messages.ModelDescription], *GUARDED))
async def models(request: Request) -> Response:
    """List the models, the default first."""
    state = request.app.state
    served = [state.models.get(name) for name in state.models.names]
    return json_response([_describe(each, has_queue=state.settings.queue is not None) for each in served])


def _describe(loaded: LoadedModel, *, has_queue: bool) -> messages.ModelDescription:
    """Return what a caller needs to know of a model."""
    model, info, in_force = loaded.model, loaded.model.info(), loaded.certificate
    any_cost, cost, cost_range = model.serves_any_cost, model.cost_, model.cost_range_
    if in_force is not None and in_force.certificate.cost is not None:  # it covers no other cost
        any_cost, cost, cost_range = False, in_force.certificate.cost, None
    columns = model.schema.columns if isinstance(model.schema, TableSchema) else ()
    return {
        "name": loaded.name,
        "version": loaded.version,
        "estimator": model.estimator,
        "cost": cost,
        "serves_any_cost": any_cost,
        "cost_range": None if cost_range is None else list(cost_range),
        "has_expected_loss": info["has_expected_loss"],
        "experts": [expert.name for expert in model.experts],
        "loss": model.loss_.name,
        "targets": info["targets"]["names"] or [f"target {place}" for place in range(info["targets"]["count"])],
        "columns": list(_describe_columns(columns)),
        "missing_words": sorted(MISSING_WORDS),
        "training_rows": loaded.training is not None,
        "certificates": _describe_certificates(model),
        "certificate": loaded.certificate_number,
        "review_queue": has_queue and loaded.reads_rows,
    }


def _describe_columns(columns: Iterable[Column]) -> Iterator[messages.ColumnDescription]:
    for column in columns:
        if column.kind is Kind.UNUSED:
            continue
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
        yield described


def _describe_certificates(model: ServedModel) -> list[messages.CertificateDescription]:
    return [
        {
            "number": number,
            "statement": str(each),
            "what": each.what,
            "target": each.target,
            "delta": each.delta,
            "threshold": each.threshold,
            "cost": each.cost,
        }
        for number, each in enumerate(model.certificates, start=1)
    ]
