"""Results of a training of RcRRegressor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recuse.engine.stack import Stack
from recuse.estimators.advice import warn_if_cost_out_of_range, warn_if_useless
from recuse.estimators.rate_search import warn_of_diverged
from recuse.tabular.units import Units

__all__ = ["Assessment", "FittedModel", "Outcome"]

Floats = NDArray[np.float64]


class FittedModel(Protocol):
    """Trained regressors and rejectors, and how to use them."""

    @property
    def units(self) -> Units:
        """How features, targets and costs enter the networks."""

    @property
    def regressor(self) -> Stack:
        """The regressors."""

    @property
    def rejector(self) -> Stack:
        """The rejectors."""

    def predictions(self, features: Floats) -> Floats:
        """Give the predictions of every regressor (member, row) or (member, output, row), in units of the engine."""

    def scores(self, features: Floats, predictions: Floats, cost: Floats) -> Floats:
        """Give the score (row,) of rows with these features, predictions and costs, the latter in the user's units."""


@dataclass(frozen=True)
class Assessment:
    """Decisions on rows that were not trained on, beside accepting and rejecting all of them.

    Attributes
    ----------
    rcr_loss, always_accept, always_reject : float
        Means in the user's units; for a range of costs the first is in units of the cost, and the last is 1.
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
    """A trained model and what a user may want to know about its training.

    The fields are those of the fitted attributes of `RcRRegressor`; `n_trainings` is the number of all trainings.
    """

    model: FittedModel
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
            As in `warnings.warn`, seen from here.
        """
        level = stacklevel + 1
        warn_of_diverged(self.diverged, self.n_trainings, stacklevel=level)
        found = self.assessment
        warn_if_cost_out_of_range(found.costs, found.losses, stacklevel=level)
        warn_if_useless(found.rcr_loss, found.always_accept, found.always_reject, stacklevel=level)
