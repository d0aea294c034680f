"""Conversion of RcRImageRegressor: its decisions equal those of the estimator."""

import numpy as np
import pytest
from torch import nn

pytest.importorskip("lightning")

from recuse.datasets import make_cellularity
from recuse.estimators.images.regressor import RcRImageRegressor
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.conversion import build_decision
from recuse.model_file.runtime import onnxruntime

IMAGES, Y, _, _ = make_cellularity(48, random_state=0, size=32)
NEW, _, _, _ = make_cellularity(20, random_state=1, size=32)
COSTS = np.random.default_rng(0).uniform(0.001, 0.1, size=len(Y))


def fitted(cost=0.02, **parameters):
    quick = {"epochs": 1, "slow_start": 0, "batch_size": 16, "random_state": 0, "trainer": {"accelerator": "cpu"}}
    return RcRImageRegressor(cost, **{**quick, **parameters}).fit(IMAGES, Y)


def run(model, images, **inputs):
    graph = build_decision(model)[0].model().SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph, options)
    assert [each.name for each in session.get_inputs()] == ["image", *inputs]
    scaled = images.astype(np.float32) / np.float32(127.5) - 1 if images.dtype == np.uint8 else images
    return session.run(["prediction", "score"], {"image": scaled, **inputs})


def same(found, decision):
    prediction, score = found
    np.testing.assert_allclose(prediction, decision.prediction, rtol=1e-5)
    np.testing.assert_allclose(score, decision.score, rtol=1e-5, atol=1e-5 * np.abs(decision.score).max())
    clear = np.abs(decision.score) > 1e-5 * np.abs(decision.score).max()
    assert np.array_equal((score > 0)[clear], decision.accepted[clear])


@pytest.mark.parametrize("shared", [True, False])
def test_decisions_equal_those_of_the_estimator(shared):
    model = fitted(heads={"shared": shared})
    same(run(model, NEW), model.decide(NEW))


def test_images_as_floats_and_any_number_of_them():
    model = fitted()
    floats = np.random.default_rng(0).normal(size=(1, 3, 32, 32)).astype(np.float32)
    same(run(model, floats), model.decide(floats))


def test_a_cost_for_each_image():
    model = fitted(COSTS)
    cost = np.geomspace(1e-4, 1.0, len(NEW))
    same(run(model, NEW, cost=cost[:, None]), model.decide(NEW, cost))


def test_a_backbone_of_the_user():
    def backbone(channels):
        layers = nn.Conv2d(channels, 4, 3, stride=2), nn.SiLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(196, 8)
        return nn.Sequential(*layers, nn.GELU()), 8

    model = fitted(backbone=backbone)
    same(run(model, NEW), model.decide(NEW))


def test_a_backbone_without_a_conversion():
    model = fitted(backbone=lambda channels: (nn.Sequential(nn.AdaptiveMaxPool2d(1), nn.Flatten()), channels))
    with pytest.raises(ConversionError, match="AdaptiveMaxPool2d in Sequential cannot be saved"):
        run(model, NEW)
