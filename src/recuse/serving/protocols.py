"""The routes of other servers: MLflow's /invocations, and the Open Inference Protocol /v2 with tensors in JSON.

The latter is specified at https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from fastapi import APIRouter, Request, Response

from recuse._version import __version__
from recuse.model_file.schema import ImageSchema
from recuse.serving import messages
from recuse.serving.bodies import RequestRows, RowReader, check_cost, check_lenient, parse_json
from recuse.serving.deciding import DecidedRequest, DecisionRequest, answer_rows, find_model
from recuse.serving.messages import RequestError, json_response, shown
from recuse.serving.model_store import LoadedModel
from recuse.serving.openapi import GUARDED, POSTED, operation
from recuse.tabular.schema import Column

router = APIRouter()

_FORMATS = ("dataframe_split", "dataframe_records", "instances", "inputs")
_PYTHON: dict[str, tuple[type, ...]] = {"BOOL": (bool,), "BYTES": (str,)}  # what other datatypes hold is a number
_DATATYPES = messages.Datatype.__args__  # type: ignore[attr-defined]
_MOST_AXES = 8
_SHAPES = "inputs must be one for each column, or one of the shape [rows, columns]"
_NOT_JSON = "tensors must be JSON, as binary_data=False of a client makes them"
_INFER = operation(messages.InferAnswer, *POSTED, body=messages.InferRequest)
_FLOATS = {"prediction", "score", "cost", "expected_loss"}


@router.get("/ping", **operation(str))
@router.get("/health", **operation(str))
async def health() -> Response:
    """Say that the service is ready."""
    return Response("\n", media_type="text/plain")


@router.get("/version", **operation(str, *GUARDED))
async def version() -> Response:
    """Return the version of recuse."""
    return Response(__version__, media_type="text/plain")


@router.post(
    "/invocations",
    **operation(messages.InvocationsAnswer, *POSTED, body=messages.InvocationsRequest, query=messages.InvocationsQuery),
)
async def invocations(request: Request) -> Response:
    """Decide about rows in a format of MLflow: one record for each row."""
    loaded = find_model(request.app.state, request.query_params.get("model"))
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind not in ("application/json", "text/csv"):
        raise RequestError(415, f"the content type must be application/json or text/csv, got {shown(kind)}")
    lenient = check_lenient(request.query_params.get("lenient", False))
    reader = RowReader(loaded, request.app.state.limits, lenient)
    return await answer_rows(
        request, loaded, partial(_read_csv if kind == "text/csv" else _read_json, reader), _write_predictions
    )


def _read_csv(reader: RowReader, body: bytes) -> DecisionRequest:
    return DecisionRequest(reader.loaded, reader.of_csv(body))


def _read_json(reader: RowReader, body: bytes) -> DecisionRequest:
    content = parse_json(body, nan_is_missing=True, limits=reader.limits)
    given = [name for name in _FORMATS if name in content] if isinstance(content, dict) else []
    if len(given) != 1:
        raise RequestError(422, f"the body must be an object with one of {', '.join(_FORMATS)}, got {given}")
    params = content.get("params") or {}
    if not isinstance(params, dict) or not params.keys() <= {"cost"}:
        raise RequestError(422, f"params may be an object with cost and nothing else, got {shown(params)}")
    rows = _rows_of(reader, given[0], content[given[0]])
    return DecisionRequest(reader.loaded, rows, check_cost(params.get("cost")))


def _rows_of(reader: RowReader, name: str, rows: Any) -> RequestRows:
    if name == "dataframe_split":
        if not isinstance(rows, dict) or not isinstance(rows.get("columns", []), list):
            raise RequestError(422, "dataframe_split must be an object with the lists columns and data")
        return reader.of_lists(rows.get("data"), rows.get("columns"))
    if name == "inputs" and isinstance(rows, dict):
        return reader.of_columns({text: _column(cells) for text, cells in rows.items()})
    if isinstance(rows, list) and rows and isinstance(rows[0], list) and name != "dataframe_records":
        return reader.of_lists(rows)
    return reader.of_records(rows)


def _column(cells: Any) -> list[Any]:
    """Return the values of a column, which may be a list of lists of one value, or one value."""
    values = cells if isinstance(cells, list) else [cells]
    return [cell[0] if isinstance(cell, list) and len(cell) == 1 else cell for cell in values]


def _write_predictions(decided: DecidedRequest) -> Response:
    answer: messages.InvocationsAnswer = {"predictions": decided.records()}
    if (number := decided.question.loaded.certificate_number) is not None:
        answer["certificate"] = number
    return json_response(answer)


@router.get("/v2", **operation(messages.ServerMetadata, *GUARDED))
async def server() -> Response:
    """Describe the service."""
    return json_response(messages.ServerMetadata(name="recuse", version=__version__, extensions=[]))


@router.get("/v2/health/live", **operation(messages.Live))
async def live() -> Response:
    """Say that the service is alive."""
    return json_response(messages.Live(live=True))


@router.get("/v2/health/ready", **operation(messages.Ready, 503))
async def ready(request: Request) -> Response:
    """Say that all models can decide, and that the review queue can be written."""
    state = request.app.state.queue_state
    if state is not None and not await state.is_ready():
        raise RequestError(503, "the review queue cannot be written: the log says why")
    return json_response(messages.Ready(ready=True))


@router.get("/v2/models/{name}/ready", **operation(messages.ModelReady, 404, 422, *GUARDED))
@router.get("/v2/models/{name}/versions/{version}/ready", **operation(messages.ModelReady, 404, 422, *GUARDED))
async def model_ready(request: Request, name: str, version: str | None = None) -> Response:
    """Say that a model, or a version of it, can decide."""
    return json_response(messages.ModelReady(name=find_model(request.app.state, name, version).name, ready=True))


@router.get("/v2/models/{name}", **operation(messages.ModelMetadata, 404, 422, *GUARDED))
@router.get("/v2/models/{name}/versions/{version}", **operation(messages.ModelMetadata, 404, 422, *GUARDED))
async def model(request: Request, name: str, version: str | None = None) -> Response:
    """Describe the inputs and outputs of a model."""
    loaded = find_model(request.app.state, name, version)
    metadata: messages.ModelMetadata = {
        "name": loaded.name,
        "versions": [loaded.version],
        "platform": "recuse",
        "inputs": _inputs(loaded),
        "outputs": [{"name": each, "datatype": _datatype(each), "shape": [-1]} for each in _outputs(loaded)],
    }
    return json_response(metadata)


@router.post("/v2/models/{name}/infer", **_INFER)
@router.post("/v2/models/{name}/versions/{version}/infer", **_INFER)
async def infer(request: Request, name: str, version: str | None = None) -> Response:
    """Decide about rows in tensors, one for each column or one for all."""
    loaded = find_model(request.app.state, name, version)
    asked: dict[str, Any] = {}
    if "inference-header-content-length" in request.headers:
        raise RequestError(415, _NOT_JSON)

    def read(body: bytes) -> DecisionRequest:
        content = parse_json(body, nan_is_missing=True, limits=request.app.state.limits)
        if not isinstance(content, dict):
            raise RequestError(400, "the body must be an object with inputs")
        parameters = content.get("parameters", {})
        if not isinstance(parameters, dict):
            raise RequestError(400, f"parameters must be an object, got {shown(parameters)}")
        asked.update(id=content.get("id"), outputs=_asked(loaded, content.get("outputs", [])))
        lenient = check_lenient(parameters.get("lenient", False))
        tensors = [_tensor(each) for each in _list(content.get("inputs"))]
        return _question(RowReader(loaded, request.app.state.limits, lenient), tensors, parameters.get("cost"))

    return await answer_rows(request, loaded, read, lambda decided: _write_outputs(decided, **asked))


def _inputs(loaded: LoadedModel) -> list[messages.TensorMetadata]:
    """Describe the tensors that a model reads."""
    schema, cost = loaded.model.schema, loaded.model.cost_
    if isinstance(schema, ImageSchema):
        return [{"name": "image", "datatype": "FP32", "shape": [-1, *schema.shape]}]
    if schema.matrix is not None:
        return [{"name": schema.matrix, "datatype": "FP64", "shape": [-1, len(schema.columns)]}]
    types = {str(column.name): _input_type(column) for column in schema.used}
    if isinstance(cost, str):
        types[cost] = "FP64"
    return [{"name": name, "datatype": datatype, "shape": [-1]} for name, datatype in types.items()]


def _input_type(column: Column) -> messages.Datatype:
    types: dict[type, messages.Datatype] = {bool: "BOOL", int: "INT64", float: "FP64"}
    kinds = {float} if column.kind == "number" else {type(level.value) for level in column.levels}
    return types.get(kinds.pop(), "BYTES") if len(kinds) == 1 else "BYTES"


def _outputs(loaded: LoadedModel) -> list[str]:
    """Return the names of the tensors that a model can return."""
    optional = {"expected_loss": loaded.has_expected_loss, "takes": bool(loaded.model.experts)}
    optional["problems"] = loaded.reads_rows
    return ["prediction", "accepted", "score", "cost", *(name for name, has in optional.items() if has)]


def _datatype(output: str) -> messages.Datatype:
    return "FP64" if output in _FLOATS else "BOOL" if output == "accepted" else "BYTES"


def _asked(loaded: LoadedModel, outputs: Any) -> list[str]:
    """Return the names of the outputs that a request asks for."""
    known = _outputs(loaded)
    names: list[Any] = [each.get("name") if isinstance(each, dict) else each for each in _list(outputs, "outputs")]
    if wrong := [name for name in names if name not in known]:
        raise RequestError(400, f"outputs must be tensors of {', '.join(known)}, got {shown(wrong[0])}")
    return names


def _list(value: Any, name: str = "inputs") -> list[Any]:
    if not isinstance(value, list) or (name == "inputs" and not value):
        raise RequestError(400, f"{name} must be a list of tensors")
    return value


class _InferTensor(NamedTuple):
    """A tensor of a request, with its cells row by row."""

    name: str
    shape: list[int]
    datatype: str
    cells: list[Any]


def _tensor(given: Any) -> _InferTensor:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise RequestError(400, "each input must be an object with name, shape, datatype and data")
    shape, datatype, cells = (given.get(field) for field in ("shape", "datatype", "data"))
    described = f"input {given['name']!r:.80}"
    if not isinstance(shape, list) or not shape or not all(type(size) is int and size > 0 for size in shape):
        raise RequestError(400, f"{described} must have a shape of sizes > 0, got {shown(shape)}")
    if not isinstance(datatype, str) or datatype not in _DATATYPES:
        raise RequestError(400, f"{described} must have a datatype of {', '.join(_DATATYPES)}, got {shown(datatype)}")
    if not isinstance(cells, list):
        raise RequestError(400, f"{described} must have its values in the list data: {_NOT_JSON}")
    for _ in range(_MOST_AXES):
        if list not in set(map(type, cells)):
            break
        cells = [cell for row in cells for cell in (row if isinstance(row, list) else [row])]
    allowed = {*_PYTHON.get(datatype, (int, float)), type(None)}
    if not allowed.issuperset(map(type, cells)):
        wrong = next(cell for cell in cells if type(cell) not in allowed)
        raise RequestError(400, f"{described} of type {datatype} cannot hold {shown(wrong)}")
    if len(cells) != math.prod(shape):
        raise RequestError(400, f"{described} must have {math.prod(shape)} values, got {len(cells)}")
    return _InferTensor(given["name"], shape, datatype, cells)


def _question(reader: RowReader, tensors: list[_InferTensor], cost: Any) -> DecisionRequest:
    """Return what tensors hold: images, all columns, or one column each and perhaps the cost."""
    loaded, (name, shape, datatype, cells) = reader.loaded, tensors[0]
    if not loaded.reads_rows:
        reader.limits.check(shape[0], 0)
        if len(tensors) != 1:
            raise RequestError(400, f"the images must be one input, got {len(tensors)}")
        images = np.array(cells, datatype.replace("FP", "float").lower()).reshape(shape)
        return DecisionRequest(loaded, RequestRows(images, shape[0]), check_cost(cost))
    names, width = reader.column_names, math.prod(shape[1:])
    if len(tensors) == 1 and len(shape) == 2 and (width > 1 or (len(names) == 1 and name != names[0])):
        lists = [cells[start : start + width] for start in range(0, len(cells), width)]
        return DecisionRequest(loaded, reader.of_lists(lists), check_cost(cost))
    columns = {tensor.name: tensor.cells for tensor in tensors}
    if len(columns) < len(tensors):
        raise RequestError(400, "inputs must have different names")
    if "cost" not in loaded.column_names:
        cost = columns.pop("cost", cost)
    if any(math.prod(tensor.shape[1:]) != 1 for tensor in tensors) or not columns:
        raise RequestError(400, _SHAPES)
    try:
        return DecisionRequest(loaded, reader.of_columns(columns), check_cost(cost))
    except RequestError as error:
        raise RequestError(error.status, f"{error.sentence}; {_SHAPES}") from error


def _write_outputs(decided: DecidedRequest, id: Any, outputs: Sequence[str]) -> Response:
    loaded, decision = decided.question.loaded, decided.outcome.decision
    texts = ["; ".join(f"{each['column']}: {each['problem']}" for each in row) for row in decided.problems]
    chosen = outputs or [name for name in _outputs(loaded) if name != "problems" or any(texts)]
    values = {"expected_loss": decided.outcome.expected_loss, "problems": np.array(texts, dtype=object)}
    answer: messages.InferAnswer = {
        "model_name": loaded.name,
        "model_version": loaded.version,
        "outputs": [_output(name, values[name] if name in values else getattr(decision, name)) for name in chosen],
    }
    if id is not None:
        answer["id"] = id
    if loaded.certificate_number is not None:
        answer["parameters"] = {"certificate": loaded.certificate_number}
    return json_response(answer)


def _output(name: str, values: Any) -> messages.OutputTensor:
    return {"name": name, "datatype": _datatype(name), "shape": [len(values)], "data": values.tolist()}
