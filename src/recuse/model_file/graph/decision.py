"""The decision of a rule as one graph, and the registry of the functions that write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, TypeVar

from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder, Value
from recuse.model_file.graph.columns import EncodedTable, encode_table
from recuse.model_file.graph.operators import DOUBLE, ROWS
from recuse.model_file.schema import ImageSchema, check_savable, input_name, inputs_of, with_numbers
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.schema import TableSchema

__all__ = [
    "DecisionGraph",
    "Emitted",
    "EmittedExperts",
    "TableInputs",
    "build_decision",
    "cost_input",
    "emits",
    "emitters",
    "table_inputs",
]


@dataclass(frozen=True)
class EmittedExperts:
    """The experts that a rule defers rows to.

    Attributes
    ----------
    predictions, expected_losses, fees : Value of shape (row, action)
        Of the model, then of the experts.
    described : tuple of mapping
        Name, fee, capacity and column of each expert, as plain values.
    """

    predictions: Value
    expected_losses: Value
    fees: Value
    described: tuple[Mapping[str, Any], ...]


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
    experts : EmittedExperts or None
    """

    schema: TableSchema | ImageSchema
    prediction: Value
    score: Value
    expected_loss: Value | None = None
    prediction_cost: float | None = None
    experts: EmittedExperts | None = None


@dataclass(frozen=True)
class DecisionGraph:
    """The graph of a decision, and what it reads.

    Attributes
    ----------
    graph : bytes
        An ONNX model. Its inputs are the columns of the table, or images, and `cost`, if the decision depends on it.
        Its outputs are `prediction`, `score`, `accepted` and, if the estimator has one, `expected_loss`; with experts
        also `predictions`, `expected_losses` and `fees` of all actions.
    schema : TableSchema or ImageSchema
    has_cost, has_expected_loss : bool
        Whether there is an input `cost`, and an output `expected_loss`.
    prediction_cost : float or None
        The cost of predictions without a cost, where they depend on it.
    experts : tuple of mapping
        Name, fee, capacity and column of each expert that rows are deferred to.
    """

    graph: bytes
    schema: TableSchema | ImageSchema
    has_cost: bool
    has_expected_loss: bool
    prediction_cost: float | None
    experts: tuple[Mapping[str, Any], ...]


Emitter = Callable[[Any, GraphBuilder], Emitted]
_Function = TypeVar("_Function", bound=Emitter)

# modules with emitters, imported when a model is saved
_MODULES = tuple(f"recuse.model_file.graph.{name}" for name in ("risk", "network_rules", "deferral"))

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
    experts = emitted.experts
    if expected is not None:
        graph.output("expected_loss", expected.squeeze(1))
    if experts is not None:
        for name in ("predictions", "expected_losses", "fees"):
            graph.output(name, getattr(experts, name))
    graph.output("prediction", prediction.squeeze(1) if prediction.shape[1] == 1 else prediction)
    graph.output("score", score)
    graph.output("accepted", score > 0.0 if experts is None else score >= 0.0)  # in a tie, no expert is asked
    return DecisionGraph(
        graph.model().SerializeToString(),
        emitted.schema,
        "cost" in graph.inputs,
        expected is not None,
        emitted.prediction_cost,
        () if experts is None else experts.described,
    )


@dataclass(frozen=True)
class TableInputs:
    """The columns of a table as inputs of a graph, and their encoding.

    Attributes
    ----------
    encoder : TableEncoder
    schema : TableSchema
    inputs : dict of str to Value
    encoded : EncodedTable
    others : dict of str to Value
        Numbers (row, 1) of columns that are no features.
    """

    encoder: TableEncoder
    schema: TableSchema
    inputs: dict[str, Value]
    encoded: EncodedTable
    others: dict[str, Value]

    def encoded_by(self, encoder: TableEncoder) -> TableInputs:
        """Return the same columns as another encoder encodes them."""
        return replace(self, encoder=encoder, encoded=_encoded(encoder, self.inputs))


def table_inputs(graph: GraphBuilder, encoder: TableEncoder, others: Sequence[str] = ()) -> TableInputs:
    """Declare the columns of a table as inputs, and encode them; `others` are numbers that are no features."""
    features = encoder.schema_
    schema = with_numbers(features, others)
    check_savable(schema)
    inputs = {name: graph.input(name, dtype, shape) for name, (dtype, shape) in inputs_of(schema).items()}
    count = len(features.columns)
    if schema.matrix is not None:
        matrix = inputs[schema.matrix]
        numbers = {name: matrix.columns(count + place, count + place + 1) for place, name in enumerate(others)}
        inputs = {schema.matrix: matrix.columns(0, count)}
    else:
        numbers = {str(column.name): inputs[input_name(column)] for column in schema.columns[count:]}
    return TableInputs(encoder, schema, inputs, _encoded(encoder, inputs), numbers)


def _encoded(encoder: TableEncoder, inputs: dict[str, Value]) -> EncodedTable:
    encoded = encode_table(encoder, encoder.schema_, inputs)
    if encoded.features.shape[1] != encoder.n_features:
        raise AssertionError(f"the graph has {encoded.features.shape[1]} of {encoder.n_features} features")
    return encoded


def cost_input(graph: GraphBuilder) -> Value:
    """Declare the costs of the rows (row, 1) as an input."""
    return graph.input("cost", DOUBLE, (ROWS, 1))
