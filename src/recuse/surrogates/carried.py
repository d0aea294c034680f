"""Pickling of estimators together with the registered losses that they use."""

from __future__ import annotations

import pickle
from typing import Any

from recuse.surrogates.losses import get, receive, registered

_KEY = "_surrogates"


class CarriesSurrogates:
    """Mixin of estimators with a parameter `surrogate`: its pickle contains the registered losses it may need.

    A process that has not registered a name, such as a worker of joblib, cannot look it up. The pickle of a fitted
    estimator contains the loss it was fitted with. That of an estimator that is not fitted contains all registered
    losses, since a search may set another name before it fits. The mixin must precede ``BaseEstimator`` among the base
    classes.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> from recuse import surrogates
    >>> class Estimator(CarriesSurrogates, BaseEstimator):
    ...     def __init__(self, surrogate="mae"):
    ...         self.surrogate = surrogate
    >>> _ = surrogates.register("wide", lambda r: (abs(2 + r), abs(2 - r)), overwrite=True)
    >>> "wide" in Estimator("wide").__getstate__()["_surrogates"]
    True
    """

    surrogate: Any

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())  # type: ignore[call-overload]
        fitted = any(name.endswith("_") and not name.startswith("_") for name in vars(self))
        carried = [name for name in registered() if name == self.surrogate or not fitted]
        return {**state, _KEY: {name: pickle.dumps(get(name)) for name in carried}} if carried else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        own = {name: value for name, value in state.items() if name != _KEY}
        super().__setstate__(own)  # type: ignore[misc]
        for name, pickled in state.get(_KEY, {}).items():
            receive(name, pickled)
