"""The decision of a fitted estimator as one graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from recuse.estimators.auto.estimator import AutoRejector
from recuse.estimators.rcr.regressor import RcRRegressor
from recuse.estimators.risk.rejector import RiskRejector
from recuse.estimators.selectivenet.regressor import SelectiveNetRegressor
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder, Value
from recuse.model_file.graph.columns import declare_inputs, encode_table, raw_numbers
from recuse.model_file.graph.operators import DOUBLE, ROWS
from recuse.model_file.graph.rcr import rcr_decision
from recuse.model_file.graph.risk import auto_estimate, risk_estimate
from recuse.model_file.graph.selectivenet import selectivenet_decision
from recuse.model_file.schema import TableSchema, schema_of
from recuse.tabular.encoder import TableEncoder

__all__ = ["DecisionGraph", "build_decision"]


@dataclass(frozen=True)
class DecisionGraph:
    """The graph of a decision, and the table that it reads.

    Attributes
    ----------
    graph : bytes
        An ONNX model. Its inputs are the columns of the table and `cost`, if the decision depends on it; its outputs
        are `prediction`, `score`, `accepted` and, if the estimator has one, `expected_loss`.
    schema : TableSchema
    has_cost, has_expected_loss : bool
        Whether there is an input `cost`, and an output `expected_loss`.
    """

    graph: bytes
    schema: TableSchema
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
    encoder = encoder_of(estimator)
    schema = schema_of(encoder)
    inputs = declare_inputs(graph, schema)
    table = encode_table(encoder, schema, inputs)
    cost = graph.input("cost", DOUBLE, (ROWS, 1)) if _needs_cost(estimator) else None
    expected = None
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


def encoder_of(estimator: Any) -> TableEncoder:
    """Return the encoder of a fitted estimator."""
    match estimator:
        case RcRRegressor() | SelectiveNetRegressor():
            return estimator._units.encoder
        case AutoRejector() | RiskRejector():
            return estimator._encoder
    raise ConversionError(
        f"recuse.save must get a fitted estimator of recuse, got {type(estimator).__name__}: "
        "a pipeline or a search can be saved by its last step or its best estimator"
    )


def _needs_cost(estimator: Any) -> bool:
    """Whether the score depends on the cost of a row."""
    match estimator:
        case RcRRegressor():
            return estimator._fitted.grid is not None
        case SelectiveNetRegressor():
            return len(np.atleast_1d(estimator._points.place)) > 1
    return True
