"""SelectiveNets: the loss of the paper, and the same training as a plain script."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from recuse.engine.batches import Batches, Table
from recuse.engine.loop import train_selective
from recuse.engine.objectives.selective import SelectiveMember, SelectiveNets, selective_loss
from recuse.engine.plan import SelectivePlan
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.losses import Absolute, Huber, Pinball

CPU = torch.device("cpu")
few = settings(deadline=None, max_examples=25)


def make_table(rows, seed=0, dtype=torch.float32, **columns):
    """Noise that grows with the second feature, so that selecting pays."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 3))
    y = x[:, 0] + 0.5 * random.normal(size=rows) * (1 + np.abs(x[:, 1]))
    return Table(torch.as_tensor(x, dtype=dtype), torch.as_tensor(y, dtype=dtype), seed=seed, **columns)


def build(seeds, dtype=torch.float32):
    return StackedSelectiveNet(seeds, inputs=3, hidden=(6,), selection_hidden=4, dtype=dtype)


build_double = partial(build, dtype=torch.float64)


def random_heads(rows, seed=0, members=2):
    heads = torch.randn(3, members, rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    heads[1] = heads[1].sigmoid()
    return heads


def weights(stack, member):
    return [part[member] for part in stack.views(stack.parameters)]


# ---- the loss


def plain_loss(heads, target, weight, coverage, alpha, lam):
    """One member's loss, as the paper writes it."""
    prediction, selection, auxiliary = heads
    mean = partial(np.average, weights=weight)
    covered = mean(selection)
    risk = mean((prediction - target) ** 2 * selection) / covered
    return alpha * (risk + lam * max(0.0, coverage - covered) ** 2) + (1 - alpha) * mean((auxiliary - target) ** 2)


@given(
    rows=st.integers(1, 30),
    coverage=st.floats(0.1, 1.0),
    alpha=st.floats(0.0, 1.0),
    lam=st.floats(0.0, 50.0),
    seed=st.integers(0, 1000),
)
@few
def test_the_loss_is_that_of_the_paper(rows, coverage, alpha, lam, seed):
    heads = random_heads(rows, seed)
    target, weight = torch.rand(2, rows, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1
    each = torch.tensor([coverage, 0.5], dtype=torch.float64)
    loss = selective_loss(heads, target, weight, each, alpha=alpha, lam=lam)
    for member in range(2):
        expected = plain_loss(*map(np.asarray, (heads[:, member], target, weight)), each[member].item(), alpha, lam)
        assert loss[member].item() == pytest.approx(expected, rel=1e-9)


@given(factor=st.floats(0.01, 1.0), seed=st.integers(0, 1000))
@few
def test_a_selection_smaller_everywhere_gains_nothing_on_the_risk(factor, seed):
    heads, target, weight = random_heads(20, seed), torch.zeros(20).double(), torch.ones(20).double()
    risk = partial(selective_loss, target=target, weight=weight, coverage=torch.zeros(2).double(), alpha=1.0)
    smaller = heads * torch.tensor([1.0, factor, 1.0]).double()[:, None, None]
    torch.testing.assert_close(risk(smaller), risk(heads), rtol=1e-9, atol=0)


@pytest.mark.parametrize("loss", [Absolute(), Huber(0.5), Pinball(0.9)], ids=str)
def test_another_loss_takes_the_place_of_the_squared_error(loss):
    heads, target = random_heads(30), torch.randn(30, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    weight, coverage = torch.ones(30).double(), torch.tensor([0.3, 0.9]).double()
    residual = heads - target
    # predictions whose squared errors are the losses
    stand_in = torch.stack([loss(residual[0]).sqrt(), heads[1], loss(residual[2]).sqrt()])
    expected = selective_loss(stand_in, torch.zeros_like(target), weight, coverage)
    torch.testing.assert_close(selective_loss(heads, target, weight, coverage, loss=loss), expected)


def test_the_penalty_acts_below_the_coverage_and_not_above():
    heads = random_heads(20)
    target, weight = torch.zeros(20).double(), torch.ones(20).double()
    at = partial(selective_loss, heads, target, weight, alpha=1.0)
    covered = heads[1].mean(dim=1)
    torch.testing.assert_close(at(covered - 0.1, lam=32.0), at(covered, lam=0.0))
    torch.testing.assert_close(at(covered + 0.1, lam=32.0), at(covered, lam=0.0) + 32 * 0.1**2)


def test_the_gradient_of_the_loss_is_right():
    heads = random_heads(6).requires_grad_()
    target, weight = torch.randn(6).double(), torch.rand(6).double() + 0.5
    coverage = torch.tensor([0.3, 0.9]).double()  # one with a penalty, one without
    torch.autograd.gradcheck(lambda heads: selective_loss(heads, target, weight, coverage), heads)


@given(counts=st.lists(st.integers(0, 4), min_size=1, max_size=20).filter(any))
@few
def test_an_integer_weight_equals_repeating_the_row(counts):
    heads, repeats = random_heads(len(counts)), torch.tensor(counts)
    target, coverage = torch.linspace(-1, 1, len(counts)).double(), torch.tensor([0.7, 0.9]).double()
    weighted = selective_loss(heads, target, repeats.double(), coverage)
    copied = [tensor.repeat_interleave(repeats, dim=-1) for tensor in (heads, target)]
    torch.testing.assert_close(selective_loss(*copied, torch.ones(sum(counts)).double(), coverage), weighted)


# ---- training against a plain script


class PlainSelectiveNet(nn.Module):
    def __init__(self, stack, member):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 6, bias=False), nn.BatchNorm1d(6), nn.ReLU())
        hidden = nn.Sequential(nn.Linear(6, 4, bias=False), nn.BatchNorm1d(4), nn.ReLU())
        self.selection = nn.Sequential(hidden, nn.Linear(4, 1), nn.Sigmoid())
        self.values = nn.Linear(6, 2)  # prediction and auxiliary
        self.double()
        ours, theirs = weights(stack, member), self.parts()
        for part, value in zip(theirs, ours, strict=True):
            part.data.copy_(value.view_as(part))

    def parts(self):
        """Weights and statistics in the order of the stack."""
        hidden = (self.body, self.selection[0])
        parts = [p for d, n, _ in hidden for p in (d.weight, n.weight, n.bias, n.running_mean, n.running_var)]
        return [*parts, self.selection[1].weight, self.selection[1].bias, self.values.weight, self.values.bias]

    def forward(self, x):
        x = self.body(x)
        prediction, auxiliary = self.values(x).T
        return prediction, self.selection(x)[:, 0], auxiliary


def plain_training(network, table, member, plan):
    """Give what a plain script makes of the network, on the same minibatches."""
    adam = torch.optim.Adam(network.parameters(), lr=member.learning_rate, weight_decay=plan.weight_decay)
    for epoch in range(plan.epochs):
        for batch in Batches([table], CPU).shuffled(plan.even_batch(len(table.y)), 0, epoch):
            x, y = batch.x[0, :3, : batch.real].T, batch.y[0, 0, : batch.real]
            weight = batch.share[0, 0, : batch.real] / batch.share.sum()
            prediction, selection, auxiliary = network(x)
            covered = (weight * selection).sum()
            risk = (weight * selection * (prediction - y) ** 2).sum() / covered
            missed = torch.relu(member.coverage - covered) ** 2
            support = (weight * (auxiliary - y) ** 2).sum()
            adam.zero_grad()
            (plan.alpha * (risk + plan.lam * missed) + (1 - plan.alpha) * support).backward()
            adam.step()
    return network


@pytest.mark.parametrize("weighted", [False, True])
def test_training_equals_a_plain_script_with_torch_adam(weighted):
    table = make_table(70, dtype=torch.float64)  # batches of 24, 24 and 22: none a whole block
    if weighted:
        table = replace(table, weight=torch.rand(70, generator=torch.Generator().manual_seed(0)).double() + 0.2)
    members = [SelectiveMember(0, 1e-2, 0.5), SelectiveMember(1, 3e-3, 0.9)]
    plan = SelectivePlan(epochs=15, batch_size=30, weight_decay=1e-2, alpha=0.6, lam=20.0)
    start = build_double([0, 1])
    trained = train_selective([table], members, build_double, plan)
    for place, member in enumerate(members):
        plain = plain_training(PlainSelectiveNet(start, place), table, member, plan)
        for ours, theirs in zip(weights(trained.stack, place), plain.parts(), strict=True):
            torch.testing.assert_close(ours, theirs.detach().view_as(ours), rtol=1e-5, atol=1e-7)


# ---- the loop


def test_a_member_in_a_stack_equals_the_same_member_alone():
    tables = [make_table(90, seed) for seed in (0, 1)]
    members = [SelectiveMember(seed, rate, cov) for seed, rate, cov in [(0, 1e-2, 0.5), (1, 3e-3, 0.9)] * 2]
    plan = SelectivePlan(epochs=25, batch_size=40)
    together = train_selective(tables, members, build, plan)
    for place, member in enumerate(members):
        alone = train_selective([tables[place // 2]], [member], build, plan)
        torch.testing.assert_close(together.history[:, place], alone.history[:, 0], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(weights(together.stack, place), weights(alone.stack, 0), rtol=1e-4, atol=1e-5)


def test_training_lowers_the_loss_and_keeps_the_coverage():
    table = make_table(300)
    members = [SelectiveMember(0, 1e-2, coverage) for coverage in (0.3, 0.6, 0.9)]
    trained = train_selective([table], members, build, SelectivePlan(epochs=150))
    assert (trained.history[-1] < 0.7 * trained.history[0]).all()
    (batch,) = Batches([table], CPU).in_order()
    selection = trained.stack.forward(batch.x).view(3, 3, -1)[1, :, : batch.real]
    for target, mean in zip((0.3, 0.6, 0.9), selection.mean(dim=1).tolist(), strict=True):
        assert mean == pytest.approx(target, abs=0.12)


def test_the_members_that_cover_less_have_the_smaller_risk():
    table = make_table(300)
    trained = train_selective(
        [table], [SelectiveMember(0, 1e-2, coverage) for coverage in (0.3, 1.0)], build, SelectivePlan(epochs=150)
    )
    (batch,) = Batches([table], CPU).in_order()
    prediction, selection, _ = trained.stack.forward(batch.x).view(3, 2, -1)[..., : batch.real]
    error = (prediction - table.y) ** 2
    narrow, wide = (error * selection).sum(dim=1) / selection.sum(dim=1)
    assert narrow < 0.7 * wide


def test_without_the_division_a_script_would_not_have_this_loss():
    """Without the division by mean(g), a smaller selection would lower the loss; with it, it does not."""
    heads = random_heads(20, members=1).requires_grad_()
    target, weight = torch.zeros(20).double(), torch.ones(20).double()
    loss = selective_loss(heads, target, weight, torch.zeros(1).double(), alpha=1.0)
    (ours,) = torch.autograd.grad(loss.sum(), heads)
    (theirs,) = torch.autograd.grad((heads[1] * heads[0] ** 2).mean(), heads)
    along = heads[1].detach()  # the direction of a selection larger everywhere, by a factor
    assert (ours[1] * along).sum().abs() < 1e-12
    assert (theirs[1] * along).sum() > 0.1


@pytest.mark.parametrize(
    ("rows", "size", "even"), [(100, 256, 100), (256, 256, 256), (257, 256, 129), (1000, 256, 250), (5, 2, 2)]
)
def test_batches_are_as_even_as_can_be(rows, size, even):
    assert SelectivePlan(batch_size=size).even_batch(rows) == even


def test_a_batch_of_one_row_is_passed_over():
    table = make_table(5)  # in batches of two, the last row stands alone
    trained = train_selective([table], [SelectiveMember(0, 1e-2)], build, SelectivePlan(epochs=3, batch_size=2))
    assert trained.history.isfinite().all()
    assert trained.diverged == {}


def test_the_running_statistics_are_those_of_the_rows():
    table = make_table(60)
    trained = train_selective([table], [SelectiveMember(0, 1e-9)], build, SelectivePlan(epochs=200))
    weight, _, _, mean, variance = (part[0] for part in trained.stack.views(trained.stack.parameters)[:5])
    raw = table.x @ weight.T
    torch.testing.assert_close(mean, raw.mean(dim=0), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(variance, raw.var(dim=0), rtol=1e-3, atol=1e-4)


def test_a_diverged_member_is_reported_and_the_others_do_not_change():
    table, plan = make_table(60), SelectivePlan(epochs=10)
    members = [SelectiveMember(0, 1e-2), SelectiveMember(1, 1e30), SelectiveMember(2, 1e-2)]
    trained = train_selective([table], members, build, plan)
    assert list(trained.diverged) == [1]
    assert 0 < trained.diverged[1] < 10
    for place in (0, 2):
        alone = train_selective([table], [members[place]], build, plan)
        assert alone.diverged == {}
        torch.testing.assert_close(weights(trained.stack, place), weights(alone.stack, 0), rtol=1e-4, atol=1e-5)


def test_weights_that_break_in_the_last_step_count_as_diverged():
    table = make_table(60)
    trained = train_selective([table], [SelectiveMember(0, 1e39)], build, SelectivePlan(epochs=1))
    assert trained.history.isfinite().all()
    assert trained.diverged == {0: 0}


def test_progress_is_reported_after_each_epoch():
    reported = []
    train_selective([make_table(20)], [SelectiveMember(0)], build, SelectivePlan(epochs=3, on_epoch=reported.append))
    assert reported == [1, 2, 3]


def test_the_training_loss_is_that_before_the_step():
    (batch,) = Batches([make_table(50, dtype=torch.float64)], CPU).in_order()
    objective = SelectiveNets([SelectiveMember(0, 1e-2)], build_double([0]))
    heads = build_double([0]).forward(batch.x[..., :50], training=True).view(3, 1, 50)
    expected = selective_loss(heads, batch.y[0, :, :50], batch.share[0, :, :50], torch.tensor([0.7]).double())
    objective.step(batch)
    torch.testing.assert_close(objective.training_loss(), expected)


def test_a_table_or_members_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"^every table needs the same number of members, got 3 members for 2 tables$"):
        train_selective([make_table(9), make_table(9)], [SelectiveMember(0)] * 3, build, SelectivePlan())
    with pytest.raises(ValueError, match=r"^batch norm needs at least 2 rows to train on, got 1$"):
        train_selective([make_table(1)], [SelectiveMember(0)], build, SelectivePlan())
