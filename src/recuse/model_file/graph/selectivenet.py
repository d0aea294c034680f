"""Graphs of rules of SelectiveNets: networks and thresholds by cost."""

from __future__ import annotations

import numpy as np

from recuse.model_file.graph.builder import GraphBuilder, Value, concat, where
from recuse.model_file.graph.decision import Emitted, cost_input, emits, table_inputs
from recuse.model_file.graph.networks import in_target_units, selective_heads
from recuse.model_file.graph.operators import BOOL, DOUBLE
from recuse.model_file.graph.rcr import reject_novel
from recuse.rules.networks import SelectiveRule


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
        margin = reject_novel(margin, table.encoded.novelty)
    in_units = in_target_units(prediction, units.target_scale, units.target_mean)
    return Emitted(table.schema, in_units, margin, prediction_cost=rule.mean_cost if by_cost else None)


def _heads(rule: SelectiveRule, place: int, features: Value) -> tuple[Value, Value]:
    """Return prediction and selection (row, 1) by the networks of one coverage, the mean over the members."""
    members = np.flatnonzero(rule.place == place).tolist()
    prediction, selection = selective_heads(rule.network.take(members), features)
    return prediction.mean(axis=0), selection.mean(axis=0)
