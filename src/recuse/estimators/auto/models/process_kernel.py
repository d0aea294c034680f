"""The kernel of Gaussian processes: sums of kernels at centres, the projection on centres, and learned scales.

The kernel is the sum over one or more parts of s / (1 + d^2 / 2), where d is the distance in units of a length for each
feature. Each part has its own lengths and its share s. One part is the rational quadratic kernel with the exponent 1, a
mixture of Gaussian kernels of many widths. It needs neither a root nor an exponential, so a decision takes a third of
the time that a Matern kernel takes. Further parts let a function have a trend and details, in different features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

__all__ = ["JITTER", "Kernel", "Projection", "Scales", "improved_scales", "learned_scales"]

Floats = NDArray[np.float64]

_LENGTHS = (1e-1, 1e3)  # in standard deviations of a feature
_VARIANCE, _NOISE = (1e-2, 1e3), (1e-4, 2.0)  # for a target of unit variance
_NEXT_LENGTHS, _NEXT_VARIANCE = 0.2, 0.3  # of a part, relative to those of the part before, at the start
_FIRST_ROWS = 600  # that the scales of a larger sample are learned from first, since this takes much less time
_STEPS, _FIRST_STEPS, _LAST_STEPS = 20, 12, 5  # of the maximisation for each part: of a small sample, and of a larger
_GAIN = 1e-4  # of the likelihood, below which further steps are not worth it
JITTER = 1e-10  # added to the diagonal, for the factorisation
_BLOCK = 2000  # rows of the kernel matrix that are in memory at a time


@dataclass(frozen=True)
class Kernel:
    """A kernel of one or more parts.

    Attributes
    ----------
    lengths : ndarray of shape (part, feature)
    shares : ndarray of shape (part,)
        They sum to 1, so that the kernel of a row and itself is 1.

    Examples
    --------
    >>> kernel = Kernel(np.array([[1.0], [0.1]]), np.array([0.5, 0.5]))
    >>> kernel(np.array([[0.0]]), np.array([[0.0], [1.0]])).round(3)
    array([[1.   , 0.343]])
    """

    lengths: Floats
    shares: Floats

    def __call__(self, rows: Floats, others: Floats) -> Floats:
        """Return the kernel (row, other row)."""
        parts = zip(self.lengths, self.shares, strict=True)
        values = [_rational(rows / lengths, others / lengths, share) for lengths, share in parts]
        return sum(values[1:], values[0])

    def sum(self, rows: Floats, centres: Floats, coefficients: Floats) -> Floats:
        """Return the sum (row,) of the kernels at the centres, times their coefficients."""
        parts = [self(rows[block], centres) @ coefficients for block in _blocks(len(rows))]
        return np.concatenate(parts) if parts else np.empty(0)


def _rational(rows: Floats, others: Floats, share: float = 1.0, out: Floats | None = None) -> Floats:
    """Return one part of the kernel (row, other row), of rows in units of its lengths."""
    values: Floats = np.matmul(rows, others.T, out=out)  # half the squared distance is |r|^2 / 2 - r o + |o|^2 / 2
    np.subtract(0.5 * np.square(rows).sum(axis=1)[:, None] + 1, values, out=values)
    values += 0.5 * np.square(others).sum(axis=1)
    np.maximum(values, 1.0, out=values)  # of a row and itself there is a rounding error
    np.divide(share, values, out=values)
    return values


def _blocks(rows: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, rows, _BLOCK)]


class Projection:
    """The projected process (Rasmussen and Williams, 2006, section 8.3.4) of rows on some centres.

    The mean of the process is a sum of kernels at the centres. Its coefficients a solve (C + K' P K) a = K' P y, where
    C is the kernel of the centres, K that of the rows and the centres, and P has the precisions of the rows on its
    diagonal. The matrix is factorised once, for any number of targets y.

    Parameters
    ----------
    kernel : Kernel
    rows : ndarray of shape (row, feature)
    precision : ndarray of shape (row,)
        Relative to the variance of the process.
    centres : ndarray of shape (centre, feature)
    """

    def __init__(self, kernel: Kernel, rows: Floats, precision: Floats, centres: Floats) -> None:
        self._kernel, self._rows, self._precision, self._centres = kernel, rows, precision, centres
        matrix = kernel(centres, centres)
        for block in _blocks(len(rows)):
            values = kernel(rows[block], centres)
            matrix += (values * precision[block, None]).T @ values
        matrix[np.diag_indices_from(matrix)] += JITTER * np.trace(matrix)
        self._factor = cho_factor(matrix)

    def coefficients(self, y: Floats) -> Floats:
        """Return the coefficients (centre,) of a target (row,)."""
        right = np.zeros(len(self._centres))
        for block in _blocks(len(self._rows)):
            right += self._kernel(self._rows[block], self._centres).T @ (self._precision[block] * y[block])
        return np.asarray(cho_solve(self._factor, right))


class Scales(NamedTuple):
    """The scales of a process: lengths (part, feature), variances (part,) and the variance of the noise."""

    lengths: Floats
    variances: Floats
    noise: float

    @property
    def kernel(self) -> Kernel:
        """The kernel with these scales."""
        return Kernel(self.lengths, self.variances / self.variances.sum())

    @property
    def ratio(self) -> float:
        """The noise relative to the variance of the process."""
        return float(self.noise / self.variances.sum())


def learned_scales(X: Floats, y: Floats, weight: Floats, parts: int = 1, shrinkage: float = 0.0) -> Scales:
    """Maximise the likelihood of the rows, from equal lengths of the features.

    Of more than 600 rows, the scales are first learned from 600, and some further steps take all rows into account. The
    parameters are those of `improved_scales`.
    """
    first = _first_scales(X.shape[1], parts)
    if len(y) <= _FIRST_ROWS:
        return improved_scales(first, X, y, weight, _STEPS, shrinkage, gain=0.0)
    few = slice(_FIRST_ROWS)
    learned = improved_scales(first, X[few], y[few], weight[few], _FIRST_STEPS, shrinkage, gain=0.0)
    return improved_scales(learned, X, y, weight, _LAST_STEPS, shrinkage)


def improved_scales(
    start: Scales,
    X: Floats,
    y: Floats,
    weight: Floats,
    steps: int,
    shrinkage: float = 0.0,
    *,
    gain: float = _GAIN,
) -> Scales:
    """Maximise the likelihood of the rows, from given scales.

    Parameters
    ----------
    start : Scales
    X : ndarray of shape (row, feature)
    y, weight : ndarray of shape (row,)
    steps : int
        Maximum number of steps for each part; the last digits of a length do not matter.
    shrinkage : float
        Precision of a normal prior of the logarithms of the lengths of each part, around their mean. Lengths of many
        features would fit the noise without it.
    gain : float
        Relative gain of the likelihood below which no further step is made.
    """
    parts, features = start.lengths.shape
    bounds = np.log([*[_LENGTHS] * (parts * features), *[_VARIANCE] * parts, _NOISE])
    options = {"maxiter": steps * parts} | ({"ftol": gain} if gain else {})
    at = np.log([*start.lengths.ravel(), *start.variances, start.noise])
    likelihood = _Likelihood(X, y, weight, parts)

    def posterior(logarithms: Floats) -> tuple[float, Floats]:
        value, gradient = likelihood(logarithms)
        lengths = logarithms[: parts * features].reshape(parts, features)
        gaps = (lengths - lengths.mean(axis=1, keepdims=True)).ravel()
        gradient[: parts * features] += shrinkage * gaps
        return value + 0.5 * shrinkage * float(gaps @ gaps), gradient

    found = minimize(posterior, at, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return _scales(found.x, features)


def _first_scales(features: int, parts: int) -> Scales:
    place = np.arange(parts, dtype=np.float64)
    lengths = np.outer(_NEXT_LENGTHS**place, np.full(features, features**0.5))
    return Scales(lengths.clip(*_LENGTHS), np.power(_NEXT_VARIANCE, place), 0.1)


def _scales(logarithms: Floats, features: int) -> Scales:
    """Divide the logarithms of lengths, variances and noise."""
    values, parts = np.exp(logarithms), len(logarithms) // (features + 1)
    return Scales(values[: parts * features].reshape(parts, features), values[parts * features : -1], float(values[-1]))


class _Likelihood:
    """The negative log-likelihood of rows, by the logarithms of lengths, variances and noise.

    Its matrices are kept for the next call, since new memory would take as long as what is computed in it.
    """

    def __init__(self, X: Floats, y: Floats, weight: Floats, parts: int) -> None:
        self._X, self._y, self._weight = X, y, weight
        self._parts = np.empty((parts, len(y), len(y)))
        self._covariance, self._pairs = np.empty((2, len(y), len(y)))
        self._diagonal = np.diag_indices(len(y))

    def __call__(self, logarithms: Floats) -> tuple[float, Floats]:
        """Return the value and its gradient.

        The gradient by the length of a feature x is the sum over pairs of rows of m (x - x')^2, with a matrix m of the
        pairs. It is computed as 2 (x^2 m 1 - x m x), so no array of all pairs and features is needed.
        """
        lengths, variances, noise = _scales(logarithms, self._X.shape[1])
        rows, parts, covariance, pairs = self._X / lengths[:, None], self._parts, self._covariance, self._pairs
        covariance[:] = 0.0
        for own, part, variance in zip(rows, parts, variances, strict=True):
            covariance += np.multiply(variance, _rational(own, own, out=part), out=pairs)
        covariance[self._diagonal] += noise / self._weight + JITTER
        try:
            factor, _ = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return np.inf, np.zeros_like(logarithms)
        value = float(np.log(factor[self._diagonal]).sum())
        slope = np.triu(dpotri(factor, lower=1, overwrite_c=1)[0].T)  # by the covariance, first of all its inverse
        slope += slope.T
        slope[self._diagonal] /= 2
        solved = slope @ self._y
        value += 0.5 * float(self._y @ solved)
        slope -= np.outer(solved, solved, out=pairs)
        slope *= 0.5
        by_lengths, by_variances = [], []
        for own, part, variance in zip(rows, parts, variances, strict=True):
            np.multiply(slope, part, out=pairs)
            by_variances.append(variance * pairs.sum())
            pairs *= part
            sums = np.square(own).T @ pairs.sum(axis=1) - np.einsum("ij,ij->j", own, pairs @ own)
            by_lengths += [*2 * variance * sums]
        by_noise = noise * np.sum(slope[self._diagonal] / self._weight)
        return value, np.array([*by_lengths, *by_variances, by_noise])
