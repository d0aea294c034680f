"""Optimal decisions, risks and bounds of regression with cost-based rejection.

Notation: D is the conditional squared error E[(h - y)^2 | x] (the variance Var[y|x] if h is the mean), c the
cost, r the score of the rejector, l the binary loss of the surrogate psi = (h - y)^2 l(r, -1) + c l(r, +1).

The theorems assume the squared error. For another loss, or its mean over several targets, the statements about the
rejector remain valid with D = E[loss | x]: pass the expected loss of the best prediction as the variance. See
`recuse.losses`.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from recuse.surrogates import RegretTransfer, SurrogateLike, get
from recuse.surrogates.optimum import Array, conditional_risk, evaluate, optimum


class BayesDecision(NamedTuple):
    """The optimal pair: `prediction` = E[y|x] on every row, `accepted` = Var[y|x] < c.

    Examples
    --------
    >>> bayes_decision(mean=5.0, variance=1.0, cost=4.0).accepted
    array(True)
    """

    prediction: Array
    accepted: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def bayes_decision(mean: ArrayLike, variance: ArrayLike, cost: ArrayLike) -> BayesDecision:
    """Return the optimal decision: predict the conditional mean, accept iff the variance is below the cost.

    Parameters
    ----------
    mean, variance, cost : array-like
        E[y|x], Var[y|x] and c(x) per row; shapes broadcast.

    Examples
    --------
    >>> bayes_decision(mean=[5.0, 7.0], variance=[1.0, 9.0], cost=4.0)
    BayesDecision(prediction=array([5., 7.]), accepted=array([ True, False]))
    """
    mean, variance, cost = _broadcast(
        mean=_finite("mean", mean),
        variance=_non_negative("variance", variance),
        cost=_non_negative("cost", cost),
    )
    return BayesDecision(prediction=mean.copy(), accepted=np.asarray(variance < cost))


def bayes_risk(variance: ArrayLike, cost: ArrayLike) -> float:
    """Return the lowest RcR loss any pair (h, r) can reach: the mean of min(Var[y|x], c(x)).

    Parameters
    ----------
    variance, cost : array-like
        Var[y|x] and c(x) per row; shapes broadcast.

    Examples
    --------
    >>> bayes_risk(variance=[1.0, 9.0], cost=4.0)
    2.5
    """
    variance, cost = _broadcast(variance=_non_negative("variance", variance), cost=_non_negative("cost", cost))
    if variance.size == 0:
        raise ValueError(f"variance and cost must hold at least one row, got shape {variance.shape}")
    return float(np.minimum(variance, cost).mean())


def surrogate_risk(D: ArrayLike, c: ArrayLike, r: ArrayLike, surrogate: SurrogateLike) -> Array:
    """Return the conditional surrogate risk D l(r, -1) + c l(r, +1) of every row.

    Parameters
    ----------
    D, c, r : array-like
        Conditional squared error, cost and score per row; shapes broadcast.
    surrogate : str, Surrogate or callable
        The binary loss.

    Examples
    --------
    >>> surrogate_risk(D=[1.0, 9.0], c=4.0, r=0.0, surrogate="hinge")
    array([ 5., 13.])
    """
    D, c, r = _broadcast(D=_non_negative("D", D), c=_non_negative("c", c), r=_finite("r", r))
    return conditional_risk(D, c, evaluate(get(surrogate), r.copy()))  # torch does not accept a read-only view


def surrogate_optimum(D: ArrayLike, c: ArrayLike, surrogate: SurrogateLike) -> Array:
    """Return the infimum over r of the conditional surrogate risk, for every row.

    The paper's five losses have closed forms; for other losses a search on ``|r| <= 1e8`` finds the infimum.

    Parameters
    ----------
    D, c : array-like
        Conditional squared error and cost per row; shapes broadcast.
    surrogate : str, Surrogate or callable
        The binary loss.

    Examples
    --------
    >>> surrogate_optimum(D=[1.0, 9.0], c=4.0, surrogate="hinge")
    array([2., 8.])
    """
    D, c = _broadcast(D=_non_negative("D", D), c=_non_negative("c", c))
    return optimum(D, c, get(surrogate))


def regret_transfer(name: SurrogateLike, u: ArrayLike, M: ArrayLike | None = None, C: ArrayLike | None = None) -> Array:
    """Bound the target regret by the surrogate regret: R(h, r) - R* <= xi(u), u = R_psi(h, r) - R_psi*.

    xi(u) is u for mae and hinge, 2u for sigmoid, max(2u, 2 sqrt((M + C) u)) for square and logistic. The
    paper's theorem states u for sigmoid, and min instead of the max that its proof derives; neither is correct.

    Parameters
    ----------
    name : str or Surrogate
        One of the paper's five losses.
    u : array-like
        The surrogate regret: of a population, or of single rows.
    M, C : array-like, optional
        Bounds of E[(h - y)^2 | x] and of c(x), for the population or per row; needed for square and logistic.

    Examples
    --------
    >>> float(regret_transfer("sigmoid", 0.5))
    1.0
    >>> float(regret_transfer("logistic", 0.01, M=3.0, C=1.0))
    0.4
    """
    surrogate = get(name)
    u = _non_negative("u", u)
    match surrogate.transfer:
        case RegretTransfer.IDENTITY:
            return u.copy()
        case RegretTransfer.DOUBLE:
            return np.asarray(2 * u)
        case RegretTransfer.ROOT:
            if M is None or C is None:
                raise ValueError(f"M and C must be given for {surrogate.name!r}, got M={M!r} and C={C!r}")
            u, M, C = _broadcast(u=u, M=_non_negative("M", M), C=_non_negative("C", C))
            # a regret is at most max(M, C), so Jensen's inequality is needed for the root only, which is concave
            return np.asarray(np.maximum(2 * u, 2 * np.sqrt((M + C) * u)))
    raise ValueError(
        f"regret transfer is proved for mae, hinge, square, logistic and sigmoid only, got {surrogate.name!r}"
    )


def error_bound(
    *,
    n: int,
    delta: float,
    M1: float,
    M2: float,
    rho: float,
    rademacher_h: float,
    rademacher_r: float,
    constants: Literal["printed", "derived"] = "printed",
) -> float:
    """Bound the excess of empirical risk minimisation over the best surrogate risk of its class.

    With probability at least 1 - delta the excess is at most
    A L1 (Rad(H) + Rad(R)) + C1 sqrt(2 log(2 / delta) / n), where C1 = (4 M2^2 + M2) M1.

    Parameters
    ----------
    n : int
        Number of independent rows.
    delta : float
        Probability of failure, between 0 and 1, both excluded.
    M1 : float
        Bound of the binary loss.
    M2 : float
        Bound of ``|h|``, of ``|y|`` and of the cost.
    rho : float
        Lipschitz constant of the binary loss.
    rademacher_h, rademacher_r : float
        Rademacher complexities of the regressors and of the rejectors, for example from `rademacher_linear`.
    constants : {"printed", "derived"}, default="printed"
        "printed" uses A = 2 sqrt(2) and L1 = sqrt((4 M1^2 rho + M1 rho)^2 + 16 M1^4 M2^2), as printed in the
        paper. This bound does not hold for large M2: L1 is then no Lipschitz constant of psi, and A lacks the
        factor 2 of symmetrisation. "derived" uses the constants that follow from the paper's proof, A = 4 sqrt(2)
        and L1 = sqrt((4 M2^2 + M2)^2 rho^2 + 16 M1^2 M2^2); choose it for a guarantee.

    Examples
    --------
    >>> bound = error_bound(n=10_000, delta=0.05, M1=1, M2=1, rho=0.25, rademacher_h=0.01, rademacher_r=0.01)
    >>> round(bound, 4)
    0.3729
    """
    n = _count("n", n)
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {delta}")
    M1, M2, rho = _scalar("M1", M1), _scalar("M2", M2), _scalar("rho", rho)
    complexity = _scalar("rademacher_h", rademacher_h) + _scalar("rademacher_r", rademacher_r)
    C1 = (4 * M2**2 + M2) * M1  # psi <= (2 M2)^2 M1 + M2 M1
    factor = _complexity_factor(M1, M2, rho, constants)
    return factor * complexity + C1 * math.sqrt(2 * math.log(2 / delta) / n)


def _complexity_factor(M1: float, M2: float, rho: float, constants: str) -> float:
    if constants == "printed":
        return 2 * math.sqrt(2) * math.hypot(4 * M1**2 * rho + M1 * rho, 4 * M1**2 * M2)
    if constants == "derived":
        # |d psi/dr| <= ((h - y)^2 + c) rho and |d psi/dh| = 2 |h - y| l, with |h - y| <= 2 M2
        return 4 * math.sqrt(2) * math.hypot((4 * M2**2 + M2) * rho, 4 * M1 * M2)
    raise ValueError(f"constants must be 'printed' or 'derived', got {constants!r}")


def rademacher_linear(weight_norm: float, feature_norm: float, n: int) -> float:
    """Bound the Rademacher complexity of linear functions w.x, ``|w| <= B`` and ``|x| <= R``, by B R / sqrt(n).

    Parameters
    ----------
    weight_norm, feature_norm : float
        The largest Euclidean norms of the weights, B, and of a row, R; a bias counts as a feature of 1.
    n : int
        Number of rows.

    Examples
    --------
    >>> rademacher_linear(weight_norm=2.0, feature_norm=5.0, n=400)
    0.5
    """
    norms = _scalar("weight_norm", weight_norm) * _scalar("feature_norm", feature_norm)
    return norms / math.sqrt(_count("n", n))


def _finite(name: str, value: ArrayLike) -> Array:
    array = np.asarray(value, dtype=np.float64)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def _non_negative(name: str, value: ArrayLike) -> Array:
    array = _finite(name, value)
    if (array < 0).any():
        raise ValueError(f"{name} must be >= 0, got {array.min()}")
    return array


def _scalar(name: str, value: float) -> float:
    array = _non_negative(name, value)
    if array.ndim:
        raise ValueError(f"{name} must be one number, got shape {array.shape}")
    return float(array)


def _count(name: str, value: int) -> int:
    if value < 1 or value != int(value):
        raise ValueError(f"{name} must be a whole number >= 1, got {value}")
    return int(value)


def _broadcast(**arrays: Array) -> tuple[Array, ...]:
    try:
        return np.broadcast_arrays(*arrays.values())
    except ValueError:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"shapes must broadcast, got {shapes}") from None
