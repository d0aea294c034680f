"""Networks that choose among actions: the surrogate, its gradient, and training."""

from functools import partial

import numpy as np
import pytest
import torch

from recuse import surrogates
from recuse.engine.batches import Batches, Table
from recuse.engine.loop import train_deferrers
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.objectives.deferral import Deferrers, deferral_loss
from recuse.engine.plan import Plan
from recuse.engine.stack import outputs


def costs_of_rows(rows, actions=3, seed=0, dtype=torch.float64):
    """Inputs, and costs of which action k is cheapest where input k is lowest."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, actions))
    costs = np.exp(x) * random.exponential(size=(rows, actions))
    return torch.as_tensor(x, dtype=dtype), torch.as_tensor(costs, dtype=dtype)


def test_one_expert_of_constant_cost_gives_the_logistic_surrogate_of_rejection():
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(50, 2, generator=random, dtype=torch.float64) * 3
    error, cost = torch.rand(50, generator=random, dtype=torch.float64) * 5, 1.7
    r = (scores[:, 0] - scores[:, 1]).requires_grad_()
    accept, reject = surrogates.get("logistic")(r)
    psi = error * accept + cost * reject
    both = torch.stack([error, torch.full_like(error, cost)], dim=1)
    torch.testing.assert_close(deferral_loss(scores, both), psi.detach())
    moved = scores.clone().requires_grad_()
    (slope,) = torch.autograd.grad(deferral_loss(moved, both).sum(), moved)
    (slope_r,) = torch.autograd.grad(psi.sum(), r)
    torch.testing.assert_close(slope, torch.stack([slope_r, -slope_r], dim=1))


def test_the_surrogate_is_lowest_where_each_share_is_that_of_the_other_costs():
    costs = torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)
    best = torch.log(costs.sum() - costs)
    lowest = deferral_loss(best, costs)
    steps = torch.randn(100, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert (deferral_loss(best + steps, costs) > lowest).all()
    assert best.argmax() == costs.argmin()


def test_a_step_follows_the_gradient_of_the_surrogate():
    x, costs = costs_of_rows(40)
    build = partial(StackedMLP, inputs=3, hidden=(5,), outputs=3, dtype=torch.float64)
    weight = torch.rand(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    (batch,) = Batches([Table(x, costs, weight)], torch.device("cpu")).in_order()
    objective = Deferrers([Member(1, 0.0), Member(2, 0.0)], build([1, 2]))
    objective.step(batch)
    stack = build([1, 2])
    scores = stack.forward(batch.x, training=True).clone().requires_grad_()
    loss = (deferral_loss(scores, batch.y, dim=1) * batch.share[:, 0]).sum()
    stack.backward(torch.autograd.grad(loss, scores)[0])
    torch.testing.assert_close(objective.stack.gradient, stack.gradient)


@pytest.mark.parametrize("actions", [2, 4])
def test_trained_networks_choose_the_cheapest_action(actions):
    x, costs = costs_of_rows(3000, actions, dtype=torch.float32)
    build = partial(StackedMLP, inputs=actions, hidden=(16,), outputs=actions)
    train, held_out = Table(x[:2500], costs[:2500]), Table(x[2500:], costs[2500:])
    trained = train_deferrers([train], [held_out], [Member(0, 0.01)], build, Plan(epochs=40, batch_size=128))
    chosen = outputs(trained.regressor, x.double().numpy())[0].argmax(axis=0)
    expected = np.exp(x.numpy())
    paid, best = expected[np.arange(3000), chosen].mean(), expected.min(axis=1).mean()
    assert best < paid < 1.2 * best
    assert not trained.diverged
