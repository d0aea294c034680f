"""Stacked networks: each member equals the network written in plain torch, independent of the others."""

import copy
import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from recuse.engine.adam import StackedAdam
from recuse.engine.mlp import StackedMLP
from recuse.engine.stack import outputs, pad_rows, with_bias
from recuse.engine.user_modules import LoopedModules

SHAPES = [(), (1,), (7,), (20, 30, 10), (3, 5), (4, 8, 1, 3)]
shapes = st.lists(st.integers(1, 9), max_size=3).map(tuple)
few = settings(deadline=None, max_examples=40)


def real_weights(stack, member):
    """The weights (out, in + 1) of each layer, without padding and the unit of ones."""
    sizes = pairwise((stack.inputs, *stack.hidden, stack.outputs))
    layers = stack.views(stack.parameters)
    return [layer[member, :out, : into + 1] for layer, (into, out) in zip(layers, sizes, strict=True)]


def plain_network(stack, member):
    """The same network as torch would write it."""
    layers = []
    for weight in real_weights(stack, member):
        linear = nn.Linear(weight.shape[1] - 1, weight.shape[0], dtype=weight.dtype)
        linear.weight.data, linear.bias.data = weight[:, :-1].clone(), weight[:, -1].clone()
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def random_tables(tables, rows, inputs, seed=0, dtype=torch.float64):
    x = torch.randn(tables, rows, inputs, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return x, torch.stack([with_bias(table, pad_rows(rows)) for table in x])


def padded_slopes(members, rows, seed=1):
    """The derivative of some loss by the outputs: anything on the rows, zero on the padding."""
    slopes = torch.zeros(members, pad_rows(rows), dtype=torch.float64)
    slopes[:, :rows] = torch.randn(members, rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return slopes


def train_a_little(stack, steps=20, inputs=3, rate=0.05):
    adam = StackedAdam(stack, [rate] * len(stack))
    _, x = random_tables(1, 9, inputs, dtype=stack.parameters.dtype)
    for step in range(steps):
        stack.forward(x, training=True)
        stack.backward(padded_slopes(len(stack), 9, seed=step).to(stack.parameters))
        adam.step()


# ---- the tables a stack reads


@given(rows=st.integers(0, 70), features=st.integers(1, 17), extra=st.integers(0, 40))
@few
def test_with_bias_keeps_the_table_adds_ones_and_fills_the_rest_with_zeros(rows, features, extra):
    x = torch.rand(rows, features) + 1
    out = with_bias(x, rows + extra)
    assert torch.equal(out[:features, :rows], x.T)
    assert (out[features, :rows] == 1).all()
    assert out.count_nonzero() == rows * (features + 1)


@given(rows=st.integers(1, 10_000))
def test_padded_rows_are_the_fewest_whole_blocks(rows):
    assert rows <= pad_rows(rows) < rows + 32
    assert pad_rows(rows) % 32 == 0


# ---- StackedMLP: what it computes


@pytest.mark.parametrize("hidden", SHAPES)
@pytest.mark.parametrize("inputs", [1, 7, 8])
@pytest.mark.parametrize(("tables", "per_table"), [(1, 1), (1, 3), (3, 2)])
def test_forward_equals_a_sequential_with_the_same_weights(hidden, inputs, tables, per_table):
    stack = StackedMLP(range(tables * per_table), inputs, hidden, dtype=torch.float64)
    table, x = random_tables(tables, 33, inputs)
    out = stack.forward(x)[:, :33]
    expected = [plain_network(stack, m)(table[m // per_table]).flatten() for m in range(len(stack))]
    torch.testing.assert_close(out, torch.stack(expected).detach(), rtol=1e-12, atol=1e-12)


@given(
    inputs=st.integers(1, 9),
    hidden=shapes,
    tables=st.integers(1, 3),
    per_table=st.integers(1, 3),
    rows=st.integers(1, 70),
    seed=st.integers(0, 2**31),
)
@few
def test_backward_equals_autograd(inputs, hidden, tables, per_table, rows, seed):
    stack = StackedMLP(range(seed, seed + tables * per_table), inputs, hidden, dtype=torch.float64)
    table, x = random_tables(tables, rows, inputs, seed)
    slopes = padded_slopes(len(stack), rows, seed)
    stack.forward(x, training=True)
    stack.backward(slopes)
    gradients = StackedMLP([0] * len(stack), inputs, hidden, dtype=torch.float64)
    gradients.parameters.copy_(stack.gradient)
    for member in range(len(stack)):
        network = plain_network(stack, member)
        network(table[member // per_table]).flatten().backward(slopes[member, :rows])
        linears = [layer for layer in network if isinstance(layer, nn.Linear)]
        for linear, gradient in zip(linears, real_weights(gradients, member), strict=True):
            expected = torch.cat([linear.weight.grad, linear.bias.grad[:, None]], dim=1)
            torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("hidden", SHAPES)
@pytest.mark.parametrize("count", [2, 5])
@pytest.mark.parametrize(("tables", "per_table"), [(1, 3), (3, 2)])
def test_several_outputs_are_those_of_a_sequential_with_the_same_weights(hidden, count, tables, per_table):
    stack = StackedMLP(range(tables * per_table), 3, hidden, outputs=count, dtype=torch.float64)
    table, x = random_tables(tables, 33, 3)
    out = stack.forward(x)[..., :33]
    expected = [plain_network(stack, m)(table[m // per_table]).T for m in range(len(stack))]
    torch.testing.assert_close(out, torch.stack(expected).detach(), rtol=1e-12, atol=1e-12)


@given(hidden=shapes, count=st.integers(2, 5), rows=st.integers(1, 70), seed=st.integers(0, 2**31))
@few
def test_backward_through_several_outputs_equals_autograd(hidden, count, rows, seed):
    stack = StackedMLP(range(seed, seed + 4), 3, hidden, outputs=count, dtype=torch.float64)
    table, x = random_tables(2, rows, 3, seed)
    slopes = padded_slopes(4 * count, rows, seed).view(4, count, -1)
    stack.forward(x, training=True)
    stack.backward(slopes)
    gradients = StackedMLP([0] * 4, 3, hidden, outputs=count, dtype=torch.float64)
    gradients.parameters.copy_(stack.gradient)
    for member in range(4):
        network = plain_network(stack, member)
        network(table[member // 2]).backward(slopes[member, :, :rows].T)
        linears = [layer for layer in network if isinstance(layer, nn.Linear)]
        for linear, gradient in zip(linears, real_weights(gradients, member), strict=True):
            expected = torch.cat([linear.weight.grad, linear.bias.grad[:, None]], dim=1)
            torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-10)


def of_two_outputs(inputs, outputs=1):
    return nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, outputs))


@pytest.mark.parametrize(
    "stack",
    [
        StackedMLP([3, 4, 5], 3, (4,), outputs=2, dtype=torch.float64),
        LoopedModules([3, 4, 5], 3, of_two_outputs, outputs=2, dtype=torch.float64),
    ],
    ids=["mlp", "looped"],
)
def test_a_copy_of_networks_with_several_outputs_has_as_many(stack):
    features = np.random.default_rng(0).normal(size=(40, 3))
    whole = outputs(stack, features)
    assert whole.shape == (3, 2, 40)
    np.testing.assert_array_equal(outputs(pickle.loads(pickle.dumps(stack)), features), whole)
    np.testing.assert_array_equal(outputs(copy.deepcopy(stack), features), whole)
    np.testing.assert_array_equal(outputs(stack.take([2, 0]), features), whole[[2, 0]])
    np.testing.assert_allclose(outputs(stack.to(torch.float32), features), whole, atol=1e-5)


def test_modules_with_several_outputs_are_run_and_differentiated_one_by_one():
    stack = LoopedModules([0, 1], 3, of_two_outputs, outputs=2, dtype=torch.float64)
    table, x = random_tables(1, 32, 3)
    out = stack.forward(x, training=True)
    expected = torch.stack([module(table[0]).T for module in stack.modules]).detach()
    torch.testing.assert_close(out, expected)
    slopes = padded_slopes(4, 32).view(2, 2, -1)
    stack.backward(slopes)
    plain = copy.deepcopy(stack.modules[1])
    plain.zero_grad()
    plain(table[0]).backward(slopes[1].T)
    gradient = torch.cat([parameter.grad.flatten() for parameter in plain.parameters()])
    torch.testing.assert_close(stack.gradient.view(2, -1)[1], gradient)


def test_a_factory_that_does_not_take_the_number_of_outputs_is_refused():
    message = r"^for 2 targets a network factory must take the number of inputs and the number of outputs"
    with pytest.raises(ValueError, match=message):
        LoopedModules([0], 3, lambda inputs: nn.Linear(inputs, 2), outputs=2)
    stack = LoopedModules([0], 3, lambda inputs, outputs: nn.Linear(inputs, 3), outputs=2)
    with pytest.raises(ValueError, match=r"^a network must give 2 outputs per row, got shape \(32, 3\) for 32 rows$"):
        stack.forward(random_tables(1, 20, 3, dtype=torch.float32)[1])


def test_the_gradient_belongs_to_the_last_forward():
    stack = StackedMLP([0], 3, (4,), dtype=torch.float64)
    _, first = random_tables(1, 40, 3, seed=0)
    _, second = random_tables(1, 9, 3, seed=1)
    stack.forward(second, training=True)
    stack.backward(padded_slopes(1, 9))
    expected = stack.gradient.clone()
    stack.forward(first, training=True)
    stack.backward(padded_slopes(1, 40))
    assert not torch.equal(stack.gradient, expected)
    stack.forward(second, training=True)
    stack.backward(padded_slopes(1, 9))
    assert torch.equal(stack.gradient, expected)


@pytest.mark.parametrize("hidden", SHAPES)
def test_training_changes_weights_but_neither_padding_nor_the_unit_of_ones(hidden):
    stack = StackedMLP([0, 1], 3, hidden)
    before, trainable = stack.parameters.clone(), stack.trainable().bool()
    train_a_little(stack)
    assert torch.equal(stack.parameters[~trainable], before[~trainable])
    moved = stack.parameters != before
    # a unit that is dead on all rows keeps its weights, so not all of them must move
    assert moved.sum() > trainable.sum() / 2


@pytest.mark.parametrize("hidden", SHAPES)
@pytest.mark.parametrize("inputs", [1, 8])
def test_as_many_parameters_are_trainable_as_the_plain_network_has(hidden, inputs):
    stack = StackedMLP([0, 1, 2], inputs, hidden)
    plain = sum(p.numel() for p in plain_network(stack, 0).parameters())
    assert stack.trainable().sum() == 3 * plain


# ---- StackedMLP: where it starts


@pytest.mark.parametrize("hidden", SHAPES)
def test_initial_weights_fill_the_bound_of_nn_linear(hidden):
    stack = StackedMLP(range(40), 6, hidden)
    for layer, into in enumerate((6, *hidden)):
        values = torch.stack([real_weights(stack, member)[layer] for member in range(40)])
        bound = 1 / math.sqrt(into)
        assert values.abs().max() <= bound
        assert values.abs().max() > 0.9 * bound
        # uniform: mean 0 and variance bound^2 / 3
        assert values.mean().abs() < 5 * bound / math.sqrt(3 * values.numel())
        assert values.var().item() == pytest.approx(bound**2 / 3, rel=6 / math.sqrt(values.numel()))


@given(seeds=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=6), hidden=shapes)
@few
def test_initial_weights_depend_on_the_seed_alone(seeds, hidden):
    stack = StackedMLP(seeds, 3, hidden)
    torch.manual_seed(len(seeds))  # the global random stream has no effect
    for member, seed in enumerate(seeds):
        alone = StackedMLP([seed], 3, hidden)
        for ours, theirs in zip(real_weights(stack, member), real_weights(alone, 0), strict=True):
            assert torch.equal(ours, theirs)


def test_different_seeds_start_from_different_weights():
    stack = StackedMLP([0, 1], 3, (4,))
    assert not torch.equal(real_weights(stack, 0)[0], real_weights(stack, 1)[0])


def test_both_precisions_start_from_the_same_weights():
    single, double = StackedMLP([3], 5), StackedMLP([3], 5, dtype=torch.float64)
    assert torch.equal(single.parameters.double(), double.parameters)


def test_building_a_stack_leaves_the_global_random_stream_alone():
    state = torch.get_rng_state()
    StackedMLP([0], 3)
    LoopedModules([0], 3, small_network).forward(random_tables(1, 4, 3, dtype=torch.float32)[1], training=True)
    assert torch.equal(torch.get_rng_state(), state)


# ---- any stack: copies


def small_network(inputs):
    return nn.Sequential(nn.Linear(inputs, 5), nn.Tanh(), nn.Linear(5, 1))


def dropout_network(inputs):
    return nn.Sequential(nn.Linear(inputs, 8), nn.Dropout(0.5), nn.Linear(8, 1))


def make_mlp(seeds, dtype=torch.float64):
    return StackedMLP(seeds, 3, (4, 5), dtype=dtype)


def make_looped(seeds, dtype=torch.float64):
    return LoopedModules(seeds, 3, small_network, dtype=dtype)


both_kinds = pytest.mark.parametrize("make", [make_mlp, make_looped])


@both_kinds
@given(chosen=st.lists(st.integers(0, 3), min_size=1, max_size=7))
@few
def test_take_gives_those_members_in_that_order(make, chosen):
    stack = make(range(4))
    _, x = random_tables(1, 11, 3)
    everyone = stack.forward(x).clone()
    taken = stack.take(chosen)
    assert len(taken) == len(chosen)
    assert taken.parameters.shape == taken.gradient.shape == taken.trainable().shape
    torch.testing.assert_close(taken.forward(x), everyone[chosen], rtol=1e-12, atol=1e-12)


COPIES = {
    "take": lambda stack: stack.take(range(len(stack))),
    "to": lambda stack: stack.to(stack.parameters.dtype),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda stack: pickle.loads(pickle.dumps(stack)),
}


@both_kinds
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_and_its_original_are_independent(make, way):
    _, x = random_tables(1, 11, 3)
    stack = make([0, 1])
    before = stack.forward(x).clone()
    twin = COPIES[way](stack)
    assert torch.equal(twin.parameters, stack.parameters)
    train_a_little(twin)
    assert not torch.equal(twin.forward(x), before)
    assert torch.equal(stack.forward(x), before)
    # the original still runs on its own buffer, and trains as the copy did
    train_a_little(stack)
    assert torch.equal(stack.parameters, twin.parameters)
    assert torch.equal(stack.forward(x), twin.forward(x))


@both_kinds
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_may_be_made_between_forward_and_backward(make, way):
    _, x = random_tables(1, 11, 3)
    stack = make([0, 1])
    stack.forward(x, training=True)
    COPIES[way](stack)
    stack.backward(padded_slopes(2, 11))
    expected = make([0, 1])
    expected.forward(x, training=True)
    expected.backward(padded_slopes(2, 11))
    assert torch.equal(stack.gradient, expected.gradient)


@pytest.mark.parametrize("way", COPIES)
def test_a_member_does_not_depend_on_inputs_that_it_does_not_use_even_after_training(way):
    stack = StackedMLP([0, 1], inputs=3, hidden=(7,), dtype=torch.float64)
    stack.use_inputs(1, [0, 2])
    twin = COPIES[way](stack)
    train_a_little(twin)
    _, x = random_tables(1, 11, 3)
    before = twin.forward(x).clone()
    x[:, 1] += 1.0
    assert torch.equal(twin.forward(x)[1], before[1])
    assert not torch.allclose(twin.forward(x)[0], before[0])
    x[:, 2] += 1.0
    assert not torch.allclose(twin.forward(x)[1], before[1])


@both_kinds
def test_to_changes_the_precision_and_keeps_the_function(make):
    stack = make([0, 1], dtype=torch.float32)
    double = stack.to(torch.float64)
    assert double.parameters.dtype == double.gradient.dtype == double.forward(random_tables(1, 2, 3)[1]).dtype
    assert double.parameters.dtype == torch.float64
    _, x = random_tables(1, 11, 3)
    torch.testing.assert_close(stack.forward(x.float()).double(), double.forward(x), rtol=1e-5, atol=1e-6)


@both_kinds
def test_a_pickle_grows_in_proportion_to_the_members(make):
    few_members, many = len(pickle.dumps(make(range(4)))), len(pickle.dumps(make(range(32))))
    assert many <= 8 * few_members


@both_kinds
def test_views_show_the_buffer_itself_member_first(make):
    stack = make(range(3))
    flat = torch.zeros_like(stack.parameters)
    for layer in stack.views(flat):
        assert len(layer) == 3
        layer[1] = 1
    assert flat.count_nonzero() == sum(layer[1].numel() for layer in stack.views(flat))


# ---- LoopedModules


@pytest.mark.parametrize("factory", [small_network, lambda inputs: nn.Sequential(nn.Linear(inputs, 1), nn.Flatten(0))])
@pytest.mark.parametrize(("tables", "per_table"), [(1, 1), (1, 3), (3, 2)])
def test_looped_modules_equal_the_modules_run_by_hand(factory, tables, per_table):
    stack = LoopedModules(range(tables * per_table), 3, factory, dtype=torch.float64)
    table, x = random_tables(tables, 12, 3)
    slopes = padded_slopes(len(stack), 12)
    out = stack.forward(x, training=True)[:, :12]
    stack.backward(slopes)
    (gradients,) = stack.views(stack.gradient)
    for member in range(len(stack)):
        torch.manual_seed(member)
        module = factory(3).double()
        expected = module(table[member // per_table]).flatten()
        expected.backward(slopes[member, :12])
        gradient = torch.cat([p.grad.flatten() for p in module.parameters()])
        torch.testing.assert_close(out[member], expected.detach(), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(gradients[member], gradient, rtol=1e-12, atol=1e-12)


def test_looped_modules_train_as_torch_trains_the_module():
    stack = LoopedModules([4, 5], 3, small_network, dtype=torch.float64)
    train_a_little(stack, steps=30)
    for member in range(2):
        module = LoopedModules([4, 5], 3, small_network, dtype=torch.float64).modules[member]
        optimiser = torch.optim.Adam(module.parameters(), lr=0.05)
        table, _ = random_tables(1, 9, 3)
        for step in range(30):
            optimiser.zero_grad()
            module(table[0]).flatten().backward(padded_slopes(2, 9, seed=step)[member, :9])
            optimiser.step()
        expected = torch.cat([p.detach().flatten() for p in module.parameters()])
        torch.testing.assert_close(stack.views(stack.parameters)[0][member], expected, rtol=1e-9, atol=1e-9)


def test_two_backwards_do_not_add_up():
    stack = make_looped([0])
    _, x = random_tables(1, 5, 3)
    gradients = []
    for _ in range(2):
        stack.forward(x, training=True)
        stack.backward(padded_slopes(1, 5))
        gradients.append(stack.gradient.clone())
    assert torch.equal(*gradients)


def test_a_frozen_parameter_of_a_module_stays_as_it_was():
    def factory(inputs):
        network = small_network(inputs)
        network[0].weight.requires_grad_(False)
        return network

    stack = LoopedModules([0, 1], 3, factory)
    before = [copy.deepcopy(module.state_dict()) for module in stack.modules]
    train_a_little(stack)
    for module, old in zip(stack.modules, before, strict=True):
        assert torch.equal(module[0].weight, old["0.weight"])
        assert not torch.equal(module[2].weight, old["2.weight"])


def dropout_outputs(seeds, member, steps=3):
    stack = LoopedModules(seeds, 3, dropout_network)
    _, x = random_tables(1, 10, 3, dtype=torch.float32)
    return torch.stack([stack.forward(x, training=True)[member, :10] for _ in range(steps)])


def test_dropout_does_not_depend_on_the_neighbours():
    alone = dropout_outputs([7], 0)
    assert torch.equal(dropout_outputs([1, 7, 2, 3], 1), alone)
    assert torch.equal(dropout_outputs([7, 7], 1), alone)


def test_dropout_draws_anew_in_every_step_and_for_every_seed():
    steps = dropout_outputs([7], 0)
    assert not torch.equal(steps[0], steps[1])
    # the same weights under another seed: only the dropped units differ
    stack = LoopedModules([7, 8], 3, dropout_network)
    stack.parameters.fill_(0.5)
    one, other = stack.forward(random_tables(1, 10, 3, dtype=torch.float32)[1], training=True)[:, :10]
    assert not torch.equal(one, other)


def test_dropout_of_a_copy_does_not_depend_on_the_steps_of_the_original():
    _, x = random_tables(1, 10, 3, dtype=torch.float32)
    fresh, used = LoopedModules([7], 3, dropout_network), LoopedModules([7], 3, dropout_network)
    for _ in range(3):
        used.forward(x, training=True)
    assert torch.equal(fresh.take([0]).forward(x, training=True), used.take([0]).forward(x, training=True))


def test_nothing_is_dropped_outside_training():
    stack = LoopedModules([7], 3, dropout_network)
    _, x = random_tables(1, 10, 3, dtype=torch.float32)
    assert torch.equal(stack.forward(x), stack.forward(x))
    network = stack.modules[0].eval()
    expected = network(x[0, :3, :10].T).flatten().detach()
    torch.testing.assert_close(stack.forward(x)[0, :10], expected)


@pytest.mark.parametrize(
    ("factory", "error", "message"),
    [
        (lambda inputs: "resnet", TypeError, r"must return a torch.nn.Module, got str"),
        (lambda inputs: nn.Linear, TypeError, r"must return a torch.nn.Module, got type"),
        (lambda inputs: nn.ReLU(), ValueError, r"a module with trainable parameters, got none"),
        (lambda inputs: nn.Linear(inputs, 1).requires_grad_(False), ValueError, r"trainable parameters, got none"),
        (
            lambda inputs: nn.Sequential(nn.Linear(inputs, 4), nn.BatchNorm1d(4)),
            ValueError,
            r"got BatchNorm1d, use Layer",
        ),
    ],
)
def test_a_factory_that_cannot_be_trained_is_refused_with_the_reason(factory, error, message):
    with pytest.raises(error, match=message):
        LoopedModules([0], 3, factory)


def test_a_network_with_two_outputs_is_refused_with_their_shape():
    stack = LoopedModules([0], 3, lambda inputs: nn.Linear(inputs, 2))
    with pytest.raises(ValueError, match=r"one output per row, got shape \(32, 2\) for 32 rows"):
        stack.forward(random_tables(1, 4, 3, dtype=torch.float32)[1])


# ---- outputs over a whole table


@both_kinds
@pytest.mark.parametrize("rows", [1, 31, 4096, 4097, 9000])
def test_a_row_gives_the_same_output_wherever_it_stands(make, rows):
    stack = make([0, 1])
    features = np.random.default_rng(0).normal(size=(rows, 3))
    whole = outputs(stack, features)
    assert whole.shape == (2, rows)
    for row in {0, rows // 2, rows - 1}:
        np.testing.assert_allclose(outputs(stack, features[row : row + 1])[:, 0], whole[:, row], rtol=1e-12, atol=1e-14)
    order = np.random.default_rng(1).permutation(rows)
    np.testing.assert_allclose(outputs(stack, features[order]), whole[:, order], rtol=1e-12, atol=1e-14)


def test_outputs_equal_the_plain_network():
    stack = make_mlp([0, 1])
    features = np.random.default_rng(0).normal(size=(5000, 3))
    for member, values in enumerate(outputs(stack, features)):
        expected = plain_network(stack, member)(torch.as_tensor(features)).flatten().detach()
        np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-12)


def test_outputs_survive_the_next_call():
    stack = make_mlp([0])
    features = np.random.default_rng(0).normal(size=(20, 3))
    first = outputs(stack, features)
    kept = first.copy()
    outputs(stack, -features)
    np.testing.assert_array_equal(first, kept)
