"""The decision of a fitted estimator as one graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from recuse.estimators.auto.estimator import AutoRejector
from recuse.estimators.deferral import DeferralRegressor
from recuse.estimators.images.regressor import RcRImageRegressor
from recuse.estimators.rcr.regressor import RcRRegressor
from recuse.estimators.risk.rejector import RiskRejector
from recuse.estimators.selectivenet.regressor import SelectiveNetRegressor
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder, Value
from recuse.model_file.graph.columns import encode_table, raw_numbers
from recuse.model_file.graph.images import image_decision
from recuse.model_file.graph.operators import DOUBLE, ROWS
from recuse.model_file.graph.rcr import rcr_decision
from recuse.model_file.graph.risk import auto_estimate, risk_estimate
from recuse.model_file.graph.selectivenet import selectivenet_decision
from recuse.model_file.schema import ImageSchema, TableSchema, schema_of
from recuse.tabular.encoder import TableEncoder

__all__ = ["DecisionGraph", "build_decision"]


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
    """

    graph: bytes
    schema: TableSchema | ImageSchema
    has_cost: bool
    has_expected_loss: bool


def build_decision(estimator: Any) -> DecisionGraph:
    """Convert a fitted estimator.

    Raises
    ------
    ConversionError
        If the estimator or one of its parts cannot be converted.
    """
    graph = GraphBuilder()
    schema = _schema_of(estimator)
    inputs = {name: graph.input(name, dtype, shape) for name, (dtype, shape) in schema.inputs().items()}
    cost = graph.input("cost", DOUBLE, (ROWS, 1)) if _needs_cost(estimator) else None
    expected = None
    if isinstance(schema, ImageSchema):
        prediction, score = image_decision(estimator, inputs["image"], cost)
    else:
        encoder = _encoder_of(estimator)
        table = encode_table(encoder, schema, inputs)
        if table.features.shape[1] != encoder.n_features:
            raise AssertionError(f"the graph has {table.features.shape[1]} of {encoder.n_features} features")
        match estimator:
            case RcRRegressor():
                prediction, score = rcr_decision(estimator, table, cost)
            case SelectiveNetRegressor():
                prediction, score = selectivenet_decision(estimator, table, cost)
            case AutoRejector():
                prediction, expected = auto_estimate(estimator, table)
            case _:
                raw = raw_numbers(schema, inputs) if estimator.prefit else None
                prediction, expected = risk_estimate(estimator, table, raw)
    if expected is not None:
        assert cost is not None
        score = cost - expected
        graph.output("expected_loss", expected.squeeze(1))
    _declare_outputs(graph, prediction, score)
    return DecisionGraph(graph.model().SerializeToString(), schema, cost is not None, expected is not None)


def _declare_outputs(graph: GraphBuilder, prediction: Value, score: Value) -> None:
    graph.output("prediction", prediction.squeeze(1) if prediction.shape[1] == 1 else prediction)
    row_score = score.squeeze(1)
    graph.output("score", row_score)
    graph.output("accepted", row_score > 0.0)


def _schema_of(estimator: Any) -> TableSchema | ImageSchema:
    if isinstance(estimator, RcRImageRegressor):
        channels, height, width = estimator.image_shape_
        return ImageSchema((channels, height, width))
    return schema_of(_encoder_of(estimator))


def _encoder_of(estimator: Any) -> TableEncoder:
    match estimator:
        case RcRRegressor() | SelectiveNetRegressor():
            return estimator._units.encoder
        case AutoRejector() | RiskRejector():
            return estimator._encoder
    if isinstance(estimator, DeferralRegressor):
        raise ConversionError("DeferralRegressor cannot be saved in a model file: its experts answer later; pickle it")
    raise ConversionError(
        f"recuse.save must get a fitted estimator of recuse, got {type(estimator).__name__}: "
        "save the last step of a pipeline or the best estimator of a search instead"
    )


def _needs_cost(estimator: Any) -> bool:
    """Whether the score depends on the cost of a row."""
    match estimator:
        case RcRRegressor():
            return estimator._fitted.grid is not None
        case SelectiveNetRegressor():
            return len(estimator._points.place) > 1
        case RcRImageRegressor():
            return bool(estimator.network_.cost_input)
    return True
