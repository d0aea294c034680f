"""Cross-fitting of regressors, and of rejectors trained on the errors of out-of-fold predictions.

The errors of a regressor on its training rows are too small to train a rejector on. Here each fold of the training
rows is predicted by members that were not trained on it. The inputs of the rejectors are the features, the prediction
h(x) and the logarithm of the disagreement among those members.

The rejectors are cross-fitted too. The rejectors of a fold are trained on the errors of the other folds and of any
validation rows, and validated on the errors of their own fold. The validation loss over all folds chooses epoch and
learning rate. So every error is used for training and for validation.

Members trained on a row are left out of its prediction and its disagreement, because their distance from the
out-of-fold members would leak the error. On new rows all members are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from recuse.engine.batches import Table
from recuse.engine.best_epoch import Trained
from recuse.engine.cost_range import CostRange
from recuse.engine.loop import train_regressors, train_rejectors
from recuse.engine.members import Member
from recuse.engine.plan import Networks, Plan
from recuse.engine.stack import Stack, outputs
from recuse.estimators.rate_search import best_trials, engine_table, of_equal_length
from recuse.estimators.rcr.networks import Aim, NetworkMaker, make_members
from recuse.estimators.rcr.outcome import Assessment, Outcome
from recuse.rules.networks import CostGrid, RcRRule, RejectorInputs, disagreement
from recuse.tabular.folds import folds_of, held_out_split
from recuse.tabular.rows import Rows
from recuse.tabular.units import Units, moments
from recuse.validation import require

__all__ = ["CrossfitTraining"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Folds:
    """The regressors of all folds and their out-of-fold predictions.

    Attributes
    ----------
    stack : Stack
    sizes : tuple of int
        Number of regressors of each fold.
    rows : ndarray of shape (row,)
        Positions of the training rows that are in a test part. The arrays below are about these rows.
    fold : ndarray of shape (row,)
        The fold whose regressors were not trained on the row.
    prediction : ndarray of shape (row,) or (output, row)
    spread : ndarray of shape (row,)
    trained : Trained
    members : list of Member
    """

    stack: Stack
    sizes: tuple[int, ...]
    rows: NDArray[np.intp]
    fold: NDArray[np.intp]
    prediction: Floats
    spread: Floats
    trained: Trained
    members: list[Member]


@dataclass(frozen=True)
class CrossfitTraining:
    """Settings of a cross-fitted training.

    Attributes
    ----------
    maker : NetworkMaker
    rates : sequence of float
        Learning rates to try; the validation loss chooses.
    plan : Plan
        Used for the regressors, and again for the rejectors.
    cv : int, splitter or iterable
        The folds; the splits of a splitter are already marked in the rows.
    fraction : float
        Share of the training rows of each fold that is held out to choose its regressors, if there are no validation
        rows.
    cost_range : CostRange, optional
        Costs in the user's units.
    """

    maker: NetworkMaker
    rates: Sequence[float]
    plan: Plan
    cv: Any
    fraction: float
    cost_range: CostRange | None = None

    def fit(
        self, units: Units, train: Rows, held_out: Rows | None, aims: Sequence[Aim], seeds: Sequence[int], shuffle: int
    ) -> list[Outcome]:
        """Train the regressors of every fold once, then the rejectors of each aim.

        Parameters
        ----------
        units : Units
        train : Rows
            Rejectors are trained on the errors of the other folds and validated on those of their own.
        held_out : Rows or None
            Validation rows. They choose the regressors of all folds, and rejectors are also trained on their errors.
            Their weights must be in the units of those of `train`. Without them, each fold holds out some rows.
        aims : sequence of Aim
        seeds : sequence of int
            One for each member. The regressors and rejectors of a fold have seeds derived from them.
        shuffle : int
            Fixes the folds and the order of minibatches.

        Returns
        -------
        list of Outcome
            One for each aim.
        """
        if len(train) < 2:
            raise ValueError(f"residuals='crossfit' needs at least 2 rows to train on, got n_samples = {len(train)}")
        folds = self._train_folds(units, train, held_out, seeds, shuffle)
        predicted = train.take(folds.rows)
        inputs = _learn_inputs(
            units,
            self.cost_range,
            folds.sizes,
            folds.prediction,
            folds.spread,
            predicted.weight,
            single=len(seeds) == 1,
        )
        seen = inputs.of_rows(units.features(predicted.X), folds.prediction, folds.spread)
        seen = inputs.with_cost(seen, predicted.cost)
        known = self._error_table(predicted, seen, folds.prediction, units, shuffle)
        new = [] if held_out is None else [self._held_out_errors(held_out, folds, inputs)]
        grid = self._grid(units, train, held_out)
        outcomes = []
        for number, aim in enumerate(aims):
            members = make_members(units, aim, seeds, self.rates)
            trained, rejecting = self._train_rejectors(known, new, folds, units, members, stage=number + 1)
            chosen = best_trials(trained.loss.cpu(), self.rates)
            rejector = trained.regressor.take(chosen).to(torch.float64)  # holds the rejectors
            outcomes.append(
                Outcome(
                    RcRRule(units, folds.stack, rejector, grid, inputs),
                    learning_rate=[rejecting[trial].learning_rate for trial in chosen],
                    best_epoch=trained.epoch[chosen].tolist(),
                    validation_loss=float(self._in_units(units, trained.loss[chosen]).mean()),
                    history=self._in_units(units, trained.history[:, chosen]),
                    diverged=self._diverged(folds, trained, rejecting),
                    n_trainings=len(folds.members) + len(rejecting),
                    assessment=self._assess(units, predicted, folds, trained.loss[chosen], aim),
                )
            )
        return outcomes

    def _train_folds(
        self, units: Units, train: Rows, held_out: Rows | None, seeds: Sequence[int], shuffle: int
    ) -> _Folds:
        parts = folds_of(train, self.cv, np.random.RandomState(shuffle))
        require(len(parts) >= 2, "cv", "a division with at least 2 test parts", len(parts))
        members = [
            Member(_derived(seed, fold), rate, table=fold)
            for fold in range(len(parts))
            for seed in seeds
            for rate in self.rates
        ]
        tables, validation = [], []
        for fold, (learning, _) in enumerate(parts):
            order = _derived(shuffle, fold)
            rows = train.take(learning)
            own_train, own_validation = (rows, held_out) if held_out is not None else self._divide(rows, order)
            tables.append(engine_table(units, own_train, order))
            validation.append(engine_table(units, own_validation))
        networks = Networks(self.maker.regressors(units), self.maker.regressors(units))
        both = of_equal_length(tables), of_equal_length(validation)
        trained = train_regressors(*both, members, networks, self._stage(0), units.engine_loss)
        return self._predict_out_of_fold(units, train, trained, members, [left_out for _, left_out in parts])

    def _divide(self, rows: Rows, seed: int) -> tuple[Rows, Rows]:
        """Return training rows and validation rows; a single row is used for both."""
        if len(rows) == 1:
            return rows, rows
        learning, validation = held_out_split(rows, self.fraction, np.random.RandomState(seed))
        return rows.take(learning), rows.take(validation)

    def _predict_out_of_fold(
        self, units: Units, train: Rows, trained: Trained, members: list[Member], parts: Sequence[NDArray[np.intp]]
    ) -> _Folds:
        """Choose the regressors of each fold, and predict the rows of the fold with them."""
        features = units.features(train.X)
        count, n_outputs = len(train), units.n_outputs
        prediction, spread = np.empty(count if n_outputs == 1 else (n_outputs, count)), np.empty(count)
        kept: list[int] = []
        sizes, number = [], np.full(count, -1)
        for fold, (loss, left_out) in enumerate(zip(trained.loss.cpu().chunk(len(parts)), parts, strict=True)):
            chosen = [fold * len(loss) + trial for trial in best_trials(loss, self.rates)]
            by_member = outputs(trained.regressor.take(chosen).to(torch.float64), features[left_out])
            prediction[..., left_out], spread[left_out] = by_member.mean(axis=0), disagreement(by_member)
            number[left_out] = fold
            kept += chosen
            sizes.append(len(chosen))
        stack = trained.regressor.take(kept).to(torch.float64)
        rows = np.flatnonzero(number >= 0)
        return _Folds(stack, tuple(sizes), rows, number[rows], prediction[..., rows], spread[rows], trained, members)

    def _train_rejectors(
        self, known: Table, new: Sequence[Table], folds: _Folds, units: Units, members: Sequence[Member], *, stage: int
    ) -> tuple[Trained, list[Member]]:
        """Train the same number of rejectors for each fold, in total at least one for each member."""
        build, count = self.maker.stacks(known.x.shape[1]), len(folds.sizes)
        per_fold = members[: -(-len(members) // (count * len(self.rates))) * len(self.rates)]
        all_members = [
            replace(member, seed=_derived(member.seed, fold), table=fold)
            for fold in range(count)
            for member in per_fold
        ]
        masks = [torch.as_tensor(folds.fold == fold) for fold in range(count)]
        tables = of_equal_length([_concatenated([known.take(~inside), *new]) for inside in masks])
        validation = of_equal_length([known.take(inside) for inside in masks])
        costs = self._engine_range(units)
        return train_rejectors(tables, validation, all_members, build, self._stage(stage), costs), all_members

    def _held_out_errors(self, held_out: Rows, folds: _Folds, inputs: RejectorInputs) -> Table:
        """Return the errors of the mean of all regressors on the validation rows."""
        units = inputs.units
        features = units.features(held_out.X)
        predictions = outputs(folds.stack, features)
        seen = inputs.with_cost(inputs.of_new_rows(features, predictions), held_out.cost)
        return self._error_table(held_out, seen, predictions.mean(axis=0), units)

    def _error_table(self, rows: Rows, inputs: Floats, prediction: Floats, units: Units, seed: int = 0) -> Table:
        """Return the engine's table with the errors as targets, in its units."""
        error = units.cost(units.errors(prediction, rows))
        x, y, weight = (torch.as_tensor(values, dtype=torch.float32) for values in (inputs, error, rows.weight))
        # always with weights, so that tables can be concatenated
        return replace(engine_table(units, rows, seed), x=x, y=y, weight=weight, rejector_x=None)

    def _grid(self, units: Units, train: Rows, held_out: Rows | None) -> CostGrid | None:
        if self.cost_range is not None:
            return CostGrid(self.cost_range.low, self.cost_range.high)
        if units.log_cost is None:
            return None
        return CostGrid.of(train.cost if held_out is None else np.append(train.cost, held_out.cost))

    def _engine_range(self, units: Units) -> CostRange | None:
        if self.cost_range is None:
            return None
        low, high = units.cost(np.array([self.cost_range.low, self.cost_range.high]))
        return CostRange(float(low), float(high))

    def _in_units(self, units: Units, loss: torch.Tensor) -> Floats:
        """Return losses in the user's units, or in units of the cost for a range of costs."""
        values: Floats = loss.cpu().double().numpy()
        return values if self.cost_range is not None else units.loss(values)

    def _diverged(self, folds: _Folds, rejectors: Trained, rejecting: list[Member]) -> list[tuple[int, float, int]]:
        """Return (member, learning rate, epoch) of diverged trainings; rejectors are numbered after regressors."""
        members, before = [*folds.members, *rejecting], len(folds.members)
        trials = folds.trained.diverged | {before + trial: epoch for trial, epoch in rejectors.diverged.items()}
        n_rates = len(self.rates)
        return [(trial // n_rates, members[trial].learning_rate, epoch) for trial, epoch in sorted(trials.items())]

    def _assess(self, units: Units, rows: Rows, folds: _Folds, loss: torch.Tensor, aim: Aim) -> Assessment:
        """Compare the rejectors on their own folds with accepting and rejecting all rows."""
        losses = units.errors(folds.prediction, rows)
        accept, rcr_loss = float(np.average(losses, weights=rows.weight)), float(self._in_units(units, loss).mean())
        if self.cost_range is not None:
            low, high = self.cost_range.low, self.cost_range.high
            return Assessment(rcr_loss, accept * _mean_inverse(low, high), 1.0, losses, np.array([low, high]))
        cost = rows.cost if aim.cost is None else np.full(len(rows), aim.cost)
        return Assessment(rcr_loss, accept, float(np.average(cost, weights=rows.weight)), losses, cost)

    def _stage(self, number: int) -> Plan:
        """Return the plan of one stage, whose progress includes the epochs of earlier stages."""
        report, before = self.plan.on_epoch, number * self.plan.epochs
        return self.plan if report is None else replace(self.plan, on_epoch=_shifted(report, before))


def _shifted(report: Callable[[int], None], before: int) -> Callable[[int], None]:
    return lambda done: report(before + done)


def _mean_inverse(low: float, high: float) -> float:
    """Return the mean of 1 / cost for costs that are uniform in the logarithm."""
    return (1 / low - 1 / high) / float(np.log(high / low))


def _concatenated(tables: Sequence[Table]) -> Table:
    """Put the rows of several tables into one."""

    def concatenated(name: str) -> torch.Tensor | None:
        columns = [getattr(table, name) for table in tables]
        return None if columns[0] is None else torch.cat(columns)

    x, y = (torch.cat([getattr(table, name) for table in tables]) for name in ("x", "y"))
    return replace(tables[0], x=x, y=y, weight=concatenated("weight"), cost=concatenated("cost"))


def _derived(seed: int, fold: int) -> int:
    """Derive a seed for one fold."""
    return int(np.random.SeedSequence([seed, fold]).generate_state(1)[0])


def _learn_inputs(
    units: Units,
    cost_range: CostRange | None,
    sizes: tuple[int, ...],
    prediction: Floats,
    spread: Floats,
    weight: Floats,
    *,
    single: bool,
) -> RejectorInputs:
    """Learn the scales from out-of-fold predictions and disagreement; `single` means one member for each fold."""
    mean, scale = moments(prediction, weight)
    log_spread = None if single else _log_moments(spread, weight)
    return RejectorInputs(units, cost_range, sizes, (mean, scale or 1.0), log_spread)


def _log_moments(spread: Floats, weight: Floats) -> tuple[float, float, float]:
    floor = 1e-3 * float(spread.mean()) or 1.0  # keeps the logarithm of full agreement finite
    mean, scale = moments(np.log(spread + floor), weight)
    return floor, mean, scale or 1.0
