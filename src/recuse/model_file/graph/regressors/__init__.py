"""Converters of fitted regressors and transformers."""
