"""Rule of deferral to experts: the expected loss of each action."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.costs import Cost
from recuse.rules.risk import RiskRule, ScaledRisk
from recuse.tabular.encoder import TableEncoder
from recuse.threads import one_thread

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExpertLoss:
    """The expected loss of an expert, as a function of the features and, if it is always known, of its prediction.

    Attributes
    ----------
    name : str
    risk : ScaledRisk
    prediction : tuple of float or None
        Mean and scale of the prediction as an input; None if the expert answers later.
    model : estimator or None
        The expert, if it is a fitted model.
    fee : float, array-like, callable or str
    capacity : int, float or None
        As in `recuse.experts.expert.Expert`.
    column : str or None
        Column with recorded predictions.
    """

    name: str
    risk: ScaledRisk
    prediction: tuple[float, float] | None
    model: Any = None
    fee: Cost = 0.0
    capacity: int | float | None = None
    column: str | None = None

    def inputs(self, features: Floats, prediction: Floats) -> Floats:
        """Return the inputs (row, input) of the models of the loss; a missing prediction counts as the mean."""
        if self.prediction is None:
            return features
        mean, scale = self.prediction
        standard = (prediction - mean) / (scale or 1.0)
        return np.column_stack([features, np.where(np.isfinite(standard), standard, 0.0)])

    def __call__(self, features: Floats, prediction: Floats) -> Floats:
        """Return the expected loss (row,); infinite where the expert should have predicted and has not."""
        with one_thread():
            risks = self.risk.by_fold([self.inputs(features, prediction)])
        silent = np.isnan(prediction) if self.prediction is not None else np.zeros(len(prediction), np.bool_)
        return np.where(silent, np.inf, risks.mean(axis=0))


@dataclass(frozen=True)
class DeferralRule:
    """Assign a row to the model or the expert with the lowest expected loss plus fee.

    Attributes
    ----------
    own : RiskRule
        Prediction and expected loss of the model.
    encoder : TableEncoder
        Encoding of the rows for the losses of the experts.
    experts : tuple of ExpertLoss
    """

    own: RiskRule
    encoder: TableEncoder
    experts: tuple[ExpertLoss, ...]

    def estimate(self, rows: Any, answers: Floats) -> tuple[Floats, Floats]:
        """Return the own prediction (row,), and the expected losses of the model and the experts (row, action).

        Parameters
        ----------
        rows : DataFrame or ndarray
        answers : ndarray of shape (row, expert)
            Predictions of the experts; NaN where there are none.
        """
        prediction, own = self.own.estimate(rows)
        features = self.encoder.transform(rows)
        others = [expert(features, column) for expert, column in zip(self.experts, answers.T, strict=True)]
        return prediction, np.column_stack([own, *others])
