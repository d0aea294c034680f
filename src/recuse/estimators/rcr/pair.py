"""What the estimators of a pair (h, r) share: checks of parameters, fitted attributes and warnings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from recuse import losses, surrogates
from recuse.costs import Cost
from recuse.engine.stack import Stack
from recuse.estimators.advice import warn_if_cost_out_of_range, warn_if_useless
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.rate_search import check_trial_parameters, warn_of_diverged
from recuse.estimators.rcr.training import Chosen
from recuse.losses import LossLike
from recuse.rules.networks import RcRRule
from recuse.surrogates import CarriesSurrogates, SurrogateLike

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TrainedPair:
    """A trained rule, the fitted attributes of the estimator, and losses on rows that were not trained on.

    Attributes
    ----------
    rule : RcRRule
    chosen : Chosen
        The networks that decide, with all trainings that diverged.
    validation_loss, history
        Values of the fitted attributes.
    rcr_loss, always_accept, always_reject : float
        Means over the held-out rows in the user's units; for a range of costs in units of the cost.
    losses, costs : ndarray
        Losses of the predictions of these rows, and the costs of the rows or the ends of the range.
    """

    rule: RcRRule
    chosen: Chosen
    validation_loss: float
    history: Floats
    rcr_loss: float
    always_accept: float
    always_reject: float
    losses: Floats
    costs: Floats

    def warn(self, *, stacklevel: int) -> None:
        """Warn of diverged trainings, and if rejection does not pay.

        Parameters
        ----------
        stacklevel : int
            As in `warnings.warn`, counted from this method.
        """
        level = stacklevel + 1
        warn_of_diverged(self.chosen.diverged, self.chosen.n_trainings, stacklevel=level)
        if not warn_if_cost_out_of_range(self.costs, self.losses, stacklevel=level):
            warn_if_useless(self.rcr_loss, self.always_accept, self.always_reject, stacklevel=level)


class PairRegressor(CarriesSurrogates, RejectingRegressor):
    """A regressor and a rejector, each an ensemble of small networks."""

    surrogate: SurrogateLike
    loss: LossLike
    rule_: RcRRule

    @property
    def regressor_(self) -> Stack:
        """The trained regressors."""
        return self.rule_.regressor

    @property
    def rejector_(self) -> Stack:
        """The trained rejectors."""
        return self.rule_.rejector

    @property
    def serves_any_cost(self) -> bool:
        """Whether `decide` accepts any cost, or any cost of the range: if the cost varied in training."""
        check_is_fitted(self)
        return self.cost_range_ is not None or self.rule_.units.log_cost is not None

    def _check_parameters(self) -> None:
        """Check the parameters that both estimators have, except the cost, which is checked with the rows."""
        surrogates.get(self.surrogate)
        losses.get(self.loss)
        check_trial_parameters(self.get_params(deep=False))

    def _adopt(self, outcome: TrainedPair, cost: Cost | None, cost_range: tuple[float, float] | None = None) -> None:
        """Set the fitted attributes from the result of a training at a cost, or for a range of costs."""
        self.rule_, self.loss_, self.cost_range_ = outcome.rule, outcome.rule.units.target_loss, cost_range
        self.__dict__.pop("cost_", None)
        if cost is not None:
            self.cost_ = cost
        self.learning_rate_, self.best_epoch_ = outcome.chosen.learning_rate, outcome.chosen.best_epoch
        self.validation_loss_, self.history_ = outcome.validation_loss, outcome.history
        self.diverged_ = outcome.chosen.diverged
