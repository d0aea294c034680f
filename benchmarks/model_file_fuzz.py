"""Hostile model files: damaged, forged and random ones must load or raise ModelFileError, and nothing else.

python benchmarks/model_file_fuzz.py --files 20000             files made from models that the script builds
python benchmarks/model_file_fuzz.py --files 2000 a.recuse     files made from saved models

Each file is loaded and asked for one decision and for three decisions in a worker process. The exit status is 1 if a
worker crashed, took over 1 GiB of memory, over a second for the one decision or over a minute in all, wrote a file, or
raised anything but ModelFileError.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import resource
import selectors
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pandas as pd
from onnx import TensorProto, helper, numpy_helper

import recuse
from recuse.model_file.container import (
    GRAPH,
    HEADER,
    OUT_OF_FOLD,
    TRAINING_HASHES,
    TRAINING_REPEATED,
    ZipEntry,
    pack_array,
    pack_zip,
    read_container,
    unpack_array,
    write_container,
)
from recuse.model_file.errors import ModelFileError
from recuse.model_file.graph.builder import GraphBuilder, Value, concat, where
from recuse.model_file.graph.check import measure_graph
from recuse.model_file.graph.operators import OPERATORS, ROWS
from recuse.model_file.session import open_session, run_session
from recuse.tabular.schema import TableSchema

MEMORY = 2**30  # bytes
SECONDS, ROW_SECONDS = 60.0, 1.0
DIGITS = 64  # of the checksum at the end of a file
Parts = dict[str, bytes]
Generator = np.random.Generator


def load_and_decide(path: str) -> tuple[bytes, float]:
    """Load a model; return its decisions on three rows as bytes, and the seconds of a decision on one row.

    Files of estimators are loaded by `recuse.load`. Files of other graphs, which this script builds, pass the same
    checks one by one.
    """
    header, parts, _ = read_container(path)
    if "estimator" in header:
        return _decide(recuse.load(path))
    tables = [unpack_array(name, data) for name, data in parts.items() if name != GRAPH]
    inputs, outputs = (_declared(header.get(key)) for key in ("inputs", "outputs"))
    size = measure_graph(parts.get(GRAPH, b""), inputs, outputs)
    session = open_session(parts.pop(GRAPH), nodes=size.nodes)
    one, feeds = (
        {name: some_rows(rows, *declared) for name, declared in inputs.items()} for rows in (1, min(3, size.block))
    )
    start = time.perf_counter()
    run_session(session, one, list(outputs))
    seconds = time.perf_counter() - start
    results = run_session(session, feeds, list(outputs))
    return b"".join(array.tobytes() for array in results) + repr(tables).encode(), seconds


def _decide(served: recuse.ServedModel) -> tuple[bytes, float]:
    """Return decisions on rows with numbers, gaps, dates and categories, known and unknown."""
    cells = {"number": [0.5, np.nan, 3e3], "date": ["2020-02-29", None, "1960-01-01"], "category": ["a", None, "1"]}
    columns = served.schema.columns if isinstance(served.schema, TableSchema) else ()
    rows = pd.DataFrame({column.name: cells.get(column.kind, [0, 1, 2]) for column in columns})
    try:
        return _timed(served, rows, None)
    except ModelFileError:
        raise
    except ValueError:  # a forged header may ask for a cost
        return _timed(served, rows, 1.0)


def _timed(served: recuse.ServedModel, rows: pd.DataFrame, cost: float | None) -> tuple[bytes, float]:
    start = time.perf_counter()
    served.decide(rows.head(1), cost)
    seconds = time.perf_counter() - start
    return served.decide(rows, cost).to_frame().to_csv().encode(), seconds


def _declared(values: Any) -> dict[str, tuple[str, tuple[int, ...]]]:
    try:
        pairs = {name: (str(dtype), tuple(map(int, shape))) for name, (dtype, shape) in values.items()}
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelFileError("the header does not declare inputs and outputs") from error
    if any(size < 1 and size != ROWS for _, shape in pairs.values() for size in shape):
        raise ModelFileError("the header declares shapes that are not valid")
    return pairs


def some_rows(rows: int, dtype: str, shape: Sequence[int]) -> np.ndarray:
    """Return ordinary numbers, numbers that are not finite, and large numbers."""
    sizes = [rows if size == ROWS else size for size in shape]
    if dtype == "string":
        return np.resize(np.array(["a", "", "\u20ac"], dtype=object), sizes)
    values = np.resize(np.array([0.5, np.nan, -1e300, 3.0, -np.inf, 7e18, -1.0]), sizes)
    with np.errstate(all="ignore"):
        return values.astype({"double": "f8", "float": "f4", "int64": "i8", "bool": "?", "uint8": "u1"}[dtype])


# valid models


def models() -> list[tuple[dict[str, Any], Parts]]:
    """Return headers and parts of valid models that use most of the operators."""
    graphs = [_network(), _forest(), _mixed(), _images()]
    return [_packed(graph, place) for place, graph in enumerate(graphs)]


def _packed(graph: GraphBuilder, place: int) -> tuple[dict[str, Any], Parts]:
    model = graph.model()
    header = {"model": place, **_signature(model)}
    arrays = {OUT_OF_FOLD: np.ones((2, 5)), TRAINING_HASHES: np.arange(5), TRAINING_REPEATED: np.ones(5)}
    packed = {name: pack_array(name, values) for name, values in arrays.items()}
    return header, {GRAPH: model.SerializeToString(), **packed}


def _signature(model: onnx.ModelProto) -> dict[str, Any]:
    names = {number: name.lower() for name, number in TensorProto.DataType.items()}
    return {
        key: {
            each.name: [
                names[each.type.tensor_type.elem_type],
                [ROWS if dim.dim_param else dim.dim_value for dim in each.type.tensor_type.shape.dim],
            ]
            for each in values
        }
        for key, values in (("inputs", model.graph.input), ("outputs", model.graph.output))
    }


def _network() -> GraphBuilder:
    rng, graph = np.random.default_rng(0), GraphBuilder()
    x = graph.input("x", "double", (ROWS, 4))
    x = where(x.unary("IsNaN"), 0.0, x).clip(-9.0, 9.0)
    hidden = (x @ graph.constant(rng.normal(size=(4, 8))) + rng.normal(size=8)).unary("Relu")
    near = graph.node("TopK", ((hidden - 1.0) ** 2.0).sum(axis=1, keepdims=True) @ np.ones((1, 5)), _k(graph, 3))
    graph.output("y", (hidden @ graph.constant(rng.normal(size=(8, 1)))).squeeze(1) + near.mean(axis=1))
    graph.output("reject", hidden.unary("Softmax", axis=1).max(axis=1) > 0.3)
    return graph


def _k(graph: GraphBuilder, number: int) -> Value:
    return graph.constant([number], "int64")


def trees() -> dict[str, Any]:
    """Return the attributes of two trees: one of three nodes, one of a single node."""
    return {
        "nodes_featureids": np.array([0, 1, 2, 1]),
        "nodes_splits": np.array([0.5, 1.0, -1.0, 0.0]),
        "nodes_modes": np.zeros(4, dtype=np.uint8),
        "nodes_truenodeids": np.array([1, 0, 2, 4]),
        "nodes_falsenodeids": np.array([2, 1, 3, 5]),
        "nodes_trueleafs": np.array([0, 1, 1, 1]),
        "nodes_falseleafs": np.array([0, 1, 1, 1]),
        "leaf_weights": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        "leaf_targetids": np.zeros(6, dtype=np.int64),
        "tree_roots": np.array([0, 3]),
        "n_targets": 1,
        "aggregate_function": 1,
        "post_transform": 0,
    }


def _forest() -> GraphBuilder:
    graph = GraphBuilder()
    x = graph.input("x", "double", (ROWS, 3))
    graph.output("y", graph.node("TreeEnsemble", x, **trees()))
    return graph


def _mixed() -> GraphBuilder:
    graph = GraphBuilder()
    x, text = graph.input("x", "double", (ROWS, 2)), graph.input("text", "string", (ROWS, 1))
    code = graph.node("LabelEncoder", text, keys_strings=["a", "b"], values_int64s=[0, 1], default_int64=2)
    hot = graph.constant(np.eye(3)).take(code.squeeze(1) % 3, axis=0)
    joined = concat([x, hot, x.unary("Floor").cast("int64").cast("double")], axis=1)
    graph.output("y", joined.transpose(1, 0).transpose(1, 0).take([0, 3, 5], axis=1).reshape(-1, 1, 3))
    return graph


def _images() -> GraphBuilder:
    rng, graph = np.random.default_rng(0), GraphBuilder()
    x = graph.input("image", "float", (ROWS, 3, 16, 16))
    kernel = graph.constant(rng.normal(size=(4, 3, 3, 3)), "float")
    x = graph.node("Conv", x, kernel, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    x = graph.node("MaxPool", x.unary("Relu"), kernel_shape=[2, 2], strides=[2, 2])
    graph.output("y", graph.node("GlobalAveragePool", x).reshape(-1, 4))
    return graph


# mutations of bytes


def mutated(data: bytes, other: bytes, rng: Generator) -> bytes:
    """Return bytes with one to four damages."""
    for _ in range(int(rng.integers(1, 5))):
        data = _DAMAGES[int(rng.integers(len(_DAMAGES)))](data or b"\0", other or b"\0", rng)
    return data


def _place(data: bytes, rng: Generator) -> int:
    return int(rng.integers(len(data) if rng.random() < 0.5 else min(len(data), 600)))


def _flip_bit(data: bytes, other: bytes, rng: Generator) -> bytes:
    place = _place(data, rng)
    return data[:place] + bytes([data[place] ^ (1 << int(rng.integers(8)))]) + data[place + 1 :]


def _set_byte(data: bytes, other: bytes, rng: Generator) -> bytes:
    place = _place(data, rng)
    return data[:place] + bytes([int(rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))]))]) + data[place + 1 :]


def _truncate(data: bytes, other: bytes, rng: Generator) -> bytes:
    return data[: _place(data, rng)]


def _insert(data: bytes, other: bytes, rng: Generator) -> bytes:
    place = _place(data, rng)
    return data[:place] + rng.bytes(int(rng.integers(1, 40))) + data[place:]


def _move(data: bytes, other: bytes, rng: Generator) -> bytes:
    one, two, three = sorted(_place(data, rng) for _ in range(3))
    return data[:one] + data[two:three] + data[one:two] + data[three:]


def _splice(data: bytes, other: bytes, rng: Generator) -> bytes:
    return data[: _place(data, rng)] + other[_place(other, rng) :]


_DAMAGES = (_flip_bit, _flip_bit, _set_byte, _set_byte, _truncate, _insert, _move, _splice)


def forged(data: bytes) -> bytes:
    """Return a file whose checksum fits."""
    return data[:-DIGITS] + hashlib.sha256(data[:-DIGITS]).hexdigest().encode()


def container(header: Any, parts: Mapping[str, bytes], lies: Mapping[str, Mapping[str, Any]] | None = None) -> bytes:
    """Return a file with any header and entries, and with a checksum that fits; lies replace fields of entries."""
    text = header if isinstance(header, bytes) else _json({"format": 1, **header})
    contents = {HEADER: text, **parts}
    honest = [ZipEntry.of(name, content) for name, content in contents.items()]
    entries = [replace(entry, **(lies or {}).get(entry.name, {})) for entry in honest]
    return archive(entries)


def archive(entries: Sequence[ZipEntry]) -> bytes:
    """Return a file with any entries, and with a checksum that fits."""
    return forged(b"".join(pack_zip(entries)) + bytes(DIGITS))


def _json(content: Any) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


# mutations of graphs


def mutated_graph(data: bytes, rng: Generator) -> bytes:
    """Return a graph with one to three values replaced by others that a reader might trust."""
    model = onnx.load_model_from_string(data)
    for _ in range(int(rng.integers(1, 4))):
        with suppress(ValueError, TypeError, IndexError, AttributeError, OverflowError):
            _EDITS[int(rng.integers(len(_EDITS)))](model, rng)
    return model.SerializeToString()


def _any(values: Sequence[Any], rng: Generator) -> Any:
    return values[int(rng.integers(len(values)))]


_NUMBERS = (-(2**63), -(2**31), -7, -2, -1, 0, 1, 2, 3, 5, 17, 63, 1000, 2**20, 2**31 - 1, 2**32, 2**62, 2**63 - 1)


def _edit_operator(model: onnx.ModelProto, rng: Generator) -> None:
    node = _any(model.graph.node, rng)
    node.op_type = _any(list(OPERATORS), rng)
    node.domain = OPERATORS[node.op_type].domain


def _edit_input(model: onnx.ModelProto, rng: Generator) -> None:
    names = [name for node in model.graph.node for name in node.output]
    names += [each.name for each in (*model.graph.initializer, *model.graph.input)]
    node = _any(model.graph.node, rng)
    node.input[int(rng.integers(len(node.input)))] = _any(names, rng)


def _edit_attribute(model: onnx.ModelProto, rng: Generator) -> None:
    attribute = _any([each for node in model.graph.node for each in node.attribute], rng)
    if attribute.type == onnx.AttributeProto.INT:
        attribute.i = _any(_NUMBERS, rng)
    elif attribute.type == onnx.AttributeProto.INTS:
        attribute.ints[int(rng.integers(len(attribute.ints)))] = _any(_NUMBERS, rng)
    elif attribute.type == onnx.AttributeProto.TENSOR:
        _edit_tensor(attribute.t, rng)


def _edit_type(model: onnx.ModelProto, rng: Generator) -> None:
    attribute = _any([each for node in model.graph.node for each in node.attribute], rng)
    attribute.type = int(rng.integers(15))


def _edit_constant(model: onnx.ModelProto, rng: Generator) -> None:
    _edit_tensor(_any(model.graph.initializer, rng), rng)


def _edit_tensor(tensor: onnx.TensorProto, rng: Generator) -> None:
    array = numpy_helper.to_array(tensor).copy()
    choice = int(rng.integers(5))
    if choice == 0:
        tensor.dims[:] = [*tensor.dims, 1] if rng.random() < 0.5 else tensor.dims[1:]
    elif choice == 1:
        tensor.dims[int(rng.integers(len(tensor.dims)))] = _any(_NUMBERS, rng)
    elif choice == 2:
        tensor.data_type = int(rng.integers(20))
    else:
        special = (np.nan, np.inf, -np.inf, 1e308, 0.0) if array.dtype.kind == "f" else _NUMBERS
        with np.errstate(over="ignore"):
            array.flat[int(rng.integers(array.size))] = _any(special, rng)
        tensor.raw_data = array.tobytes()


def _edit_shape(model: onnx.ModelProto, rng: Generator) -> None:
    value = _any([*model.graph.input, *model.graph.output], rng)
    dim = _any(value.type.tensor_type.shape.dim, rng)
    dim.dim_value = _any(_NUMBERS, rng)


def _edit_order(model: onnx.ModelProto, rng: Generator) -> None:
    nodes = list(model.graph.node)
    one, two = (int(rng.integers(len(nodes))) for _ in range(2))
    nodes[one], nodes[two] = nodes[two], nodes[one]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _edit_repeat(model: onnx.ModelProto, rng: Generator) -> None:
    model.graph.node.extend([_any(model.graph.node, rng)])


_EDITS = (
    *(_edit_operator, _edit_input, _edit_attribute, _edit_attribute, _edit_type),
    *(_edit_constant, _edit_constant, _edit_shape, _edit_order, _edit_repeat),
)


def random_graph(rng: Generator) -> GraphBuilder:
    """Return a graph of random nodes that the rules of the operators accept."""
    graph = GraphBuilder()
    dtype = _any(("double", "double", "float", "float", "int64", "bool", "string"), rng)
    values = [
        graph.input("x", dtype, _any([(ROWS, 3), (ROWS,), (ROWS, 1), (ROWS, 2, 4), (3, ROWS), (ROWS, 2, 6, 6)], rng))
    ]
    for _ in range(int(rng.integers(1, 30))):
        for _ in range(20):
            with suppress(ValueError, KeyError, TypeError):
                values.extend(_random_node(graph, values, rng))
                break
    graph.output("y", values[-1])
    for place in range(int(rng.integers(3))):
        graph.output(f"y{place}", _any(values, rng))
    return graph


def _random_node(graph: GraphBuilder, values: list[Value], rng: Generator) -> tuple[Value, ...]:
    operator = _any(list(OPERATORS), rng)
    count = 2 if rng.random() < 0.5 else int(rng.integers(1, 5))
    inputs = [
        _any(values, rng) if rng.random() < 0.6 else _random_constant(graph, values[0], rng) for _ in range(count)
    ]
    if operator in _SECOND:
        inputs = [inputs[0], *(graph.constant(_SECOND[operator](inputs[0], rng), "int64") for _ in range(1))]
    if operator == "Slice":
        axis = int(rng.integers(max(1, len(inputs[0].shape))))
        stop = int(rng.integers(1, 5))
        inputs = [inputs[0], *(graph.constant([each], "int64") for each in (int(rng.integers(stop)), stop, axis))]
    attributes = {name: _random_attribute(name, inputs[0], rng) for name in OPERATORS[operator].attributes}
    if operator == "TreeEnsemble":
        attributes = _random_trees(inputs[0], rng)
    elif rng.random() < 0.3:
        attributes = {name: value for name, value in attributes.items() if rng.random() < 0.7}
    return graph.nodes(operator, *inputs, **attributes)


def _some_axes(value: Value, rng: Generator) -> list[int]:
    rank = max(1, len(value.shape))
    return [int(each) for each in rng.integers(-rank, rank, size=int(rng.integers(1, 3)))]


def _some_shape(value: Value, rng: Generator) -> list[int]:
    sizes = [size for size in value.shape if rng.random() < 0.9 or size != 1]
    rng.shuffle(sizes)
    if rng.random() < 0.5 and len(sizes) > 1:
        sizes = [sizes[0] * sizes[1], *sizes[2:]] if min(sizes[:2]) > 0 else sizes
    return sizes + [1] * int(rng.integers(3))


_SECOND: Mapping[str, Callable[[Value, Generator], list[int]]] = {
    **dict.fromkeys(("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum", "Unsqueeze"), _some_axes),
    "Squeeze": lambda value, rng: [axis for axis, size in enumerate(value.shape) if size == 1 or rng.random() < 0.05],
    "Reshape": _some_shape,
    "TopK": lambda value, rng: [int(rng.integers(1, 5))],
}


def _random_constant(graph: GraphBuilder, like: Value, rng: Generator) -> Value:
    shape = _any(
        [(), (1,), (3,), (1, 3), (3, 1), (3, 2), (2, 4), (4, 3), (2, 4, 2), (4, 2, 3, 3), (2, 1, 3, 3), (6, 6)], rng
    )
    dtype = _any(("double", "float", "int64", "bool", like.dtype, like.dtype, like.dtype), rng)
    dtype = "int64" if dtype == "string" else dtype
    array = np.asarray(rng.normal(size=shape) * 10.0 ** int(rng.integers(-3, 4)))
    if dtype == "int64":
        array = rng.choice(np.array(_NUMBERS), size=shape) if rng.random() < 0.3 else rng.integers(0, 4, size=shape)
    elif rng.random() < 0.2 and dtype != "bool":
        array = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, 1e308]), size=shape)
    with np.errstate(over="ignore"):
        return graph.constant(array, dtype)


def _random_attribute(name: str, value: Value, rng: Generator) -> Any:
    rank = len(value.shape)
    choices: Mapping[str, Callable[[], Any]] = {
        "axis": lambda: int(rng.integers(-rank - 1, rank + 1)),
        "to": lambda: int(_any((1, 7, 9, 11), rng)),
        "perm": lambda: [int(each) for each in rng.permutation(rank)],
        "group": lambda: int(_any((1, 1, 2, 4), rng)),
        "pads": lambda: [int(each) for each in rng.integers(0, 3, size=4)],
        "strides": lambda: [int(each) for each in rng.integers(1, 4, size=2)],
        "kernel_shape": lambda: [3, 3] if rng.random() < 0.7 else [int(each) for each in rng.integers(1, 8, size=2)],
        "keys_strings": lambda: ["a", "a", "", "\u20ac"][: int(rng.integers(1, 5))],
        "values_int64s": lambda: [0, -1, 2**62, 3][: int(rng.integers(1, 5))],
        "default_int64": lambda: _any(_NUMBERS, rng),
    }
    return choices.get(name, lambda: int(rng.integers(2)))()


def _random_trees(value: Value, rng: Generator) -> dict[str, Any]:
    dtype = np.float32 if value.dtype == "float" else np.float64
    result = {key: each.copy() if isinstance(each, np.ndarray) else each for key, each in trees().items()}
    for key in ("nodes_splits", "leaf_weights"):
        result[key] = rng.choice(np.array([0.0, 1.0, np.nan, np.inf, -1e30]), size=len(result[key])).astype(dtype)
    result["nodes_featureids"] = rng.integers(0, 3, size=4)
    result["n_targets"] = int(rng.integers(1, 4))
    result["leaf_targetids"] = rng.integers(0, result["n_targets"], size=6)
    if rng.random() < 0.3:
        key = _any([key for key, each in result.items() if isinstance(each, np.ndarray)], rng)
        result[key][int(rng.integers(len(result[key])))] = _any((0, 1, 2, 3, 5), rng)
    return result


# hostile graphs that a person would write


def hostile_graphs() -> dict[str, onnx.ModelProto]:
    """Return graphs that would crash ONNX Runtime, read files or take much memory, by name."""
    add = ("Add", ["x", "x"], {})
    image, sizes = ("Reshape", ["x", "shape"], {}), np.array([-1, 1, 1, 3])
    window = {"kernel_shape": [1, 2]}
    joins = [("Concat", [f"v{place - 1}" if place else "x"] * 8, {"axis": 1}) for place in range(9)]
    result = {
        "unknown operator": _chain([("Loop", ["x"], {})]),
        "unknown domain": _chain([("Add", ["x", "x"], {"domain": "com.microsoft"})]),
        "subgraph": _chain([("Identity", ["x"], {"body": _chain([add]).graph})]),
        "attribute of wrong kind": _chain([("Softmax", ["x"], {"axis": [1]})]),
        "attribute of unknown kind": _chain([("Softmax", ["x"], {"axis": 1.0})]),
        "rows on two axes": _chain([("Transpose", ["x"], {}), ("MatMul", ["x", "v0"], {})]),
        "cycle": _chain([("Add", ["x", "v1"], {}), ("Add", ["v0", "v0"], {})]),
        "defined twice": _chain([add, ("Add", ["x", "x"], {"outputs": ["v0"]})]),
        "integer division by zero": _divided("Div", [0]),
        "integer division by minus one": _divided("Div", [-1]),
        "integer division by a result": _divided("Div", None),
        "remainder of zero": _divided("Mod", [0]),
        "squeeze without axes": _chain([("Squeeze", ["x", "axes"], {})], axes=np.zeros(0, dtype=np.int64)),
        "empty constant": _chain([("Concat", ["x", "none"], {"axis": 1})], none=np.zeros((1, 0))),
        "text constant": _chain([add], text=np.array(["a"], dtype=object)),
        "joins": _with(_chain(joins), lambda model: _declare(model, ["rows", 3 * 8**9])),
        "huge window": _chain([image, ("MaxPool", ["v0"], {"kernel_shape": [2**40, 2**40]})], shape=sizes),
        "negative strides": _chain([image, ("MaxPool", ["v0"], {**window, "strides": [-1, -1]})], shape=sizes),
        "huge pads": _chain([image, ("MaxPool", ["v0"], {**window, "pads": [2**40] * 4})], shape=sizes),
        "broadcasts": _with(
            _chain(
                [("Reshape", ["x", "s"], {}), ("Mul", ["v0", "w"], {})], s=np.array([-1, 1, 3]), w=np.ones((2**23, 1))
            ),
            lambda model: _declare(model, ["rows", 2**23, 3]),
        ),
        "products of constants": _with(
            _chain([("MatMul", ["c", "r"], {})], c=np.ones((20000, 1)), r=np.ones((1, 20000))),
            lambda model: _declare(model, [20000, 20000]),
        ),
        "many nodes": _chain([("Abs", [f"v{place - 1}" if place else "x"], {}) for place in range(30_000)]),
        "old operators": _with(_chain([add]), lambda model: setattr(model.opset_import[0], "version", 7)),
        "function": _with(_chain([add]), lambda model: model.functions.add(name="Add")),
        "training": _with(_chain([add]), lambda model: model.training_info.add()),
        "external data": _with(_chain([add], c=np.ones(3)), _external),
        "data of wrong length": _with(_chain([add], c=np.ones(3)), lambda model: _grow(model, [2**40])),
        "data with overflow": _with(_chain([add], c=np.ones(3)), lambda model: _grow(model, [2**32, 2**32])),
        "sparse": _with(_chain([add]), lambda model: model.graph.sparse_initializer.add()),
        "default of an input": _chain([add], x=np.ones((1, 3))),
    }
    return {**result, **_hostile_trees(), **slow_graphs()}


def slow_graphs(scale: float = 1.0) -> dict[str, onnx.ModelProto]:
    """Return graphs of few bytes that would take 5 s to minutes for one row; `scale` below 1 makes them shorter."""
    size, many = 2500, 100_000
    vector = [("MatMul", ["tall", "flat"], {}), ("MatMul", ["x", "lift"], {})]
    vector += [("MatMul", [f"v{place}", "v0"], {}) for place in range(1, 1 + _part(3000, scale))]
    matrices = {"tall": np.full((size, 1), 0.5), "flat": np.ones((1, size)), "lift": np.ones((3, size))}
    pairs = [
        *(("ReduceMax", ["x", "axis"], {"keepdims": 1}), ("Cast", ["v0"], {"to": 1}), ("Reshape", ["v1", "s"], {})),
        ("Mul", ["v2", "ones"], {}),
        *(("MatMul", [f"v{place}", "ones"], {}) for place in range(3, 3 + _part(600, scale))),
    ]
    ones = {"axis": np.array([1]), "s": np.array([-1, 1, 1, 1]), "ones": np.ones((1, many, 1, 1), np.float32)}
    image = [
        ("Reshape", ["x", "s"], {}),
        ("Cast", ["v0"], {"to": 1}),
        ("Mul", ["v1", "a"], {}),
        ("Mul", ["v2", "b"], {}),
    ]
    image += [("Conv", [f"v{place}", "w"], {"pads": [1] * 4}) for place in range(3, 3 + _part(400, scale))]
    # products of these are denormal numbers
    texture = {"a": np.full((1, 128, 1, 1), 1e-20, np.float32), "b": np.full((1, 1, 300, 1), 1e-20, np.float32)}
    kernels = (np.full((128, 128, 3, 3), weight, np.float32) for weight in (1e-3, 1e-40))
    usual, tiny = ({"s": np.array([-1, 1, 1, 3]), "w": kernel} for kernel in kernels)
    return {
        "slow products": _with(_chain(vector, **matrices), lambda model: _declare(model, ["rows", size])),
        "slow pairs": _with(
            _chain(pairs, **ones), lambda model: _declare(model, ["rows", many, 1, 1], TensorProto.FLOAT)
        ),
        **{
            name: _with(
                _chain(image, **texture, **kernel),
                lambda model: _declare(model, ["rows", 128, 300, 3], TensorProto.FLOAT),
            )
            for name, kernel in (("slow convolutions", usual), ("slow denormal weights", tiny))
        },
    }


def _part(count: int, scale: float) -> int:
    return max(1, int(count * scale))


def largest_graphs() -> dict[str, onnx.ModelProto]:
    """Return graphs that take nearly all the memory that a graph may take."""
    size, nodes = 5000, np.arange(880_000)
    product = [("MatMul", ["x", "a"], {}), ("MatMul", ["v0", "b"], {})]
    weights = _chain(product, a=np.ones((3, size)), b=np.ones((size, 4700)))
    last = nodes % 100 == 99
    combs = {
        **dict.fromkeys(("nodes_featureids", "nodes_falsenodeids"), np.zeros_like(nodes)),
        **{"nodes_truenodeids": np.where(last, 0, nodes + 1), "nodes_trueleafs": last.astype(np.int64)},
        **{"nodes_falseleafs": np.ones_like(nodes), "tree_roots": nodes[::100]},
        **{"nodes_splits": np.zeros(len(nodes)), "nodes_modes": np.zeros(len(nodes), dtype=np.uint8)},
    }
    wide = [("Reshape", ["x", "s"], {}), ("Mul", ["v0", "w"], {})]
    return {
        "many weights": _with(weights, lambda model: _declare(model, ["rows", 4700])),
        "many trees": _with(
            _chain([("TreeEnsemble", ["x"], {**trees(), **combs})]), lambda model: _declare(model, ["rows", 1])
        ),
        "wide results": _with(
            _chain(wide, s=np.array([-1, 1, 3]), w=np.ones((5_000_000, 1))),
            lambda model: _declare(model, ["rows", 5_000_000, 3]),
        ),
    }


def comb(depth: int) -> dict[str, Any]:
    """Return the attributes of a tree whose nodes are one below the other."""
    nodes = np.arange(depth)
    return {
        **trees(),
        "nodes_featureids": np.zeros_like(nodes),
        "nodes_splits": np.zeros(depth),
        "nodes_modes": np.zeros(depth, dtype=np.uint8),
        "nodes_truenodeids": np.append(nodes[1:], 0),
        "nodes_falsenodeids": np.zeros_like(nodes),
        "nodes_trueleafs": np.append(np.zeros(depth - 1, dtype=np.int64), 1),
        "nodes_falseleafs": np.ones_like(nodes),
        "tree_roots": np.array([0]),
    }


def _hostile_trees() -> dict[str, onnx.ModelProto]:
    changes = {
        "tree with a cycle": {"nodes_truenodeids": np.array([0, 0, 2, 4])},
        "two trees with one node": {"tree_roots": np.array([0, 1])},
        "node out of range": {"nodes_falsenodeids": np.array([2, 1, 3, 500])},
        "leaf out of range": {"nodes_truenodeids": np.array([1, 2**40, 2, 4])},
        "feature out of range": {"nodes_featureids": np.array([0, 1, 2, 10**6])},
        "target out of range": {"leaf_targetids": np.array([0, 0, 0, 0, 0, -5])},
        "unknown mode": {"nodes_modes": np.array([0, 9, 0, 0], dtype=np.uint8)},
        "short tensor": {"nodes_splits": np.array([0.5])},
        "many targets": {"n_targets": 2**31},
        "deep tree": comb(100_000),
    }
    return {name: _chain([("TreeEnsemble", ["x"], {**trees(), **change})]) for name, change in changes.items()}


def _chain(nodes: Sequence[tuple[str, list[str], dict[str, Any]]], **constants: np.ndarray) -> onnx.ModelProto:
    """Return a model with results v0, v1, ... and the output y; nothing is checked."""
    stored = []
    for place, (operator, inputs, attributes) in enumerate(nodes):
        values = dict(attributes)
        outputs, domain = values.pop("outputs", [f"v{place}"]), values.pop("domain", None)
        for name, value in values.items():
            if name in ("nodes_splits", "nodes_modes", "leaf_weights"):
                values[name] = numpy_helper.from_array(value)
            elif isinstance(value, np.ndarray):
                values[name] = value.tolist()
        if domain is None:
            domain = OPERATORS[operator].domain if operator in OPERATORS else ""
        stored.append(helper.make_node(operator, inputs, outputs, domain=domain, **values))
    stored.append(helper.make_node("Identity", [f"v{len(nodes) - 1}"], ["y"]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["rows", 3])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.DOUBLE, ["rows", 3])]
    tensors = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(stored, "decision", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="recuse")


def _divided(operator: str, divisor: list[int] | None) -> onnx.ModelProto:
    number = ("Cast", ["x"], {"to": 7})
    constants = {} if divisor is None else {"divisor": np.array(divisor)}
    divide = (operator, ["v0", "divisor" if divisor else "v0"], {})
    return _chain([number, divide, ("Cast", ["v1"], {"to": 11})], **constants)


def _with(model: onnx.ModelProto, change: Callable[[onnx.ModelProto], Any]) -> onnx.ModelProto:
    change(model)
    return model


def _declare(model: onnx.ModelProto, shape: list[Any], dtype: int = TensorProto.DOUBLE) -> None:
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", dtype, shape))


def _external(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="../../../../etc/passwd")


def _grow(model: onnx.ModelProto, dims: list[int]) -> None:
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend(dims)


def hostile_containers(header: Any, parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return files with fitting checksums and hostile structures, by name."""
    return {**_hostile_archives(header, parts), **_hostile_headers(header, parts), **_hostile_arrays(header, parts)}


def _hostile_archives(header: Any, parts: Mapping[str, bytes]) -> dict[str, bytes]:
    usual, graph = container(header, parts), parts[GRAPH]
    honest = [ZipEntry.of(name, content) for name, content in {HEADER: _json({"format": 1, **header}), **parts}.items()]
    zeros = bytes(2**27)
    bomb = ZipEntry.of(GRAPH, zeros)
    bombs = {"little": 1000, "much": 2**32 - 1, "too much": 2**28 + 1, "the truth": len(zeros)}
    return {
        **{
            f"bomb that declares {name}": archive([honest[0], replace(bomb, size=size)]) for name, size in bombs.items()
        },
        "bomb as header": archive([replace(bomb, name=HEADER), *honest[1:]]),
        "bytes after the deflated ones": container(
            header, parts, {GRAPH: {"stored": bytes(honest[1].stored) + b"more", "method": 8}}
        ),
        "wrong CRC": container(header, parts, {GRAPH: {"crc": 1}}),
        "unknown compression": container(header, parts, {GRAPH: {"method": 14}}),
        "stored, and shorter than declared": container(header, parts, {GRAPH: {"method": 0}}),
        "encrypted": forged(usual[:6] + b"\1" + usual[7:]),
        "length beyond the end": forged(usual[:18] + b"\xff\xff\xff\xff" + usual[22:]),
        "no entries": archive([]),
        "only a graph": archive(honest[1:]),
        "entry twice": archive([*honest, honest[-1]]),
        "other order": archive([honest[0], *honest[:0:-1]]),
        "many entries": archive([*honest, *[ZipEntry.of(f"{place}.npy", b"") for place in range(60_000)]]),
        "path as name": container(header, {**parts, "../../x": b"1"}),
        "absolute path as name": container(header, {**parts, "/etc/passwd": b"1"}),
        "bytes before": forged(b"PK" + usual),
        "bytes between": forged(usual[:-200] + b"hidden" + usual[-200:]),
        "bytes after": forged(usual + b"more" + bytes(DIGITS)),
        "second archive after": forged(usual + usual),
        **{f"by zipfile, {name}": data for name, data in _archives_of_zipfile(graph).items()},
    }


def _archives_of_zipfile(graph: bytes) -> dict[str, bytes]:
    """Return archives as other programs write them: without a checksum, with ours, and with sizes of 64 bits."""

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

    written = {}
    for name, file, large in (("plain", io.BytesIO(), False), ("zip64", io.BytesIO(), True), ("pipe", Pipe(), False)):
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as other:
            for entry, content in ((HEADER, b'{"format":1}'), (GRAPH, graph)):
                with other.open(entry, "w", force_zip64=large) as part:
                    part.write(content)
            other.comment = bytes(DIGITS)
        written[name] = file.getvalue()
    return {"no checksum": written["plain"], **{name: forged(data) for name, data in written.items()}}


def _hostile_headers(header: Any, parts: Mapping[str, bytes]) -> dict[str, bytes]:
    texts = {
        "nested header": b'{"format":1,"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        "header nested a little too deeply": b'{"format":1,"a":' + b"[" * 40 + b"]" * 40 + b"}",
        "many empty lists": b'{"format":1,"a":[' + b"[]," * 5_000_000 + b"0]}",
        "not a number": b'{"format":1,"a":NaN}',
        "number too large": b'{"format":1,"a":1e999}',
        "key twice": b'{"format":1,"format":1}',
        "spaces": b'{"format": 1}',
        "lone surrogate": b'{"format":1,"a":"\\ud800"}',
        "huge integer": b'{"format":1,"a":' + b"9" * 10_000 + b"}",
        "list": b"[]",
        "no JSON": b"\xff\xfe",
        "no version": b"{}",
        "version as text": b'{"format":"1"}',
        "version of truth": b'{"format":true}',
        "version zero": b'{"format":0}',
        "version of the future": b'{"format":2,"recuse":"9.1.0"}',
    }
    return {name: container(text, parts) for name, text in texts.items()}


def _hostile_arrays(header: Any, parts: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return files whose arrays have other descriptions than ours, or whose graphs take much memory to read."""
    described = parts[TRAINING_HASHES]
    arrays = {
        "objects": described.replace(b"'<u8'", b"'|O' "),
        "code": described.replace(b"'<u8'", b"open"),
        "huge shape": described.replace(b"(5,)", b"(999999999,)"),
        "huge number": described.replace(b"(5,)", b"(" + b"9" * 5000 + b",)"),
        "negative shape": described.replace(b"(5,)", b"(-5,)"),
        "other type": described.replace(b"'<u8'", b"'<f8'"),
        "other version": described.replace(b"NUMPY\1", b"NUMPY\3"),
        "other order": described.replace(b"False", b"True "),
        "nested description": described[:10] + b"(" * 100_000,
        "cut off": described[:-1],
        "empty": b"",
    }
    nodes = b"\x08\x0a\x3a\x80\x80\x80\x08" + b"\x0a\0" * 2**23
    return {
        **{f"array: {name}": container(header, {**parts, TRAINING_HASHES: data}) for name, data in arrays.items()},
        "many nodes in few bytes": container(header, {**parts, GRAPH: nodes}),
        "many integers in few bytes": container(
            header, {**parts, GRAPH: _with_values(parts[GRAPH], b"\x40\1" * 2**24)}
        ),
        "many texts in few bytes": container(header, {**parts, GRAPH: _with_values(parts[GRAPH], b"\x4a\2ab" * 2**22)}),
        "empty": b"",
        "pickle": b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x05posix\x94.",
    }


def _with_values(graph: bytes, values: bytes) -> bytes:
    """Return a graph with another node, whose attribute has these fields."""
    model = onnx.load_model_from_string(graph)
    nodes = model.graph.SerializeToString()
    model.ClearField("graph")
    node = _field(1, b"x") + _field(2, b"more") + _field(4, b"Transpose")
    node += _field(5, _field(1, b"perm") + b"\xa0\1\7" + values)
    return model.SerializeToString() + _field(7, nodes + _field(1, node))


def _field(number: int, content: bytes) -> bytes:
    """Return a field of a message of protobuf, with a length of five bytes or less."""
    length, digits = len(content), b""
    while length > 127:
        digits, length = digits + bytes([length & 127 | 128]), length >> 7
    return bytes([number << 3 | 2]) + digits + bytes([length]) + content


# files


@dataclass(frozen=True)
class Case:
    """A file: where it comes from, its bytes, and the decisions of the model it was made of."""

    kind: str
    data: bytes
    original: int | None = None
    forged: bool = True


def cases(files: Sequence[bytes], count: int, seed: int) -> Iterator[Case]:
    """Return hostile files by name, then random ones until there are enough."""
    opened = [_opened(data) for data in files]
    for place, data in enumerate(files):
        yield Case("untouched", data, place, forged=False)
    header, parts = opened[-1]
    named = [Case(f"container: {name}", data) for name, data in hostile_containers(header, parts).items()]
    for name, model in {**hostile_graphs(), **(largest_graphs() if count >= 1000 else {})}.items():
        data = container(_signature(model), {GRAPH: model.SerializeToString()})
        named.append(Case(f"graph: {name}", data))
    yield from named
    rng = np.random.default_rng(seed)
    for _ in range(max(0, count - len(named) - len(files))):
        yield _random_case(files, opened, rng)


def _opened(data: bytes) -> tuple[dict[str, Any], Parts]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.recuse")
        path.write_bytes(data)
        return read_container(path)[:2]


def _random_case(files: Sequence[bytes], opened: Sequence[tuple[dict[str, Any], Parts]], rng: Generator) -> Case:
    place, other = (int(rng.integers(len(files))) for _ in range(2))
    (header, parts), (_, others) = opened[place], opened[other]
    choice = rng.random()
    if choice < 0.25:
        return Case("damaged file", mutated(files[place], files[other], rng), place, forged=False)
    if choice < 0.4:
        return Case("damaged file, forged checksum", forged(mutated(files[place], files[other], rng)), place)
    if choice < 0.5:
        name = _any(list(parts), rng)
        changed = {**parts, name: mutated(parts[name], others.get(name, b""), rng)}
        return Case("damaged part, forged checksums", container(header, changed), place)
    if choice < 0.55:
        name = _any(list(parts), rng)
        swapped = {**parts, name: _any(list(others.values()), rng)}
        return Case("part of another file", container(header, swapped), place)
    if choice < 0.6:
        text = mutated(_json({"format": 1, **header}), b"{}", rng)
        return Case("damaged header, forged checksum", container(text, parts), place)
    if choice < 0.8:
        data = mutated_graph(parts[GRAPH], rng)
        with suppress(Exception):
            header = {**header, **_signature(onnx.load_model_from_string(data))} if rng.random() < 0.3 else header
        return Case("edited graph, forged checksums", container(header, {**parts, GRAPH: data}), place)
    model = random_graph(rng).model()
    return Case("random graph", container(_signature(model), {GRAPH: model.SerializeToString()}))


# workers


def work() -> None:
    """Load the files whose paths come from standard input; answer each with a line of JSON."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for line in sys.stdin:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # forgets the peak of memory so far
        start = time.perf_counter()
        try:
            decisions, seconds = load_and_decide(line.rstrip("\n"))
            answer = {"result": "loaded", "digest": hashlib.sha256(decisions).hexdigest(), "row_seconds": seconds}
        except ModelFileError as error:
            answer = {"result": "refused", "message": str(error)}
        except ValueError as error:  # of a forged header: other columns, or another cost
            answer = {"result": "refused rows", "message": str(error)}
        except BaseException as error:
            answer = {"result": "other", "message": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps({**answer, "memory": _peak(), "seconds": time.perf_counter() - start}), flush=True)


def _peak() -> int:
    status = Path("/proc/self/status")
    if status.exists():
        return 1024 * next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


class Worker:
    """A process that loads files in an empty folder, and is started again after a crash."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._start()

    def _start(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), "--worker"],
            **{"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE},
            **{"text": True, "cwd": self.folder, "env": environment},
        )

    def ask(self, path: Path) -> dict[str, Any]:
        """Return the answer about a file, or how the process ended."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(f"{path}\n")
            self.process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            line = self.process.stdout.readline() if selector.select(SECONDS) else None
        if line:
            return dict(json.loads(line))
        if line is None:
            self.process.kill()
        _, errors = self.process.communicate()
        result = {
            "result": "slow" if line is None else "crashed",
            "message": f"{self.process.returncode} {errors[-300:]}",
        }
        self._start()
        return {**result, "memory": 0, "seconds": SECONDS}

    def close(self) -> str:
        """End the process and return what it wrote to standard error."""
        return self.process.communicate()[1]


@dataclass
class Report:
    """Counts of results."""

    counts: Counter[tuple[str, str]]
    memory: int = 0
    seconds: float = 0.0
    row_seconds: float = 0.0
    failures: int = 0

    def add(self, case: Case, answer: Mapping[str, Any], originals: dict[int, str], kept: Path | None) -> None:
        """Count an answer and print it if it is a failure."""
        result = answer["result"]
        if case.kind == "untouched" and result == "loaded" and case.original is not None:
            originals[case.original] = answer["digest"]
        if result == "loaded":
            same = case.original is not None and answer["digest"] == originals.get(case.original)
            result = "same decisions" if same else "other decisions"
        one_row = answer.get("row_seconds", 0.0)
        failed = result in ("crashed", "slow", "other") or answer["memory"] > MEMORY or one_row > ROW_SECONDS
        failed |= result in ("other decisions", "refused rows") and not case.forged
        self.counts[case.kind.partition(":")[0], result] += 1
        self.memory, self.seconds = max(self.memory, answer["memory"]), max(self.seconds, answer["seconds"])
        self.row_seconds = max(self.row_seconds, one_row)
        if failed:
            self.failures += 1
            print(
                f"FAILED {case.kind}: {result}, {answer['memory'] / 2**20:.0f} MiB, {one_row:.2f} s a row, "
                f"{answer.get('message')}",
                flush=True,
            )
            if kept is not None:
                kept.mkdir(exist_ok=True)
                (kept / f"{self.failures}.recuse").write_bytes(case.data)

    def print(self) -> None:
        """Print the counts as a table."""
        for (kind, result), count in sorted(self.counts.items()):
            print(f"{kind:34} {result:18} {count:7}")
        totals = Counter[str]()
        for (_, result), count in self.counts.items():
            totals[result] += count
        print(", ".join(f"{result} {count}" for result, count in sorted(totals.items())))
        print(
            f"peak memory {self.memory / 2**20:.0f} MiB, slowest file {self.seconds:.2f} s, "
            f"slowest decision of one row {self.row_seconds:.2f} s, failures {self.failures}"
        )


def run(files: Sequence[bytes], count: int, seed: int, kept: Path | None = None) -> Report:
    """Load hostile files in a worker process and count the results."""
    report, originals = Report(Counter()), {}
    with tempfile.TemporaryDirectory() as files_folder, tempfile.TemporaryDirectory() as empty_folder:
        worker, path = Worker(Path(empty_folder)), Path(files_folder, "model.recuse")
        for case in cases(files, count, seed):
            path.write_bytes(case.data)
            report.add(case, worker.ask(path), originals, kept)
        noise = worker.close()
        written = [
            each.name for folder in (empty_folder, files_folder) for each in Path(folder).iterdir() if each != path
        ]
    if written or noise:
        report.failures += 1
        print(f"FAILED: files written {written}, standard error {noise[-300:]!r}")
    return report


def saved_models(*, estimators: bool) -> list[bytes]:
    """Return the valid models as files, and files of fitted estimators."""
    result = []
    with tempfile.TemporaryDirectory() as folder:
        for estimator in _fitted() if estimators else ():
            path = Path(folder, "model.recuse")
            recuse.save(estimator, path)
            result.append(path.read_bytes())
        for header, parts in models():
            path = Path(folder, "model.recuse")
            write_container(path, header, parts)
            result.append(path.read_bytes())
    return result


def _fitted() -> Iterator[Any]:
    (X, y), _, _ = recuse.datasets.split(recuse.datasets.load("auto_mpg"), repeat=0)
    X = X.assign(sold=pd.Timestamp("2020-01-01") + pd.to_timedelta(range(len(X)), unit="D"), town=["a", "b"][0])
    yield recuse.RcRRegressor(6.0, epochs=5, random_state=0).fit(X, y)
    yield recuse.AutoRejector(6.0, cv=3, random_state=0).fit(X, y)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", type=Path, help="saved models to start from")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="folder for the files that failed")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    files = [path.read_bytes() for path in options.models] or saved_models(estimators=True)
    report = run(files, options.files, options.seed, options.keep)
    report.print()
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
