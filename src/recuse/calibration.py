"""Alias of `recuse.guarantees`, kept for its former name."""

from recuse.guarantees import break_ties, by_budget, by_cost

__all__ = ["break_ties", "by_budget", "by_cost"]
