"""Preparation of tables: encoding of features, canonical rows, units and folds."""
