"""The paper's method: a regressor and a rejector trained on a surrogate loss."""
