"""Adam on a stack equals that of torch for every member, each with its learning rate."""

import pytest
import torch
from torch import nn

from recuse.engine.adam import StackedAdam
from recuse.engine.mlp import StackedMLP
from recuse.engine.user_modules import LoopedModules

RATES = [1e-1, 1e-3, 3e-2]


def mlp():
    return StackedMLP([0, 1, 2], 3, (5, 4), dtype=torch.float64)


def looped():
    return LoopedModules([0, 1, 2], 3, lambda inputs: nn.Linear(inputs, 1), dtype=torch.float64)


both_kinds = pytest.mark.parametrize("make", [mlp, looped])


def random_gradient(stack, step):
    """A gradient of any size, on the padding too, as the unit of ones has one."""
    generator = torch.Generator().manual_seed(step)
    scale = 10.0 ** torch.randint(-4, 4, (1,), generator=generator)
    return scale * torch.randn(stack.parameters.shape, generator=generator, dtype=torch.float64)


def run(stack, adam, steps):
    for step in steps:
        stack.gradient.copy_(random_gradient(stack, step))
        adam.step()


def torch_adam(stack, member, rate, steps):
    """What torch's own Adam makes of the weights of one member."""
    weights = [layer[member].clone().requires_grad_() for layer in stack.views(stack.parameters)]
    masks = [layer[member] for layer in stack.views(stack.trainable())]
    optimiser = torch.optim.Adam(weights, lr=rate)
    for step in steps:
        gradients = stack.views(random_gradient(stack, step))
        for weight, gradient, mask in zip(weights, gradients, masks, strict=True):
            weight.grad = gradient[member] * mask
        optimiser.step()
    return [weight.detach() for weight in weights]


@both_kinds
def test_every_member_moves_as_under_torch_adam_with_its_rate(make):
    stack, start = make(), make()
    run(stack, StackedAdam(stack, RATES), range(300))
    for member, rate in enumerate(RATES):
        expected = torch_adam(start, member, rate, range(300))
        for layer, weight in zip(stack.views(stack.parameters), expected, strict=True):
            torch.testing.assert_close(layer[member], weight, rtol=1e-10, atol=1e-12)


@both_kinds
def test_a_rate_of_zero_keeps_the_member_where_it_is(make):
    stack, start = make(), make()
    run(stack, StackedAdam(stack, [0.0, 0.1, 0.1]), range(5))
    for layer, old in zip(stack.views(stack.parameters), start.views(start.parameters), strict=True):
        assert torch.equal(layer[0], old[0])
    assert not torch.equal(stack.parameters, start.parameters)


@both_kinds
def test_a_frozen_member_rests_at_zero_and_the_others_do_not_change(make):
    stack, free = make(), make()
    adam, free_adam = StackedAdam(stack, RATES), StackedAdam(free, RATES)
    run(stack, adam, range(3))
    run(free, free_adam, range(3))
    for layer in stack.views(stack.parameters):
        layer[1] = torch.nan
    for flat in (adam.mean, adam.square):
        for layer in stack.views(flat):
            layer[1] = torch.inf
    adam.freeze(1)
    run(stack, adam, range(3, 20))
    run(free, free_adam, range(3, 20))
    for layer, unharmed in zip(stack.views(stack.parameters), free.views(free.parameters), strict=True):
        assert (layer[1] == 0).all()
        assert torch.equal(layer[[0, 2]], unharmed[[0, 2]])


@both_kinds
def test_a_member_taken_over_goes_on_as_if_it_had_stayed(make):
    stayed, stack = make(), make()
    run(stayed, StackedAdam(stayed, RATES), range(40))
    adam = StackedAdam(stack, RATES)
    run(stack, adam, range(20))
    chosen = [2, 0, 2]
    taken = stack.take(chosen)
    carried = adam.take(taken, chosen, [RATES[m] for m in chosen])
    for step in range(20, 40):
        gradients = stack.views(random_gradient(stack, step))
        for to, of in zip(taken.views(taken.gradient), gradients, strict=True):
            to.copy_(of[chosen])
        carried.step()
    for layer, expected in zip(taken.views(taken.parameters), stayed.views(stayed.parameters), strict=True):
        torch.testing.assert_close(layer, expected[chosen], rtol=1e-12, atol=1e-14)


def test_the_optimiser_left_behind_keeps_its_moments():
    stack = mlp()
    adam = StackedAdam(stack, RATES)
    run(stack, adam, range(5))
    mean, square = adam.mean.clone(), adam.square.clone()
    taken = stack.take([1])
    run(taken, adam.take(taken, [1], [0.1]), range(5))
    assert torch.equal(adam.mean, mean)
    assert torch.equal(adam.square, square)
    assert adam.steps == 5
