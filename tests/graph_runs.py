"""Graphs of converted models, run on some rows."""

import re

import numpy as np

from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.conversion import convert
from recuse.model_file.graph.operators import ROWS
from recuse.model_file.runtime import onnxruntime


def session_of(model, n_features):
    graph = GraphBuilder()
    graph.output("y", convert(model, graph.input("x", "double", (ROWS, n_features))))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(graph.model().SerializeToString(), options, ["CPUExecutionProvider"])


def run(model, X):
    return session_of(model, X.shape[1]).run(None, {"x": np.ascontiguousarray(X)})[0]


def assert_same(model, X, expected):
    expected = np.asarray(expected, dtype=np.float64)
    scale = np.abs(expected).max()
    np.testing.assert_allclose(run(model, X), expected.reshape(len(X), -1), rtol=1e-9, atol=1e-9 * scale)


def assert_same_prediction(model, X):
    assert_same(model, X, model.predict(X))


def assert_same_transform(model, X):
    assert_same(model, X, model.transform(X))


def training_rows(n_rows=300, n_features=5):
    random = np.random.RandomState(0)
    X = random.normal(size=(n_rows, n_features)) * [1.0, 5.0, 0.1, 100.0, 2.0][:n_features]
    y = np.sin(X[:, 0]) + X[:, 1] / 3 + 0.1 * random.normal(size=n_rows) + 2.0
    return X, y


def new_rows(X, n_rows=2000):
    """Rows near the training rows, rows far outside their range, and the training rows."""
    random = np.random.RandomState(1)
    near = X[random.randint(len(X), size=n_rows)] + 0.1 * X.std(axis=0) * random.normal(size=(n_rows, X.shape[1]))
    far = near[: n_rows // 4] * 5 + X.std(axis=0)
    return np.concatenate([near, far, X])


def name_of(value):
    """Return the name of a parameter for test ids: its text without addresses in memory, which differ by process."""
    return re.sub(r" at 0x[0-9a-f]+", "", re.sub(r"\s+", " ", str(value)))
