"""The threshold of the scores of an ensemble, chosen on rows that its members held out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recuse.estimators.rcr.scores import mean_score

__all__ = ["HeldOut", "best_threshold"]

Floats = NDArray[np.float64]

_THRESHOLDS = np.linspace(-0.9, 0.9, 19).round(1)


@dataclass(frozen=True)
class HeldOut:
    """Validation rows of some members.

    Attributes
    ----------
    scores : ndarray of shape (member, row)
    loss, cost, weight : ndarray of shape (row,)
        Loss of the mean prediction of these members, cost and weight of each row.
    """

    scores: Floats
    loss: Floats
    cost: Floats
    weight: Floats

    def rcr_loss(self, threshold: float) -> Floats:
        """Return the RcR loss (row,) if the threshold is subtracted from the scores."""
        return np.where(mean_score(self.scores - threshold) > 0, self.loss, self.cost)


def best_threshold(parts: Sequence[HeldOut]) -> float:
    """Return the threshold with the lowest RcR loss on held-out rows, or 0 if that is within the standard error.

    A regressor is more accurate on its training rows than on new ones, so a rejector that learns from the errors there
    accepts too many rows.

    Examples
    --------
    >>> scores, cost = np.linspace(-1.0, 1.0, 101), np.ones(101)
    >>> best_threshold([HeldOut(scores[None], np.where(scores > 0.49, 0.5, 1.5), cost, cost)])
    0.5
    """
    weight = np.concatenate([part.weight for part in parts])
    losses = [np.concatenate([part.rcr_loss(threshold) for part in parts]) for threshold in (0.0, *_THRESHOLDS)]
    means = np.array([np.average(loss, weights=weight) for loss in losses[1:]])
    gain = losses[0] - losses[1 + means.argmin()]
    mean = np.average(gain, weights=weight)
    error = np.sqrt(np.average((gain - mean) ** 2, weights=weight) / weight.sum())
    return float(_THRESHOLDS[means.argmin()]) if mean > error else 0.0
