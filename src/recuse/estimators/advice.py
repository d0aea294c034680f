"""Warnings about fits and costs for which rejection does not lower the loss."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

# A cost is out of range if at most this share of the losses is below it.
_TOLERATED = 0.01


class RejectionWarning(UserWarning):
    """A fitted estimator gains nothing by rejecting rows."""


def warn_if_useless(rcr_loss: float, always_accept: float, always_reject: float, *, stacklevel: int = 3) -> None:
    """Warn when decisions on held-out rows cost at least as much as accepting, or rejecting, all of them.

    Parameters
    ----------
    rcr_loss : float
        Mean RcR loss of the decisions on rows that were not trained on.
    always_accept, always_reject : float
        Mean loss of the predictions on the same rows, and their mean cost.
    stacklevel : int
        As in `warnings.warn`; the default points to the caller of the function that calls this one.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_if_useless(2.0, always_accept=3.0, always_reject=2.5)
    ...     warn_if_useless(2.7, always_accept=3.0, always_reject=2.5)
    >>> [str(warning.message).split(":")[0] for warning in caught]
    ['rejection does not pay on the held-out rows']
    """
    if rcr_loss < min(always_accept, always_reject):
        return
    better = "accepting" if always_accept <= always_reject else "rejecting"
    warnings.warn(
        f"rejection does not pay on the held-out rows: the RcR loss is {rcr_loss:.4g}, and {better} all of them gives "
        f"{min(always_accept, always_reject):.4g} (accept all: {always_accept:.4g}, reject all: {always_reject:.4g}). "
        "Try more rows, more members, another surrogate, RcRRegressorCV or AutoRejector, "
        "or a cost nearer to the losses",
        RejectionWarning,
        stacklevel=stacklevel,
    )


def warn_if_cost_out_of_range(cost: ArrayLike, losses: ArrayLike, *, stacklevel: int = 3) -> bool:
    """Warn when nearly all losses are above the cost, or all are below it.

    Parameters
    ----------
    cost : float or array-like
        One cost or several; with several, all of them must be out of range.
    losses : array-like of shape (n_rows,)
        Losses of predictions, in the units of the cost.
    stacklevel : int
        As in `warnings.warn`; the default points to the caller of the function that calls this one.

    Returns
    -------
    bool
        Whether there was a warning.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     [warn_if_cost_out_of_range(cost, [1.0, 9.0]) for cost in (5.0, 10.0, 0.5)]
    [False, True, True]
    >>> for warning in caught:
    ...     print(warning.message)
    cost 10 is above all losses (the largest is 9); every row will be accepted
    cost 0.5 is below 100% of the losses; every row will be rejected
    """
    costs, seen = np.asarray(cost, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    low, high = float(costs.min()), float(costs.max())
    above = float((seen > high).mean())
    if above >= 1 - _TOLERATED:
        message = f"cost {high:g} is below {above:.0%} of the losses; every row will be rejected"
    elif low > seen.max():
        message = f"cost {low:g} is above all losses (the largest is {seen.max():g}); every row will be accepted"
    else:
        return False
    warnings.warn(message, RejectionWarning, stacklevel=stacklevel)
    return True
