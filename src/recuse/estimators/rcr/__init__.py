"""Regression with cost-based rejection by a surrogate loss: joint training and cross-fitting."""
