"""Results of the training of RcRRegressor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.advice import warn_if_cost_out_of_range, warn_if_useless
from recuse.estimators.rate_search import warn_of_diverged
from recuse.rules.networks import RcRRule

__all__ = ["Assessment", "Outcome"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Assessment:
    """Losses of the decisions on held-out rows, compared with accepting or rejecting all of them.

    Attributes
    ----------
    rcr_loss, always_accept, always_reject : float
        Means in the user's units; for a range of costs in units of the cost, so that `always_reject` is 1.
    losses : ndarray of shape (row,)
        Losses of the predictions.
    costs : ndarray
        Costs of the rows, or the ends of the range.
    """

    rcr_loss: float
    always_accept: float
    always_reject: float
    losses: Floats
    costs: Floats


@dataclass(frozen=True)
class Outcome:
    """A trained rule and the results of its training.

    Most fields are fitted attributes of `RcRRegressor`; `n_trainings` is the number of all trainings.
    """

    rule: RcRRule
    learning_rate: list[float]
    best_epoch: list[int]
    validation_loss: float
    history: Floats
    diverged: list[tuple[int, float, int]]
    n_trainings: int
    assessment: Assessment

    def warn(self, *, stacklevel: int) -> None:
        """Warn of diverged trainings, and if rejection does not pay.

        Parameters
        ----------
        stacklevel : int
            As in `warnings.warn`, counted from this method.
        """
        level = stacklevel + 1
        warn_of_diverged(self.diverged, self.n_trainings, stacklevel=level)
        result = self.assessment
        if not warn_if_cost_out_of_range(result.costs, result.losses, stacklevel=level):
            warn_if_useless(result.rcr_loss, result.always_accept, result.always_reject, stacklevel=level)
