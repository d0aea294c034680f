"""Ranks of methods, tests of their differences, and intervals by resampling of splits."""

from __future__ import annotations

from math import nan, sqrt

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from recuse.audit.significance import adjusted

Floats = NDArray[np.float64]

_LEVEL = 0.05
_DRAWS = 1000
# Rows of the test part for each row that a method learns from, in the splits of the paper.
_TEST_SHARE = 0.25


def mean_ranks(losses: Floats) -> Floats:
    """Rank the methods within each block, 1 for the lowest loss, and average over the blocks.

    Parameters
    ----------
    losses : ndarray of shape (..., n_blocks, n_methods)

    Returns
    -------
    ndarray of shape (..., n_methods)
        Methods of equal loss share the mean of their ranks.

    Examples
    --------
    >>> mean_ranks(np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 9.0]]))
    array([1.25, 1.75, 3.  ])
    """
    ranks: Floats = stats.rankdata(losses, axis=-1)
    return np.asarray(ranks.mean(axis=-2))


def critical_difference(methods: int, blocks: int, level: float = _LEVEL) -> float:
    """Give the critical difference of mean ranks of two methods by Nemenyi's test.

    Examples
    --------
    >>> round(critical_difference(methods=5, blocks=30), 3)
    1.114
    """
    if methods < 2:
        return nan
    studentised = stats.studentized_range.ppf(1 - level, methods, np.inf)
    return float(studentised / sqrt(2) * sqrt(methods * (methods + 1) / (6 * blocks)))


def friedman(losses: Floats) -> dict[str, float]:
    """Test whether the methods differ; NaN with fewer than three methods or two blocks.

    Parameters
    ----------
    losses : ndarray of shape (n_blocks, n_methods)
        The test takes the blocks to be independent.

    Returns
    -------
    dict
        ``blocks``, ``statistic``, ``p_value``, and Nemenyi's ``critical_difference`` of two methods.

    Examples
    --------
    >>> test = friedman(np.array([[1.0, 2.0, 3.0], [1.5, 2.5, 9.0], [1.0, 4.0, 6.0], [0.1, 0.2, 0.3]]))
    >>> test["statistic"], round(test["p_value"], 3)
    (8.0, 0.018)
    """
    blocks, methods = losses.shape
    tested = methods >= 3 and blocks >= 2
    statistic, p_value = map(float, stats.friedmanchisquare(*losses.T)) if tested else (nan, nan)
    difference = critical_difference(methods, blocks)
    return {"blocks": blocks, "statistic": statistic, "p_value": p_value, "critical_difference": difference}


def paired_tests(losses: pd.DataFrame, best: str) -> pd.DataFrame:
    """Test on each data set whether the loss of a method differs from that of the best one.

    Student's test of the logarithms of their ratios on the same splits, averaged over the costs. The splits of a data
    set share rows; the variance is corrected for that as by Nadeau and Bengio (2003).

    Parameters
    ----------
    losses : DataFrame
        One column per method; the index is (dataset, cost, repeat).
    best : str
        The method that all others are compared with.

    Returns
    -------
    DataFrame
        Columns dataset, method, ratio (geometric mean of the loss over that of the best), p, and p_holm, which is
        corrected for all tests by the method of Holm.
    """
    rows = []
    logarithms = losses.clip(lower=1e-300).apply(np.log).groupby(level=["dataset", "repeat"], sort=False).mean()
    for name, part in logarithms.groupby(level="dataset", sort=False):
        for method in part.columns.drop(best):
            gap = part[method] - part[best]
            rows.append((name, method, float(np.exp(gap.mean())), _corrected_p(gap.to_numpy())))
    table = pd.DataFrame(rows, columns=["dataset", "method", "ratio", "p"])
    return table.assign(p_holm=adjusted(table["p"].to_numpy(dtype=np.float64)))


def _corrected_p(gap: Floats) -> float:
    n = len(gap)
    if n < 2 or not gap.any():
        return nan
    deviation = sqrt((1 / n + _TEST_SHARE) * gap.var(ddof=1))
    return float(2 * stats.t.sf(abs(gap.mean()) / deviation, n - 1)) if deviation > 0 else 0.0


def resampled(losses: pd.DataFrame, draws: int = _DRAWS, seed: int = 0) -> Floats:
    """Resample the splits of each data set with replacement, and average the losses over them.

    Methods and costs of a data set share its splits, so they are drawn together.

    Parameters
    ----------
    losses : DataFrame
        One column per method; the index is (dataset, cost, repeat), every cost of a data set with the same repeats.
    draws : int
    seed : int

    Returns
    -------
    ndarray of shape (draws, n_cells, n_methods)
        The cells (dataset, cost) in the order of the index.
    """
    random = np.random.default_rng(seed)
    parts = []
    for _, part in losses.groupby(level="dataset", sort=False):
        costs = part.index.get_level_values("cost").nunique()
        values = part.to_numpy().reshape(costs, -1, losses.shape[1])  # (cost, repeat, method)
        repeats = values.shape[1]
        chosen = random.integers(repeats, size=(draws, repeats))
        parts.append(values[:, chosen].mean(axis=2).swapaxes(0, 1))  # (draw, cost, method)
    return np.concatenate(parts, axis=1)


def interval(values: Floats, share: float = 0.95) -> tuple[Floats, Floats]:
    """Give the ends of the interval that contains this share of the draws; `values` has shape (draws, n_methods)."""
    low, high = np.quantile(values, [(1 - share) / 2, (1 + share) / 2], axis=0)
    return low, high
