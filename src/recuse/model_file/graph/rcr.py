"""Graphs of rules of regressors and rejectors, at one cost or at several."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recuse.model_file.graph.builder import GraphBuilder, Value, concat, where
from recuse.model_file.graph.decision import Emitted, cost_input, emits, table_inputs
from recuse.model_file.graph.networks import in_target_units, stack_outputs, stack_outputs_at
from recuse.model_file.graph.operators import DOUBLE, INT64
from recuse.rules.networks import REJECT_ALL, CostGrid, RcRRule, RejectorInputs

__all__ = ["reject_novel"]

Floats = NDArray[np.float64]


@emits(RcRRule)
def _emit_rcr(rule: RcRRule, graph: GraphBuilder) -> Emitted:
    table = table_inputs(graph, rule.encoder)
    features, units = table.encoded.features, rule.units
    predictions = stack_outputs(rule.regressor, features)  # (member, row, output)
    mean = predictions.mean(axis=0)
    inputs = features if rule.inputs is None else _rejector_inputs(rule.inputs, features, predictions, mean)
    if rule.grid is None:
        score = _mean_score(stack_outputs(rule.rejector, inputs))
    else:
        knots = rule.grid.knots
        scores = stack_outputs_at(rule.rejector, inputs, rule.cost_feature(knots))  # (knot, member, row, 1)
        if rule.cost_range is not None:
            scores = scores + rule.offset(knots)[:, None, None, None]
        score = _score_at_cost(rule.grid, scores.clip(-1.0, 1.0), cost_input(graph))
    if rule.encoder.unseen != "keep":
        score = reject_novel(score, table.encoded.novelty)
    return Emitted(table.schema, in_target_units(mean, units.target_scale, units.target_mean), score)


def reject_novel(score: Value, novelty: Value) -> Value:
    """Make the score (row, 1) negative for rows with a cell that carries no information."""
    highest = novelty.max(axis=1, keepdims=True)
    return where(highest >= 1.0, score.minimum(0.0) - highest, score)


def _mean_score(scores: Value) -> Value:
    """Average the scores (member, row, 1), clipped if there are several members."""
    if scores.shape[0] == 1:
        return scores.mean(axis=0)
    # ONNX Runtime is slow at limits of a tensor whose last axis has size 1
    return scores.squeeze(2).clip(-1.0, 1.0).mean(axis=0).unsqueeze(1)


def _score_at_cost(grid: CostGrid, scores: Value, cost: Value) -> Value:
    """Interpolate the running maximum of scores (knot, member, row, 1) over the knots at the cost (row, 1) of each row.

    All scores are in [-1, 1], so -1 never changes a maximum.
    """
    knots, limited = grid.knots, cost.clip(grid.low, grid.high)
    by_knot = knots[:, None, None]
    below = limited.unsqueeze(0) > by_knot  # (knot, row, 1): knots below the cost
    start = where(below.unsqueeze(1), scores, -1.0).max(axis=0).mean(axis=0)  # (row, 1)
    if len(knots) == 1:
        score = scores.max(axis=0).mean(axis=0)
    else:
        first = scores.graph.constant(np.arange(len(knots)) == 0, "bool").reshape(len(knots), 1, 1)
        previous = concat([first.take([0], 0) | below.take([0], 0), below.take(np.arange(len(knots) - 1), 0)], axis=0)
        reached = previous | first  # knots up to the one above the cost, or at it
        end = where(reached.unsqueeze(1), scores, -1.0).max(axis=0).mean(axis=0)
        last = below.cast(DOUBLE).sum(axis=0).cast(INT64).minimum(len(knots) - 1)  # (row, 1)
        before = scores.graph.constant(np.append(knots[0], knots[:-1])).take(last, 0)
        ratio = np.append(1.0, np.log(knots[1:] / knots[:-1]))
        share = (limited / before).unary("Log") / scores.graph.constant(ratio).take(last, 0)
        between = (start + share.clip(0.0, 1.0) * (end - start)).minimum(end)
        score = where(last > 0, between, end)
    return score + (cost / grid.low).clip(REJECT_ALL, 1.0).unary("Log")


def _rejector_inputs(inputs: RejectorInputs, features: Value, predictions: Value, mean: Value) -> Value:
    """Return the inputs of rejectors (row, input) without the cost: features, h(x) and the disagreement."""
    centre, scale = inputs.prediction
    parts = [features, (mean - np.atleast_1d(centre)) / scale]
    if inputs.spread is not None:
        floor, log_mean, log_scale = inputs.spread
        spread = _mean_disagreement(predictions, inputs.sizes)
        parts.append(((spread + floor).unary("Log") - log_mean) / log_scale)
    return concat(parts, axis=1)


def _mean_disagreement(predictions: Value, sizes: tuple[int, ...]) -> Value:
    """Return the standard deviation (row, 1) among the members of a fold, averaged over outputs and folds."""
    ends = np.cumsum(sizes)
    spreads = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        members = predictions.take(np.arange(start, end), axis=0)
        difference = members - members.mean(axis=0, keepdims=True)
        deviation = (difference * difference).mean(axis=0).unary("Sqrt")  # (row, output)
        spreads.append(deviation.mean(axis=1, keepdims=True))
    return concat(spreads, axis=1).mean(axis=1, keepdims=True)
