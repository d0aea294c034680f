"""Base class of the risk-based estimators: expected losses, decisions at any cost, and out-of-fold results."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.decision import LOSS_SAVED
from recuse.estimators.advice import warn_if_cost_out_of_range, warn_if_useless
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.risk.corrections import FoldMean, HeldOut, interpolated_rows, learn_calibration, learn_surcharge
from recuse.losses import TargetLoss
from recuse.out_of_fold import OutOfFold
from recuse.rules.risk import PowerCalibration, RiskModels, RiskRule
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.folds import Split, is_partition
from recuse.tabular.rows import Rows
from recuse.threads import one_thread

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class FoldModels:
    """The models of new rows and those of the folds, which corrections are learned from.

    Attributes
    ----------
    new : RiskModels
        The models that predict new rows.
    folds : RiskModels
        One copy for each fold.
    first : RiskModels
        One copy for each fold of the first division of the rows, which predicts the rows of that fold.
    refitted : bool
        Whether the models of new rows are fitted to all rows, instead of being the mean over the folds.
    """

    new: RiskModels
    folds: RiskModels
    first: RiskModels
    refitted: bool = False

    def predict(self, fold: int, features: Floats) -> Floats:
        """Predict by the regressors that were not fitted to this fold."""
        return self.first.of_copy(fold, features).mean


@dataclass(frozen=True)
class Corrections:
    """What turns the risks of training rows, learned from out-of-fold errors, into expected losses of new rows.

    Attributes
    ----------
    encoder : TableEncoder
    fold_mean : FoldMean
        Corrects the risk for the models of new rows.
    surcharge : ndarray of shape (column,)
        The extra expected loss of cells without information.
    """

    encoder: TableEncoder
    fold_mean: FoldMean
    surcharge: Floats

    @classmethod
    def learn(
        cls,
        encoder: TableEncoder,
        rows: Rows,
        features: Floats,
        splits: Sequence[Split],
        folds: FoldModels,
        loss: TargetLoss,
        random: np.random.RandomState,
    ) -> Self:
        """Learn the correction for the models of new rows, and the surcharge of cells without information."""
        with one_thread():
            fold_mean = FoldMean.of_one()
            if len(splits) > 1 and is_partition(list(splits), len(rows)):
                between = interpolated_rows(features, encoder.slices, random)
                new = folds.new.estimates(between)[1].mean(axis=0) if folds.refitted else None
                fold_mean = FoldMean.learn(*folds.folds.estimates(between), loss, new, refitted=folds.refitted)
            held_out = [
                HeldOut(features[test], rows.y[test], partial(folds.predict, fold))
                for fold, (_, test) in enumerate(splits)
            ]
            return cls(encoder, fold_mean, learn_surcharge(encoder, held_out, loss, random))

    def calibrate(
        self, risk: Floats, error: Floats, weight: Floats, surcharge: Floats
    ) -> tuple[PowerCalibration, Floats]:
        """Learn the calibration from the out-of-fold risks and errors of rows; also return their expected losses.

        Rows with a surcharge do not count, since the surcharge is the larger part of their expected loss.
        """
        mean, known = self.fold_mean, surcharge == 0
        if not weight[known].any():
            known = np.ones_like(known)
        corrected = mean.out_of_fold(risk)
        gain = mean.factors(corrected[known])
        calibration = learn_calibration(corrected[known], gain * error[known], weight[known])
        return calibration, calibration(corrected) + surcharge

    def out_of_fold_surcharge(self, rows: Rows, splits: Sequence[Split]) -> Floats:
        """Return the surcharge (row,) of cells that are novel to the other folds; NaN for rows in no test part."""
        extra = np.full(len(rows), np.nan)
        for train, test in splits:
            if self.encoder.unseen == "keep":
                extra[test] = 0.0
                continue
            encoder = self.encoder.refitted(rows.take(train).X, rows.weight[train], unseen="novel")
            extra[test] = encoder.encode(rows.take(test).X).novelty @ self.surcharge
        return extra

    def rule(self, models: RiskModels, calibration: PowerCalibration) -> RiskRule:
        """Return the rule of new rows."""
        surcharge = None if self.encoder.unseen == "keep" else self.surcharge
        return RiskRule(self.encoder, models, self.fold_mean.factor, calibration, surcharge)


class RiskBasedRegressor(RejectingRegressor):
    """Accept a row where its expected loss is below its cost; `fit` of a subclass sets `rule_`."""

    score_unit = LOSS_SAVED
    rule_: RiskRule

    def __getstate__(self) -> dict[str, Any]:
        """Pack the fitted models into one object.

        joblib opens a file for each array of a memory-mapped model, and forests have thousands of arrays.
        """
        state: dict[str, Any] = super().__getstate__()
        return {name: _packed(value) if name == "rule_" else value for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpack the fitted models."""
        rule = state.get("rule_")
        super().__setstate__({**state, "rule_": pickle.loads(rule)} if isinstance(rule, bytes) else state)

    def expected_loss(self, X: Any) -> Floats:
        """Estimate the loss E[L(h(x) - y) | x] of every row, in the units of the loss.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        rows = self._check_new_rows(X)
        return self.rule_.estimate(rows)[1]

    @property
    def serves_any_cost(self) -> bool:
        """True: the expected loss does not depend on the cost."""
        return True

    def _advise(self, weight: Floats) -> None:
        """Warn if rejection does not pay on the out-of-fold rows, or if the cost is beyond their losses."""
        if not hasattr(self, "out_of_fold_"):
            return
        known = self.out_of_fold_.notna().all(axis=1).to_numpy()
        target, prediction, _, cost, score = self.out_of_fold_[known].to_numpy().T
        error = self.loss_(prediction - target)
        if not warn_if_cost_out_of_range(cost, error, stacklevel=4):
            paid = np.where(score > 0, error, cost)
            means = (float(np.average(values, weights=weight[known])) for values in (paid, error, cost))
            warn_if_useless(*means, stacklevel=4)

    def _out_of_fold_table(self, rows: Rows, prediction: Floats, expected: Floats) -> pd.DataFrame:
        """Return a table with one line for each row passed to `fit`; NaN where there is no out-of-fold result."""
        assert rows.origin is not None
        place = rows.origin.place
        target, prediction, expected = (
            np.where(place < 0, np.nan, values[place]) for values in (rows.y, prediction, expected)
        )
        return OutOfFold(target, prediction, expected, rows.origin.cost, rows.origin.index, self.loss_).to_frame()


def _packed(models: object) -> object:
    """Return the pickled models, or the models unchanged if pickle cannot handle a user's class."""
    try:
        return pickle.dumps(models, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return models
