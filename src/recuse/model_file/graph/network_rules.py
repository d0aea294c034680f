"""Graphs of rules of networks that score rows: regressors with rejectors, and SelectiveNets."""

from __future__ import annotations

import numpy as np

from recuse.model_file.graph.builder import GraphBuilder, Value, concat, where
from recuse.model_file.graph.columns import table_inputs
from recuse.model_file.graph.conversion import Emitted, cost_input, emits
from recuse.model_file.graph.networks import in_target_units, selective_heads, stack_outputs, stack_outputs_at
from recuse.model_file.graph.operators import BOOL, DOUBLE, INT64
from recuse.rules.networks import REJECT_ALL, CostGrid, RcRRule, RejectorInputs, SelectiveRule


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
        score = _reject_novel(score, table.encoded.novelty)
    return Emitted(table.schema, in_target_units(mean, units.target_scale, units.target_mean), score)


def _reject_novel(score: Value, novelty: Value) -> Value:
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


@emits(SelectiveRule)
def _emit_selective(rule: SelectiveRule, graph: GraphBuilder) -> Emitted:
    table, points, units = table_inputs(graph, rule.encoder), rule.points, rule.units
    heads = [_heads(rule, place, table.encoded.features) for place in points.place.tolist()]
    prediction, selection = (concat(list(parts), axis=1) for parts in zip(*heads, strict=True))  # (row, point)
    margin = selection - points.threshold
    by_cost = len(points.place) > 1
    if by_cost:
        # the cost from which on each point has the lowest loss; the points are the corners of a convex hull
        from_cost = np.diff(points.error) / -np.diff(points.rejected)
        reached = cost_input(graph) > from_cost  # (row, point - 1)
        always = margin.graph.constant(np.zeros((1, 1), np.bool_), BOOL)
        first = (reached.columns(0, 1) | ~reached.columns(0, 1)) | always
        up_to = concat([first, reached], axis=1)  # (row, point)
        beyond = concat([reached, ~first], axis=1)
        at_point = (up_to & ~beyond).cast(DOUBLE)
        prediction = (prediction * at_point).sum(axis=1, keepdims=True)
        margin = where(up_to, margin, -2.0).max(axis=1, keepdims=True)  # margins are > -2
    if rule.encoder.unseen != "keep":
        margin = _reject_novel(margin, table.encoded.novelty)
    in_units = in_target_units(prediction, units.target_scale, units.target_mean)
    return Emitted(table.schema, in_units, margin, prediction_cost=rule.mean_cost if by_cost else None)


def _heads(rule: SelectiveRule, place: int, features: Value) -> tuple[Value, Value]:
    """Return prediction and selection (row, 1) by the networks of one coverage, the mean over the members."""
    members = np.flatnonzero(rule.place == place).tolist()
    prediction, selection = selective_heads(rule.network.take(members), features)
    return prediction.mean(axis=0), selection.mean(axis=0)
