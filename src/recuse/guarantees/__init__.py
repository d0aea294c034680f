"""Thresholds on the score, and the guarantees that come with them."""

from recuse.guarantees.thresholds import break_ties, by_budget, by_cost

__all__ = ["break_ties", "by_budget", "by_cost"]
