"""A user's table as numbers: encoded features, canonical rows, units and folds."""
