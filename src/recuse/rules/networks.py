"""Rules of networks that give each row a score: accept it where its score is above zero."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recuse.engine.cost_range import CostRange
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.engine.stack import Stack, outputs
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.units import Units

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
ScoreAt = Callable[[Indices, float], Floats]  # rows, cost -> scores (member, row)

_KNOTS = 16
REJECT_ALL = exp(-2)  # at this share of the lowest cost, every row is rejected


def reject_novel(score: Floats, novelty: Floats) -> Floats:
    """Make the score negative for rows with a cell that carries no information.

    For rules whose score is not based on an expected loss, to which a surcharge could be added.

    Parameters
    ----------
    score : ndarray of shape (row,)
    novelty : ndarray of shape (row, column)
        See `recuse.tabular.encoder.Encoded`.

    Examples
    --------
    >>> reject_novel(np.array([0.5, 0.5]), np.array([[0.0, 0.4], [0.0, 1.0]]))
    array([ 0.5, -1. ])
    """
    highest = novelty.max(axis=1, initial=0.0)
    return np.where(highest >= 1, np.minimum(score, 0) - highest, score)


def mean_score(scores: Floats) -> Floats:
    """Average the scores (member, row) of an ensemble; a single member keeps its own.

    Scores beyond +-1 do not measure confidence, so they are clipped. Otherwise one member could dominate the mean.

    Examples
    --------
    >>> mean_score(np.array([[0.5, 9.0], [-0.5, 0.0]]))
    array([0. , 0.5])
    """
    return np.asarray(scores[0] if len(scores) == 1 else scores.clip(-1, 1).mean(axis=0))


@dataclass(frozen=True)
class CostGrid:
    """Costs at which rejectors are evaluated to make their score non-decreasing in the cost.

    A network that has the cost as an input may accept a row at one cost and reject it at a higher one. The score of a
    row is therefore the largest score of the network at any cost of the grid up to its own, interpolated linearly in
    the logarithm of the cost. A cost above the grid is treated like the highest. Below the grid, the logarithm of
    the ratio to the lowest cost is added to the score, so that every row is rejected at cost 0.

    Attributes
    ----------
    low, high : float
        The lowest and highest cost, 0 < low <= high.
    """

    low: float
    high: float

    @classmethod
    def of(cls, cost: Floats) -> Self:
        """Return the grid of the costs of some rows, without costs of 0.

        Examples
        --------
        >>> CostGrid.of(np.array([0.0, 2.0, 8.0]))
        CostGrid(low=2.0, high=8.0)
        """
        positive = cost[cost > 0]
        return cls(float(positive.min()), float(positive.max())) if len(positive) else cls(1.0, 1.0)

    @property
    def knots(self) -> Floats:
        """The costs of the grid, in increasing order."""
        return np.unique(np.geomspace(self.low, self.high, _KNOTS))

    def scores(self, score_at: ScoreAt, cost: Floats) -> Floats:
        """Return the score (row,) of every row at its cost.

        Parameters
        ----------
        score_at : callable
            Returns the scores (member, row) of the networks for some rows, all at one cost.
        cost : ndarray of shape (row,)
        """
        score = self._running_maximum(score_at, np.clip(cost, self.low, self.high))
        return score + np.log(np.clip(cost / self.low, REJECT_ALL, 1.0))

    def _running_maximum(self, score_at: ScoreAt, cost: Floats) -> Floats:
        """Interpolate the running maximum of the clipped scores over the grid, averaged over the members."""
        knots = self.knots
        last = np.minimum(np.searchsorted(knots, cost), len(knots) - 1)  # the knot above the cost, or at it
        score = np.empty(len(cost))
        rows, below = np.arange(len(cost)), np.empty((0, len(cost)))
        for number, knot in enumerate(knots):
            remaining = last[rows] >= number
            rows, below = rows[remaining], below[:, remaining]
            if len(rows) == 0:
                break
            now = score_at(rows, float(knot)).clip(-1, 1)  # (member, row)
            if number > 0:
                now = np.maximum(now, below)
            done = last[rows] == number
            if number == 0:
                score[rows[done]] = now[:, done].mean(axis=0)
            else:
                share = np.log(cost[rows[done]] / knots[number - 1]) / np.log(knot / knots[number - 1])
                start, end = below[:, done].mean(axis=0), now[:, done].mean(axis=0)
                score[rows[done]] = np.minimum(start + share.clip(0, 1) * (end - start), end)
            below = now
        return score


def disagreement(predictions: Floats) -> Floats:
    """Return the standard deviation (row,) among members (member, row)."""
    return np.asarray(predictions.std(axis=0))


@dataclass(frozen=True)
class RejectorInputs:
    """Computes the inputs of the rejectors: features, h(x), disagreement of members, and last the cost if it varies.

    Attributes
    ----------
    units : Units
    cost_range : CostRange or None
        Costs in the user's units.
    sizes : tuple of int
        Number of members of each fold.
    prediction : tuple
        Mean and standard deviation of h(x) over the training rows.
    spread : tuple or None
        Floor of the disagreement, and mean and standard deviation of its logarithm; None with one member for each fold.
    """

    units: Units
    cost_range: CostRange | None
    sizes: tuple[int, ...]
    prediction: tuple[float, float]
    spread: tuple[float, float, float] | None

    def of_new_rows(self, features: Floats, predictions: Floats) -> Floats:
        """Return the inputs of new rows like `of_rows`, given the predictions of all members (member, row)."""
        by_fold = np.split(predictions, np.cumsum(self.sizes)[:-1])
        spread = np.mean([disagreement(members) for members in by_fold], axis=0)
        return self.of_rows(features, predictions.mean(axis=0), spread)

    def of_rows(self, features: Floats, prediction: Floats, spread: Floats) -> Floats:
        """Return the inputs (row, input), all standardised, without the cost."""
        mean, scale = self.prediction
        columns = [features, (prediction - mean) / scale]
        if self.spread is not None:
            floor, log_mean, log_scale = self.spread
            columns.append((np.log(spread + floor) - log_mean) / log_scale)
        return np.column_stack(columns)

    def with_cost(self, inputs: Floats, cost: Floats) -> Floats:
        """Append the cost to the other inputs if it varies."""
        if self.cost_range is not None:
            return np.column_stack([inputs, self.cost_range.feature(cost)])
        return self.units.rejector_features(inputs, cost)


@dataclass(frozen=True)
class RcRRule:
    """Accept a row where the mean score of the rejectors at its cost is above zero, and no cell of it is novel.

    Attributes
    ----------
    units : Units
        Conversion of features, targets and costs to the units of the networks.
    regressor, rejector : Stack
    grid : CostGrid or None
        The costs of training; None for a single cost, which is then no input of the rejectors.
    inputs : RejectorInputs or None
        Inputs of cross-fitted rejectors; None for rejectors of the features.
    """

    units: Units
    regressor: Stack
    rejector: Stack
    grid: CostGrid | None
    inputs: RejectorInputs | None = None

    @property
    def encoder(self) -> TableEncoder:
        """Encoding of the rows."""
        return self.units.encoder

    @property
    def cost_range(self) -> CostRange | None:
        """The range of costs that the rejectors were trained for, if there is one."""
        return None if self.inputs is None else self.inputs.cost_range

    def predictions(self, features: Floats) -> Floats:
        """Return the predictions of every regressor (member, row), in units of the engine."""
        return outputs(self.regressor, features)

    def scores(self, features: Floats, predictions: Floats, cost: Floats) -> Floats:
        """Return the mean score (row,) of the rejectors, also of rows with a novel cell."""
        shared = features if self.inputs is None else self.inputs.of_new_rows(features, predictions)
        if self.grid is None:
            return mean_score(outputs(self.rejector, shared))

        def score_at(rows: Indices, knot: float) -> Floats:
            at_knot = np.full(len(rows), knot)
            score = outputs(self.rejector, self._with_cost(shared[rows], at_knot))
            return score if self.cost_range is None else score + self.offset(at_knot)

        return self.grid.scores(score_at, cost)

    def cost_feature(self, cost: Floats) -> Floats:
        """Return the last input (row,) of rejectors that have the cost as an input."""
        return self._with_cost(np.empty((len(cost), 0)), cost)[:, 0]

    def offset(self, cost: Floats) -> Floats:
        """Return what each cost of a range adds to the score."""
        assert self.cost_range is not None
        return self.cost_range.offset(cost)

    def predict(self, rows: Any) -> Floats:
        """Return h(x) of checked rows, the mean over the members."""
        return self.units.prediction(self.predictions(self.units.features(rows)).mean(axis=0))

    def decide(self, rows: Any, cost: Floats) -> tuple[Floats, Floats]:
        """Return h(x) and the score (row,) of checked rows, each at its cost."""
        encoded = self.encoder.encode(rows)
        predictions = self.predictions(encoded.features)
        score = self.scores(encoded.features, predictions, cost)
        if self.encoder.unseen != "keep":
            score = reject_novel(score, encoded.novelty)
        return self.units.prediction(predictions.mean(axis=0)), score

    def _with_cost(self, inputs: Floats, cost: Floats) -> Floats:
        if self.inputs is None:
            return self.units.rejector_features(inputs, cost)
        return self.inputs.with_cost(inputs, cost)


@dataclass(frozen=True)
class OperatingPoints:
    """Networks with a threshold each, and their results on the validation rows.

    Attributes
    ----------
    place : ndarray of shape (point,)
        Position of the coverage in the grid; it determines the networks.
    threshold : ndarray of shape (point,)
    rejected : ndarray of shape (point,)
        Share of the rows that are rejected.
    error : ndarray of shape (point,)
        Sum of the errors of the accepted rows, divided by the number of all rows.
    """

    place: Indices
    threshold: Floats
    rejected: Floats
    error: Floats

    def take(self, points: list[int]) -> Self:
        """Return some of the points."""
        return type(self)(self.place[points], self.threshold[points], self.rejected[points], self.error[points])

    def at(self, cost: Floats) -> Indices:
        """Find the point with the lowest RcR loss at the cost of each row; in a tie, the one that rejects more."""
        costs, which = np.unique(cost, return_inverse=True)
        loss = self.error[:, None] + self.rejected[:, None] * costs  # (point, cost)
        return np.asarray(loss.argmin(axis=0)[which])

    def score(self, selection: Floats, points: Indices) -> Floats:
        """Return the score (row,) at the point of each row: the maximum margin at this point and all earlier ones.

        Earlier points belong to lower costs. So a row that is accepted at one cost is accepted at all higher costs,
        even if these use other networks.

        Parameters
        ----------
        selection : ndarray of shape (place, row)
        points : ndarray of shape (row,)

        Examples
        --------
        >>> strict_then_lax = OperatingPoints(np.array([0, 1]), np.array([0.5, 0.5]), np.array([0.5, 0.1]), np.ones(2))
        >>> selection = np.array([[0.75], [0.25]])  # accepted by the first network, not by the second
        >>> strict_then_lax.score(selection, np.array([0])), strict_then_lax.score(selection, np.array([1]))
        (array([0.25]), array([0.25]))
        """
        margin = selection[self.place] - self.threshold[:, None]  # (point, row)
        return np.asarray(np.maximum.accumulate(margin, axis=0)[points, np.arange(len(points))])


@dataclass(frozen=True)
class SelectiveRule:
    """Accept a row where its selection by the networks for its cost is above their threshold, and no cell is novel.

    Attributes
    ----------
    units : Units
    network : stack of SelectiveNets
    place : ndarray of shape (network,)
        Position in the grid of the coverage that each network was trained for.
    points : OperatingPoints
    mean_cost : float
        `predict` uses the networks for this cost.
    """

    units: Units
    network: StackedSelectiveNet
    place: Indices
    points: OperatingPoints
    mean_cost: float

    @property
    def encoder(self) -> TableEncoder:
        """Encoding of the rows."""
        return self.units.encoder

    def predict(self, rows: Any) -> Floats:
        """Return h(x) of checked rows by the networks for `mean_cost`."""
        return self.decide(rows, np.full(len(rows), self.mean_cost))[0]

    def decide(self, rows: Any, cost: Floats) -> tuple[Floats, Floats]:
        """Return h(x) and the score (row,) of checked rows, each at its cost."""
        encoded = self.encoder.encode(rows)
        points = self.points.at(cost)
        used = np.unique(self.points.place)
        heads = [mean_heads(self.network, self.place, place, encoded.features) for place in used]
        row = np.arange(len(points))
        prediction = np.array([head[0] for head in heads])[np.searchsorted(used, self.points.place[points]), row]
        selection = np.zeros((self.place.max() + 1, len(points)))
        selection[used] = [head[1] for head in heads]
        score = self.points.score(selection, points)
        if self.encoder.unseen != "keep":
            score = reject_novel(score, encoded.novelty)
        return self.units.prediction(prediction), score


def mean_heads(network: StackedSelectiveNet, places: Indices, place: int, features: Floats) -> tuple[Floats, Floats]:
    """Return prediction and selection (row,) by the networks at one of their places, the mean over the members."""
    members = np.flatnonzero(places == place).tolist()
    heads = outputs(network.take(members), features).reshape(3, len(members), -1).mean(axis=1)
    return heads[0], heads[1]
