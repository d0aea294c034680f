"""The decision of a rule as one graph, and the registry of the functions that write it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder, Value
from recuse.model_file.graph.columns import EncodedTable, encode_table
from recuse.model_file.graph.operators import DOUBLE, ROWS
from recuse.model_file.schema import ImageSchema, TableSchema, schema_of
from recuse.tabular.encoder import TableEncoder

__all__ = [
    "DecisionGraph",
    "Emitted",
    "TableInputs",
    "build_decision",
    "cost_input",
    "emits",
    "emitters",
    "table_inputs",
]


@dataclass(frozen=True)
class Emitted:
    """The results of a rule in a graph.

    Attributes
    ----------
    schema : TableSchema or ImageSchema
        Inputs of the graph.
    prediction : Value of shape (row, output)
    score : Value of shape (row, 1)
    expected_loss : Value of shape (row, 1) or None
    prediction_cost : float or None
        The cost of predictions without a cost, where they depend on it.
    """

    schema: TableSchema | ImageSchema
    prediction: Value
    score: Value
    expected_loss: Value | None = None
    prediction_cost: float | None = None


@dataclass(frozen=True)
class DecisionGraph:
    """The graph of a decision, and what it reads.

    Attributes
    ----------
    graph : bytes
        An ONNX model. Its inputs are the columns of the table, or images, and `cost`, if the decision depends on it.
        Its outputs are `prediction`, `score`, `accepted` and, if the estimator has one, `expected_loss`.
    schema : TableSchema or ImageSchema
    has_cost, has_expected_loss : bool
        Whether there is an input `cost`, and an output `expected_loss`.
    prediction_cost : float or None
        The cost of predictions without a cost, where they depend on it.
    """

    graph: bytes
    schema: TableSchema | ImageSchema
    has_cost: bool
    has_expected_loss: bool
    prediction_cost: float | None


Emitter = Callable[[Any, GraphBuilder], Emitted]
_Function = TypeVar("_Function", bound=Emitter)

# modules with emitters, imported when a model is saved
_MODULES = tuple(f"recuse.model_file.graph.{name}" for name in ("risk", "rcr", "selectivenet", "images"))

_emitters: dict[type[Any], Emitter] = {}


def emits(rule: type[Any]) -> Callable[[_Function], _Function]:
    """Register a function that writes the rules of a class: it receives the rule and the graph, and declares inputs."""

    def register(function: _Function) -> _Function:
        _emitters[rule] = function
        return function

    return register


def emitters() -> dict[type[Any], Emitter]:
    """Return the function that writes the rules of each class."""
    for module in _MODULES:
        import_module(module)
    return dict(_emitters)


def build_decision(estimator: Any) -> DecisionGraph:
    """Write the rule of a fitted estimator.

    Raises
    ------
    ConversionError
        If the estimator or one of its parts cannot be converted.
    """
    rule = getattr(estimator, "rule_", None)
    emit = emitters().get(type(rule))
    if emit is None:
        raise ConversionError(
            f"recuse.save must get a fitted estimator of recuse, got {type(estimator).__name__}: "
            "save the last step of a pipeline or the best estimator of a search instead"
        )
    graph = GraphBuilder()
    emitted = emit(rule, graph)
    prediction, score, expected = emitted.prediction, emitted.score.squeeze(1), emitted.expected_loss
    if expected is not None:
        graph.output("expected_loss", expected.squeeze(1))
    graph.output("prediction", prediction.squeeze(1) if prediction.shape[1] == 1 else prediction)
    graph.output("score", score)
    graph.output("accepted", score > 0.0)
    return DecisionGraph(
        graph.model().SerializeToString(),
        emitted.schema,
        "cost" in graph.inputs,
        expected is not None,
        emitted.prediction_cost,
    )


@dataclass(frozen=True)
class TableInputs:
    """The columns of a table as inputs of a graph, and their encoding."""

    schema: TableSchema
    inputs: dict[str, Value]
    encoded: EncodedTable


def table_inputs(graph: GraphBuilder, encoder: TableEncoder) -> TableInputs:
    """Declare the columns of a table as inputs, and encode them."""
    schema = schema_of(encoder)
    inputs = {name: graph.input(name, dtype, shape) for name, (dtype, shape) in schema.inputs().items()}
    encoded = encode_table(encoder, schema, inputs)
    if encoded.features.shape[1] != encoder.n_features:
        raise AssertionError(f"the graph has {encoded.features.shape[1]} of {encoder.n_features} features")
    return TableInputs(schema, inputs, encoded)


def cost_input(graph: GraphBuilder) -> Value:
    """Declare the costs of the rows (row, 1) as an input."""
    return graph.input("cost", DOUBLE, (ROWS, 1))
