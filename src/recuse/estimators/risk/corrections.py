"""Corrections of the risks that were learned from out-of-fold errors.

- The calibration is a power law, fitted to out-of-fold errors. A risk model that is fitted to noisy errors separates
  rows more than their expected losses differ. The rows with the lowest risks then have a higher loss than expected, and
  these are the rows that are accepted. A power below 1 brings the risks closer together, a power above 1 moves them
  apart.
- New rows are predicted by the mean over the folds or by a model fitted to all rows, but a training row only by the
  fold that was not fitted to it. The model of new rows has a lower loss, and its risks vary less between rows. Both
  effects are estimated on interpolated rows, which no model was fitted to. With the correction, out-of-fold rows and
  new rows have comparable expected losses.
- Cells that carry no information, such as unseen categories, add to the expected loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from recuse.losses import SQUARED, TargetLoss
from recuse.rules.risk import PowerCalibration
from recuse.tabular.encoder import TableEncoder

Floats = NDArray[np.float64]

# Prior strength of the power 1, in pseudo-rows whose risks differ as much as those of the rows.
_PRIOR = 30.0
# Risks below this part of the mean risk are raised to it, so that their logarithms are finite.
_FLOOR = 1e-6
_POWERS = (0.25, 2.0)
_STEPS = 50
_TOLERANCE = 1e-10


def learn_calibration(risk: Floats, error: Floats, weight: Floats) -> PowerCalibration:
    """Fit level and power to errors of rows that the risk models were not fitted to.

    The power has the lowest gamma deviance: rows of low and of high risk count alike, as their relative errors
    have about the same distribution. The deviance is the RcR loss divided by the cost c and averaged over all costs
    with the measure dc / c, up to a constant, so the calibration does not depend on the cost. The level keeps the
    mean loss.

    Parameters
    ----------
    risk, error, weight : ndarray of shape (row,)

    Examples
    --------
    >>> risk = np.repeat([1.0, 4.0, 16.0], 1000)
    >>> calibration = learn_calibration(risk, np.sqrt(risk), np.ones(3000))
    >>> calibration(np.array([1.0, 16.0])).round(1)
    array([1., 4.])
    """
    mean, share = float(np.average(risk, weights=weight)), weight / weight.sum()
    loss = float(share @ error)
    if not (mean > 0 and loss > 0 and np.ptp(risk) > _FLOOR * mean):
        return PowerCalibration()
    floor = _FLOOR * mean
    log_risk = np.log(np.maximum(risk, floor))
    middle = float(share @ log_risk)
    x = log_risk - middle
    positive = risk > floor  # a risk that was clipped at zero has no logarithm, and would decide the power
    known = bool((share * error)[positive].any())
    strength = _PRIOR / len(risk) * float(share @ x**2)
    slope = _fit(x[positive], error[positive] / loss, share[positive], strength) if known else 1.0
    power = float(np.clip(slope, *_POWERS))
    level = loss / float(share @ np.exp(power * x))  # keeps the mean loss
    return PowerCalibration(level, float(np.exp(middle)), power, floor)


def _fit(x: Floats, error: Floats, share: Floats, strength: float) -> float:
    """Return the b of the minimum of sum(share * (error exp(-a - b x) + a + b x)) + strength (b - 1)^2."""

    def value(level: float, power: float) -> float:
        line = level + power * x
        with np.errstate(over="ignore"):  # a step that is too long
            return float(share @ (error * np.exp(-line) + line)) + strength * (power - 1) ** 2

    place = np.array([np.log(float(share @ (error * np.exp(-x)))), 1.0])
    for _ in range(_STEPS):
        relative = share * error * np.exp(-place[0] - place[1] * x)
        gap = share - relative
        gradient = np.array([gap.sum(), gap @ x + 2 * strength * (place[1] - 1)])
        curvature = np.array([[relative.sum(), relative @ x], [relative @ x, relative @ x**2 + 2 * strength]])
        step = np.linalg.solve(curvature, gradient)
        scale, before = 1.0, value(*place)
        while value(*(place - scale * step)) > before and scale > _TOLERANCE:
            scale /= 2
        place = place - scale * step
        if np.abs(step).max() < _TOLERANCE:
            break
    return float(place[1])


_MIN_FACTOR = 0.5
# More rows also lower the bias of a model, which the variance among folds does not show. Learning curves of blends,
# mostly of Gaussian processes, from 64% to 80% of the rows, have this power of the ratio of the mean on average.
_REFITTED = 2.5
# Rows with more than this multiple of the median share of the variance in the risk are implausible combinations.
_MAX_SHARE = 4.0
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


# Number of interpolated rows, of rows whose neighbours are looked up, and of the neighbours of a row.
_INTERPOLATED_ROWS, _POOL, _NEIGHBOURS = 500, 2000, 5


def interpolated_rows(features: Floats, slices: Sequence[slice], random: np.random.RandomState) -> Floats:
    """Combine training rows with near neighbours, column by column, into rows that do not occur in training.

    Predictions of different models differ on these rows as much as on new rows. On training rows they differ less.

    Parameters
    ----------
    features : ndarray of shape (row, feature)
    slices : sequence of slice
        Features of each column, which are taken from the same parent.
    random : RandomState

    Returns
    -------
    ndarray of shape (new row, feature)

    Examples
    --------
    >>> features = np.random.RandomState(0).normal(size=(50, 3))
    >>> interpolated_rows(features, [slice(0, 1), slice(1, 3)], np.random.RandomState(1)).shape
    (50, 3)
    """
    drawn = features[random.choice(len(features), min(len(features), _POOL), replace=False)]
    _, first = np.unique(drawn, axis=0, return_index=True)
    pool = drawn[np.sort(first)]  # without copies: a row and its copy would give a training row again
    parents = pool[random.choice(len(pool), min(len(pool), _INTERPOLATED_ROWS), replace=False)]
    count = min(_NEIGHBOURS + 1, len(pool))
    near = NearestNeighbors(n_neighbors=count).fit(pool).kneighbors(parents, return_distance=False)
    partners = pool[near[np.arange(len(parents)), random.randint(min(1, count - 1), count, size=len(parents))]]
    children = parents.copy()
    for where in slices:
        swapped = random.uniform(size=len(parents)) < 0.5
        children[swapped, where] = partners[swapped, where]
    return children


# About the largest number of rows of one fold with a blanked column, and the largest number of their cells.
_BLANKED_ROWS, _BLANKED_CELLS = 1_000, 20_000_000
# Each column is blanked in at least this number of rows of a fold.
_MIN_ROWS = 3


@dataclass(frozen=True)
class HeldOut:
    """Rows that a model was not fitted to, and the model's predictions.

    Attributes
    ----------
    features : ndarray of shape (row, feature)
    target : ndarray of shape (row,)
    predict : callable
        Function from features to predictions, of a model that was not fitted to the rows.
    """

    features: Floats
    target: Floats
    predict: Callable[[Floats], Floats]


def learn_surcharge(
    encoder: TableEncoder, held_out: Sequence[HeldOut], loss: TargetLoss, random: np.random.RandomState
) -> Floats:
    """Measure the extra loss of blanked columns on held-out rows.

    Training rows have no such cells, so a risk model cannot learn their effect. Instead, each column of held-out rows
    is blanked, then all columns at once, and the increase of the loss is measured. If the sum of the increases is
    below the increase for all columns, they are scaled up to it.
    """
    measured = [_extra_losses(encoder, part, loss, random) for part in held_out if len(part.target)]
    rows = np.array([count for count, _ in measured], dtype=np.float64)
    extra = np.average([losses for _, losses in measured], axis=0, weights=rows)
    columns, together = np.maximum(extra[:-1], 0.0), max(float(extra[-1]), 0.0)
    if columns.sum() < together:
        equal = np.full(len(columns), together / len(columns))
        columns = columns * (together / columns.sum()) if columns.sum() > 0.1 * together else equal
    return np.asarray(columns)


def _extra_losses(
    encoder: TableEncoder, part: HeldOut, loss: TargetLoss, random: np.random.RandomState
) -> tuple[int, Floats]:
    """Return the number of rows used, and the extra loss of each blanked column and, last, of all of them."""
    columns, width = len(encoder.slices), part.features.shape[1]
    missing, places = encoder.missing_row, [*encoder.slices, slice(None)]
    count = min(max(_BLANKED_ROWS // (columns + 2), _MIN_ROWS), _BLANKED_CELLS // ((columns + 2) * width))
    if count == 0:  # a wide table: only measure all columns together
        places, count = places[-1:], max(1, _BLANKED_CELLS // (2 * width))
    some = random.choice(len(part.target), min(count, len(part.target)), replace=False)
    blanked = [part.features[some]]
    for where in places:
        copy = blanked[0].copy()
        copy[:, where] = missing[where]
        blanked.append(copy)
    predictions = part.predict(np.concatenate(blanked)).reshape(len(blanked), -1)
    losses = loss(predictions - part.target[some]).mean(axis=1)
    extra = np.zeros(columns + 1)
    extra[-len(places) :] = losses[1:] - losses[0]
    return len(some), extra
