"""The route /predict: decisions about rows of JSON."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response

from recuse.serving.bodies import json_body, table_of_records
from recuse.serving.deciding import decide_rows, find_model, records_of
from recuse.serving.errors import RequestError

__all__ = ["router"]

router = APIRouter()


@router.post("/predict")
async def predict(request: Request) -> Response:
    """Decide about one row or several."""
    state = request.app.state
    loaded = find_model(state, request.query_params.get("model"))
    body = await json_body(request)
    rows, cost, ids = _parts(body)
    decided = await decide_rows(state, loaded, table_of_records(loaded, rows), cost, ids)
    records = records_of(decided)
    answer = {"model": loaded.name, "version": loaded.version, "decisions": records}
    return Response(json.dumps(answer, allow_nan=False), media_type="application/json")


def _parts(body: Any) -> tuple[list[dict[str, Any]], Any, list[str] | None]:
    """Return the rows, the costs and the keys of a checked body."""
    if not isinstance(body, dict) or ("row" in body) == ("rows" in body):
        raise RequestError(422, 'the body must be an object with either "row" or "rows"')
    rows = [body["row"]] if "row" in body else body["rows"]
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise RequestError(422, "each row must be an object of column names and values, and there must be at least one")
    cost, ids = body.get("cost"), body.get("ids")
    if ids is not None and not (
        isinstance(ids, list) and len(ids) == len(rows) and all(isinstance(key, str) for key in ids)
    ):
        raise RequestError(422, f"ids must be one text for each of {len(rows)} rows")
    return rows, _checked_cost(cost, len(rows)), ids


def _checked_cost(cost: Any, count: int) -> Any:
    costs = cost if isinstance(cost, list) else [cost]
    valid = cost is None or all(isinstance(each, int | float) and not isinstance(each, bool) for each in costs)
    if not valid or (isinstance(cost, list) and len(cost) != count):
        raise RequestError(422, f"cost must be a number or one number for each of {count} rows")
    return cost
