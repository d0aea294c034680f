"""Training of pairs and regressors: gradients, Slow-Start, the best epoch, and members that diverge."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from plain_networks import make_table, plain_gradient, plain_network, real_gradient, weights
from recuse import surrogates
from recuse.engine.batches import Batches, Table
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.pairs import Pairs, train_pairs
from recuse.engine.regressors import Regressors, train_regressors
from recuse.engine.schedule import TrainingPlan, slow_start_epochs
from recuse.engine.stack import outputs
from recuse.losses import SQUARED, Absolute, Huber, Pinball, Squared

SURROGATES = ["mae", "hinge", "square", "logistic", "sigmoid"]
LOSSES = [Squared(), Absolute(), Huber(0.5), Pinball(0.9)]
HIDDEN = (5, 4)
TABLES, VALIDATION = [make_table(60, 0)], [make_table(40, 1)]
few = settings(deadline=None, max_examples=25)


def make_pairs(members, loss=SQUARED, rejector_inputs=3, hidden=HIDDEN):
    regressors = Regressors(members, StackedMLP(range(len(members)), 3, hidden, np.float64), loss)
    return Pairs(regressors, StackedMLP(range(100, 100 + len(members)), rejector_inputs, hidden, np.float64))


def gradients(pairs, member):
    return [real_gradient(workspace, member) for workspace in (pairs.regressors._workspace, pairs._workspace)]


def tensors(*columns):
    return [torch.tensor(column) for column in columns]


# ---- one step


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("per_row", [False, True])
@pytest.mark.parametrize("loss", [LOSSES[0], LOSSES[2]], ids=str)
def test_a_step_of_pairs_follows_the_gradient_of_psi(surrogate, per_row, loss):
    table, weight = make_table(40, 0, np.float64), np.full(40, 1.0)
    if per_row:
        weight, cost = np.random.default_rng(1).uniform(size=(2, 40))
        table = replace(table, weight=weight, cost=cost, rejector_x=np.column_stack([table.x, cost]))
    members = [Member(seed, 1e-2, cost=0.75, surrogate=surrogate) for seed in range(3)]
    pairs = make_pairs(members, loss, rejector_inputs=3 + per_row)
    plain = [(plain_network(pairs.regressors.stack, m), plain_network(pairs.rejector, m)) for m in range(3)]
    (batch,) = Batches([table]).in_order()
    pairs.step(batch)
    x, y, share, seen = tensors(table.x, table.y, weight / weight.sum(), table.x if not per_row else table.rejector_x)
    for member, (h, r) in enumerate(plain):
        wrong, right = surrogates.get(surrogate)(r(seen).flatten())
        error = h(x).flatten() - y
        error = error**2 if loss == SQUARED else nn.functional.huber_loss(error, 0 * error, reduction="none", delta=0.5)
        (share * (error * wrong + (torch.tensor(table.cost) if per_row else 0.75) * right)).sum().backward()
        for ours, network in zip(gradients(pairs, member), (h, r), strict=True):
            expected = plain_gradient(network)
            assert np.abs(expected).max() > 1e-3
            np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_the_validation_loss_is_the_weighted_rcr_loss_by_any_loss(loss):
    cost, weight = np.random.default_rng(0).uniform(size=(2, 1500))
    table = make_table(1500, 0, np.float64, cost=cost, weight=weight)  # more than one chunk
    pairs = make_pairs([Member(0, 0.1)], loss)
    prediction, score = (outputs(stack, table.x)[0] for stack in pairs.stacks)
    assert 0 < (score > 0).mean() < 1
    error = loss(prediction - table.y)
    (measured,) = pairs.validate(Batches([table]))
    assert measured == pytest.approx(np.average(np.where(score > 0, error, cost), weights=weight), rel=1e-6)
    (alone,) = pairs.regressors.validate(Batches([table]))
    assert alone == pytest.approx(np.average(error, weights=weight), rel=1e-6)


def test_members_with_different_surrogates_each_follow_their_own():
    (batch,) = Batches([make_table(40, 0, np.float64)]).in_order()
    members = [Member(0, 1e-2, 0.5, name) for name in [*SURROGATES, "mae"]]
    mixed = make_pairs(members)
    mixed.step(batch)
    for place, member in enumerate(members):
        alone = make_pairs([replace(member) for member in [member] * 6])
        alone.step(batch)
        for ours, theirs in zip(gradients(mixed, place), gradients(alone, place), strict=True):
            np.testing.assert_array_equal(ours, theirs)


@given(counts=st.lists(st.integers(0, 4), min_size=1, max_size=30).filter(any), surrogate=st.sampled_from(SURROGATES))
@few
def test_an_integer_weight_equals_repeating_the_row(counts, surrogate):
    table, steps = make_table(len(counts), 3, np.float64), []
    repeated = Table(table.x.repeat(counts, axis=0), table.y.repeat(counts))
    for rows in (replace(table, weight=np.array(counts, float)), repeated):
        pairs = make_pairs([Member(0, 1e-2, 0.5, surrogate)])
        (batch,) = Batches([rows]).in_order()
        pairs.step(batch)
        steps.append(np.concatenate(gradients(pairs, 0)))
    np.testing.assert_allclose(*steps, rtol=1e-9, atol=1e-12)


# ---- members are independent


@pytest.mark.parametrize("loss", [SQUARED, Huber(0.5)], ids=str)
def test_members_trained_together_end_as_trained_alone_bit_by_bit(loss):
    tables, validation = [make_table(60, seed) for seed in (0, 1)], [make_table(40, seed) for seed in (2, 3)]
    members = [
        Member(seed, 1e-2, 0.3 * (1 + seed), SURROGATES[3 * table + seed], table)
        for table in (0, 1) for seed in (0, 1)
    ]  # fmt: skip
    plan = TrainingPlan(epochs=20, slow_start=8, batch_size=25)
    together = train_pairs(tables, validation, members, HIDDEN, plan, loss)
    regressors = train_regressors(tables, validation, members, HIDDEN, plan, loss)
    for i, member in enumerate(members):
        own = [tables[member.table]], [validation[member.table]], [replace(member, table=0)], HIDDEN, plan, loss
        alone = train_pairs(*own)
        np.testing.assert_array_equal(together.history[:, i], alone.history[:, 0])
        np.testing.assert_array_equal(weights(together.regressor, i), weights(alone.regressor, 0))
        np.testing.assert_array_equal(weights(together.rejector, i), weights(alone.rejector, 0))
        np.testing.assert_array_equal(weights(regressors.regressor, i), weights(train_regressors(*own).regressor, 0))


def test_members_of_the_size_of_the_paper_trained_together_end_as_trained_alone_bit_by_bit():
    table, new = make_table(700, 0), make_table(300, 1)
    members, plan = [Member(seed, 1e-2, 0.5) for seed in range(9)], TrainingPlan(epochs=4, slow_start=1, batch_size=512)
    together = train_pairs([table], [new], members, (20, 30, 10), plan)
    for i in (0, 8):
        alone = train_pairs([table], [new], members[i : i + 1], (20, 30, 10), plan)
        np.testing.assert_array_equal(weights(together.rejector, i), weights(alone.rejector, 0))


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("slow_start", [0, 5])
def test_a_member_that_diverges_is_dropped_and_the_others_do_not_change(surrogate, slow_start):
    plan = TrainingPlan(epochs=30, slow_start=slow_start, batch_size=25)
    sane = [Member(seed, 1e-2, 0.5, name) for seed, name in enumerate(SURROGATES)]
    absurd = Member(9, 1e30, 0.5, surrogate)
    mixed = train_pairs(TABLES, VALIDATION, [*sane[:2], absurd, *sane[2:]], HIDDEN, plan)
    assert list(mixed.diverged) == [2]
    assert slow_start <= mixed.diverged[2] < plan.epochs
    assert mixed.loss[2] == np.inf
    assert mixed.epoch[2] == -1
    without = train_pairs(TABLES, VALIDATION, sane, HIDDEN, plan)
    for theirs, ours in enumerate([0, 1, 3, 4, 5]):
        assert mixed.loss[ours] == without.loss[theirs]
        np.testing.assert_array_equal(weights(mixed.regressor, ours), weights(without.regressor, theirs))
        np.testing.assert_array_equal(weights(mixed.rejector, ours), weights(without.rejector, theirs))


@pytest.mark.parametrize("broken", [0, 1])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_rejection_does_not_hide_an_undefined_network(broken, value):
    pairs = make_pairs([Member(0, 0.1)] * 2, hidden=())
    pairs.rejector.views(pairs.rejector.parameters)[0][:, 0, :4] = [0.0, 0, 0, -1]  # all rejected
    stack = pairs.stacks[broken]
    stack.views(stack.parameters)[0][0, 0, 3] = value
    with np.errstate(all="ignore"):
        loss = pairs.validate(Batches([make_table(20, 0)]))
    assert not np.isfinite(loss[0])
    assert loss[1] == pytest.approx(1)


# ---- Slow-Start


@given(slow_start=st.integers(0, 2000), epochs=st.integers(1, 2000))
def test_slow_start_is_limited_to_half_of_the_epochs(slow_start, epochs):
    count = slow_start_epochs(slow_start, epochs)
    assert count == slow_start if 2 * slow_start <= epochs else count == epochs // 2
    assert count < epochs


def test_a_shared_slow_start_equals_one_of_the_members_own():
    members = [Member(0, 3e-2, cost, name) for cost in (0.3, 0.8) for name in SURROGATES]
    plan = TrainingPlan(epochs=40, slow_start=15, batch_size=25)
    shared = train_pairs(TABLES, VALIDATION, members, HIDDEN, plan)
    for i, member in enumerate(members):
        own = train_pairs(TABLES, VALIDATION, [member], HIDDEN, plan)
        np.testing.assert_array_equal(shared.history[:, i], own.history[:, 0])
        np.testing.assert_array_equal(weights(shared.rejector, i), weights(own.rejector, 0))


def test_equal_costs_per_row_equal_one_cost():
    plan = TrainingPlan(epochs=20, slow_start=5, batch_size=25)
    one = train_pairs(TABLES, VALIDATION, [Member(0, 1e-2, 0.5)], HIDDEN, plan)
    per_row = [[replace(t, cost=np.full_like(t.y, 0.5)) for t in part] for part in (TABLES, VALIDATION)]
    rows = train_pairs(*per_row, [Member(0, 1e-2, 99.0)], HIDDEN, plan)
    np.testing.assert_allclose(rows.history, one.history, rtol=1e-5)
    np.testing.assert_allclose(rows.regressor.parameters, one.regressor.parameters, rtol=1e-4, atol=1e-6)


def test_tables_may_have_different_numbers_of_slow_starts():
    rates, costs = [1e-2, 1e-2, 1e-2, 1e-2, 3e-2, 1e-1], [0.3, 0.6, 0.9] * 2
    members = [Member(0, rates[i], costs[i], table=i // 3) for i in range(6)]  # one Slow-Start, then three
    tables, validation = [make_table(60, s) for s in (0, 1)], [make_table(40, s) for s in (2, 3)]
    plan = TrainingPlan(epochs=20, slow_start=8, batch_size=25)
    together = train_pairs(tables, validation, members, HIDDEN, plan)
    for table in (0, 1):
        mine = [replace(m, table=0) for m in members if m.table == table]
        apart = train_pairs([tables[table]], [validation[table]], mine, HIDDEN, plan)
        np.testing.assert_array_equal(together.loss[3 * table : 3 * table + 3], apart.loss)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("batch_size", [1024, 25])
def test_a_training_of_a_pair_equals_a_plain_script(surrogate, batch_size):
    """Slow-Start on the squared error with the rejector at rest, then psi; Adam, and the RcR loss of every epoch."""
    table, new, member = TABLES[0], VALIDATION[0], Member(1, 1e-2, 0.5, surrogate)
    plan, loss = TrainingPlan(epochs=25, slow_start=10, batch_size=batch_size), surrogates.get(surrogate)
    h, r = (plain_network(StackedMLP([seed], 3, HIDDEN), 0) for seed in (member.seed, member.rejector_seed))
    h_adam, r_adam = (torch.optim.Adam(network.parameters(), lr=1e-2) for network in (h, r))
    x_new, y_new = tensors(new.x, new.y)
    history, snapshots = [], []
    for epoch in range(plan.epochs):
        joint = epoch >= plan.slow_start
        for batch in Batches([table]).shuffled(batch_size, int(joint), epoch - joint * plan.slow_start):
            x, y = tensors(batch.x[0, :3, : batch.real].T, batch.y[0, 0, : batch.real])
            error = (h(x).flatten() - y) ** 2
            wrong, right = loss(r(x).flatten())
            h_adam.zero_grad(), r_adam.zero_grad()
            (error * wrong + 0.5 * right if joint else error).mean().backward()
            h_adam.step()
            if joint:
                r_adam.step()
        with torch.no_grad():
            rcr = torch.where(r(x_new).flatten() > 0, (h(x_new).flatten() - y_new) ** 2, 0.5).mean()
        if joint:
            history.append(float(rcr))
            snapshots.append(copy.deepcopy((h, r)))
    trained = train_pairs(TABLES, VALIDATION, [member], HIDDEN, plan)
    np.testing.assert_allclose(trained.history[:, 0], history, rtol=1e-3)
    assert trained.epoch[0] == plan.slow_start + np.argmin(history)
    best = snapshots[int(np.argmin(history))]
    for stack, network in zip((trained.regressor, trained.rejector), best, strict=True):
        expected = network(x_new).detach().flatten()
        np.testing.assert_allclose(outputs(stack, new.x)[0], expected, rtol=1e-3, atol=1e-3)


# ---- the best epoch


def test_the_weights_left_behind_are_those_of_the_best_epoch():
    members = [Member(seed, rate, 0.5, name) for seed, name in enumerate(SURROGATES) for rate in (1e-2, 2e-1)]
    trained = train_pairs(TABLES, VALIDATION, members, HIDDEN, TrainingPlan(epochs=60, slow_start=10, batch_size=25))
    again = Pairs(Regressors(members, trained.regressor), trained.rejector).validate(Batches(VALIDATION))
    np.testing.assert_array_equal(again, trained.loss)
    np.testing.assert_array_equal(trained.loss, trained.history.min(axis=0))
    np.testing.assert_array_equal(trained.epoch, 10 + trained.history.argmin(axis=0))
    assert (trained.history[-1] > trained.loss).any()  # else the last epoch would do as well
    assert trained.diverged == {}


@pytest.mark.parametrize("hidden", [(), (6, 5)])
@pytest.mark.parametrize("decay", [False, True])
def test_regressors_equal_a_plain_loop_on_the_squared_error(hidden, decay):
    (table,), (new,) = TABLES, VALIDATION
    members = [Member(seed, rate) for seed, rate in enumerate([1e-1, 1e-2, 1e-3])]
    trained = train_regressors([table], [new], members, hidden, TrainingPlan(epochs=25, decay=decay))
    x, y, x_new, y_new = tensors(table.x, table.y, new.x, new.y)
    for i, member in enumerate(members):
        network = plain_network(StackedMLP([0, 1, 2], 3, hidden), i)
        adam = torch.optim.Adam(network.parameters(), lr=member.learning_rate)
        cosine = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 25 if decay else 10**9)
        history = []
        for _ in range(25):
            adam.zero_grad()
            nn.functional.mse_loss(network(x).flatten(), y).backward()
            adam.step()
            cosine.step()
            history.append(nn.functional.mse_loss(network(x_new).flatten(), y_new).item())
        np.testing.assert_allclose(trained.history[:, i], history, rtol=1e-4)
        assert trained.epoch[i] == np.argmin(trained.history[:, i])
    assert trained.rejector is None


# ---- the order of members, and progress


@pytest.mark.parametrize("tables", [[1, 0], [0, 1, 0], [0, 0, 1], [0, 2]])
def test_members_out_of_order_or_unevenly_spread_are_refused(tables):
    members = [Member(0, 1e-2, table=table) for table in tables]
    data = [make_table(10, s) for s in range(max(tables) + 1)]
    for train in (train_pairs, train_regressors):
        with pytest.raises(ValueError, match="ordered by table, with the same number for each table, got tables"):
            train(data, data, members, HIDDEN, TrainingPlan(epochs=2))


@pytest.mark.parametrize(("tables", "validation", "members"), [(1, 1, 2), (2, 2, 1), (2, 1, 2), (1, 2, 1)])
def test_a_table_without_members_or_validation_is_refused(tables, validation, members):
    data = [make_table(10, s) for s in range(2)]
    everyone = [Member(0, 1e-2, table=table) for table in range(members)]
    for train in (train_pairs, train_regressors):
        with pytest.raises(ValueError, match=f"got {tables} tables, {validation} validation tables and members for"):
            train(data[:tables], data[:validation], everyone, HIDDEN, TrainingPlan(epochs=2))


@given(epochs=st.integers(1, 12), slow_start=st.integers(0, 12))
@few
def test_every_epoch_is_reported_once_in_order(epochs, slow_start):
    table, seen = [make_table(10, 0)], []
    plan = TrainingPlan(epochs=epochs, slow_start=slow_start, on_epoch=seen.append)
    for train in (train_pairs, train_regressors):
        train(table, table, [Member(0, 1e-2)], (), plan)
        assert seen == list(range(1, epochs + 1))
        seen.clear()
