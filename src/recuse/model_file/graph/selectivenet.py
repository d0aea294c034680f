"""Conversion of SelectiveNetRegressor: networks and thresholds by cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from recuse.model_file.graph.builder import Value, concat, where
from recuse.model_file.graph.columns import EncodedTable
from recuse.model_file.graph.networks import in_target_units, selective_heads
from recuse.model_file.graph.operators import BOOL, DOUBLE
from recuse.model_file.graph.rcr import reject_novel

__all__ = ["selectivenet_decision"]


def selectivenet_decision(estimator: Any, table: EncodedTable, cost: Value | None) -> tuple[Value, Value]:
    """Return the prediction and the score (row, 1) of a fitted SelectiveNetRegressor.

    Parameters
    ----------
    estimator : SelectiveNetRegressor
    table : EncodedTable
    cost : Value of shape (row, 1) or None
        None if the decision does not depend on the cost.
    """
    points = estimator._points
    heads = [_heads(estimator, place, table.features) for place in points.place.tolist()]
    prediction, selection = (concat(list(parts), axis=1) for parts in zip(*heads, strict=True))  # (row, point)
    margin = selection - points.threshold
    if len(points.place) > 1:
        assert cost is not None
        # the cost from which on each point has the lowest loss; the points are the corners of a convex hull
        from_cost = np.diff(points.error) / -np.diff(points.rejected)
        reached = cost > from_cost  # (row, point - 1)
        always = margin.graph.constant(np.zeros((1, 1), np.bool_), BOOL)
        first = (reached.columns(0, 1) | ~reached.columns(0, 1)) | always
        up_to = concat([first, reached], axis=1)  # (row, point)
        beyond = concat([reached, ~first], axis=1)
        at_point = (up_to & ~beyond).cast(DOUBLE)
        prediction = (prediction * at_point).sum(axis=1, keepdims=True)
        margin = where(up_to, margin, -2.0).max(axis=1, keepdims=True)  # margins are > -2
    units = estimator._units
    score = reject_novel(margin, table.novelty) if units.encoder.unseen != "keep" else margin
    return in_target_units(prediction, units.target_scale, units.target_mean), score


def _heads(estimator: Any, place: int, features: Value) -> tuple[Value, Value]:
    """Return prediction and selection (row, 1) by the networks of one coverage, the mean over the members."""
    members = np.flatnonzero(estimator._grid_place == place).tolist()
    prediction, selection = selective_heads(estimator.network_.take(members), features)
    return prediction.mean(axis=0), selection.mean(axis=0)
