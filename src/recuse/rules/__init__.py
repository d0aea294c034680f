"""Decision rules as frozen values: what a fitted estimator decides by, and what a model file holds."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["DecisionRule"]

Floats = NDArray[np.float64]


class DecisionRule(Protocol):
    """Interface of the rules of rejecting regressors."""

    def predict(self, rows: Any) -> Floats:
        """Return h(x) (row,) of checked rows."""

    def decide(self, rows: Any, cost: Floats) -> tuple[Floats, Floats]:
        """Return h(x) and the score (row,) of checked rows, each at its cost; a row is accepted if its score is > 0."""
