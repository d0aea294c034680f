"""What the risk-based estimators share: expected losses, decisions at any cost, and out-of-fold results."""

from __future__ import annotations

import pickle
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.decision import LOSS_SAVED
from recuse.estimators.advice import warn_if_cost_out_of_range, warn_if_useless
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.risk.ensemble import FoldMean
from recuse.estimators.risk.interpolation import interpolated_rows
from recuse.estimators.risk.surcharge import HeldOut, Surcharge
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.folds import Split
from recuse.tabular.rows import Rows
from recuse.threads import one_thread

__all__ = ["RiskBasedRegressor"]

Floats = NDArray[np.float64]

_BLOCK = 8192  # rows predicted at once
_MODELS = ("_regressor", "_risk", "regressors_", "risks_")  # attributes of the subclasses that hold fitted models


class RiskBasedRegressor(RejectingRegressor):
    """Accept a row where its expected loss is below its cost.

    `fit` of a subclass sets the private attributes below. The mean over the folds is the prediction and the risk.

    - `_encoder`: from rows to features.
    - `_fold_mean`: the risk of the mean over the folds, relative to the risks of the folds.
    - `_surcharge`: what cells without information add to the expected loss.
    """

    _several_targets = True
    _score_unit = LOSS_SAVED
    _encoder: TableEncoder
    _fold_mean: FoldMean
    _surcharge: Surcharge

    def __getstate__(self) -> dict[str, Any]:
        """Pack the fitted models into one object.

        Thousands of trees are thousands of arrays, and joblib opens a file for each if it loads them memory-mapped.
        """
        state: dict[str, Any] = super().__getstate__()
        return {name: _packed(value) if name in _MODELS else value for name, value in state.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpack the fitted models."""
        unpacked = {n: pickle.loads(v) if n in _MODELS and isinstance(v, bytes) else v for n, v in state.items()}
        super().__setstate__(unpacked)

    @abstractmethod
    def _fold_predictions(self, rows: Any, features: Floats) -> Floats:
        """Give the prediction of each fold (fold, row) or (fold, row, output)."""

    @abstractmethod
    def _predict_fold(self, fold: int, features: Floats) -> Floats:
        """Give the prediction of one fold (row,) or (row, output)."""

    @abstractmethod
    def _fold_estimates(self, rows: Any, features: Floats) -> tuple[Floats, Floats]:
        """Give the prediction (fold, row) or (fold, row, output) and the risk (fold, row) of each fold."""

    def expected_loss(self, X: Any) -> Floats:
        """Estimate the loss E[L(h(x) - y) | x] of every row, in squared units of the target or those of `loss`.

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
            blocks = [self._fold_predictions(block, self._encoder.transform(block)) for block in _blocks(rows)]
        return np.concatenate([block.mean(axis=0) for block in blocks])

    def _judge(self, rows: Any, cost: Floats) -> tuple[Floats, Floats]:
        """Give h(x), and as score the loss that accepting the row saves: its cost less its expected loss."""
        prediction, risk = self._estimate(rows)
        return prediction, cost - risk

    def _estimate(self, rows: Any) -> tuple[Floats, Floats]:
        """Give the prediction and the expected loss of checked rows."""
        with one_thread():
            blocks = [self._estimate_block(block) for block in _blocks(rows)]
        predictions, risks = zip(*blocks, strict=True)
        return np.concatenate(predictions), np.concatenate(risks)

    def _estimate_block(self, rows: Any) -> tuple[Floats, Floats]:
        encoded = self._encoder.encode(rows)
        predictions, risks = self._fold_estimates(rows, encoded.features)
        risk = self._fold_mean.risk(risks)
        if self._encoder.unseen != "keep":
            risk = risk + self._surcharge(encoded.novelty)
        return np.asarray(predictions.mean(axis=0)), risk

    def _learn_corrections(
        self, rows: Rows, features: Floats, splits: Sequence[Split], random: np.random.RandomState
    ) -> None:
        """Learn the gain of the mean over the folds, and what cells without information cost."""
        tests = [test for _, test in splits]
        with one_thread():
            between = interpolated_rows(features, self._encoder.slices, random)
            predictions, risks = self._fold_estimates(None, between)
            paired = 1 < len(predictions) == len(risks)
            self._fold_mean = FoldMean.learn(predictions, risks, self.loss_) if paired else FoldMean.of_one()
            held_out = [
                HeldOut(features[test], rows.y[test], partial(self._predict_fold, fold))
                for fold, test in enumerate(tests if len(tests) == len(predictions) else [np.concatenate(tests)])
            ]
            self._surcharge = Surcharge.learn(self._encoder, held_out, self.loss_, random)

    def _out_of_fold_surcharge(self, rows: Rows, splits: Sequence[Split]) -> Floats:
        """Give what novel cells add to the expected loss of each row, where its fold is new; NaN without a fold."""
        extra = np.full(len(rows), np.nan)
        for train, test in splits:
            if self._encoder.unseen == "keep":
                extra[test] = 0.0
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # about columns, which the fit to all rows has given
                encoder = TableEncoder().fit(rows.take(train).X, rows.weight[train])
            extra[test] = self._surcharge(encoder.encode(rows.take(test).X).novelty)
        return extra

    def _advise(self) -> None:
        """Warn if rejection does not pay on the out-of-fold rows, or if the cost is beyond all of their losses."""
        if not hasattr(self, "out_of_fold_"):
            return
        table = self.out_of_fold_.dropna()
        targets, predictions = (table.filter(regex=f"^{name}").to_numpy() for name in ("target", "prediction"))
        error, cost = self.loss_.of_rows(predictions - targets), table["cost"].to_numpy()
        paid = np.where(table["score"] > 0, error, cost)
        warn_if_cost_out_of_range(cost, error, stacklevel=4)
        warn_if_useless(paid.mean(), error.mean(), cost.mean(), stacklevel=4)

    def _out_of_fold_table(self, rows: Rows, prediction: Floats, risk: Floats) -> pd.DataFrame:
        """Give one line for each row passed to `fit`; NaN where there is no out-of-fold result."""
        assert rows.origin is not None
        both = {"target": rows.y, "prediction": prediction}
        place, cost, index = rows.origin.place, rows.origin.cost, rows.origin.index
        named = {name: _by_target(name, values, self._target_names) for name, values in both.items()}
        columns = {**named["target"], **named["prediction"], "expected_loss": risk}
        table = pd.DataFrame(columns).iloc[place].set_axis(pd.RangeIndex(len(place)) if index is None else index)
        table[place < 0] = np.nan
        return table.assign(cost=cost, score=cost - table["expected_loss"])


def _packed(models: object) -> object:
    """Give pickled models, or the models themselves where a class of the user needs another pickler."""
    try:
        return pickle.dumps(models, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError):
        return models


def _blocks(rows: Any) -> list[Any]:
    """Divide rows into blocks, so that memory does not grow with their number."""
    if isinstance(rows, pd.DataFrame):
        return [rows.iloc[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
    return [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]


def _by_target(name: str, values: Floats, targets: tuple[str, ...] | None) -> dict[str, Floats]:
    """Give one column, or one for each of several targets, with its name or number."""
    if values.ndim == 1:
        return {name: values}
    return {
        f"{name}_{target}": column for target, column in zip(targets or range(values.shape[1]), values.T, strict=True)
    }
