"""AutoRejector: the strongest blend this package knows, chosen and weighted by cross-fitting."""

from recuse.estimators.auto.estimator import AutoRejector

__all__ = ["AutoRejector"]
