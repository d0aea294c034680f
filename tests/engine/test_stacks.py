"""Stacks of MLPs: each member equals the network written in plain torch, independent of the others."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plain_networks import plain_gradient, plain_network, real_gradient, real_weights
from recuse.engine.adam import StackedAdam
from recuse.engine.mlp import StackedMLP
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.engine.stack import outputs, pad_rows, with_bias

SHAPES = [(), (1,), (7,), (20, 30, 10), (4, 8, 1, 3)]
shapes = st.lists(st.integers(1, 9), max_size=3).map(tuple)
few = settings(deadline=None, max_examples=25)


def random_tables(tables, rows, inputs, seed=0, dtype=np.float64):
    """Tables (table, row, feature), and the input of a stack."""
    x = np.random.default_rng(seed).normal(size=(tables, rows, inputs)).astype(dtype)
    return x, np.stack([with_bias(table, pad_rows(rows)) for table in x])


def padded_slopes(members, rows, seed=1):
    """The derivative of some loss by the outputs: anything on the rows, zero on the padding."""
    slopes = np.zeros((members, pad_rows(rows)))
    slopes[:, :rows] = np.random.default_rng(seed).normal(size=(members, rows))
    return slopes


def train_a_little(stack, steps=20, rate=0.05):
    workspace = stack.workspace()
    adam, (_, x) = StackedAdam(workspace, [rate] * len(stack)), random_tables(1, 9, 3, dtype=stack.parameters.dtype)
    for step in range(steps):
        out = workspace.forward(x[..., :9] if isinstance(stack, StackedSelectiveNet) else x, training=True)
        workspace.backward(padded_slopes(len(out), 9, seed=step)[:, : out.shape[1]].astype(out.dtype))
        adam.step()


@given(rows=st.integers(0, 70), features=st.integers(1, 17), extra=st.integers(0, 40))
@few
def test_with_bias_keeps_the_table_adds_ones_and_fills_the_rest_with_zeros(rows, features, extra):
    x = np.random.default_rng(0).uniform(1, 2, size=(rows, features))
    out = with_bias(x, rows + extra)
    np.testing.assert_array_equal(out[:features, :rows], x.T)
    assert (out[features, :rows] == 1).all()
    assert np.count_nonzero(out) == rows * (features + 1)


@given(rows=st.integers(1, 10_000))
def test_padded_rows_are_the_fewest_whole_blocks(rows):
    assert rows <= pad_rows(rows) < rows + 32
    assert pad_rows(rows) % 32 == 0


@given(
    inputs=st.integers(1, 9),
    hidden=shapes | st.sampled_from(SHAPES),
    tables=st.integers(1, 3),
    per_table=st.integers(1, 3),
    rows=st.integers(1, 70),
    seed=st.integers(0, 2**31),
)
@few
def test_outputs_and_gradient_equal_those_of_autograd(inputs, hidden, tables, per_table, rows, seed):
    stack = StackedMLP(range(seed, seed + tables * per_table), inputs, hidden, dtype=np.float64)
    table, x = random_tables(tables, rows, inputs, seed)
    slopes, workspace = padded_slopes(len(stack), rows, seed), stack.workspace()
    out = workspace.forward(x, training=True)[:, :rows].copy()
    workspace.backward(slopes)
    for member in range(len(stack)):
        network = plain_network(stack, member)
        expected = network(torch.tensor(table[member // per_table])).flatten()
        expected.backward(torch.tensor(slopes[member, :rows]))
        np.testing.assert_allclose(out[member], expected.detach(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(real_gradient(workspace, member), plain_gradient(network), rtol=1e-9, atol=1e-10)


def test_the_gradient_belongs_to_the_last_forward():
    workspace = StackedMLP([0], 3, (4,), dtype=np.float64).workspace()
    first, second = random_tables(1, 40, 3, seed=0)[1], random_tables(1, 9, 3, seed=1)[1]
    gradients = []
    for x, rows in ((second, 9), (first, 40), (second, 9)):
        workspace.forward(x, training=True)
        workspace.backward(padded_slopes(1, rows))
        gradients.append(workspace.gradient.copy())
    assert not np.array_equal(gradients[0], gradients[1])
    np.testing.assert_array_equal(gradients[0], gradients[2])


@pytest.mark.parametrize("hidden", SHAPES)
def test_training_changes_weights_but_neither_padding_nor_the_unit_of_ones(hidden):
    stack = StackedMLP([0, 1], 3, hidden)
    before, trainable = stack.parameters.copy(), stack.trainable().astype(bool)
    assert trainable.sum() == 2 * sum(p.numel() for p in plain_network(stack, 0).parameters())
    train_a_little(stack)
    np.testing.assert_array_equal(stack.parameters[~trainable], before[~trainable])
    # a unit that is dead on all rows keeps its weights, so not all of them must move
    assert (stack.parameters != before).sum() > trainable.sum() / 2


@pytest.mark.parametrize("hidden", SHAPES)
def test_initial_weights_fill_the_bound_of_nn_linear(hidden):
    stack = StackedMLP(range(40), 6, hidden)
    for layer, into in enumerate((6, *hidden)):
        values = np.stack([real_weights(stack, stack.parameters, member)[layer] for member in range(40)])
        bound = 1 / math.sqrt(into)
        assert 0.9 * bound < np.abs(values).max() <= bound
        # uniform: mean 0 and variance bound^2 / 3
        assert abs(values.mean()) < 5 * bound / math.sqrt(3 * values.size)
        assert values.var() == pytest.approx(bound**2 / 3, rel=6 / math.sqrt(values.size))


def test_initial_weights_are_those_that_torch_draws_with_the_seed():
    stack, generator = StackedMLP([5, 2**32 - 1], 3, (4,)), torch.Generator().manual_seed(2**32 - 1)
    for layer in real_weights(stack, stack.parameters, 1):
        drawn = torch.empty(layer.shape).uniform_(-1, 1, generator=generator) * (layer.shape[1] - 1) ** -0.5
        np.testing.assert_allclose(layer, drawn, atol=1e-7)


@given(seeds=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=6), hidden=shapes)
@few
def test_initial_weights_depend_on_the_seed_alone(seeds, hidden):
    stack = StackedMLP(seeds, 3, hidden)
    for member, seed in enumerate(seeds):
        np.testing.assert_array_equal(stack.take([member]).parameters, StackedMLP([seed], 3, hidden).parameters)


KINDS = {
    "mlp": lambda seeds, dtype=np.float64: StackedMLP(seeds, 3, (4, 5), dtype),
    "selectivenet": lambda seeds, dtype=np.float64: StackedSelectiveNet(seeds, 3, (4,), 3, dtype),
}
both_kinds = pytest.mark.parametrize("make", KINDS.values(), ids=KINDS)
COPIES = {
    "take": lambda stack: stack.take(range(len(stack))),
    "to": lambda stack: stack.to(stack.parameters.dtype),
    "deepcopy": copy.deepcopy,
    "pickle": lambda stack: pickle.loads(pickle.dumps(stack)),
}


@both_kinds
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_and_its_original_are_independent(make, way):
    _, x = random_tables(1, 11, 3)
    stack = make([0, 1])
    before = stack.forward(x)
    twin = COPIES[way](stack)
    np.testing.assert_array_equal(twin.parameters, stack.parameters)
    train_a_little(twin)
    assert not np.array_equal(twin.forward(x), before)
    np.testing.assert_array_equal(stack.forward(x), before)
    train_a_little(stack)
    np.testing.assert_array_equal(stack.forward(x), twin.forward(x))


@both_kinds
@given(chosen=st.lists(st.integers(0, 3), min_size=1, max_size=7))
@few
def test_take_gives_those_members_in_that_order(make, chosen):
    stack, (_, x) = make(range(4)), random_tables(1, 11, 3)
    train_a_little(stack)
    everyone = stack.forward(x).reshape(-1, 4, x.shape[2])
    taken = stack.take(chosen).forward(x).reshape(len(everyone), len(chosen), -1)
    np.testing.assert_array_equal(taken, everyone[:, chosen])


@both_kinds
def test_to_changes_the_precision_and_keeps_the_function(make):
    single, (_, x) = make([0, 1], np.float32), random_tables(1, 11, 3)
    train_a_little(single)
    double = single.to(np.float64)
    assert double.parameters.dtype == double.forward(x).dtype == np.float64
    np.testing.assert_allclose(single.forward(x.astype(np.float32)), double.forward(x), rtol=1e-4, atol=1e-5)


@both_kinds
def test_a_pickle_grows_in_proportion_to_the_members(make):
    few_members, many = len(pickle.dumps(make(range(4)))), len(pickle.dumps(make(range(32))))
    assert many <= 8 * few_members


@both_kinds
@pytest.mark.parametrize("rows", [1, 31, 4096, 4097])
def test_a_row_gives_the_same_output_wherever_it_stands(make, rows):
    stack, features = make([0, 1]), np.random.default_rng(0).normal(size=(rows, 3))
    whole = outputs(stack, features)
    assert whole.shape == (2 if make is KINDS["mlp"] else 6, rows)
    for row in {0, rows // 2, rows - 1}:
        np.testing.assert_allclose(outputs(stack, features[row : row + 1])[:, 0], whole[:, row], rtol=1e-12, atol=1e-14)
    order = np.random.default_rng(1).permutation(rows)
    np.testing.assert_allclose(outputs(stack, features[order]), whole[:, order], rtol=1e-12, atol=1e-14)


def test_no_rows_have_no_outputs():
    assert outputs(StackedMLP([0, 1], 3), np.zeros((0, 3))).shape == (2, 0)


def test_outputs_equal_the_plain_network():
    stack, features = KINDS["mlp"]([0, 1]), np.random.default_rng(0).normal(size=(5000, 3))
    for member, values in enumerate(outputs(stack, features)):
        expected = plain_network(stack, member)(torch.tensor(features)).flatten().detach()
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12)
