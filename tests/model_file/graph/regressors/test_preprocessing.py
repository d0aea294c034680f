"""Converted transformers do as scikit-learn does."""

import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.feature_selection import (
    RFE,
    SelectFromModel,
    SelectKBest,
    SelectPercentile,
    VarianceThreshold,
    f_regression,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import Ridge
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    PolynomialFeatures,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from graph_runs import assert_same_transform, name_of, new_rows, training_rows
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.conversion import convert

TRANSFORMERS = [
    StandardScaler(),
    StandardScaler(with_mean=False),
    StandardScaler(with_std=False),
    MinMaxScaler((-1, 2)),
    MinMaxScaler(clip=True),
    MaxAbsScaler(),
    RobustScaler(),
    RobustScaler(with_centering=False, with_scaling=False),
    *[Normalizer(norm) for norm in ("l1", "l2", "max")],
    PolynomialFeatures(),
    PolynomialFeatures(3, include_bias=False, interaction_only=True),
    PCA(3),
    PCA(2, whiten=True),
    TruncatedSVD(2),
    VarianceThreshold(1.0),
    SelectKBest(f_regression, k=2),
    SelectPercentile(f_regression, percentile=50),
    SelectFromModel(ExtraTreesRegressor(5, random_state=0)),
    RFE(Ridge(), n_features_to_select=2),
    SimpleImputer(missing_values=0.5, fill_value=9.0, strategy="constant"),
    FunctionTransformer(),
]


@pytest.mark.parametrize("model", TRANSFORMERS, ids=name_of)
def test_transformers(model):
    X, y = training_rows()
    new = new_rows(X)
    new[0], new[1, 1] = 0.0, 0.5
    assert_same_transform(model.fit(X, y), new)


@pytest.mark.parametrize("function", [np.log, np.log1p, np.exp, np.expm1, np.sqrt, np.square, np.abs])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e-9, 1e-20])
def test_functions(function, scale):
    X = np.random.RandomState(0).uniform(0.1, 3, size=(500, 2)) * scale
    assert_same_transform(FunctionTransformer(function).fit(X), X)


@pytest.mark.parametrize("strategy", ["mean", "median", "most_frequent", "constant"])
@pytest.mark.parametrize("add_indicator", [False, True])
@pytest.mark.parametrize("keep_empty_features", [False, True])
@pytest.mark.filterwarnings("ignore:Skipping features")
def test_missing_values(strategy, add_indicator, keep_empty_features):
    X, _ = training_rows()
    X[::5, 0], X[::7, 3], X[:, 4] = np.nan, np.nan, np.nan
    model = SimpleImputer(strategy=strategy, add_indicator=add_indicator, keep_empty_features=keep_empty_features)
    new = X.copy()
    new[::3] = 1.0
    assert_same_transform(model.fit(X), new)


def test_text_is_refused():
    model = SimpleImputer(strategy="most_frequent").fit(np.array([["a"], ["b"]], dtype=object))
    with pytest.raises(ConversionError, match="not numbers"):
        convert(model, GraphBuilder().input("x", "double", (-1, 1)))


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
