"""Confidence intervals of rates and of means, and exact tests of one group against the other rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rate_interval(count: float, total: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson (1934) for a rate, which covers it at least that often.

    Parameters
    ----------
    count : float
        Rows with the property; need not be whole, as for an effective number of weighted rows.
    total : float
        All rows.
    confidence : float, default=0.95

    Returns
    -------
    low, high : float
        0 and 1 without rows.

    Examples
    --------
    >>> low, high = rate_interval(3, 30)
    >>> round(low, 3), round(high, 3)
    (0.021, 0.265)
    """
    from scipy.special import betaincinv

    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else float(betaincinv(count, total - count + 1, tail))
    high = 1.0 if count == total else float(betaincinv(count + 1, total - count, 1 - tail))
    return low, high


def mean_interval(values: Floats, confidence: float = 0.95) -> tuple[float, float]:
    """Return an interval for the mean, corrected for skewness by the cubic transformation of Hall (1992).

    The interval of Student's t is too short above the mean of skewed values, such as losses. This one covers the mean
    about as often as a bootstrap-t interval, and needs no random numbers. With few values of a heavy tail it still
    covers the mean less often than `confidence` says.

    Parameters
    ----------
    values : ndarray of shape (n,)
    confidence : float, default=0.95

    Returns
    -------
    low, high : float
        NaN for fewer than two values.

    Examples
    --------
    >>> low, high = mean_interval(np.array([0.1, 0.2, 0.2, 0.4, 3.1]))
    >>> bool(high - 0.8 > 0.8 - low)
    True
    """
    count = len(values)
    if count < 2:
        return math.nan, math.nan
    mean, spread = float(values.mean()), float(values.std())
    if spread <= 1e-12 * abs(mean):
        return mean, mean
    from scipy.special import stdtrit

    error = spread / math.sqrt(count - 1)
    skew = float((((values - mean) / spread) ** 3).mean()) / math.sqrt(count)
    quantile = float(stdtrit(count - 1, (1 + confidence) / 2))
    return mean - error * _untransformed(quantile, skew), mean - error * _untransformed(-quantile, skew)


def _untransformed(quantile: float, skew: float) -> float:
    """Solve ``t + skew t^2 / 3 + skew^2 t^3 / 27 + skew / 6 = quantile`` for t."""
    if abs(skew) < 1e-6:
        return quantile
    return float(3 * (np.cbrt(1 + skew * (quantile - skew / 6)) - 1) / skew)


Flags = NDArray[np.bool_]

# A test stops after this number of draws above the observed value.
_EXCEEDANCES = 20
# Number of draws at once, and the largest product of rows and draws.
_BLOCK, _MOST_CELLS = 200, 1_000_000_000


def adjusted(p: Floats) -> Floats:
    """Correct p-values by the method of Holm (1979); NaN is no test.

    The probability of a value of at most a among the true hypotheses is at most a, for any dependence of the tests.

    Examples
    --------
    >>> adjusted(np.array([0.01, 0.5, 0.02, np.nan]))
    array([0.03, 0.5 , 0.04,  nan])
    """
    result = np.full(p.shape, np.nan)
    tests = np.flatnonzero(~np.isnan(p))
    order = tests[np.argsort(p[tests], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    result[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1.0)
    return result


def draws_needed(draws: int, tests: int, level: float, rows: int = 1) -> int:
    """Return the number of permutations: fewer for very many rows, but twice as many as adjusted p-values need.

    Examples
    --------
    >>> draws_needed(9999, tests=16, level=0.05), draws_needed(9999, tests=1000, level=0.05)
    (9999, 40000)
    >>> draws_needed(9999, tests=16, level=0.05, rows=1_000_000)
    1000
    """
    return max(min(draws, _MOST_CELLS // rows), math.ceil(2 * tests / level))


def higher_rate(flags: Flags, member: Flags) -> float:
    """Return the one-sided p-value of Fisher's exact test that the members have the higher rate of flags.

    Examples
    --------
    >>> flags = np.array([True, True, True, False, False, False])
    >>> round(higher_rate(flags, flags), 3)  # one of 20 choices of three rows
    0.05
    """
    from scipy.stats import hypergeom

    inside = int((flags & member).sum())
    return float(hypergeom.sf(inside - 1, len(flags), int(flags.sum()), int(member.sum())))


def higher_mean(values: Floats, member: Flags, draws: int, generator: np.random.Generator) -> float:
    """Return the one-sided p-value of a permutation test that the members have the higher mean.

    The statistic is that of Welch. So the test is exact if members and others have the same distribution, however
    skewed it is, and approximate if only their means are equal (Chung and Romano, 2013). It is NaN without members or
    without others.
    """
    count, total = int(member.sum()), len(values)
    if count in (0, total):
        return math.nan
    spread = float(values.std())
    if spread == 0:
        return 1.0
    centred = (values - values.mean()) / spread
    # the smaller side is drawn
    side = member if 2 * count <= total else ~member
    sign = 1.0 if 2 * count <= total else -1.0
    size, squares = int(side.sum()), centred**2

    def statistic(sums: Floats, sums_of_squares: Floats) -> Floats:
        return sign * _welch(sums, sums_of_squares, size, total)

    observed = float(statistic(np.array([centred[side].sum()]), np.array([squares[side].sum()]))[0])
    least = observed - 1e-9 * max(abs(observed), 1.0)  # equal statistics may differ by rounding

    def exceeds(block: int) -> Flags:
        sums, sums_of_squares = np.empty(block), np.empty(block)
        for place in range(block):
            rows = generator.choice(total, size, replace=False, shuffle=False)
            sums[place], sums_of_squares[place] = centred[rows].sum(), squares[rows].sum()
        return statistic(sums, sums_of_squares) >= least

    return sequential(exceeds, draws)


def _welch(sums: Floats, squares: Floats, size: int, total: int) -> Floats:
    """Return the statistic of Welch of `size` rows, of sum and sum of squares given, against the others.

    All rows together have the mean 0 and the variance 1.
    """
    others = total - size
    inside, outside = sums / size, -sums / others
    spread_inside = (squares - size * inside**2) / max(size - 1, 1)
    spread_outside = (total - squares - others * outside**2) / max(others - 1, 1)
    variance = np.maximum(spread_inside, 0) / size + np.maximum(spread_outside, 0) / others
    return np.asarray((inside - outside) / np.sqrt(np.maximum(variance, 1e-24)))


def other_shares(reference: NDArray[np.int64], current: NDArray[np.int64], draws: int, seed: int) -> float:
    """Return the p-value of a permutation test that two samples have the same shares of categories.

    The statistic is chi-square. The test is exact, also for rare categories.

    Parameters
    ----------
    reference, current : ndarray of int of shape (n_categories,)
        Rows of each category.
    draws : int
    seed : int

    Examples
    --------
    >>> other_shares(np.array([50, 50]), np.array([50, 50]), draws=999, seed=0) > 0.5
    True
    >>> other_shares(np.array([50, 50]), np.array([90, 10]), draws=999, seed=0)
    0.001
    """
    both = reference + current
    total, size = int(both.sum()), int(current.sum())
    if size in (0, total):
        return math.nan
    expected = both * (size / total)
    generator = np.random.default_rng(seed)

    def statistic(counts: NDArray[np.int64]) -> Floats:
        return np.asarray(((counts - expected) ** 2 / expected).sum(axis=-1))

    least = float(statistic(current)) * (1 - 1e-9)

    def exceeds(block: int) -> Flags:
        return statistic(generator.multivariate_hypergeometric(both, size, size=block, method="marginals")) >= least

    return sequential(exceeds, draws)


def sequential(exceeds: Callable[[int], Flags], draws: int) -> float:
    """Return the p-value of a Monte Carlo test that stops after 20 exceedances (Besag and Clifford, 1991).

    Parameters
    ----------
    exceeds : callable
        Draws as often as its argument says, and returns which draws reach the observed statistic.
    draws : int
        The largest number of draws.

    Examples
    --------
    >>> sequential(lambda block: np.ones(block, np.bool_), draws=999)
    1.0
    >>> sequential(lambda block: np.zeros(block, np.bool_), draws=999)
    0.001
    """
    done = above = 0
    while done < draws:
        block = min(_BLOCK if done else 2 * _EXCEEDANCES, draws - done)
        found = exceeds(block)
        if above + int(found.sum()) >= _EXCEEDANCES:
            last = int(np.flatnonzero(found)[_EXCEEDANCES - above - 1])
            return _EXCEEDANCES / (done + last + 1)
        done, above = done + block, above + int(found.sum())
    return (above + 1) / (draws + 1)
