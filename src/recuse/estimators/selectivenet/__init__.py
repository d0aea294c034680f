"""Regression with a reject option by SelectiveNet (Geifman and El-Yaniv, 2019)."""
