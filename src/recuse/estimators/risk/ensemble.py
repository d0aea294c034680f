"""Correction of out-of-fold risks for the model of new rows.

New rows are predicted by the mean over the folds or by a model fitted to all rows, but a training row only by the fold
that was not fitted to it. The model of new rows has a lower loss, and its risks vary less between rows. Both effects
are estimated on interpolated rows, which no model was fitted to. With the correction, out-of-fold rows and new rows
have comparable expected losses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from recuse.losses import SQUARED, TargetLoss

__all__ = ["FoldMean"]

Floats = NDArray[np.float64]

_MIN_FACTOR = 0.5
_MAX_NARROWING = 1.5
_QUANTILES = np.linspace(0.01, 0.99, 50)


@dataclass(frozen=True)
class FoldMean:
    """The risk of the model of new rows, relative to the risks of the folds.

    Attributes
    ----------
    factor : float
        Ratio of the risk of the mean over the folds to that of one fold. With the squared error, the loss of the mean
        is lower by the variance of the folds around it (Krogh and Vedelsby, 1995). With other losses the factor is 1. A
        model fitted to all rows is about as good as the mean, and has the same factor.
    single, mean : ndarray of shape (quantile,)
        Quantiles of the risk of single folds and of the model of new rows, on the same rows.
    """

    factor: float
    single: Floats
    mean: Floats

    @classmethod
    def learn(cls, predictions: Floats, risks: Floats, loss: TargetLoss, new: Floats | None = None) -> Self:
        """Compare the model of new rows with the folds on rows that no fold was fitted to.

        Parameters
        ----------
        predictions : ndarray of shape (fold, row) or (fold, row, output)
        risks : ndarray of shape (fold, row)
        loss : TargetLoss
        new : ndarray of shape (row,), optional
            Risks by the model of new rows; by default the mean over the folds.

        Examples
        --------
        >>> FoldMean.learn(np.array([[1.0], [3.0]]), np.array([[4.0], [4.0]]), SQUARED).factor
        0.75
        """
        variance, risk = float(predictions.var(axis=0).mean()), float(risks.mean())
        gains = loss == SQUARED and risk > 0
        factor = max(1 - variance / risk, _MIN_FACTOR) if gains else 1.0
        mean = risks.mean(axis=0) if new is None else new
        return cls(factor, np.quantile(risks, _QUANTILES), np.quantile(mean, _QUANTILES))

    @classmethod
    def of_one(cls) -> Self:
        """Return the identity, for a model without folds."""
        return cls(1.0, np.empty(0), np.empty(0))

    @property
    def narrowing(self) -> float:
        """How much more the logarithms of the risks vary by single folds than by the model of new rows; at least 1."""
        if len(self.single) == 0 or min(self.single[0], self.mean[0]) <= 0:
            return 1.0
        spreads = [float(np.std(np.log(quantiles))) for quantiles in (self.single, self.mean)]
        return float(np.clip(spreads[0] / spreads[1], 1.0, _MAX_NARROWING)) if spreads[1] > 0 else 1.0

    def risk(self, risks: Floats) -> Floats:
        """Return the expected loss (row,) of new rows, given the risks of all models (model, row)."""
        return np.asarray(self.factor * risks.mean(axis=0))

    def out_of_fold(self, risk: Floats) -> Floats:
        """Return the expected loss (row,) of training rows, given the risk of one fold, on the scale of `risk`.

        The quantiles of single folds are mapped to those of the model of new rows. Beyond the outermost quantiles the
        risk is multiplied by the ratio there. The order of the rows does not change.
        """
        if len(self.single) == 0 or self.single[0] <= 0 or np.ptp(self.single) == 0:
            return np.asarray(self.factor * risk)
        ratio = np.interp(risk, self.single, self.mean / self.single)
        inside = np.interp(risk, self.single, self.mean)
        beyond = (risk < self.single[0]) | (risk > self.single[-1])
        return np.asarray(self.factor * np.where(beyond, ratio * risk, inside))
