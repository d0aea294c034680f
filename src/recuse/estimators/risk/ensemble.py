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

from recuse.estimators.risk.calibration import learn_calibration
from recuse.losses import SQUARED, TargetLoss
from recuse.rules.risk import PowerCalibration

__all__ = ["FoldMean"]

Floats = NDArray[np.float64]

_MIN_FACTOR = 0.5
# More rows also lower the bias of a model, which the variance among folds does not show. Learning curves of blends,
# mostly of Gaussian processes, from 64% to 80% of the rows, have this power of the ratio of the mean on average.
_REFITTED = 2.5
_MAX_SHARE = 4.0  # times the median share of the variance in the risk; rows beyond are implausible combinations
_QUANTILES = np.linspace(0.01, 0.99, 50)


@dataclass(frozen=True)
class FoldMean:
    """The risk of the model of new rows, relative to the risks of the folds.

    Attributes
    ----------
    factor : float
        Ratio of the risk of the model of new rows to that of one fold. With the squared error, the loss of the mean
        over the folds is lower by the variance of the folds around it (Krogh and Vedelsby, 1995). With other losses the
        factor is 1.
    single, mean : ndarray of shape (quantile,)
        Quantiles of the risk of single folds and of the model of new rows, on the same rows.
    variance : PowerCalibration, optional
        Function from the risk of a row to the variance of the folds, which is often a larger part of low risks. None
        if it is the same part of all risks.
    exponent : float
        Power of the ratio of the mean over the folds: 1, or `_REFITTED` for a model that is fitted to all rows.
    """

    factor: float
    single: Floats
    mean: Floats
    variance: PowerCalibration | None = None
    exponent: float = 1.0

    @classmethod
    def learn(
        cls,
        predictions: Floats,
        risks: Floats,
        loss: TargetLoss,
        new: Floats | None = None,
        *,
        refitted: bool = False,
    ) -> Self:
        """Compare the model of new rows with the folds on rows that no fold was fitted to.

        Parameters
        ----------
        predictions, risks : ndarray of shape (fold, row)
        loss : TargetLoss
        new : ndarray of shape (row,), optional
            Risks by the model of new rows; by default the mean over the folds.
        refitted : bool
            Whether the model of new rows is fitted to all rows, instead of being the mean over the folds.

        Examples
        --------
        >>> FoldMean.learn(np.array([[1.0], [3.0]]), np.array([[4.0], [4.0]]), SQUARED).factor
        0.75
        """
        risk = risks.mean(axis=0)
        quantiles = np.quantile(risks, _QUANTILES), np.quantile(risk if new is None else new, _QUANTILES)
        if loss != SQUARED or not (risk > 0).any():
            return cls(1.0, *quantiles)
        variance = predictions.var(axis=0)
        usual = float(np.median(variance[risk > 0] / risk[risk > 0]))
        variance = np.minimum(variance, _MAX_SHARE * usual * risk)
        exponent = _REFITTED if refitted else 1.0
        factor = max(1 - float(variance.mean()) / float(risk.mean()), _MIN_FACTOR) ** exponent
        by_risk = learn_calibration(risk, variance, np.ones(len(risk)))
        return cls(factor, *quantiles, None if by_risk.is_identity else by_risk, exponent)

    @classmethod
    def of_one(cls) -> Self:
        """Return the identity, for a model without folds."""
        return cls(1.0, np.empty(0), np.empty(0))

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

    def factors(self, expected: Floats) -> Floats:
        """Return the ratio (row,) of the loss of the model of new rows to that of one fold, for each row.

        Parameters
        ----------
        expected : ndarray of shape (row,)
            Expected losses as `RiskRule` and `out_of_fold` return them.
        """
        if self.variance is None:
            return np.full(len(expected), self.factor)
        risk = np.maximum(expected / self.factor, self.variance.floor)
        share = self.variance(risk) / risk
        return np.asarray(np.clip(1 - share, _MIN_FACTOR, 1.0) ** self.exponent)
