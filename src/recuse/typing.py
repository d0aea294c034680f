"""Types of arguments: what a function needs of a model, whatever its class."""

from __future__ import annotations

from typing import Any, Protocol

from recuse.decision import Decision

__all__ = ["RejectingModel"]


class RejectingModel(Protocol):
    """A fitted model that decides about rows: an estimator, a model file, or a class of your own.

    Examples
    --------
    >>> import numpy as np
    >>> class AcceptAll:
    ...     fingerprint = "all"
    ...     def decide(self, X, cost=None):
    ...         return Decision(np.zeros(len(X)), np.ones(len(X), bool), np.ones(len(X)), 1.0)
    >>> model: RejectingModel = AcceptAll()
    >>> model.decide([[1.0], [2.0]]).rejection_rate
    0.0
    """

    @property
    def fingerprint(self) -> str:
        """A text that is another one after another fit."""

    def decide(self, X: Any, cost: Any = None) -> Decision:
        """Return a decision about each row."""
