"""The rational kernel of Gaussian processes: sums of kernels, the projection on centres, and learned scales."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize

__all__ = ["JITTER", "Projection", "Scales", "kernel", "kernel_sum", "learned_scales"]

Floats = NDArray[np.float64]

_LENGTHS = (1e-1, 1e3)  # in standard deviations of a feature
_VARIANCE, _NOISE = (1e-2, 1e3), (1e-4, 2.0)  # for a target of unit variance
_STEPS, _FURTHER_STEPS = 20, 12  # of the maximisation, without and with given scales
_GAIN = 1e-4  # of the likelihood, below which further steps are not worth it
JITTER = 1e-10  # added to the diagonal, for the factorisation
_BLOCK = 2000  # rows of the kernel matrix that are in memory at a time


def kernel(rows: Floats, others: Floats) -> Floats:
    """Return the kernel (row, other row) of rows in units of the lengths."""
    values = rows @ (-others.T)  # half the squared distance is |r|^2 / 2 - r o + |o|^2 / 2
    values += 0.5 * np.square(rows).sum(axis=1)[:, None] + 1
    values += 0.5 * np.square(others).sum(axis=1)
    np.maximum(values, 1.0, out=values)  # of a row and itself there is a rounding error
    return np.reciprocal(values, out=values)


def _blocks(rows: int) -> list[slice]:
    return [slice(start, start + _BLOCK) for start in range(0, rows, _BLOCK)]


def kernel_sum(rows: Floats, centres: Floats, coefficients: Floats) -> Floats:
    """Return the sum (row,) of the kernels at the centres, times their coefficients."""
    parts = [kernel(rows[block], centres) @ coefficients for block in _blocks(len(rows))]
    return np.concatenate(parts) if parts else np.empty(0)


class Projection:
    """The projected process (Rasmussen and Williams, 2006, section 8.3.4) of rows on some centres.

    The mean of the process is a sum of kernels at the centres. Its coefficients a solve (C + K' P K) a = K' P y, where
    C is the kernel of the centres, K that of the rows and the centres, and P has the precisions of the rows on its
    diagonal. The matrix is factorised once, for any number of targets y.

    Parameters
    ----------
    rows : ndarray of shape (row, feature)
        In units of the lengths.
    precision : ndarray of shape (row,)
        Relative to the variance of the process.
    centres : ndarray of shape (centre, feature)
    """

    def __init__(self, rows: Floats, precision: Floats, centres: Floats) -> None:
        self._rows, self._precision, self._centres = rows, precision, centres
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
            right += kernel(self._rows[block], self._centres).T @ (self._precision[block] * y[block])
        return np.asarray(cho_solve(self._factor, right))


class Scales(NamedTuple):
    """The scales of a process: a length for each feature, and the variances of process and noise."""

    lengths: Floats
    variance: float
    noise: float

    @property
    def ratio(self) -> float:
        """The noise relative to the variance of the process."""
        return self.noise / self.variance


def learned_scales(X: Floats, y: Floats, weight: Floats, start: Scales | None = None) -> Scales:
    """Maximise the likelihood of the rows, from given scales or from equal lengths."""
    features = X.shape[1]
    first = Scales(np.full(features, features**0.5), 1.0, 0.1) if start is None else start
    bounds = np.log([*[_LENGTHS] * features, _VARIANCE, _NOISE])
    # a bounded number of steps: the last digits of a length scale do not matter
    options = {"maxiter": _STEPS} if start is None else {"maxiter": _FURTHER_STEPS, "ftol": _GAIN}
    at = np.log([*first.lengths, first.variance, first.noise])
    found = minimize(_likelihood, at, args=(X, y, weight), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    variance, noise = np.exp(found.x[features:])
    return Scales(np.exp(found.x[:features]), float(variance), float(noise))


def _likelihood(logarithms: Floats, X: Floats, y: Floats, weight: Floats) -> tuple[float, Floats]:
    """Return the negative log-likelihood and its gradient by the logarithms of lengths, variance and noise.

    The gradient by the length of a feature x is the sum over pairs of rows of m (x - x')^2, with a matrix m of the
    pairs. It is computed as 2 (x^2 m 1 - x m x), so no array of all pairs and features is needed.
    """
    features, diagonal = X.shape[1], np.diag_indices(len(y))
    variance, noise = np.exp(logarithms[features:])
    rows = X / np.exp(logarithms[:features])
    values = kernel(rows, rows)
    covariance = variance * values
    covariance[diagonal] += noise / weight + JITTER
    try:
        factor, _ = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return np.inf, np.zeros_like(logarithms)
    value = float(np.log(factor[diagonal]).sum())
    inverse = np.tril(dpotri(factor, lower=1)[0])
    inverse += inverse.T
    inverse[diagonal] /= 2
    solved = inverse @ y
    value += 0.5 * float(y @ solved)
    slope = inverse  # by the covariance
    slope -= np.outer(solved, solved)
    slope *= 0.5
    by_kernel = slope * values
    pairs = by_kernel * values
    pairs *= variance
    by_length = 2 * (np.square(rows).T @ pairs.sum(axis=1) - np.einsum("ij,ij->j", rows, pairs @ rows))
    return value, np.array([*by_length, variance * by_kernel.sum(), noise * np.sum(slope[diagonal] / weight)])
