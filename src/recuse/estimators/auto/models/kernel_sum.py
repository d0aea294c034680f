"""Weighted sums of rational kernels at some centres, and nearly the same functions with fewer centres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

Floats = NDArray[np.float64]

_BLOCK = 2000  # rows of the kernel matrix that are in memory at a time
_RANK = 1e-10  # part of a kernel that is not a combination of other kernels, below which it is rounding
_WORTH_IT = 0.8  # share of the centres above which all are kept


def rational(rows: Floats, others: Floats, share: float = 1.0) -> Floats:
    """Return share / (1 + d^2 / 2) for each pair (row, other row), of rows in units of the lengths.

    Examples
    --------
    >>> rational(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(3)
    array([[1.   , 0.333]])
    """
    values: Floats = rows @ others.T  # half the squared distance is |r|^2 / 2 - r o + |o|^2 / 2
    np.subtract(0.5 * np.square(rows).sum(axis=1)[:, None] + 1, values, out=values)
    values += 0.5 * np.square(others).sum(axis=1)
    np.maximum(values, 1.0, out=values)  # the distance of a row to itself has a rounding error
    np.divide(share, values, out=values)
    return values


def row_blocks(rows: int) -> list[slice]:
    """Divide rows into blocks, which bounds the memory of kernels of them."""
    return [slice(start, start + _BLOCK) for start in range(0, rows, _BLOCK)]


@dataclass(frozen=True)
class KernelSum:
    """The sum of kernels with the same lengths at some centres, times their coefficients.

    Attributes
    ----------
    lengths : ndarray of shape (feature,)
    centres : ndarray of shape (centre, feature)
    coefficients : ndarray of shape (centre,)

    Examples
    --------
    >>> one = KernelSum(np.ones(1), np.zeros((1, 1)), np.array([3.0]))
    >>> one(np.array([[0.0], [2.0]]))
    array([3., 1.])
    """

    lengths: Floats
    centres: Floats
    coefficients: Floats

    def __call__(self, rows: Floats) -> Floats:
        """Return the sum (row,)."""
        centres = self.centres / self.lengths
        parts = [rational(rows[block] / self.lengths, centres) @ self.coefficients for block in row_blocks(len(rows))]
        return np.concatenate(parts) if parts else np.empty(0)

    def with_fewer_centres(self, tolerance: float) -> KernelSum:
        """Return nearly the same function with fewer centres.

        Kernels that are long compared with the distances of the centres are nearly combinations of a few of them. The
        centre whose kernel is farthest from a combination of those chosen before is chosen next, by the steps of a
        pivoted Cholesky decomposition. The new function equals the old one at the chosen centres, and is the nearest
        one in the norm of the kernel.

        Parameters
        ----------
        tolerance : float
            Root mean square of the difference at all centres.
        """
        scaled = self.centres / self.lengths
        count = len(scaled)
        most = int(_WORTH_IT * count)
        factor = np.empty((most, count))  # its product with its transpose is the kernel of the centres, nearly
        left_over, difference, chosen = np.ones(count), self(self.centres), np.empty(most, dtype=np.intp)
        for step in range(most):
            at = int(np.argmax(left_over))
            if left_over[at] < _RANK:
                break
            column = rational(scaled[at : at + 1], scaled)[0] - factor[:step, at] @ factor[:step]
            factor[step], chosen[step] = column / left_over[at] ** 0.5, at
            left_over = left_over - factor[step] ** 2
            left_over[chosen[: step + 1]] = 0.0
            difference = difference - (factor[step] @ self.coefficients) * factor[step]
            if np.square(difference).mean() <= tolerance**2:
                kept, own = chosen[: step + 1], factor[: step + 1]
                coefficients = solve_triangular(own[:, kept], own @ self.coefficients)
                return KernelSum(self.lengths, self.centres[kept], coefficients)
        return self


def summed(parts: Sequence[KernelSum], rows: Floats) -> Floats:
    """Return the sum (row,) of several functions.

    Examples
    --------
    >>> one = KernelSum(np.ones(1), np.zeros((1, 1)), np.array([3.0]))
    >>> summed([one, one], np.array([[0.0], [2.0]]))
    array([6., 2.])
    """
    return np.asarray(sum((part(rows) for part in parts), np.zeros(len(rows))))
