"""Estimators that accept a row where its expected loss is below the cost."""
