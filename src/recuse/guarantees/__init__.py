"""Thresholds on the score, and what may be promised of them."""

from recuse.guarantees.thresholds import break_ties, by_budget, by_cost

__all__ = ["break_ties", "by_budget", "by_cost"]
