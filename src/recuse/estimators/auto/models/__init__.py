"""Regressors that AutoRejector has of its own."""
