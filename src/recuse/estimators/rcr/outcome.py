"""Trained models of RcRRegressor, and the results of their training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from recuse.engine.stack import Stack
from recuse.estimators.advice import warn_if_cost_out_of_range, warn_if_useless
from recuse.estimators.rate_search import warn_of_diverged
from recuse.estimators.rcr.scores import CostGrid
from recuse.tabular.units import Units

__all__ = ["Assessment", "FittedModel", "Outcome"]

Floats = NDArray[np.float64]


class FittedModel(Protocol):
    """Interface of trained regressors and rejectors."""

    @property
    def units(self) -> Units:
        """Conversion of features, targets and costs to the units of the networks."""

    @property
    def regressor(self) -> Stack:
        """The regressors."""

    @property
    def rejector(self) -> Stack:
        """The rejectors."""

    @property
    def grid(self) -> CostGrid | None:
        """The costs of training, or None if there was only one."""

    def predictions(self, features: Floats) -> Floats:
        """Return the predictions of every regressor (member, row) or (member, output, row), in units of the engine."""

    def scores(self, features: Floats, predictions: Floats, cost: Floats) -> Floats:
        """Return the scores (row,) for features, predictions and costs, which are in the user's units."""


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
    """A trained model and the results of its training.

    Most fields are fitted attributes of `RcRRegressor`; `n_trainings` is the number of all trainings.
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
            As in `warnings.warn`, counted from this method.
        """
        level = stacklevel + 1
        warn_of_diverged(self.diverged, self.n_trainings, stacklevel=level)
        result = self.assessment
        if not warn_if_cost_out_of_range(result.costs, result.losses, stacklevel=level):
            warn_if_useless(result.rcr_loss, result.always_accept, result.always_reject, stacklevel=level)
