"""The routes of the Open Inference Protocol, /v2, with tensors in JSON.

The protocol is specified at https://github.com/kserve/open-inference-protocol.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray

from recuse._version import __version__
from recuse.model_file.schema import ImageSchema
from recuse.serving import messages
from recuse.serving.deciding import DecidedRequest, DecisionRequest, decide_body, find_model, respond
from recuse.serving.errors import RequestError, shown
from recuse.serving.messages import finite, json_response
from recuse.serving.model_store import LoadedModel
from recuse.serving.openapi import GUARDED, POSTED, operation
from recuse.serving.parsing import parse_json
from recuse.serving.tables import RowReading, check_cost, check_lenient, table_of_columns
from recuse.tabular.schema import Column

__all__ = ["router"]

router = APIRouter(prefix="/v2")

_NUMBERS = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4", "UINT64": "u8", "INT8": "i1", "INT16": "i2",
    "INT32": "i4", "INT64": "i8", "FP16": "f2", "FP32": "f4", "FP64": "f8",
}  # fmt: skip
_MOST_AXES = 8
_SHAPES = "inputs must be one for each column, or one of the shape [rows, columns]"
_NOT_JSON = "tensors must be JSON, as binary_data=False of a client makes them"
_OPTIONAL_FIELDS: tuple[tuple[str, type, str], ...] = (
    ("parameters", dict, "an object"), ("outputs", list, "a list"), ("id", str, "a text"),
)  # fmt: skip


@router.get("", **operation(messages.ServerMetadata, *GUARDED))
async def server() -> Response:
    """Describe the service."""
    return json_response(messages.ServerMetadata(name="recuse", version=__version__, extensions=[]))


@router.get("/health/live", **operation(messages.Live))
async def live() -> Response:
    """Say that the service is alive."""
    return json_response(messages.Live(live=True))


@router.get("/health/ready", **operation(messages.Ready, 503))
async def ready(request: Request) -> Response:
    """Say that all models can decide, and that the review queue can be written."""
    state = request.app.state.queue_state
    if state is not None and not await state.is_ready():
        raise RequestError(503, "the review queue cannot be written: the log says why")
    return json_response(messages.Ready(ready=True))


@router.get("/models/{name}/ready", **operation(messages.ModelReady, 404, 422, *GUARDED))
@router.get("/models/{name}/versions/{version}/ready", **operation(messages.ModelReady, 404, 422, *GUARDED))
async def model_ready(request: Request, name: str, version: str | None = None) -> Response:
    """Say that a model, or a version of it, can decide."""
    return json_response(messages.ModelReady(name=find_model(request.app.state, name, version).name, ready=True))


@router.get("/models/{name}", **operation(messages.ModelMetadata, 404, 422, *GUARDED))
@router.get("/models/{name}/versions/{version}", **operation(messages.ModelMetadata, 404, 422, *GUARDED))
async def model(request: Request, name: str, version: str | None = None) -> Response:
    """Describe the inputs and outputs of a model."""
    loaded = find_model(request.app.state, name, version)
    metadata: messages.ModelMetadata = {
        "name": loaded.name,
        "versions": [loaded.version],
        "platform": "recuse",
        "inputs": _inputs(loaded),
        "outputs": _outputs(loaded),
    }
    return json_response(metadata)


@router.post("/models/{name}/infer", **operation(messages.InferAnswer, *POSTED, body=messages.InferRequest))
@router.post(
    "/models/{name}/versions/{version}/infer", **operation(messages.InferAnswer, *POSTED, body=messages.InferRequest)
)
async def infer(request: Request, name: str, version: str | None = None) -> Response:
    """Decide about rows in tensors, one for each column or one for all."""
    loaded, limits = find_model(request.app.state, name, version), request.app.state.limits
    if "inference-header-content-length" in request.headers:
        raise RequestError(415, _NOT_JSON)
    content: dict[str, Any] = {}
    names: list[str] = []

    def read(body: bytes) -> DecisionRequest:
        content.update(_checked(parse_json(body, nan_is_missing=True, limits=limits)))
        lenient = check_lenient(content.get("parameters", {}).get("lenient", False))
        question = _question(RowReading(loaded, limits, lenient), content)
        names.extend(_requested(loaded, content))
        del content["inputs"]  # the answer does not depend on them, and they are large
        return question

    decided = await decide_body(request, read)
    return await respond(request, decided, lambda decided: _write(decided, content, names))


def _inputs(loaded: LoadedModel) -> list[messages.TensorMetadata]:
    """Describe the tensors that a model reads."""
    schema, cost = loaded.model.schema, loaded.model.cost_
    if isinstance(schema, ImageSchema):
        return [{"name": "image", "datatype": "FP32", "shape": [-1, *schema.shape]}]
    if schema.matrix is not None:
        return [{"name": schema.matrix, "datatype": "FP64", "shape": [-1, len(schema.columns)]}]
    types = {str(column.name): _input_type(column) for column in schema.columns if column.kind != "unused"}
    if isinstance(cost, str):
        types[cost] = "FP64"
    return [{"name": name, "datatype": datatype, "shape": [-1]} for name, datatype in types.items()]


def _input_type(column: Column) -> messages.Datatype:
    if column.kind == "number":
        return "FP64"
    types: dict[type, messages.Datatype] = {bool: "BOOL", int: "INT64", float: "FP64"}
    kinds = {type(level.value) for level in column.levels}
    return types.get(kinds.pop(), "BYTES") if len(kinds) == 1 else "BYTES"


def _outputs(loaded: LoadedModel) -> list[messages.TensorMetadata]:
    """Describe the tensors that a model returns."""
    info = loaded.model.info()
    count = info["targets"]["count"]
    optional = {"expected_loss": info["has_expected_loss"], "takes": bool(loaded.model.experts)}
    optional["problems"] = loaded.reads_rows
    names = ["prediction", "accepted", "score", "cost", *(name for name, has in optional.items() if has)]
    shapes = {"prediction": [-1] if count == 1 else [-1, count]}
    return [{"name": name, "datatype": _output_type(name), "shape": shapes.get(name, [-1])} for name in names]


def _output_type(name: str) -> messages.Datatype:
    return "BOOL" if name == "accepted" else "BYTES" if name in ("problems", "takes") else "FP64"


@dataclass(frozen=True)
class _Tensor:
    """A tensor of a request; its cells stand row by row, with None for missing ones."""

    name: str
    shape: tuple[int, ...]
    datatype: str
    cells: list[Any]

    def columns(self) -> list[list[Any]]:
        """Return the cells of the columns of a tensor with two axes."""
        return [self.cells[place :: self.shape[1]] for place in range(self.shape[1])]

    def array(self) -> NDArray[Any]:
        """Return the cells in their shape; text and missing cells as objects."""
        plain = self.datatype in _NUMBERS and None not in self.cells
        return np.array(self.cells, dtype=_NUMBERS[self.datatype] if plain else object).reshape(self.shape)


def _checked(content: Any) -> dict[str, Any]:
    """Return the content of a request if its fields have the right kinds."""
    if not isinstance(content, dict):
        raise RequestError(400, "the body must be an object with inputs")
    for name, kind, words in _OPTIONAL_FIELDS:
        if not isinstance(content.get(name, kind()), kind):
            raise RequestError(400, f"{name} must be {words}")
    return content


def _question(reading: RowReading, content: dict[str, Any]) -> DecisionRequest:
    loaded = reading.loaded
    tensors = _tensors(content.get("inputs"), _shape_check(reading))
    cost = content.get("parameters", {}).get("cost")
    if "cost" not in loaded.column_names:
        cost = next((tensor.cells for tensor in tensors if tensor.name == "cost"), cost)
        tensors = [tensor for tensor in tensors if tensor.name != "cost"]
    return DecisionRequest(loaded, _table(reading, tensors), check_cost(cost))


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


def _tensors(inputs: Any, check_shape: Callable[[tuple[int, ...]], None]) -> list[_Tensor]:
    """Read the inputs of a request; `check_shape` raises an error for tensors that are too large."""
    if not isinstance(inputs, list) or not inputs:
        raise RequestError(400, "inputs must be a list of tensors, at least one")
    tensors = [_tensor(each, check_shape) for each in inputs]
    if len({tensor.name for tensor in tensors}) < len(tensors):
        raise RequestError(400, "inputs must have different names")
    return tensors


def _tensor(given: Any, check_shape: Callable[[tuple[int, ...]], None]) -> _Tensor:
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        raise RequestError(400, "each input must be an object with name, shape, datatype and data")
    name, sizes, datatype, data = (given.get(field) for field in ("name", "shape", "datatype", "data"))
    described = f"input {name!r:.80}"
    shape = tuple(sizes) if isinstance(sizes, list) and 1 <= len(sizes) <= _MOST_AXES else (-1,)
    if not all(type(size) is int and 1 <= size < 2**31 for size in shape):
        raise RequestError(400, f"{described} must have a shape of 1 to {_MOST_AXES} sizes > 0, got {shown(sizes)}")
    if not isinstance(datatype, str) or (datatype != "BYTES" and datatype not in _NUMBERS):
        known = ", ".join(["BYTES", *_NUMBERS])
        raise RequestError(400, f"{described} must have a datatype of {known}, got {shown(datatype)}")
    check_shape(shape)
    if not isinstance(data, list):
        raise RequestError(400, f"{described} must have its values in the list data: {_NOT_JSON}")
    cells = list(_flat(data, _MOST_AXES))
    if (wrong := _misfit(cells, datatype)) is not None:
        raise RequestError(400, f"{described} of type {datatype} cannot hold {shown(wrong)}")
    if len(cells) != math.prod(shape):
        raise RequestError(400, f"{described} must have {math.prod(shape)} values, got {len(cells)}")
    return _Tensor(str(name), shape, datatype, cells)


def _flat(data: list[Any], depth: int) -> Iterator[Any]:
    if depth < 0:
        raise RequestError(400, f"data may be nested {_MOST_AXES} times at most")
    for value in data:
        if isinstance(value, list):
            yield from _flat(value, depth - 1)
        else:
            yield value


def _misfit(cells: list[Any], datatype: str) -> Any:
    """Return the first cell that is no value of a datatype, or None."""
    if "INT" in datatype:
        limits = np.iinfo(_NUMBERS[datatype])
        low, high = int(limits.min), int(limits.max)
        misfits = (cell for cell in cells if cell is not None and not (type(cell) is int and low <= cell <= high))
    else:
        kinds = {"BOOL": (bool,), "BYTES": (str,)}.get(datatype, (int, float))
        misfits = (cell for cell in cells if cell is not None and type(cell) not in kinds)
    return next(misfits, None)


def _table(reading: RowReading, tensors: list[_Tensor]) -> Any:
    if isinstance(reading.loaded.model.schema, ImageSchema):
        if len(tensors) != 1:
            raise RequestError(400, f"the images must be one input, got {len(tensors)}")
        return tensors[0].array()
    names = [str(column.name) for column in reading.schema.columns]
    widths = [math.prod(each.shape[1:]) for each in tensors]
    if len(tensors) == 1 and _is_matrix(tensors[0], names):
        if widths != [len(names)]:
            rule = f"each row must have {len(names)} values, one for each column"
            raise RequestError(422, f"{rule}, got {widths[0]} in row 0")
        return table_of_columns(reading, dict(zip(names, tensors[0].columns(), strict=True)))
    if not tensors or set(widths) != {1}:
        raise RequestError(400, _SHAPES)
    try:
        return table_of_columns(reading, {tensor.name: tensor.cells for tensor in tensors})
    except RequestError as error:
        raise RequestError(error.status, f"{error.sentence}; {_SHAPES}") from error


def _is_matrix(tensor: _Tensor, names: list[str]) -> bool:
    """Whether a tensor has all columns; with one column, its name tells that it is not a column."""
    if len(tensor.shape) != 2:
        return False
    return tensor.shape[1] != 1 or (len(names) == 1 and tensor.name != names[0])


def _write(decided: DecidedRequest, content: dict[str, Any], names: list[str]) -> Response:
    loaded, decision = decided.question.loaded, decided.decision
    values = {name: getattr(decision, name) for name in ("prediction", "accepted", "score", "cost")}
    values.update(expected_loss=decided.expected_loss, takes=decision.takes)
    texts = ["; ".join(f"{each['column']}: {each['problem']}" for each in row) for row in decided.problems]
    values["problems"] = np.array(texts, dtype=object)
    if not content.get("outputs") and not any(texts):
        names = [name for name in names if name != "problems"]  # most rows have none
    answer: messages.InferAnswer = {
        "model_name": loaded.name,
        "model_version": loaded.version,
        "outputs": [_output(name, values[name]) for name in names],
    }
    if "id" in content:
        answer["id"] = content["id"]
    if loaded.certificate_number is not None:
        answer["parameters"] = {"certificate": loaded.certificate_number}
    return json_response(answer)


def _output(name: str, values: NDArray[Any]) -> messages.OutputTensor:
    """Return an output; numbers that JSON does not have are null."""
    datatype, cells = _output_type(name), values.ravel().tolist()
    data = [finite(cell) for cell in cells] if datatype == "FP64" else cells
    return {"name": name, "datatype": datatype, "shape": list(values.shape), "data": data}


def _requested(loaded: LoadedModel, content: dict[str, Any]) -> list[str]:
    """Return the names of the outputs of a request, by default of all."""
    known = [output["name"] for output in _outputs(loaded)]
    names = []
    for output in content.get("outputs", []):
        parameters = (output.get("parameters") or {}) if isinstance(output, dict) else None
        named = isinstance(output, dict) and isinstance(output.get("name"), str) and output["name"] in known
        if not named or not isinstance(parameters, dict) or "classification" in parameters:
            raise RequestError(400, f"outputs must be tensors of {', '.join(known)}, got {shown(output)}")
        names.append(output["name"])
    return names or known
