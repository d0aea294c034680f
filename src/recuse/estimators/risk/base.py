"""Base class of the risk-based estimators: expected losses, decisions at any cost, and out-of-fold results."""

from __future__ import annotations

import pickle
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.decision import LOSS_SAVED
from recuse.estimators.advice import warn_if_cost_out_of_range, warn_if_useless
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.risk.calibration import PowerCalibration
from recuse.estimators.risk.ensemble import FoldMean
from recuse.estimators.risk.interpolation import interpolated_rows
from recuse.estimators.risk.surcharge import HeldOut, Surcharge
from recuse.out_of_fold import OutOfFold
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.folds import Split, is_partition
from recuse.tabular.rows import Rows
from recuse.threads import one_thread

__all__ = ["FoldModels", "RiskBasedRegressor"]

Floats = NDArray[np.float64]

_BLOCK = 8192  # rows predicted at once
_MODEL_ATTRIBUTES = ("_regressor", "_risk", "regressors_", "risks_")  # of the subclasses


@dataclass(frozen=True)
class FoldModels:
    """The models of the folds, which `fit` needs for corrections.

    Attributes
    ----------
    predict : callable
        Function from the number of a fold and features to predictions (row,) or (row, output).
    estimates : callable
        Function from features to the predictions and the risks (fold, row) of all folds.
    refitted : bool
        Whether new rows are predicted by models that are fitted to all rows, instead of by the mean over the folds.
    """

    predict: Callable[[int, Floats], Floats]
    estimates: Callable[[Floats], tuple[Floats, Floats]]
    refitted: bool = False


class RiskBasedRegressor(RejectingRegressor):
    """Accept a row where its expected loss is below its cost.

    The prediction and the risk of a row are means over models: one for each fold, or one fitted to all rows. `fit` of a
    subclass sets these attributes:

    - `_encoder`: encodes rows as features.
    - `_fold_mean`: corrects the risk, which was learned from out-of-fold errors, for the models of new rows.
    - `_calibration`: maps the corrected risk to the expected loss; the identity by default.
    - `_surcharge`: the extra expected loss of cells without information.
    """

    _several_targets = True
    _score_unit = LOSS_SAVED
    _encoder: TableEncoder
    _fold_mean: FoldMean
    _calibration = PowerCalibration()
    _surcharge: Surcharge

    def __getstate__(self) -> dict[str, Any]:
        """Pack the fitted models into one object.

        joblib opens a file for each array of a memory-mapped model, and forests have thousands of arrays.
        """
        state: dict[str, Any] = super().__getstate__()
        return {name: _packed(value) if name in _MODEL_ATTRIBUTES else value for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpack the fitted models."""
        packed = {name for name in _MODEL_ATTRIBUTES if isinstance(state.get(name), bytes)}
        super().__setstate__({name: pickle.loads(v) if name in packed else v for name, v in state.items()})

    @abstractmethod
    def _model_predictions(self, rows: Any, features: Floats) -> Floats:
        """Return the prediction of each model (model, row) or (model, row, output)."""

    @abstractmethod
    def _model_estimates(self, rows: Any, features: Floats) -> tuple[Floats, Floats]:
        """Return the prediction (model, row) or (model, row, output) and the risk (model, row) of each model."""

    def expected_loss(self, X: Any) -> Floats:
        """Estimate the loss E[L(h(x) - y) | x] of every row, in the units of the loss.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._estimate(self._check_new_rows(X))[1]

    @property
    def serves_any_cost(self) -> bool:
        """True: the expected loss does not depend on the cost."""
        return True

    def _predictions(self, rows: Any) -> Floats:
        with one_thread():
            blocks = [self._model_predictions(block, self._encoder.transform(block)) for block in _blocks(rows)]
        return np.concatenate([block.mean(axis=0) for block in blocks])

    def _judge(self, rows: Any, cost: Floats) -> tuple[Floats, Floats]:
        """Return h(x) and the score, which is the cost minus the expected loss."""
        prediction, risk = self._estimate(rows)
        return prediction, cost - risk

    def _estimate(self, rows: Any) -> tuple[Floats, Floats]:
        """Return the prediction and the expected loss of checked rows."""
        with one_thread():
            blocks = [self._estimate_block(block) for block in _blocks(rows)]
        predictions, risks = zip(*blocks, strict=True)
        return np.concatenate(predictions), np.concatenate(risks)

    def _estimate_block(self, rows: Any) -> tuple[Floats, Floats]:
        encoded = self._encoder.encode(rows)
        predictions, risks = self._model_estimates(rows, encoded.features)
        risk = self._calibration(self._fold_mean.risk(risks))
        if self._encoder.unseen != "keep":
            risk = risk + self._surcharge(encoded.novelty)
        return np.asarray(predictions.mean(axis=0)), risk

    def _learn_corrections(
        self, rows: Rows, features: Floats, splits: Sequence[Split], folds: FoldModels, random: np.random.RandomState
    ) -> None:
        """Learn the correction for the models of new rows, and the surcharge of cells without information."""
        with one_thread():
            self._fold_mean = FoldMean.of_one()
            if len(splits) > 1 and is_partition(list(splits), len(rows)):
                between = interpolated_rows(features, self._encoder.slices, random)
                new = self._model_estimates(None, between)[1].mean(axis=0) if folds.refitted else None
                self._fold_mean = FoldMean.learn(*folds.estimates(between), self.loss_, new, refitted=folds.refitted)
            held_out = [
                HeldOut(features[test], rows.y[test], partial(folds.predict, fold))
                for fold, (_, test) in enumerate(splits)
            ]
            self._surcharge = Surcharge.learn(self._encoder, held_out, self.loss_, random)

    def _calibrate(self, risk: Floats, error: Floats, weight: Floats, surcharge: Floats) -> Floats:
        """Learn the calibration from the out-of-fold risks and errors of rows; return their expected losses (row,).

        Rows with a surcharge do not count, since the surcharge is the larger part of their expected loss.
        """
        mean, known = self._fold_mean, surcharge == 0
        if not weight[known].any():
            known = np.ones_like(known)
        corrected = mean.out_of_fold(risk)
        gain = mean.factors(corrected[known])
        self._calibration = PowerCalibration.learn(corrected[known], gain * error[known], weight[known])
        return self._calibration(corrected) + surcharge

    def _out_of_fold_surcharge(self, rows: Rows, splits: Sequence[Split]) -> Floats:
        """Return the surcharge (row,) of cells that are novel to the other folds; NaN for rows in no test part."""
        extra = np.full(len(rows), np.nan)
        for train, test in splits:
            if self._encoder.unseen == "keep":
                extra[test] = 0.0
                continue
            encoder = self._encoder.refitted(rows.take(train).X, rows.weight[train], unseen="novel")
            extra[test] = self._surcharge(encoder.encode(rows.take(test).X).novelty)
        return extra

    def _advise(self, weight: Floats) -> None:
        """Warn if rejection does not pay on the out-of-fold rows, or if the cost is beyond their losses."""
        if not hasattr(self, "out_of_fold_"):
            return
        rows = OutOfFold.of(self)
        assert rows is not None
        decision, error, share = rows.decision(), rows.losses(), weight[rows.known]
        paid = np.where(decision.accepted, error, decision.cost)
        if not warn_if_cost_out_of_range(decision.cost, error, stacklevel=4):
            means = (float(np.average(values, weights=share)) for values in (paid, error, decision.cost))
            warn_if_useless(*means, stacklevel=4)

    def _out_of_fold_table(self, rows: Rows, prediction: Floats, risk: Floats) -> pd.DataFrame:
        """Return a table with one line for each row passed to `fit`; NaN where there is no out-of-fold result."""
        assert rows.origin is not None
        place, index = rows.origin.place, rows.origin.index
        results = []
        for values in (rows.y, prediction, risk):
            given = values[place]
            given[place < 0] = np.nan
            results.append(given)
        known = OutOfFold(*results, rows.origin.cost, index, self.loss_, self._target_names)
        return known.to_frame()


def _packed(models: object) -> object:
    """Return the pickled models, or the models unchanged if pickle cannot handle a user's class."""
    try:
        return pickle.dumps(models, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return models


def _blocks(rows: Any) -> list[Any]:
    """Divide rows into blocks, so that memory does not grow with their number."""
    if isinstance(rows, pd.DataFrame):
        return [rows.iloc[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
    return [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
