"""Conversion of fitted estimators to graphs, and the registries of the functions that convert models and rules."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, TypeVar

from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder, Value
from recuse.model_file.graph.operators import DOUBLE, ROWS
from recuse.model_file.schema import ImageSchema
from recuse.tabular.schema import TableSchema


@dataclass(frozen=True)
class Emitted:
    """The results of a rule in a graph.

    Attributes
    ----------
    schema : TableSchema or ImageSchema
        Inputs of the graph.
    prediction, score : Value of shape (row, 1)
    expected_loss : Value of shape (row, 1) or None
    prediction_cost : float or None
        The cost of predictions without a cost, where they depend on it.
    experts : tuple of mapping
        Name, fee, capacity and column of each expert that rows are deferred to, as plain values.
    actions : mapping of str to Value of shape (row, action)
        With experts the `predictions`, `expected_losses` and `fees` of the model, then of the experts.
    """

    schema: TableSchema | ImageSchema
    prediction: Value
    score: Value
    expected_loss: Value | None = None
    prediction_cost: float | None = None
    experts: tuple[Mapping[str, Any], ...] = ()
    actions: Mapping[str, Value] = field(default_factory=dict)


Converter = Callable[[Any, Value], Value]
Emitter = Callable[[Any, GraphBuilder], Emitted]
_ConverterT = TypeVar("_ConverterT", bound=Converter)
_EmitterT = TypeVar("_EmitterT", bound=Emitter)

# The modules with converters and emitters are imported when a model is saved.
_CONVERTERS_IN = ("trees", "networks", "linear", "kernels", "preprocessing", "composition")
_EMITTERS_IN = ("risk", "network_rules")
# The emitter of images needs torch, so it is imported only in processes that have imported their rule.
_IMAGE_RULE, _IMAGE_EMITTER = "recuse.images.rule", "recuse.images.onnx_graph"

_converters: dict[type[Any], Converter] = {}
_emitters: dict[type[Any], Emitter] = {}


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        import_module(f"recuse.model_file.graph.{name}")


def converts(*types: type[Any]) -> Callable[[_ConverterT], _ConverterT]:
    """Register a function that converts fitted models of these types, and of no subclass.

    The function receives the fitted model and its input (row, feature) of type double. It returns the prediction of a
    regressor (row, output) or the result of a transformer (row, feature).

    Examples
    --------
    >>> from recuse.model_file import converts
    >>> class Twice:
    ...     def predict(self, X):
    ...         return 2 * X[:, 0]
    >>> @converts(Twice)
    ... def convert_twice(model, x):
    ...     return 2.0 * x.columns(0, 1)
    """

    def register(function: _ConverterT) -> _ConverterT:
        _converters.update(dict.fromkeys(types, function))
        return function

    return register


def convert(model: Any, x: Value) -> Value:
    """Convert a fitted regressor or transformer.

    Parameters
    ----------
    model : fitted estimator
    x : Value of shape (row, feature)

    Returns
    -------
    Value of shape (row, output)

    Raises
    ------
    ConversionError
        If there is no converter for the type of the model.
    """
    _import(_CONVERTERS_IN)
    converter = _converters.get(type(model))
    if converter is None:
        kind = type(model)
        raise ConversionError(
            f"{kind.__module__}.{kind.__qualname__} cannot be saved in a model file: there is no converter for it. "
            "Use one of the regressors listed in the documentation of recuse.save, or register a converter with "
            "@recuse.model_file.converts"
        )
    return converter(model, x)


def emits(rule: type[Any]) -> Callable[[_EmitterT], _EmitterT]:
    """Register a function that writes the rules of a class: it receives the rule and the graph, and declares inputs."""

    def register(function: _EmitterT) -> _EmitterT:
        _emitters[rule] = function
        return function

    return register


def emitters() -> dict[type[Any], Emitter]:
    """Return the function that writes the rules of each class."""
    _import(_EMITTERS_IN)
    if _IMAGE_RULE in sys.modules:
        import_module(_IMAGE_EMITTER)
    return dict(_emitters)


def build_decision(estimator: Any) -> tuple[GraphBuilder, Emitted]:
    """Write the rule of a fitted estimator.

    The inputs of the graph are the columns of the table, or images, and `cost`, if the decision depends on it. Its
    outputs are `prediction`, `score`, `accepted` and, if the estimator has one, `expected_loss`; with experts also
    `predictions`, `expected_losses` and `fees` of all actions.

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
    score, expected = emitted.score.squeeze(1), emitted.expected_loss
    if expected is not None:
        graph.output("expected_loss", expected.squeeze(1))
    for name, values in emitted.actions.items():
        graph.output(name, values)
    graph.output("prediction", emitted.prediction.squeeze(1))
    graph.output("score", score)
    graph.output("accepted", score >= 0.0 if emitted.experts else score > 0.0)  # in a tie, no expert is asked
    return graph, emitted


def cost_input(graph: GraphBuilder) -> Value:
    """Declare the costs of the rows (row, 1) as an input."""
    return graph.input("cost", DOUBLE, (ROWS, 1))
