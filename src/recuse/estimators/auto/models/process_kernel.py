"""The kernel of Gaussian processes, the projection on centres, and learned scales.

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
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from recuse.estimators.auto.models.kernel_sum import KernelSum, rational, row_blocks

Floats = NDArray[np.float64]

_LENGTHS = (1e-1, 1e3)  # in standard deviations of a feature
_VARIANCE, _NOISE = (1e-2, 1e3), (1e-4, 2.0)  # for a target of unit variance
_NEXT_LENGTHS, _NEXT_VARIANCE = 0.2, 0.3  # start values of a part, relative to those of the part before
_FIRST_ROWS = 600  # that the scales of a larger sample are learned from first, since this takes much less time
_FIRST_STEPS, _LAST_STEPS = 12, 5  # steps for each part, and on a larger sample
_GAIN = 1e-4  # a smaller gain of the likelihood ends the steps
JITTER = 1e-10  # added to the diagonal, for the factorisation
_PAIRS = 96  # rows of the matrices of a likelihood that are in the cache at a time


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
        values = [rational(rows / lengths, others / lengths, share) for lengths, share in parts]
        return sum(values[1:], values[0])

    def sums(self, centres: Floats, coefficients: Floats) -> tuple[KernelSum, ...]:
        """Return the sum of the kernels at the centres, times their coefficients, for each part."""
        parts = zip(self.lengths, self.shares, strict=True)
        return tuple(KernelSum(lengths, centres, share * coefficients) for lengths, share in parts)


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
        for block in row_blocks(len(rows)):
            values = kernel(rows[block], centres)
            matrix += (values * precision[block, None]).T @ values
        matrix[np.diag_indices_from(matrix)] += JITTER * np.trace(matrix)
        self._factor = cho_factor(matrix)

    def coefficients(self, y: Floats) -> Floats:
        """Return the coefficients (centre,) of a target (row,)."""
        right = np.zeros(len(self._centres))
        for block in row_blocks(len(self._rows)):
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


def learned_scales(
    X: Floats, y: Floats, weight: Floats, parts: int = 1, shrinkage: float = 0.0, steps: int = 20
) -> Scales:
    """Maximise the likelihood of the rows, from equal lengths of the features.

    Of more than 600 rows, the scales are first learned from 600, and some further steps take all rows into account. The
    parameters are those of `improved_scales`; `steps` is used for up to 600 rows.
    """
    first = _first_scales(X.shape[1], parts)
    if len(y) <= _FIRST_ROWS:
        return improved_scales(first, X, y, weight, steps, shrinkage, gain=0.0)
    few = slice(_FIRST_ROWS)
    learned = improved_scales(first, X[few], y[few], weight[few], _FIRST_STEPS, shrinkage, gain=0.0)
    return adjusted_scales(learned, X, y, weight, shrinkage)


def adjusted_scales(start: Scales, X: Floats, y: Floats, weight: Floats, shrinkage: float = 0.0) -> Scales:
    """Adjust scales that were learned from other rows of a table, with few steps of `improved_scales`."""
    return improved_scales(start, X, y, weight, _LAST_STEPS, shrinkage)


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

    All matrices of pairs of rows are symmetric, so only their lower triangles are computed, in blocks of rows that stay
    in the cache. The matrices are kept for the next call: new memory would take as long as what is computed in it.
    """

    def __init__(self, X: Floats, y: Floats, weight: Floats, parts: int) -> None:
        rows = len(y)
        self._X, self._y, self._weight = X, y, weight
        self._parts, self._covariance = np.empty((parts, rows, rows)), np.zeros((rows, rows))
        self._blocks = [slice(start, min(start + _PAIRS, rows)) for start in range(0, rows, _PAIRS)]
        # with the half of the diagonal, the sum over all pairs is twice that over the lower triangle
        self._lower = np.tril(np.ones((_PAIRS, _PAIRS)), -1) + 0.5 * np.eye(_PAIRS)

    def __call__(self, logarithms: Floats) -> tuple[float, Floats]:
        """Return the value and its gradient."""
        scales = _scales(logarithms, self._X.shape[1])
        rows = self._X / scales.lengths[:, None]
        diagonal = scales.noise / self._weight
        # a matrix in the order of C is the transposed one for LAPACK, whose upper triangle is computed
        factor, failed = dpotrf(self._fill(rows, scales.variances, diagonal).T, lower=0, clean=0, overwrite_a=1)
        if failed:
            return np.inf, np.zeros_like(logarithms)
        value = float(np.log(np.diag(factor)).sum())
        inverse, _ = dpotri(factor, lower=0, overwrite_c=1)
        solved = dsymv(1.0, inverse, self._y, lower=0)
        value += 0.5 * float(self._y @ solved)
        by_noise = 0.5 * float((np.diag(inverse) - solved**2) @ diagonal)
        by_lengths, by_variances = self._slopes(inverse.T, solved, rows, scales.variances)
        return value, np.array([*by_lengths.ravel(), *by_variances, by_noise])

    def _fill(self, rows: Floats, variances: Floats, diagonal: Floats) -> Floats:
        """Compute the lower triangles of all parts and of the covariance, and return the latter.

        Half the squared distance is |r|^2 / 2 - r o + |o|^2 / 2, which is one product of extended rows.
        """
        halves = 0.5 * np.square(rows).sum(axis=2, keepdims=True)
        ones = np.ones_like(halves)
        left, right = np.concatenate([-rows, halves + 1, ones], 2), np.concatenate([rows, ones, halves], 2)
        for block in self._blocks:
            covariance = self._covariance[block, : block.stop]
            for number, variance in enumerate(variances):
                part = self._parts[number, block, : block.stop]
                values = left[number, block] @ right[number, : block.stop].T
                np.maximum(values, 1.0, out=values)  # the distance of a row to itself has a rounding error
                np.divide(variance, values, out=part)
                if number:
                    covariance += part
                else:
                    covariance[:] = part
        self._covariance[np.diag_indices_from(self._covariance)] += diagonal + JITTER
        return self._covariance

    def _slopes(self, inverse: Floats, solved: Floats, rows: Floats, variances: Floats) -> tuple[Floats, Floats]:
        """Return the gradients by the lengths (part, feature) and by the variances (part,).

        That by the length of a feature x is the sum over pairs of rows of m (x - x')^2, with a matrix m of the pairs,
        which is computed as m 1 x^2 + m' 1 x'^2 - 2 x m x', so no array of all pairs and features is needed.
        """
        by_lengths, by_variances = np.zeros(rows.shape[::2]), np.zeros(len(variances))
        columns = np.zeros((len(variances), len(solved)))  # sums of the columns of m
        for block in self._blocks:
            slope = inverse[block, : block.stop] - np.outer(solved[block], solved[: block.stop])
            size = block.stop - block.start
            slope[:, block] *= self._lower[:size, :size]
            for number, own in enumerate(rows):
                part = self._parts[number, block, : block.stop]
                pairs = slope * part
                by_variances[number] += pairs.sum()
                pairs *= part
                columns[number, : block.stop] += pairs.sum(axis=0)
                products = np.square(own[block]) * pairs.sum(axis=1)[:, None]
                products -= 2 * own[block] * (pairs @ own[: block.stop])
                by_lengths[number] += products.sum(axis=0)
        by_lengths += np.einsum("pr,prf->pf", columns, np.square(rows))
        return by_lengths / variances[:, None], by_variances
