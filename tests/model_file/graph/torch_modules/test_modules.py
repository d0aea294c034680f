"""Conversion of PyTorch modules: every layer and function, whole networks, and errors."""

import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from graph_runs import name_of
from recuse.deep.backbones import resnet50, small_cnn
from recuse.deep.two_heads import TwoHeads
from recuse.engine.user_modules import LoopedModules
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import GraphBuilder
from recuse.model_file.graph.operators import ROWS
from recuse.model_file.graph.torch_modules.modules import convert_module, convert_two_heads, stacked_modules
from recuse.model_file.runtime import onnxruntime

TYPES = {"double": np.float64, "float": np.float32}
RELATIVE = {"double": 1e-9, "float": 1e-4}


def run(graph, **inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(graph.model().SerializeToString(), options)
    return session.run(None, inputs)


def table(dtype, *shape, scale=1.0, rows=5):
    return (scale * np.random.default_rng(0).normal(size=(rows, *shape))).astype(TYPES[dtype])


def randomised(module, seed=0):
    """Give random values to all parameters and running statistics."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
        for name, buffer in module.named_buffers():
            if buffer.is_floating_point():
                low = 0.5 if name.endswith("var") else -0.5
                buffer.copy_(low + torch.rand(buffer.shape, generator=generator))
    return module.eval()


def converted(module, x, dtype):
    graph = GraphBuilder()
    result = convert_module(module, graph.input("x", dtype, (ROWS, *x.shape[1:])))
    results = result if isinstance(result, tuple) else (result,)
    for place, each in enumerate(results):
        graph.output(f"y{place}", each)
    return graph, [(each.dtype, each.shape) for each in results]


def check(module, dtype, *shape, scale=1.0):
    """Compare a module with its conversion, in the same precision."""
    x = table(dtype, *shape, scale=scale)
    module = randomised(module).to(torch.float64 if dtype == "double" else torch.float32)
    with torch.no_grad():
        expected = module(torch.from_numpy(x.copy()))
    expected = [each.numpy() for each in (expected if isinstance(expected, tuple) else (expected,))]
    graph, signatures = converted(module, x, dtype)
    for found, want, (kind, inferred) in zip(run(graph, x=x), expected, signatures, strict=True):
        assert kind == dtype
        assert inferred == (ROWS, *want.shape[1:])
        assert found.dtype == want.dtype
        size = np.abs(want).max()
        np.testing.assert_allclose(found, want, rtol=RELATIVE[dtype], atol=RELATIVE[dtype] * size / 100)


def refused(module, *shape, dtype="double", match):
    with pytest.raises(ConversionError, match=match):
        convert_module(module, GraphBuilder().input("x", dtype, (ROWS, *shape)))


class Applied(nn.Module):
    """A module that applies a function to its input, with a parameter and a buffer of 4 values."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("offset", torch.zeros(4))

    def forward(self, x):
        return self.function(self, x)


TABLE_LAYERS = [
    nn.Linear(4, 3),
    nn.Linear(4, 3, bias=False),
    nn.Identity(),
    nn.Dropout(0.5),
    nn.AlphaDropout(0.5),
    nn.ReLU(),
    nn.Tanh(),
    nn.Sigmoid(),
    nn.Softplus(),
    nn.Softplus(beta=2.5, threshold=4.0),
    nn.SiLU(),
    nn.GELU(),
    nn.GELU(approximate="tanh"),
    nn.ELU(alpha=0.7),
    nn.LeakyReLU(0.2),
    nn.Softmax(dim=1),
    nn.BatchNorm1d(4),
    nn.BatchNorm1d(4, affine=False),
    nn.LayerNorm(4),
    nn.LayerNorm(4, elementwise_affine=False),
    nn.LayerNorm(4, bias=False),
    nn.GroupNorm(2, 4),
    nn.Flatten(),
]
BLOCK_LAYERS = [  # for inputs (row, 4, 6, 6), in both types
    nn.BatchNorm2d(4),
    nn.GroupNorm(2, 4),
    nn.GroupNorm(4, 4, affine=False),
    nn.LayerNorm([6, 6]),
    nn.MaxPool2d(2),
    nn.MaxPool2d(3, stride=2, padding=1),
    nn.MaxPool2d((3, 2), stride=(1, 2)),
    nn.AvgPool2d(6),
    nn.AvgPool2d((3, 2)),
    nn.AdaptiveAvgPool2d(1),
    nn.AdaptiveAvgPool2d((3, 2)),
    nn.AdaptiveAvgPool2d((None, 1)),
    nn.Dropout2d(0.3),
    nn.Flatten(),
    nn.Flatten(2),
    nn.Softmax(dim=1),
]
CONVOLUTIONS = [
    nn.Conv2d(4, 6, 3),
    nn.Conv2d(4, 6, 3, bias=False, stride=2, padding=1),
    nn.Conv2d(4, 6, (3, 5), padding=(1, 2), stride=(1, 2)),
    nn.Conv2d(4, 6, 3, groups=2, padding="same"),
    nn.Conv2d(4, 6, 4, padding="same"),
    nn.Conv2d(4, 4, 3, groups=4, padding="valid"),
    nn.Sequential(nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(inplace=True)),
    nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6, affine=False)),
]
FUNCTIONS = {
    "add": lambda self, x: 1.5 + x + self.weight,
    "add in place": lambda self, x: (x * 2).add_(self.weight),
    "subtract": lambda self, x: self.weight - x - 2,
    "multiply": lambda self, x: self.weight * x * 3,
    "divide": lambda self, x: x / (self.weight.abs() + 1) / 2,
    "divide by x": lambda self, x: 1 / (x.abs() + 1),
    "torch arithmetic": lambda self, x: torch.div(torch.mul(torch.sub(torch.add(x, 1), self.weight), x), 3.0),
    "power": lambda self, x: x**2 + torch.pow(x, 3),
    "negative": lambda self, x: -x,
    "matrix": lambda self, x: x @ torch.outer(self.weight, self.offset) + torch.matmul(x, self.weight[:, None]),
    "linear": lambda self, x: F.linear(x, self.weight[None] * 2, self.offset[:1]),
    "relu": lambda self, x: torch.relu(x) + F.relu(x - 1) + (x + 1).relu(),
    "relu in place": lambda self, x: F.relu(x * 2, inplace=True),
    "tanh": lambda self, x: torch.tanh(x) + x.tanh() + torch.sigmoid(x) + x.sigmoid(),
    "activations": lambda self, x: F.elu(x, 0.5) + F.leaky_relu(x, 0.3) + F.silu(x) + F.softplus(x) + F.gelu(x),
    "softmax": lambda self, x: F.softmax(x, dim=1) + torch.softmax(x, 1) + x.softmax(-1),
    "roots": lambda self, x: (x.exp() + torch.exp(x)).sqrt() + (x.abs() + 1).log(),
    "clamp": lambda self, x: x.clamp(-0.5, 0.5) + x.clamp(min=0.1),
    "dropout": lambda self, x: F.dropout(x, 0.5, training=self.training),
    "layer norm": lambda self, x: F.layer_norm(x, (4,), self.weight, self.offset),
    "cat": lambda self, x: torch.cat([x, x * x], dim=1),
    "cat of columns": lambda self, x: torch.cat((x[:, 2:], x[:, :1], x[:, -1:]), -1),
    "stack": lambda self, x: torch.stack([x, x + 1], dim=1),
    "column": lambda self, x: x[:, 1] * x[:, -1],
    "new axes": lambda self, x: x[:, None] + x.unsqueeze(1) + x[..., None].squeeze(2).unsqueeze(1),
    "ellipsis": lambda self, x: x[..., 1:3],
    "flatten": lambda self, x: x.unsqueeze(2).flatten(1) + torch.flatten(x[:, :, None], 1),
    "view": lambda self, x: x.view(x.size(0), 2, -1).reshape(x.shape[0], -1),
    "view of all rows": lambda self, x: x.view(-1, 2, 2).reshape((x.shape[0], 4)).view(-1, x.shape[1]),
    "squeeze": lambda self, x: x[:, :1].squeeze() + x[:, :1].squeeze(-1) + x.squeeze(1)[:, 0],
    "one output": lambda self, x: x[:, :1].view(-1),
    "mean and sum": lambda self, x: x.mean(dim=1, keepdim=True) + torch.sum(x, 1).unsqueeze(1),
    "transpose": lambda self, x: x.view(-1, 2, 2).transpose(1, 2) + x.view(-1, 2, 2).permute(0, 2, 1).contiguous(),
    "constants": lambda self, x: x * F.softplus(self.weight).cumsum(0) + torch.arange(4) + self.offset,
    "tuple": lambda self, x: (x + 1, x[:, 0]),
}


@pytest.mark.parametrize("dtype", TYPES)
class TestLayers:
    @pytest.mark.parametrize("layer", TABLE_LAYERS, ids=name_of)
    @pytest.mark.parametrize("scale", [1.0, 30.0])
    def test_layers_of_tables(self, layer, dtype, scale):
        check(layer, dtype, 4, scale=scale)

    @pytest.mark.parametrize("layer", BLOCK_LAYERS, ids=name_of)
    def test_layers_of_blocks(self, layer, dtype):
        check(layer, dtype, 4, 6, 6)

    def test_batch_norm_of_sequences(self, dtype):
        check(nn.BatchNorm1d(4), dtype, 4, 7)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_functions(self, name, dtype):
        check(Applied(FUNCTIONS[name]), dtype, 4)

    def test_means_over_images(self, dtype):
        check(Applied(lambda self, x: x.mean(dim=(2, 3)) + x.mean((-1, -2)) + torch.mean(x, [2, 3])), dtype, 3, 4, 5)


@pytest.mark.filterwarnings("ignore:Using padding=.same.:UserWarning")
@pytest.mark.parametrize("layer", CONVOLUTIONS, ids=name_of)
def test_convolutions(layer):
    check(layer, "float", 4, 9, 9)


def test_a_batch_norm_becomes_part_of_its_convolution():
    x = table("float", 3, 16, 16)
    graph, _ = converted(randomised(small_cnn()), x, "float")
    kinds = [node.op_type for node in graph.model().graph.node]
    assert kinds == ["Conv", "Relu"] * 4 + ["GlobalAveragePool", "Reshape", "Identity"]


def test_a_convolution_with_two_users_stays():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.norm = nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4)

        def forward(self, x):
            inner = self.convolution(x)
            return self.norm(inner) + inner

    check(Twice(), "float", 4, 6, 6)


def test_tiny_values_of_softplus_and_gelu():
    x = np.linspace(-80, 80, 1601).reshape(-1, 1)
    for layer in (nn.Softplus(), nn.GELU()):
        graph, _ = converted(layer, x, "double")
        expected = layer(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(run(graph, x=x)[0], expected, rtol=1e-12, atol=1e-14)


class TestNetworks:
    @pytest.mark.parametrize("norm", ["batch", "group"])
    def test_small_cnn(self, norm):
        check(small_cnn(norm=norm), "float", 3, 32, 24)

    def test_resnet50(self):
        pytest.importorskip("monai")
        network = randomised_gently(resnet50())
        x = table("float", 3, 64, 64, rows=2)
        graph, _ = converted(network, x, "float")
        with torch.no_grad():
            expected = network(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(run(graph, x=x)[0], expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())

    @pytest.mark.parametrize("shared", [True, False])
    def test_two_heads(self, shared):
        check(TwoHeads(small_cnn(), 64, shared=shared, rejector_hidden=(8, 8)), "float", 3, 16, 16)

    def test_two_heads_on_one_number(self):
        check(TwoHeads(Applied(lambda self, x: x[:, 0] * self.weight[0]), 1), "double", 4)

    def test_two_heads_with_a_cost(self):
        network = randomised(TwoHeads(nn.Linear(4, 6), 6, cost_input=True))
        x, cost = table("float", 4), np.array([0.0, 1e-3, 1.0, 20.0, 3.0], dtype=np.float32)
        graph = GraphBuilder()
        inputs = graph.input("x", "float", (ROWS, 4)), graph.input("cost", "float", (ROWS,))
        for name, each in zip(("prediction", "score"), convert_two_heads(network, *inputs), strict=True):
            graph.output(name, each)
        with torch.no_grad():
            expected = network(torch.from_numpy(x), torch.from_numpy(cost))
        np.testing.assert_allclose(run(graph, x=x, cost=cost), torch.stack(expected).numpy(), rtol=1e-5, atol=1e-6)

    def test_residual_blocks_that_work_in_place(self):
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second, self.act = nn.Linear(4, 4), nn.Linear(4, 4), nn.ReLU(inplace=True)

            def forward(self, x):
                out = self.second(self.act(self.first(x)))
                out += x
                return self.act(out)

        check(nn.Sequential(Block(), nn.Dropout(), Block(), nn.Linear(4, 1)), "double", 4)

    def test_branches_on_attributes(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers, self.skip = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)]), True

            def forward(self, x):
                for layer in self.layers:
                    x = x + layer(x).tanh() if self.skip else layer(x)
                return x

        check(Net(), "double", 4)

    def test_the_module_is_not_changed(self):
        module = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 1))
        before = {name: value.clone() for name, value in module.state_dict().items()}
        converted(module, table("double", 4), "double")
        assert module.training
        assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())

    def test_other_threads_can_run_modules_during_a_conversion(self):
        other, results = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), []

        def with_another_thread(self, x):
            thread = threading.Thread(target=lambda: results.append(other(torch.ones(3, 2))))
            thread.start()
            thread.join()
            return x + 1

        check(Applied(with_another_thread), "double", 4)
        assert len(results) == 2
        assert torch.equal(results[0], results[1])


def randomised_gently(network):
    """Give random statistics to batch normalisations, so that numbers neither vanish nor explode."""
    generator = torch.Generator().manual_seed(0)
    for part in network.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.copy_(0.1 * torch.randn(part.running_mean.shape, generator=generator))
            part.running_var.copy_(0.5 + torch.rand(part.running_var.shape, generator=generator))
    return network.eval()


class TestStacks:
    @pytest.mark.parametrize(
        ("outputs", "factory"),
        [
            (1, lambda inputs: nn.Sequential(nn.Linear(inputs, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 1))),
            (1, lambda inputs: nn.Sequential(nn.Linear(inputs, 1), nn.Flatten(0))),
            (3, lambda inputs, outputs: nn.Sequential(nn.Linear(inputs, 8), nn.SiLU(), nn.Linear(8, outputs))),
        ],
    )
    def test_outputs_equal_those_of_the_stack(self, outputs, factory):
        stack = LoopedModules([0, 1, 2], 4, factory, outputs=outputs, dtype=torch.float64)
        x, graph = table("double", 4, rows=7), GraphBuilder()
        result = stacked_modules(stack, graph.input("x", "double", (ROWS, 4)))
        assert result.shape == (3, ROWS, outputs)
        graph.output("y", result)
        expected = stack.forward(torch.from_numpy(x.T.copy())[None]).numpy().reshape(3, outputs, 7)
        np.testing.assert_allclose(run(graph, x=x)[0], expected.transpose(0, 2, 1), rtol=1e-12)

    def test_weights_of_single_precision(self):
        stack = LoopedModules([0], 4, lambda inputs: nn.Linear(inputs, 1))
        x, graph = table("double", 4), GraphBuilder()
        graph.output("y", stacked_modules(stack, graph.input("x", "double", (ROWS, 4))))
        expected = stack.to(torch.float64).forward(torch.from_numpy(x.T.copy())[None]).numpy()
        np.testing.assert_allclose(run(graph, x=x)[0][..., 0], expected, rtol=1e-12)

    def test_a_wrong_number_of_outputs(self):
        stack = LoopedModules([0], 4, lambda inputs: nn.Linear(inputs, 2))
        with pytest.raises(ConversionError, match="Linear must give 1 outputs per row"):
            stacked_modules(stack, GraphBuilder().input("x", "double", (ROWS, 4)))


class TestErrors:
    def test_layers_without_a_conversion(self):
        refused(nn.Sequential(nn.Linear(4, 4), nn.Hardtanh()), 4, match="Hardtanh in Sequential cannot be saved")
        refused(nn.LSTM(4, 4), 4, match="LSTM in LSTM cannot be saved")

    def test_functions_without_a_conversion(self):
        refused(Applied(lambda self, x: torch.cumsum(x, 1)), 4, match="cumsum in Applied cannot be saved")
        refused(Applied(lambda self, x: x.cumsum(1)), 4, match=r"Tensor\.cumsum in Applied")
        refused(Applied(lambda self, x: torch.add(x, x, alpha=2)), 4, match="add in Applied")
        refused(Applied(lambda self, x: x.T), 4, match="attribute 'T'")

    @pytest.mark.parametrize(
        "function",
        [
            lambda self, x: x if x.sum() > 0 else -x,
            lambda self, x: x if x.shape[1] > 2 else -x,
            lambda self, x: x.new_zeros(len(x)),
        ],
    )
    def test_control_flow_that_depends_on_the_data(self, function):
        refused(Applied(function), 4, match="Applied cannot be saved .*cannot trace .*without control flow")

    @pytest.mark.parametrize(
        "function",
        [
            lambda self, x: x.mean(),
            lambda self, x: x - x.mean(0),
            lambda self, x: x.softmax(0),
            lambda self, x: x.view(-1, 2),
            lambda self, x: x.flatten(),
            lambda self, x: torch.cat([x, x]),
            lambda self, x: x[0],
            lambda self, x: x[1:],
            lambda self, x: x[:, ::2],
            lambda self, x: x[:, 9],
            lambda self, x: x * x.shape[0],
            lambda self, x: x.T @ x,
            lambda self, x: x.transpose(0, 1) @ x,
            lambda self, x: x.squeeze(0),
        ],
    )
    def test_rows_stay_apart_and_indices_fit(self, function):
        refused(Applied(function), 4, match="in Applied cannot be saved")

    def test_random_numbers(self):
        refused(Applied(lambda self, x: x + torch.randn(4)), 4, match="Applied .* random numbers")
        refused(Applied(lambda self, x: x + torch.rand_like(self.weight)), 4, match="Applied .* random numbers")
        refused(Applied(lambda self, x: F.dropout(x, 0.5)), 4, match="dropout in Applied .*random")

    def test_tensors_that_change_in_place_and_are_used_again(self):
        def through_a_view(self, x):
            inner = x + 1
            inner.view(-1, 2, 2).relu_()
            return inner

        for function in (through_a_view, lambda self, x: F.relu(x, inplace=True) + x):
            refused(Applied(function), 4, match="in place")

    def test_hooks(self):
        module = nn.Sequential(nn.Linear(4, 1))
        module[0].register_forward_hook(lambda layer, inputs, output: 2 * output)
        refused(module, 4, match="Linear has forward hooks")

    def test_results_that_are_no_tensors(self):
        refused(Applied(lambda self, x: {"y": x}), 4, match="Applied must return a tensor")
        refused(Applied(lambda self, x: self.weight), 4, match="Applied must return a tensor")

    def test_double_precision_has_no_convolutions(self):
        refused(nn.Conv2d(3, 4, 3), 3, 8, 8, match="Conv2d in Conv2d .*single precision")

    @pytest.mark.parametrize(
        "layer",
        [
            nn.Conv2d(3, 4, 3, dilation=2),
            nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
            nn.Conv2d(2, 4, 3),
            nn.MaxPool2d(2, ceil_mode=True),
            nn.AvgPool2d(3),
            nn.AvgPool2d(2, stride=1),
            nn.AdaptiveAvgPool2d(3),
            nn.BatchNorm2d(3, track_running_stats=False),
            nn.LayerNorm(3),
        ],
        ids=name_of,
    )
    def test_options_without_a_conversion(self, layer):
        refused(layer, 3, 8, 8, dtype="float", match=f"{type(layer).__name__} in {type(layer).__name__} cannot")

    def test_two_heads(self):
        refused(TwoHeads(nn.Linear(4, 3), 3, cost_input=True), 4, match="needs the cost")
        refused(TwoHeads(nn.Linear(4, 3), 5), 4, match="Linear must return 5 features")
        refused(TwoHeads(Applied(lambda self, x: (x, x)), 4), 4, match="Applied must return one tensor")
