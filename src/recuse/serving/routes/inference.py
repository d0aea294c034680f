"""The routes of the Open Inference Protocol, /v2, with its extension for binary tensors."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray

from recuse._version import __version__
from recuse.model_file.schema import ImageSchema
from recuse.serving.deciding import Decided, Question, decide_body, find_model, respond
from recuse.serving.errors import RequestError, shown
from recuse.serving.model_store import LoadedModel
from recuse.serving.openapi import operations
from recuse.serving.payloads.bodies import table_of_columns
from recuse.serving.payloads.limits import RowLimits
from recuse.serving.payloads.parsing import parse_json
from recuse.serving.payloads.reading import RowReading, check_lenient
from recuse.serving.payloads.records import json_response
from recuse.serving.payloads.tensor_metadata import describe_tensors, output_type, outputs_of
from recuse.serving.payloads.tensors import Tensor, json_tensor, raw_bytes, read_tensors

__all__ = ["router"]

router = APIRouter(prefix="/v2")

_HEADER_LENGTH = "Inference-Header-Content-Length"
_COST = "cost"
_ANSWERED = ("id", "outputs", "parameters")  # parts of a request that its answer depends on
_SHAPES = "inputs must be one for each column, or one of the shape [rows, columns]"
_PARTS: tuple[tuple[str, type, str], ...] = (
    ("parameters", dict, "an object"), ("outputs", list, "a list"), ("id", str, "a text"),
)  # fmt: skip


@router.get("", **operations.SERVER)
async def server() -> Response:
    """Describe the service."""
    return json_response({"name": "recuse", "version": __version__, "extensions": ["binary_tensor_data"]})


@router.get("/health/live", **operations.LIVE)
async def live() -> Response:
    """Say that the service is alive."""
    return json_response({"live": True})


@router.get("/health/ready", **operations.READY)
async def ready(request: Request) -> Response:
    """Say that all models can decide, and that the review queue can be written."""
    state = request.app.state.queue_state
    if state is not None and not await state.is_ready():
        raise RequestError(503, "the review queue cannot be written: the log says why")
    return json_response({"ready": True})


@router.get("/models/{name}/ready", **operations.MODEL_READY)
async def model_ready(request: Request, name: str) -> Response:
    """Say that a model can decide."""
    return json_response({"name": find_model(request.app.state, name).name, "ready": True})


@router.get("/models/{name}/versions/{version}/ready", **operations.MODEL_READY)
async def version_ready(request: Request, name: str, version: str) -> Response:
    """Say that a version of a model can decide."""
    return json_response({"name": find_model(request.app.state, name, version).name, "ready": True})


@router.get("/models/{name}", **operations.MODEL)
async def model(request: Request, name: str) -> Response:
    """Describe the inputs and outputs of a model."""
    return json_response(describe_tensors(find_model(request.app.state, name)))


@router.get("/models/{name}/versions/{version}", **operations.MODEL)
async def model_version(request: Request, name: str, version: str) -> Response:
    """Describe the inputs and outputs of a version of a model."""
    return json_response(describe_tensors(find_model(request.app.state, name, version)))


@router.post("/models/{name}/infer", **operations.INFER)
async def infer(request: Request, name: str) -> Response:
    """Decide about rows in tensors, one for each column or one for all."""
    return await _infer(request, find_model(request.app.state, name))


@router.post("/models/{name}/versions/{version}/infer", **operations.INFER)
async def infer_version(request: Request, name: str, version: str) -> Response:
    """Decide about rows in tensors by a version of a model."""
    return await _infer(request, find_model(request.app.state, name, version))


async def _infer(request: Request, loaded: LoadedModel) -> Response:
    header_length, limits = request.headers.get(_HEADER_LENGTH), request.app.state.limits
    read_content: dict[str, Any] = {}

    def read(body: bytes) -> Question:
        content, raw = _split(body, header_length, limits)
        read_content.update({name: content[name] for name in _ANSWERED if name in content})
        lenient = check_lenient(content.get("parameters", {}).get("lenient", False))
        return _question(RowReading(loaded, limits, lenient), content, raw)

    decided = await decide_body(request, read)
    return await respond(request, decided, lambda decided: _write(decided, read_content))


def _split(body: bytes, header_length: str | None, limits: RowLimits) -> tuple[dict[str, Any], bytes]:
    """Return the JSON of a body, and the bytes after it."""
    length = len(body)
    if header_length is not None:
        if not re.fullmatch("[0-9]{1,18}", header_length) or int(header_length) > len(body):
            raise RequestError(400, f"{_HEADER_LENGTH} must be within the {len(body)} bytes of the body")
        length = int(header_length)
    content = parse_json(body[:length], nan_is_missing=True, limits=limits)
    if not isinstance(content, dict):
        raise RequestError(400, "the body must be an object with inputs")
    for name, kind, words in _PARTS:
        if not isinstance(content.get(name, kind()), kind):
            raise RequestError(400, f"{name} must be {words}")
    return content, body[length:]


def _question(reading: RowReading, content: dict[str, Any], raw: bytes) -> Question:
    loaded = reading.loaded
    tensors = read_tensors(content.get("inputs"), raw, _shape_check(reading))
    _requested(loaded, content)
    cost = content.get("parameters", {}).get(_COST)
    if _COST not in loaded.column_names:
        given = [tensor for tensor in tensors if tensor.name == _COST]
        tensors = [tensor for tensor in tensors if tensor.name != _COST]
        cost = given[0].column() if given else cost
    if any(type(each) not in (int, float) for each in (cost if isinstance(cost, list) else [cost]) if cost is not None):
        raise RequestError(400, f"cost must be a number or one number for each row, got {shown(cost)}")
    return Question(loaded, _table(reading, tensors), cost)


def _shape_check(reading: RowReading) -> Callable[[tuple[int, ...]], None]:
    """Return the check of the shapes of all tensors of a request; images are limited by the bytes of the body."""
    total = 0

    def check(shape: tuple[int, ...]) -> None:
        nonlocal total
        total += math.prod(shape)
        if reading.loaded.reads_rows:
            reading.check_size(shape[0])
            reading.limits.check_cells(total)
        else:
            reading.limits.check(shape[0], 0)

    return check


def _table(reading: RowReading, tensors: list[Tensor]) -> Any:
    if isinstance(reading.loaded.model.schema, ImageSchema):
        if len(tensors) != 1:
            raise RequestError(400, f"the images must be one input, got {len(tensors)}")
        return tensors[0].rows()
    names, widths = (
        [str(column.name) for column in reading.schema.columns],
        [math.prod(each.shape[1:]) for each in tensors],
    )
    if len(tensors) == 1 and _is_matrix(tensors[0], names):
        if widths != [len(names)]:
            rule = f"each row must have {len(names)} values, one for each column"
            raise RequestError(422, f"{rule}, got {widths[0]} in row 0")
        return table_of_columns(reading, dict(zip(names, tensors[0].columns(), strict=True)))
    if not tensors or set(widths) != {1}:
        raise RequestError(400, _SHAPES)
    try:
        return table_of_columns(reading, {tensor.name: tensor.column() for tensor in tensors})
    except RequestError as error:
        raise RequestError(error.status, f"{error.sentence}; {_SHAPES}") from error


def _is_matrix(tensor: Tensor, names: list[str]) -> bool:
    """Whether a tensor has all columns; with one column, its name tells that it is not a column."""
    if len(tensor.shape) != 2:
        return False
    return tensor.shape[1] != 1 or (len(names) == 1 and tensor.name != names[0])


def _write(decided: Decided, content: dict[str, Any]) -> Response:
    loaded, values = decided.question.loaded, _values(decided)
    answered: dict[str, Any] = {"model_name": loaded.name, "model_version": loaded.version, "outputs": []}
    if "id" in content:
        answered["id"] = content["id"]
    parts = []
    if loaded.certificate is not None:
        answered["parameters"] = {"certificate": loaded.certificate.number}
    for name, binary in _requested(loaded, content):
        if name == "problems" and not content.get("outputs") and not any(decided.problems):
            continue  # most rows have none
        datatype = output_type(name)
        if binary:
            parts.append(raw_bytes(values[name], datatype))
            sizes = {"shape": list(values[name].shape), "parameters": {"binary_data_size": len(parts[-1])}}
            answered["outputs"].append({"name": name, "datatype": datatype, **sizes})
        else:
            answered["outputs"].append(json_tensor(name, values[name], datatype))
    if not parts:
        return json_response(answered)
    text = json.dumps(answered, allow_nan=False).encode()
    headers = {_HEADER_LENGTH: str(len(text))}
    return Response(b"".join([text, *parts]), headers=headers, media_type="application/octet-stream")


def _requested(loaded: LoadedModel, content: dict[str, Any]) -> list[tuple[str, bool]]:
    """Return the names of the outputs, and whether they are to be binary."""
    binary = content.get("parameters", {}).get("binary_data_output") is True
    known = [output["name"] for output in outputs_of(loaded)]
    if not content.get("outputs"):
        return [(name, binary) for name in known]
    requested: list[tuple[str, bool]] = []
    for output in content["outputs"]:
        name = output.get("name") if isinstance(output, dict) else None
        parameters = (output.get("parameters") or {}) if isinstance(output, dict) else {}
        if (
            not isinstance(name, str)
            or name not in known
            or not isinstance(parameters, dict)
            or "classification" in parameters
        ):
            raise RequestError(400, f"outputs must be tensors of {', '.join(known)}, got {shown(output)}")
        requested.append((name, parameters.get("binary_data", binary) is True))
    return requested


def _values(decided: Decided) -> dict[str, NDArray[Any]]:
    decision, expected = decided.decision, decided.expected_loss
    values = {"prediction": decision.prediction, "accepted": decision.accepted, "score": decision.score}
    values |= {"cost": decision.cost, **({} if expected is None else {"expected_loss": expected})}
    texts = ["; ".join(f"{each['column']}: {each['problem']}" for each in row) for row in decided.problems]
    return {**values, "problems": np.array(texts, dtype=object)}
