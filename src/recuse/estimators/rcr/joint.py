"""Joint training of regressors and rejectors on the surrogate loss, as in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from recuse.engine.best_epoch import Trained
from recuse.engine.members import Member
from recuse.engine.pairs import train_pairs
from recuse.engine.plan import Networks, Plan
from recuse.engine.stack import Stack
from recuse.estimators.rate_search import best_trials, engine_table, of_equal_length
from recuse.estimators.rcr.networks import Aim, NetworkMaker, make_members
from recuse.estimators.rcr.outcome import Assessment, Outcome
from recuse.estimators.rcr.relevance import RelevantInputs, relevant_inputs, selects_inputs
from recuse.rules.networks import CostGrid, RcRRule
from recuse.tabular.rows import Rows
from recuse.tabular.units import Units

__all__ = ["JointTraining", "joint_rule"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class JointTraining:
    """Settings of a joint training of regressors and rejectors.

    Attributes
    ----------
    maker : NetworkMaker
    rates : sequence of float
        Learning rates to try; the validation loss chooses one for each member.
    plan : Plan
    start : RcRRule, optional
        Networks to continue from instead of new ones.
    """

    maker: NetworkMaker
    rates: Sequence[float]
    plan: Plan
    start: RcRRule | None = None

    def fit(
        self,
        units: Units,
        splits: Sequence[tuple[Rows, Rows]],
        aims: Sequence[Aim],
        seeds: Sequence[int],
        shuffle: int,
    ) -> list[Outcome]:
        """Train the members of all aims in one stack; each has the same result as if it were trained alone.

        Parameters
        ----------
        units : Units
        splits : sequence of (Rows, Rows)
            Rows to learn from, and rows that choose epoch and learning rate: one pair for all members, or one for each.
        aims : sequence of Aim
        seeds : sequence of int
            One for each member of an ensemble.
        shuffle : int
            Fixes the order of minibatches.

        Returns
        -------
        list of Outcome
            One for each aim.
        """
        own = [list(seeds)] if len(splits) == 1 else [[seed] for seed in seeds]  # seeds of each table
        inputs = self._inputs(units, splits[0][0], aims, shuffle)
        members, aim_of = [], []
        for table, some in enumerate(own):
            for number, aim in enumerate(aims):
                used = inputs[number].regressor, inputs[number].rejector
                members += make_members(units, aim, some, self.rates, table, *used)
                aim_of += [number] * (len(some) * len(self.rates))
        tables = of_equal_length([engine_table(units, train, shuffle) for train, _ in splits])
        validation = of_equal_length([engine_table(units, held_out) for _, held_out in splits])
        trained = train_pairs(tables, validation, members, self.networks(units), self.plan, units.engine_loss)
        grid = None
        if units.log_cost is not None:
            grid = self._grid(np.concatenate([rows.cost for pair in splits for rows in pair]))
        outcomes = []
        for number, aim in enumerate(aims):
            trials = [trial for trial, other in enumerate(aim_of) if other == number]
            chosen = [trials[trial] for trial in best_trials(trained.loss[trials].cpu(), self.rates)]
            model = joint_rule(units, trained.regressor, trained.rejector, chosen, grid)
            outcomes.append(
                Outcome(
                    model,
                    learning_rate=[members[trial].learning_rate for trial in chosen],
                    best_epoch=trained.epoch[chosen].tolist(),
                    validation_loss=float(units.loss(trained.loss[chosen].cpu().double().numpy()).mean()),
                    history=units.loss(trained.history[:, chosen].cpu().double().numpy()),
                    diverged=self._diverged(trained, members, trials),
                    n_trainings=len(trials),
                    assessment=_assess(model, splits, [members[trial].table for trial in chosen], aim),
                )
            )
        return outcomes

    def _inputs(self, units: Units, rows: Rows, aims: Sequence[Aim], seed: int) -> list[RelevantInputs]:
        """Return the inputs of the networks of each aim: all, or those that matter."""
        selects = self.plan.steady and selects_inputs(self.maker, len(rows), units.encoder.n_features)
        if self.start is not None or not selects:
            return [RelevantInputs()] * len(aims)
        return relevant_inputs(units, rows, aims, self.maker, seed)

    def networks(self, units: Units) -> Networks:
        """Return the initial networks of the training."""
        if self.start is None:
            return self.maker.pairs(units)
        return self.maker.copies(self.start.regressor, self.start.rejector, len(self.rates))

    def _grid(self, cost: Floats) -> CostGrid:
        earlier = None if self.start is None else self.start.grid
        return CostGrid.of(cost) if earlier is None else earlier.extended(cost)

    def _diverged(self, trained: Trained, members: Sequence[Member], trials: list[int]) -> list[tuple[int, float, int]]:
        """Return (member, learning rate, epoch) of diverged trials; members are numbered from 0 in each aim."""
        return [
            (trials.index(trial) // len(self.rates), members[trial].learning_rate, epoch)
            for trial, epoch in sorted(trained.diverged.items())
            if trial in trials
        ]


def joint_rule(
    units: Units, regressor: Stack, rejector: Stack | None, chosen: Sequence[int], grid: CostGrid | None
) -> RcRRule:
    """Keep some members, in double precision, so that the result of a row does not depend on its batch."""
    assert rejector is not None
    regressors, rejectors = (stack.take(chosen).to(torch.float64) for stack in (regressor, rejector))
    return RcRRule(units, regressors, rejectors, grid)


def _assess(model: RcRRule, splits: Sequence[tuple[Rows, Rows]], tables: Sequence[int], aim: Aim) -> Assessment:
    """Measure the decisions on validation rows: of the ensemble, or of each member on its own validation rows.

    Parameters
    ----------
    model : RcRRule
    splits : sequence of (Rows, Rows)
    tables : sequence of int
        The split of each member.
    aim : Aim
    """
    parts = []
    for table in dict.fromkeys(tables):
        places = [place for place, other in enumerate(tables) if other == table]
        some = replace(model, regressor=model.regressor.take(places), rejector=model.rejector.take(places))
        parts.append(_decided(some, splits[table][1], aim))
    decided, losses, cost, weight = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    loss, accept, reject = (float(np.average(values, weights=weight)) for values in (decided, losses, cost))
    return Assessment(loss, accept, reject, losses, cost)


def _decided(model: RcRRule, rows: Rows, aim: Aim) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the RcR loss, the loss of the prediction, the cost and the weight of each row."""
    units, features = model.units, model.units.features(rows.X)
    predictions = model.predictions(features)
    cost = rows.cost if aim.cost is None else np.full(len(rows), aim.cost)
    losses = units.errors(predictions.mean(axis=0), rows)
    return np.where(model.scores(features, predictions, cost) > 0, losses, cost), losses, cost, rows.weight
