"""SelectiveNets: the loss of the paper, gradients, and the same training as a plain script."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from plain_networks import make_table, weights
from recuse.engine.batches import Batches
from recuse.engine.schedule import SelectivePlan
from recuse.engine.selective import SelectiveMember, selective_loss, train_selective
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.engine.stack import outputs, with_bias
from recuse.losses import Absolute, Huber, Pinball, Squared

few = settings(deadline=None, max_examples=20)
shapes = st.lists(st.integers(1, 9), min_size=1, max_size=2).map(tuple)
train = partial(train_selective, hidden=(6,), selection_hidden=4)


# ---- the loss


def random_heads(rows, seed=0, members=2):
    random = np.random.default_rng(seed)
    heads = random.normal(size=(3, members, rows))
    heads[1] = random.uniform(0.05, 0.95, size=(members, rows))
    return heads, random.normal(size=rows), random.uniform(0.1, 1, size=rows)


def torch_loss(heads, target, weight, coverage, plan):
    """The loss of all members, as the paper writes it."""
    (prediction, selection, auxiliary), share = heads, weight / weight.sum()
    error = {Squared: torch.square, Absolute: torch.abs}[type(plan.loss)]
    covered = (share * selection).sum(-1)
    risk = (share * selection * error(prediction - target)).sum(-1) / covered
    missing = torch.relu(coverage - covered) ** 2
    support = (share * error(auxiliary - target)).sum(-1)
    return plan.alpha * (risk + plan.lam * missing) + (1 - plan.alpha) * support


@given(
    rows=st.integers(1, 30),
    coverage=st.floats(0.1, 1.0),
    alpha=st.floats(0.0, 1.0),
    lam=st.floats(0.0, 50.0),
    loss=st.sampled_from([Squared(), Absolute()]),
    seed=st.integers(0, 1000),
)
@few
def test_the_loss_is_that_of_the_paper_and_its_slopes_those_of_autograd(rows, coverage, alpha, lam, loss, seed):
    heads, target, weight = random_heads(rows, seed)
    each, plan = np.array([coverage, 0.5]), SelectivePlan(alpha=alpha, lam=lam, loss=loss)
    value, slopes = selective_loss(heads, target, weight, each, plan)
    inputs = torch.tensor(heads, requires_grad=True)
    expected = torch_loss(inputs, *map(torch.tensor, (target, weight, each)), plan)
    expected.sum().backward()
    np.testing.assert_allclose(value, expected.detach(), rtol=1e-9)
    np.testing.assert_allclose(slopes, inputs.grad, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("loss", [Huber(0.5), Pinball(0.9)], ids=str)
def test_another_loss_takes_the_place_of_the_squared_error(loss):
    heads, target, weight = random_heads(30)
    coverage, residual = np.array([0.3, 0.9]), heads - target
    # predictions whose squared errors are the losses
    stand_in = np.stack([np.sqrt(loss(residual[0])), heads[1], np.sqrt(loss(residual[2]))])
    expected, _ = selective_loss(stand_in, 0 * target, weight, coverage, SelectivePlan())
    value, _ = selective_loss(heads, target, weight, coverage, SelectivePlan(loss=loss))
    np.testing.assert_allclose(value, expected)


@given(factor=st.floats(0.01, 1.0), seed=st.integers(0, 1000))
@few
def test_a_selection_smaller_everywhere_gains_nothing_on_the_risk(factor, seed):
    heads, target, weight = random_heads(20, seed)
    smaller = heads * np.array([1.0, factor, 1.0])[:, None, None]
    risks = [selective_loss(h, target, weight, np.zeros(2), SelectivePlan(alpha=1.0))[0] for h in (heads, smaller)]
    np.testing.assert_allclose(*risks, rtol=1e-9)


# ---- the network


class PlainSelectiveNet(nn.Module):
    """One member as torch would write it."""

    def __init__(self, stack, member):
        super().__init__()
        inner = pairwise((stack.inputs, *stack.hidden))
        self.body, last = nn.Sequential(*(self.hidden(*sizes) for sizes in inner)), stack.hidden[-1]
        selection_hidden = stack.layers(stack.parameters)[-3][0].shape[1]
        self.selection = nn.Sequential(
            self.hidden(last, selection_hidden), nn.Linear(selection_hidden, 1), nn.Sigmoid()
        )
        self.values = nn.Linear(last, 2)  # prediction and auxiliary
        self.double()
        for part, value in zip(self.parts(), stack.views(stack.parameters), strict=True):
            part.data.copy_(torch.tensor(value[member]).view_as(part))

    @staticmethod
    def hidden(into, out):
        return nn.Sequential(nn.Linear(into, out, bias=False), nn.BatchNorm1d(out), nn.ReLU())

    def parts(self):
        """Weights and statistics in the order of the stack."""
        hidden = (*self.body, self.selection[0])
        parts = [p for d, n, _ in hidden for p in (d.weight, n.weight, n.bias, n.running_mean, n.running_var)]
        return [*parts, self.selection[1].weight, self.selection[1].bias, self.values.weight, self.values.bias]

    def forward(self, x):
        x = self.body(x)
        prediction, auxiliary = self.values(x).T
        return torch.stack([prediction, self.selection(x)[:, 0], auxiliary])

    def flat(self, of=lambda part: part):
        return np.concatenate([np.ravel(of(part).detach().numpy()) for part in self.parts()])


@given(
    inputs=st.integers(1, 9),
    hidden=shapes,
    selection_hidden=st.integers(1, 6),
    tables=st.integers(1, 2),
    rows=st.integers(3, 40),
    seed=st.integers(0, 2**31),
)
@few
def test_outputs_gradient_and_running_statistics_equal_the_plain_network(
    inputs, hidden, selection_hidden, tables, rows, seed
):
    stack = StackedSelectiveNet(range(seed, seed + 4), inputs, hidden, selection_hidden, np.float64)
    random = np.random.default_rng(seed)
    table, slopes = random.normal(size=(tables, rows, inputs)), random.normal(size=(3, 4, rows))
    plain, workspace = [PlainSelectiveNet(stack, member) for member in range(4)], stack.workspace()
    x = np.stack([with_bias(each, rows) for each in table])
    heads = workspace.forward(x, training=True).reshape(3, 4, rows)
    workspace.backward(slopes)
    now = stack.forward(x).reshape(3, 4, rows)
    for member, network in enumerate(plain):
        own = torch.tensor(table[member * tables // 4])
        expected = network(own)
        expected.backward(torch.tensor(slopes[:, member]))
        np.testing.assert_allclose(heads[:, member], expected.detach(), rtol=1e-9, atol=1e-9)
        gradient = np.concatenate([part[member].ravel() for part in stack.views(workspace.gradient)])
        ours = network.flat(lambda part: torch.zeros_like(part) if part.grad is None else part.grad)
        np.testing.assert_allclose(gradient, ours, rtol=1e-5, atol=1e-7)
        # and in evaluation, with the running statistics of both
        np.testing.assert_allclose(weights(stack, member), network.flat(), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(now[:, member], network.eval()(own).detach(), rtol=1e-8, atol=1e-9)


def test_running_an_evaluation_changes_nothing():
    stack, x = StackedSelectiveNet([0, 1], 3), with_bias(np.random.default_rng(0).normal(size=(20, 3)), 20)[None]
    before = stack.parameters.copy()
    selection = stack.forward(100 * x).reshape(3, 2, 20)[1]
    assert ((selection >= 0) & (selection <= 1)).all()
    np.testing.assert_array_equal(stack.parameters, before)


# ---- training


@pytest.mark.parametrize("weighted", [False, True])
def test_training_equals_a_plain_script_with_torch_adam(weighted):
    table = make_table(70, 0)  # batches of 24, 24 and 22: none a whole block
    if weighted:
        table = replace(table, weight=np.random.default_rng(0).uniform(0.2, 1.2, 70).astype(np.float32))
    members = [SelectiveMember(0, 1e-2, 0.5), SelectiveMember(1, 3e-3, 0.9)]
    plan = SelectivePlan(epochs=10, batch_size=30, weight_decay=1e-2, alpha=0.6, lam=20.0)
    trained = train([table], members, plan=plan)
    start = StackedSelectiveNet([0, 1], 3, (6,), 4)
    for place, member in enumerate(members):
        network, losses = PlainSelectiveNet(start, place), []
        adam = torch.optim.Adam(network.parameters(), lr=member.learning_rate, weight_decay=plan.weight_decay)
        for epoch in range(plan.epochs):
            for batch in Batches([table]).shuffled(plan.even_batch(70), 0, epoch):
                real = slice(batch.real)
                x, y, share = (torch.tensor(part, dtype=torch.float64) for part in
                               (batch.x[0, :3, real].T, batch.y[0, 0, real], batch.share[0, 0, real]))  # fmt: skip
                adam.zero_grad()
                loss = torch_loss(network(x), y, share, member.coverage, plan)
                loss.backward()
                adam.step()
                losses.append(loss.item())
        np.testing.assert_allclose(trained.history[:, place], np.reshape(losses, (10, -1)).mean(axis=1), rtol=1e-3)
        np.testing.assert_allclose(weights(trained.stack, place), network.flat(), rtol=1e-3, atol=1e-3)


def test_a_member_in_a_stack_equals_the_same_member_alone_bit_by_bit():
    tables = [make_table(90, seed) for seed in (0, 1)]
    members = [SelectiveMember(seed, rate, cov) for seed, rate, cov in [(0, 1e-2, 0.5), (1, 3e-3, 0.9)] * 2]
    plan = SelectivePlan(epochs=15, batch_size=40)
    together = train(tables, members, plan=plan)
    for place, member in enumerate(members):
        alone = train([tables[place // 2]], [member], plan=plan)
        np.testing.assert_array_equal(together.history[:, place], alone.history[:, 0])
        np.testing.assert_array_equal(weights(together.stack, place), weights(alone.stack, 0))


def test_members_keep_their_coverage_and_those_that_cover_less_have_the_smaller_risk():
    table, targets = make_table(300, 0), (0.3, 0.6, 1.0)
    trained = train(
        [table], [SelectiveMember(0, 1e-2, coverage) for coverage in targets], plan=SelectivePlan(epochs=150)
    )
    assert (trained.history[-1] < 0.7 * trained.history[0]).all()
    prediction, selection, _ = outputs(trained.stack, table.x).reshape(3, 3, -1)
    assert selection.mean(axis=1).tolist() == pytest.approx(targets, abs=0.12)
    risk = ((prediction - table.y) ** 2 * selection).sum(axis=1) / selection.sum(axis=1)
    assert risk[0] < 0.7 * risk[2]


@pytest.mark.parametrize(
    ("rows", "size", "even"), [(100, 256, 100), (256, 256, 256), (257, 256, 129), (1000, 256, 250), (5, 2, 2)]
)
def test_batches_are_as_even_as_can_be(rows, size, even):
    assert SelectivePlan(batch_size=size).even_batch(rows) == even


def test_a_batch_of_one_row_is_passed_over():
    # in batches of two, the last of five rows stands alone
    trained = train([make_table(5, 0)], [SelectiveMember(0, 1e-2)], plan=SelectivePlan(epochs=3, batch_size=2))
    assert np.isfinite(trained.history).all()
    assert trained.diverged == {}


def test_a_diverged_member_is_reported_and_the_others_do_not_change():
    table, plan = make_table(60, 0), SelectivePlan(epochs=10)
    members = [SelectiveMember(0, 1e-2), SelectiveMember(1, 1e30), SelectiveMember(2, 1e-2)]
    trained = train([table], members, plan=plan)
    assert list(trained.diverged) == [1]
    assert 0 < trained.diverged[1] < 10
    for place in (0, 2):
        alone = train([table], [members[place]], plan=plan)
        assert alone.diverged == {}
        np.testing.assert_array_equal(weights(trained.stack, place), weights(alone.stack, 0))


def test_weights_that_break_in_the_last_step_count_as_diverged():
    trained = train([make_table(60, 0)], [SelectiveMember(0, 1e39)], plan=SelectivePlan(epochs=1))
    assert np.isfinite(trained.history).all()
    assert trained.diverged == {0: 0}


def test_progress_is_reported_after_each_epoch():
    reported = []
    train([make_table(20, 0)], [SelectiveMember(0)], plan=SelectivePlan(epochs=3, on_epoch=reported.append))
    assert reported == [1, 2, 3]


def test_a_table_or_members_that_do_not_fit_are_refused():
    two, one = [make_table(9, 0)] * 2, [make_table(1, 0)]
    with pytest.raises(ValueError, match=r"^every table needs the same number of members, got 3 members for 2 tables$"):
        train(two, [SelectiveMember(0)] * 3, plan=SelectivePlan())
    with pytest.raises(ValueError, match=r"^batch norm needs at least 2 rows to train on, got 1$"):
        train(one, [SelectiveMember(0)], plan=SelectivePlan())
