"""The route /models: what the models of the service read and decide."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from recuse.model_file.schema import ColumnSchema, TableSchema
from recuse.serving.certified import describe_certificates
from recuse.serving.model_store import LoadedModel
from recuse.serving.openapi import operations
from recuse.serving.payloads.records import json_response

__all__ = ["describe", "router"]

router = APIRouter()


@router.get("/models", **operations.MODELS)
async def models(request: Request) -> Response:
    """List the models, the default first."""
    state = request.app.state
    served = [state.models.get(name) for name in state.models.names]
    queue = state.settings.queue is not None
    return json_response([{**describe(each), "review_queue": queue and each.reads_rows} for each in served])


def describe(loaded: LoadedModel) -> dict[str, Any]:
    """Return what a caller needs to know of a model, as plain values."""
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
        "loss": model.loss_.name,
        "targets": info["targets"]["names"] or [f"target {place}" for place in range(info["targets"]["count"])],
        "columns": [_describe_column(column) for column in columns if column.kind != "unused"],
        "training_rows": loaded.training is not None,
        "certificates": describe_certificates(model),
        "certificate": None if in_force is None else in_force.number,
    }


def _describe_column(column: ColumnSchema) -> dict[str, Any]:
    described: dict[str, Any] = {"name": str(column.name), "kind": column.kind, "had_missing": column.had_missing}
    if column.kind == "category":
        seen = [level for level in column.levels if level.seen]
        return {**described, "levels": [level.text if level.value is None else level.value for level in seen]}
    return {**described, "low": column.low, "high": column.high}
