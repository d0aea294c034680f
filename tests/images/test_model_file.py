"""Conversion of RcRImageRegressor: its decisions equal those of the estimator."""

from functools import partial

import numpy as np
import pytest
from torch import nn

pytest.importorskip("lightning")

from recuse.images import RcRImageRegressor, make_cellularity, small_cnn
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.conversion import build_decision
from recuse.model_file.runtime import onnxruntime

IMAGES, Y, _, _ = make_cellularity(24, random_state=0, size=32)
NEW, _, _, _ = make_cellularity(8, random_state=1, size=32)
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


def test_decisions_equal_those_of_the_estimator():
    model = fitted()
    same(run(model, NEW), model.decide(NEW))


def test_images_as_floats_and_any_number_of_them():
    model = fitted()
    floats = np.random.default_rng(0).normal(size=(1, 3, 32, 32)).astype(np.float32)
    same(run(model, floats), model.decide(floats))


def test_a_cost_for_each_image():
    model = fitted(COSTS)
    cost = np.geomspace(1e-4, 1.0, len(NEW))
    same(run(model, NEW, cost=cost[:, None]), model.decide(NEW, cost))


def strided(channels):
    layers = nn.Conv2d(channels, 4, 3, stride=2, groups=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(196, 8)
    return nn.Sequential(*layers), 8


@pytest.mark.parametrize("backbone", ["resnet50", partial(small_cnn, norm="group"), strided])
def test_backbones(backbone):
    model = fitted(backbone=backbone)
    same(run(model, NEW), model.decide(NEW))


class Halved(nn.Sequential):
    def forward(self, x):
        return super().forward(x) / 2


def with_hook():
    layer = nn.Flatten()
    layer.register_forward_hook(lambda *_: None)
    return layer


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([nn.AdaptiveMaxPool2d(1), nn.Flatten()], r"^AdaptiveMaxPool2d cannot .* there is no conversion of it\. Backb"),
        ([Halved(nn.AdaptiveAvgPool2d(1)), nn.Flatten()], r"^Halved cannot .* there is no conversion of it"),
        ([nn.BatchNorm2d(3), nn.AdaptiveAvgPool2d(1)], r"^BatchNorm2d cannot .* there is no conversion of it"),
        ([nn.Conv2d(3, 3, 3, dilation=2), nn.AdaptiveAvgPool2d(1)], r"^Conv2d cannot .* it needs dilation 1 and"),
        ([nn.MaxPool2d(2, ceil_mode=True), nn.AdaptiveAvgPool2d(1)], r"^MaxPool2d cannot .* it needs dilation 1, ceil"),
        ([nn.AdaptiveAvgPool2d((1, 1)), with_hook()], r"^Flatten cannot .* it has forward hooks"),
    ],
)
def test_a_layer_without_a_conversion_is_named(layers, message):
    model = fitted(backbone=lambda channels: (nn.Sequential(*layers), channels))
    with pytest.raises(ConversionError, match=message):
        run(model, NEW)
