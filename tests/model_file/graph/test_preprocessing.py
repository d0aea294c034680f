"""Converted transformers do as scikit-learn does."""

import numpy as np
import pytest
from sklearn.preprocessing import QuantileTransformer

from graph_runs import assert_same_transform, new_rows, training_rows
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.conversion import convert


@pytest.mark.parametrize("n_quantiles", [2, 5, 14, 15, 16, 100, 300])
def test_ranks(n_quantiles):
    X, _ = training_rows()
    X[:, 1], X[:, 2] = X[:, 1].round(), 1e9 + X[:, 2]
    X[:100, 3] = X[:, 3].min()
    X[:100, 4], X[100:150, 4] = X[:, 4].max(), 0.0
    model = QuantileTransformer(n_quantiles=n_quantiles).fit(X)
    knots = model.quantiles_
    near = [knots, np.nextafter(knots, -np.inf), np.nextafter(knots, np.inf)]
    assert_same_transform(model, np.concatenate([new_rows(X), *near]))


@pytest.mark.parametrize("value", [0.0, -3.0])
def test_ranks_of_a_constant_column(value):
    model = QuantileTransformer(n_quantiles=10).fit(np.full((20, 1), value))
    assert_same_transform(model, value + np.array([[-1.0], [0.0], [1.0]]))


def test_normal_ranks_are_refused():
    X, _ = training_rows()
    model = QuantileTransformer(n_quantiles=10, output_distribution="normal").fit(X)
    with pytest.raises(ConversionError, match="output_distribution='normal'"):
        convert(model, GraphBuilder().input("x", "double", (-1, 5)))
