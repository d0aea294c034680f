"""Regressors and risk models that are specific to AutoRejector."""
