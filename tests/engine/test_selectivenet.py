"""Stacks of SelectiveNets: each member equals the network written in plain torch, independent of the others."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.engine.stack import outputs, pad_rows, with_bias

few = settings(deadline=None, max_examples=15)
shapes = st.lists(st.integers(1, 9), max_size=2).map(tuple)


class PlainSelectiveNet(nn.Module):
    """One member as torch would write it: a body and three heads."""

    def __init__(self, stack, member):
        super().__init__()
        parts = [part[member] for part in stack.views(stack.parameters)]
        body = [hidden_layer(parts[5 * i : 5 * i + 5]) for i in range(len(stack.hidden))]
        weight, bias, both, both_bias = parts[-4:]
        self.body = nn.Sequential(*body)
        self.selection = nn.Sequential(hidden_layer(parts[-9:-4]), linear(weight, bias), nn.Sigmoid())
        self.prediction, self.auxiliary = linear(both[:1], both_bias[:1]), linear(both[1:], both_bias[1:])

    def forward(self, x):
        x = self.body(x)
        return torch.cat([self.prediction(x), self.selection(x), self.auxiliary(x)], dim=1).T  # (head, row)


def linear(weight, bias=None):
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype)
    layer.weight.data = weight.clone()
    if bias is not None:
        layer.bias.data = bias[:, 0].clone()
    return layer


def hidden_layer(parts):
    weight, scale, shift, mean, variance = parts
    norm = nn.BatchNorm1d(len(scale), dtype=weight.dtype)
    norm.weight.data, norm.bias.data = scale.clone(), shift.clone()
    norm.running_mean, norm.running_var = mean.clone(), variance.clone()
    return nn.Sequential(linear(weight), norm, nn.ReLU())


def rows_of(count, inputs=3, tables=1, seed=0):
    """A table for the plain network, and the same for the stack, without padding."""
    x = torch.randn(tables, count, inputs, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return x, torch.stack([with_bias(table, count) for table in x])


def make(seeds=(0, 1, 2), **parameters):
    return StackedSelectiveNet(seeds, **{"inputs": 3, "hidden": (5,), "dtype": torch.float64, **parameters})


@given(
    inputs=st.integers(1, 9),
    hidden=shapes,
    selection_hidden=st.integers(1, 6),
    tables=st.integers(1, 2),
    rows=st.integers(2, 40),
    seed=st.integers(0, 2**31),
)
@few
def test_outputs_gradient_and_running_statistics_equal_the_plain_network(
    inputs, hidden, selection_hidden, tables, rows, seed
):
    stack = make(range(seed, seed + 4), inputs=inputs, hidden=hidden, selection_hidden=selection_hidden)
    table, x = rows_of(rows, inputs, tables, seed)
    plain = [PlainSelectiveNet(stack, member) for member in range(4)]
    slopes = torch.randn(3, 4, rows, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    heads = stack.forward(x, training=True).view(3, 4, rows)
    stack.backward(slopes.flatten(0, 1))
    for member, network in enumerate(plain):
        expected = network(table[member * tables // 4])
        expected.backward(slopes[:, member])
        torch.testing.assert_close(heads[:, member], expected.detach(), rtol=1e-9, atol=1e-9)
        ours = [part[member].flatten() for part in stack.views(stack.gradient)]
        torch.testing.assert_close(torch.cat(ours), plain_gradient(network), rtol=1e-6, atol=1e-8)
        # and in evaluation, with the running statistics of both
        now = stack.forward(x).view(3, 4, rows)[:, member]
        torch.testing.assert_close(now, network.eval()(table[member * tables // 4]).detach(), rtol=1e-9, atol=1e-9)


def plain_gradient(network):
    """Gradients in the order of the stack, zero for the running statistics."""
    parts = []
    for layer in (*network.body, network.selection[0]):
        dense, norm, _ = layer
        still = torch.zeros_like(norm.running_mean)
        parts += [dense.weight.grad, norm.weight.grad, norm.bias.grad, still, still]
    parts += [network.selection[1].weight.grad, network.selection[1].bias.grad]
    parts += [network.prediction.weight.grad, network.auxiliary.weight.grad]
    parts += [network.prediction.bias.grad, network.auxiliary.bias.grad]
    return torch.cat([part.flatten() for part in parts])


def test_initial_weights_depend_on_the_seed_alone_and_keep_the_bound_of_nn_linear():
    stack = make([7, 8, 7])
    torch.manual_seed(3)  # the global random stream has no effect
    alone = make([8])
    for part, other in zip(stack.views(stack.parameters), alone.views(alone.parameters), strict=True):
        assert torch.equal(part[1], other[0])
        assert torch.equal(part[0], part[2])
    weight = stack.views(stack.parameters)[0]
    assert not torch.equal(weight[0], weight[1])
    assert weight.abs().max() <= 3**-0.5


def test_as_many_parameters_are_trainable_as_the_plain_network_has():
    stack = make(hidden=(4, 6), selection_hidden=2)
    assert stack.trainable().sum() == 3 * sum(p.numel() for p in PlainSelectiveNet(stack, 0).parameters())


def test_a_selection_lies_between_zero_and_one():
    selection = make().forward(rows_of(50)[1] * 100).view(3, 3, 50)[1]
    assert (selection > 0).all()
    assert (selection < 1).all()


def test_running_statistics_move_in_training_only():
    stack, (_, x) = make(), rows_of(20)
    before = stack.parameters.clone()
    stack.forward(x)
    assert torch.equal(stack.parameters, before)
    stack.forward(x, training=True)
    moved = stack.parameters != before
    assert moved.any()
    assert not moved[stack.trainable().bool()].any()


def test_a_row_gives_the_same_output_wherever_it_stands_and_whatever_pads_it():
    stack = make()
    stack.forward(rows_of(20)[1], training=True)
    features = np.random.default_rng(0).normal(size=(50, 3))
    whole = outputs(stack, features)
    assert whole.shape == (9, 50)
    np.testing.assert_allclose(outputs(stack, features[17:18])[:, 0], whole[:, 17], rtol=1e-12)
    bare = stack.forward(with_bias(torch.as_tensor(features), 50)[None])
    padded = stack.forward(with_bias(torch.as_tensor(features), pad_rows(50))[None])[:, :50]
    torch.testing.assert_close(bare, padded, rtol=1e-12, atol=1e-12)


COPIES = {
    "take": lambda stack: stack.take(range(len(stack))),
    "to": lambda stack: stack.to(stack.parameters.dtype),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda stack: pickle.loads(pickle.dumps(stack)),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_and_its_original_are_independent(way):
    stack, (_, x) = make(), rows_of(20)
    stack.forward(x, training=True)
    before = stack.forward(x)
    twin = COPIES[way](stack)
    assert torch.equal(twin.forward(x), before)
    twin.parameters.add_(1)
    twin.forward(x, training=True)
    assert torch.equal(stack.forward(x), before)


def test_take_gives_those_members_in_that_order_with_their_statistics():
    stack, (_, x) = make(), rows_of(20)
    stack.forward(x, training=True)
    everyone = stack.forward(x).view(3, 3, 20)
    taken = stack.take([2, 0, 2]).forward(x).view(3, 3, 20)
    torch.testing.assert_close(taken, everyone[:, [2, 0, 2]], rtol=1e-12, atol=1e-12)


def test_to_changes_the_precision_and_keeps_the_function():
    stack, (_, x) = make(dtype=torch.float32), rows_of(20)
    double = stack.to(torch.float64)
    assert double.parameters.dtype == double.gradient.dtype == torch.float64
    torch.testing.assert_close(stack.forward(x.float()).double(), double.forward(x), rtol=1e-5, atol=1e-6)
