"""Adam on a stack equals that of torch for every member, each with its learning rate."""

import numpy as np
import pytest
import torch

from recuse.engine.adam import StackedAdam
from recuse.engine.mlp import StackedMLP

RATES = [1e-1, 1e-3, 3e-2]


def start():
    """A workspace and an optimiser."""
    workspace = StackedMLP([0, 1, 2], 3, (5, 4), dtype=np.float64).workspace()
    return workspace, StackedAdam(workspace, RATES)


def random_gradient(size, step):
    """A gradient of any size, on the padding too, as the unit of ones has one."""
    random = np.random.default_rng(step)
    return 10.0 ** random.integers(-4, 4) * random.normal(size=size)


def run(adam, steps):
    for step in steps:
        adam.workspace.gradient[:] = random_gradient(adam.mean.size, step)
        adam.step()


def torch_adam(stack, member, rate, steps):
    """What torch's own Adam makes of the weights of one member."""
    weights = [torch.tensor(layer[member], requires_grad=True) for layer in stack.views(stack.parameters)]
    masks = [layer[member] for layer in stack.views(stack.trainable())]
    optimiser = torch.optim.Adam(weights, lr=rate)
    for step in steps:
        gradients = stack.views(random_gradient(stack.parameters.size, step))
        for weight, gradient, mask in zip(weights, gradients, masks, strict=True):
            weight.grad = torch.tensor(gradient[member] * mask)
        optimiser.step()
    return [weight.detach().numpy() for weight in weights]


def layers_of(workspace, member):
    return [layer[member] for layer in workspace.stack.views(workspace.stack.parameters)]


def test_every_member_moves_as_under_torch_adam_with_its_rate():
    (workspace, adam), (untouched, _) = start(), start()
    run(adam, range(300))
    for member, rate in enumerate(RATES):
        expected = torch_adam(untouched.stack, member, rate, range(300))
        for layer, weight in zip(layers_of(workspace, member), expected, strict=True):
            np.testing.assert_allclose(layer, weight, rtol=1e-10, atol=1e-12)


def test_half_the_factor_is_half_the_rate():
    (workspace, adam), (other, _) = start(), start()
    adam.factor, half = 0.5, StackedAdam(other, [rate / 2 for rate in RATES])
    run(adam, range(5))
    run(half, range(5))
    np.testing.assert_allclose(workspace.stack.parameters, other.stack.parameters, rtol=1e-12)


def test_a_frozen_member_rests_at_zero_and_the_others_do_not_change():
    (workspace, adam), (free, free_adam) = start(), start()
    run(adam, range(3))
    run(free_adam, range(3))
    for flat, value in ((workspace.stack.parameters, np.nan), (adam.mean, np.inf), (adam.square, np.inf)):
        for layer in workspace.stack.views(flat):
            layer[1] = value
    adam.freeze(1)
    run(adam, range(3, 6))
    run(free_adam, range(3, 6))
    assert all((layer == 0).all() for layer in layers_of(workspace, 1))
    for member in (0, 2):
        for layer, other in zip(layers_of(workspace, member), layers_of(free, member), strict=True):
            np.testing.assert_array_equal(layer, other)


@pytest.mark.parametrize("chosen", [[2], [1, 1, 0, 2]])
def test_copied_moments_go_on_as_in_the_original(chosen):
    workspace, adam = start()
    run(adam, range(4))
    copied = workspace.stack.take(chosen).workspace()
    of_copies = StackedAdam(copied, [RATES[member] for member in chosen])
    of_copies.copy_moments(adam, chosen)
    gradient = random_gradient(adam.mean.size, 9)
    workspace.gradient[:] = gradient
    for to, of in zip(copied.stack.views(copied.gradient), workspace.stack.views(gradient), strict=True):
        to[:] = of[chosen]
    adam.step()
    of_copies.step()
    for place, member in enumerate(chosen):
        for layer, other in zip(layers_of(copied, place), layers_of(workspace, member), strict=True):
            np.testing.assert_array_equal(layer, other)
