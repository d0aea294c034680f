"""Training of pairs and regressors: gradients, Slow-Start, the best epoch, and members that diverge."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from recuse import surrogates
from recuse.engine.batches import Batches, Table
from recuse.engine.loop import train_regressors
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.objectives.pairs import Pairs, Regressors
from recuse.engine.pairs import train_pairs
from recuse.engine.plan import Networks, Plan
from recuse.engine.stack import outputs
from recuse.engine.user_modules import LoopedModules
from recuse.losses import SQUARED, Absolute, Huber, Pinball, Squared

CPU = torch.device("cpu")
SURROGATES = ["mae", "hinge", "square", "logistic", "sigmoid"]
LOSSES = [Squared(), Absolute(), Huber(0.5), Pinball(0.9)]
few = settings(deadline=None, max_examples=25)


def make_table(rows, seed, dtype=torch.float32, **columns):
    """Noise that grows with the second feature, so that rejecting pays."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 3))
    y = x[:, 0] + 0.5 * random.normal(size=rows) * (1 + np.abs(x[:, 1]))
    return Table(torch.as_tensor(x, dtype=dtype), torch.as_tensor(y, dtype=dtype), seed=seed, **columns)


def several_targets(table, count):
    """The same rows with as many targets, each of its own size."""
    if count == 1:
        return table
    return replace(table, y=torch.stack([table.y * (i + 1) + i * table.x[:, 2] for i in range(count)], dim=1))


def make_networks(hidden=(5, 4), dtype=torch.float32, rejector_inputs=3):
    build = partial(StackedMLP, hidden=hidden, dtype=dtype)
    return Networks(partial(build, inputs=3), partial(build, inputs=rejector_inputs))


def make_pairs(members, regressor, rejector, loss=SQUARED):
    return Pairs(Regressors(members, regressor, loss), rejector)


def weights(stack, member):
    return [layer[member] for layer in stack.views(stack.parameters)]


def same_weights(stack, member, other, other_member):
    return all(map(torch.equal, weights(stack, member), weights(other, other_member)))


def plain_network(stack, member):
    layers = []
    sizes = pairwise((stack.inputs, *stack.hidden, stack.outputs))
    for weight, (into, out) in zip(weights(stack, member), sizes, strict=True):
        linear = nn.Linear(into, out, dtype=weight.dtype)
        linear.weight.data, linear.bias.data = weight[:out, :into].clone(), weight[:out, into].clone()
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def real_gradient(stack, member):
    """The gradient of one member's weights, as (weight, bias) of each layer, flat."""
    parts = []
    sizes = pairwise((stack.inputs, *stack.hidden, stack.outputs))
    for layer, (into, out) in zip(stack.views(stack.gradient), sizes, strict=True):
        parts += [layer[member, :out, :into].flatten(), layer[member, :out, into]]
    return torch.cat(parts)


def autograd_gradient(network):
    return torch.cat([p.grad.flatten() for p in network.parameters()])


# ---- one step


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("per_row", [False, True])
def test_a_step_of_pairs_follows_the_gradient_of_psi(surrogate, per_row):
    table = make_table(40, 0, torch.float64)
    if per_row:
        weight, cost = torch.rand(2, 40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        table = replace(table, weight=weight, cost=cost, rejector_x=torch.cat([table.x, cost[:, None]], dim=1))
    members = [Member(seed, 1e-2, cost=0.75, surrogate=surrogate) for seed in range(3)]
    networks = make_networks(dtype=torch.float64, rejector_inputs=3 + per_row)
    pairs = make_pairs(members, networks.regressors([0, 1, 2]), networks.rejectors([3, 4, 5]))
    plain = [(plain_network(pairs.regressors.stack, m), plain_network(pairs.rejector, m)) for m in range(3)]
    (batch,) = Batches([table], CPU).in_order()
    pairs.step(batch)

    share = torch.full((40,), 1 / 40) if table.weight is None else table.weight / table.weight.sum()
    for member, (h, r) in enumerate(plain):
        wrong, right = surrogates.get(surrogate)(r(table.x if table.rejector_x is None else table.rejector_x).flatten())
        psi = (h(table.x).flatten() - table.y) ** 2 * wrong + (table.cost if per_row else 0.75) * right
        (share * psi).sum().backward()
        for stack, network in ((pairs.regressors.stack, h), (pairs.rejector, r)):
            gradient, expected = real_gradient(stack, member), autograd_gradient(network)
            assert expected.abs().max() > 1e-3
            torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("targets", [1, 3])
def test_a_step_follows_the_gradient_of_psi_for_any_loss_and_several_targets(loss, targets):
    table = several_targets(make_table(40, 0, torch.float64), targets)
    weight = torch.rand(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    table = replace(table, weight=weight)
    members = [Member(seed, 1e-2, cost=0.75, surrogate="logistic") for seed in range(3)]
    build = partial(StackedMLP, inputs=3, hidden=(5, 4), dtype=torch.float64)
    pairs = make_pairs(members, build([0, 1, 2], outputs=targets), build([3, 4, 5]), loss)
    plain = [(plain_network(pairs.regressors.stack, m), plain_network(pairs.rejector, m)) for m in range(3)]
    (batch,) = Batches([table], CPU).in_order()
    pairs.step(batch)
    alone = Regressors(members, build([0, 1, 2], outputs=targets), loss)
    alone.step(batch)

    share = weight / weight.sum()
    for member, (h, r) in enumerate(plain):
        wrong, right = surrogates.get("logistic")(r(table.x).flatten())
        error = loss(h(table.x) - table.y.view(40, -1)).mean(dim=1)
        (share * (error * wrong + 0.75 * right)).sum().backward(retain_graph=True)
        for stack, network in ((pairs.regressors.stack, h), (pairs.rejector, r)):
            torch.testing.assert_close(real_gradient(stack, member), autograd_gradient(network), rtol=1e-6, atol=1e-8)
        h.zero_grad()
        (share * error).sum().backward()
        torch.testing.assert_close(real_gradient(alone.stack, member), autograd_gradient(h), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=str)
@pytest.mark.parametrize("targets", [1, 3])
def test_the_validation_loss_is_the_rcr_loss_by_any_loss_of_several_targets(loss, targets):
    table = several_targets(make_table(1500, 0, torch.float64), targets)  # more than one chunk
    build = partial(StackedMLP, inputs=3, hidden=(5, 4), dtype=torch.float64)
    pairs = make_pairs([Member(0, 0.1, cost=0.5)], build([0], outputs=targets), build([1]), loss)
    (score,) = outputs(pairs.rejector, table.x.numpy())
    prediction = outputs(pairs.regressors.stack, table.x.numpy()).reshape(targets, -1).T
    error = loss(prediction - table.y.view(1500, -1).numpy()).mean(axis=1)
    expected = np.where(score > 0, error, 0.5).mean()
    (measured,) = pairs.validate(Batches([table], CPU))
    assert measured.item() == pytest.approx(expected, rel=1e-6)
    (alone,) = Regressors([Member(0, 0.1)], pairs.regressors.stack, loss).validate(Batches([table], CPU))
    assert alone.item() == pytest.approx(error.mean(), rel=1e-6)


@pytest.mark.parametrize("targets", [1, 2])
def test_members_of_any_loss_trained_together_end_as_trained_alone(targets):
    tables = [several_targets(make_table(60, seed), targets) for seed in (0, 1)]
    validation = [several_targets(make_table(40, seed), targets) for seed in (2, 3)]
    build = partial(StackedMLP, inputs=3, hidden=(5, 4))
    networks = Networks(partial(build, outputs=targets), build)
    members = [Member(seed, 1e-2, 0.5, table=table) for table in (0, 1) for seed in (0, 1)]
    plan, loss = Plan(epochs=20, slow_start=8, batch_size=25), Huber(0.5)
    together = train_pairs(tables, validation, members, networks, plan, loss)
    for i, member in enumerate(members):
        own = [tables[member.table]], [validation[member.table]]
        alone = train_pairs(*own, [replace(member, table=0)], networks, plan, loss)
        torch.testing.assert_close(together.history[:, i], alone.history[:, 0], rtol=1e-4, atol=0)
        torch.testing.assert_close(weights(together.regressor, i), weights(alone.regressor, 0), rtol=1e-4, atol=1e-6)


def test_members_with_different_surrogates_each_follow_their_own():
    (batch,) = Batches([make_table(40, 0)], CPU).in_order()
    members = [Member(seed, 1e-2, 0.5, name) for seed, name in enumerate([*SURROGATES, "mae"])]
    networks = make_networks()
    mixed = make_pairs(members, networks.regressors(range(6)), networks.rejectors(range(6, 12)))
    mixed.step(batch)
    for seed, member in enumerate(members):
        alone = make_pairs([member], networks.regressors([seed]), networks.rejectors([seed + 6]))
        alone.step(batch)
        for ours, theirs in zip(mixed.stacks, alone.stacks, strict=True):
            torch.testing.assert_close(real_gradient(ours, seed), real_gradient(theirs, 0), rtol=1e-5, atol=1e-7)


def one_step(table, surrogate="logistic", cost=0.5):
    networks = make_networks(dtype=torch.float64)
    member = Member(0, 1e-2, cost, surrogate)
    pairs = make_pairs([member], networks.regressors([0]), networks.rejectors([1]))
    (batch,) = Batches([table], CPU).in_order()
    pairs.step(batch)
    return torch.cat([pairs.regressors.stack.gradient, pairs.rejector.gradient])


@given(counts=st.lists(st.integers(0, 4), min_size=1, max_size=30).filter(any), surrogate=st.sampled_from(SURROGATES))
@few
def test_an_integer_weight_equals_repeating_the_row(counts, surrogate):
    table = make_table(len(counts), 3, torch.float64)
    repeats = torch.tensor(counts)
    weighted = replace(table, weight=repeats.double())
    repeated = Table(table.x.repeat_interleave(repeats, dim=0), table.y.repeat_interleave(repeats))
    torch.testing.assert_close(one_step(weighted, surrogate), one_step(repeated, surrogate), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_equal_costs_per_row_equal_one_cost(surrogate):
    tables, validation = [make_table(60, 0)], [make_table(40, 1)]
    plan = Plan(epochs=20, slow_start=5, batch_size=25)
    one = train_pairs(tables, validation, [Member(0, 1e-2, 0.5, surrogate)], make_networks(), plan)
    per_row = [[replace(t, cost=torch.full((len(t.y),), 0.5)) for t in part] for part in (tables, validation)]
    rows = train_pairs(*per_row, [Member(0, 1e-2, 99.0, surrogate)], make_networks(), plan)
    torch.testing.assert_close(rows.history, one.history, rtol=1e-5, atol=0)
    torch.testing.assert_close(rows.regressor.parameters, one.regressor.parameters, rtol=1e-4, atol=1e-6)


def test_the_validation_loss_is_the_weighted_rcr_loss():
    table = make_table(5000, 0, torch.float64)  # more than one chunk
    cost, weight = torch.rand(2, 5000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    networks = make_networks(dtype=torch.float64)
    pairs = make_pairs([Member(0, 0.1)], networks.regressors([0]), networks.rejectors([1]))
    h, r = (torch.as_tensor(outputs(s, table.x.numpy())[0]) for s in (pairs.regressors.stack, pairs.rejector))
    assert 0 < (r > 0).double().mean() < 1
    rcr = torch.where(r > 0, (h - table.y) ** 2, cost)
    expected = (rcr * weight).sum() / weight.sum()
    (loss,) = pairs.validate(Batches([replace(table, cost=cost, weight=weight)], CPU))
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)


# ---- Slow-Start


def test_members_that_differ_in_cost_and_surrogate_begin_from_the_same_regressor():
    made = {"regressors": [], "rejectors": []}
    networks = make_networks()

    def watched(kind):
        def build(seeds):
            made[kind].append(list(seeds))
            return getattr(networks, kind)(seeds)

        return build

    members = [Member(0, lr, cost, name) for cost in (0.0, 0.5) for name in SURROGATES for lr in (1e-2, 1e-1)]
    tables, validation = [make_table(60, 0)], [make_table(40, 1)]
    spying = Networks(watched("regressors"), watched("rejectors"))
    train_pairs(tables, validation, members, spying, Plan(epochs=4, slow_start=2))
    assert made["regressors"] == [[0, 0]]  # one for each learning rate
    assert [len(seeds) for seeds in made["rejectors"]] == [len(members)]


@pytest.mark.parametrize("slow_start", [15, "auto"])
def test_a_shared_slow_start_equals_one_of_the_members_own(slow_start):
    tables, validation = [make_table(60, 0)], [make_table(40, 1)]
    members = [Member(0, 3e-2, cost, name) for cost in (0.3, 0.8) for name in SURROGATES]
    plan = Plan(epochs=40, slow_start=slow_start, batch_size=25, patience=3)
    shared = train_pairs(tables, validation, members, make_networks(), plan)
    for i, member in enumerate(members):
        own = train_pairs(tables, validation, [member], make_networks(), plan)
        torch.testing.assert_close(shared.history[:, i], own.history[:, 0], rtol=1e-4, atol=0)
        torch.testing.assert_close(weights(shared.regressor, i), weights(own.regressor, 0), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(weights(shared.rejector, i), weights(own.rejector, 0), rtol=1e-4, atol=1e-6)


def test_the_regressor_trains_alone_on_the_squared_error_during_slow_start():
    table, networks, made, snapshots = make_table(60, 0), make_networks(), [], []

    def build(seeds):
        made.append(networks.regressors(seeds))
        return made[-1]

    def look(epoch):
        snapshots.append(made[0].parameters.clone())

    # a cost of zero makes psi reject everything, which would leave h untrained
    plan = Plan(epochs=30, slow_start=10, batch_size=25, on_epoch=look)
    train_pairs([table], [table], [Member(0, 1e-2, cost=0.0)], Networks(build, networks.rejectors), plan)
    alone, batches = Regressors([Member(0, 1e-2)], networks.regressors([0])), Batches([table], CPU)
    for epoch in range(10):
        for batch in batches.shuffled(25, 0, epoch):
            alone.step(batch)
        torch.testing.assert_close(snapshots[epoch], alone.stack.parameters, rtol=1e-5, atol=1e-7)


def test_the_rejector_is_untouched_when_joint_training_begins():
    table, member = make_table(60, 0), Member(0, 1e-9, 0.5)  # a rate so small that one joint epoch changes nothing
    trained = train_pairs([table], [table], [member], make_networks(), Plan(epochs=51, slow_start=50))
    fresh = make_networks().rejectors([member.rejector_seed])
    torch.testing.assert_close(trained.rejector.parameters, fresh.parameters, rtol=0, atol=1e-6)
    assert member.rejector_seed != member.seed


def test_tables_may_have_different_numbers_of_slow_starts():
    rates, costs = [1e-2, 1e-2, 1e-2, 1e-2, 3e-2, 1e-1], [0.3, 0.6, 0.9] * 2
    members = [Member(0, rates[i], costs[i], table=i // 3) for i in range(6)]  # one Slow-Start, then three
    tables, validation = [make_table(60, s) for s in (0, 1)], [make_table(40, s) for s in (2, 3)]
    plan = Plan(epochs=20, slow_start=8, batch_size=25)
    together = train_pairs(tables, validation, members, make_networks(), plan)
    for table in (0, 1):
        mine = [replace(m, table=0) for m in members if m.table == table]
        apart = train_pairs([tables[table]], [validation[table]], mine, make_networks(), plan)
        torch.testing.assert_close(together.loss[3 * table : 3 * table + 3], apart.loss, rtol=1e-4, atol=0)


AUTO = Plan(epochs=120, slow_start="auto", batch_size=1024, patience=4)


def auto_members():
    return [Member(seed, rate, 0.5) for seed, rate in enumerate([1e-1, 1e-3, 3e-2, 1e-2])]


@pytest.mark.parametrize("kind", ["mlp", "dropout"])
def test_an_automatic_slow_start_does_not_depend_on_the_neighbours(kind):
    def dropping(inputs):
        return nn.Sequential(nn.Linear(inputs, 6), nn.ReLU(), nn.Dropout(0.3), nn.Linear(6, 1))

    networks = make_networks()
    if kind == "dropout":
        build = partial(LoopedModules, inputs=3, factory=dropping)
        networks = Networks(build, build)
    plan = AUTO if kind == "mlp" else replace(AUTO, epochs=40, patience=2)
    tables, validation = [make_table(60, 0)], [make_table(40, 1)]
    together = train_pairs(tables, validation, auto_members(), networks, plan)
    lengths = set()
    for i, member in enumerate(auto_members()):
        alone = train_pairs(tables, validation, [member], networks, plan)
        lengths.add(len(alone.history))
        torch.testing.assert_close(together.loss[i], alone.loss[0], rtol=1e-4, atol=0)
        assert together.epoch[i] == alone.epoch[0]
        length = len(alone.history)
        torch.testing.assert_close(together.history[:length, i], alone.history[:, 0], rtol=1e-4, atol=0)
        assert together.history[length:, i].isinf().all()  # its own epochs are over
        torch.testing.assert_close(weights(together.regressor, i), weights(alone.regressor, 0), rtol=1e-4, atol=1e-6)
    assert len(lengths) > 1  # they were ready at different times


def test_an_automatic_slow_start_lasts_until_the_regressor_has_stalled():
    tables, validation = [make_table(60, 0)], [make_table(40, 1)]
    member = Member(0, 1e-1, 0.5)
    squared_error = train_regressors(tables, validation, [member], make_networks(), replace(AUTO, epochs=60)).history[
        :, 0
    ]
    best, ready = torch.inf, None
    for epoch, loss in enumerate(squared_error.tolist()):
        if loss < best:
            best, since = loss, epoch
        if epoch - since >= AUTO.patience:
            ready = epoch + 1
            break
    assert ready is not None
    trained = train_pairs(tables, validation, [member], make_networks(), AUTO)
    assert len(trained.history) == AUTO.epochs - ready
    assert trained.epoch[0] >= ready


# ---- the best epoch


@pytest.mark.parametrize("slow_start", [10, "auto"])
def test_the_weights_left_behind_are_those_of_the_best_epoch(slow_start):
    tables, validation = [make_table(60, 0)], [make_table(40, 1)]
    members = [Member(seed, rate, 0.5, name) for seed, name in enumerate(SURROGATES) for rate in (1e-2, 2e-1)]
    plan = Plan(epochs=60, slow_start=slow_start, batch_size=25, patience=3)
    trained = train_pairs(tables, validation, members, make_networks(), plan)
    again = make_pairs(members, trained.regressor, trained.rejector).validate(Batches(validation, CPU))
    torch.testing.assert_close(again, trained.loss, rtol=1e-5, atol=0)
    assert torch.equal(trained.loss, trained.history.min(dim=0).values)
    assert (trained.epoch < plan.epochs).all()
    if slow_start == 10:
        assert torch.equal(trained.epoch, 10 + trained.history.argmin(dim=0))
        assert (trained.history[-1] > trained.loss).any()  # else the last epoch would do as well
    assert trained.diverged == {}


def test_regressors_left_behind_are_those_of_the_best_epoch():
    tables, validation = [make_table(40, 0)], [make_table(40, 1)]
    members = [Member(seed, 1e-1) for seed in range(3)]
    trained = train_regressors(tables, validation, members, make_networks(), Plan(epochs=80))
    again = Regressors(members, trained.regressor).validate(Batches(validation, CPU))
    torch.testing.assert_close(again, trained.loss, rtol=1e-5, atol=0)
    assert torch.equal(trained.loss, trained.history.min(dim=0).values)
    assert torch.equal(trained.epoch, trained.history.argmin(dim=0))
    assert trained.history.shape == (80, 3)
    assert trained.rejector is None


# ---- members that diverge


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("slow_start", [0, 5])
def test_a_member_that_diverges_is_dropped_and_the_others_do_not_change(surrogate, slow_start):
    tables, validation = [make_table(60, 0)], [make_table(40, 1)]
    plan = Plan(epochs=30, slow_start=slow_start, batch_size=25)
    sane = [Member(seed, 1e-2, 0.5, name) for seed, name in enumerate(SURROGATES)]
    absurd = Member(9, 1e30, 0.5, surrogate)
    mixed = train_pairs(tables, validation, [*sane[:2], absurd, *sane[2:]], make_networks(), plan)
    assert list(mixed.diverged) == [2]
    assert slow_start <= mixed.diverged[2] < plan.epochs
    assert mixed.loss[2].isinf()
    assert mixed.epoch[2] == -1
    # bit by bit as beside a sane member; a smaller stack may round differently on some machines
    peaceful = [*sane[:2], replace(absurd, learning_rate=1e-2), *sane[2:]]
    beside_sane = train_pairs(tables, validation, peaceful, make_networks(), plan)
    without = train_pairs(tables, validation, sane, make_networks(), plan)
    for theirs, ours in enumerate([0, 1, 3, 4, 5]):
        assert same_weights(mixed.regressor, ours, beside_sane.regressor, ours)
        assert same_weights(mixed.rejector, ours, beside_sane.rejector, ours)
        assert mixed.loss[ours] == beside_sane.loss[ours]
        torch.testing.assert_close(mixed.history[:, ours], without.history[:, theirs], rtol=1e-4, atol=0)
        close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-6)
        close(weights(mixed.regressor, ours), weights(without.regressor, theirs))
        close(weights(mixed.rejector, ours), weights(without.rejector, theirs))


def test_a_regressor_that_diverges_is_dropped_and_the_others_do_not_change():
    tables, validation = [make_table(60, 0)], [make_table(40, 1)]
    plan = Plan(epochs=30, batch_size=25)
    mixed = train_regressors(tables, validation, [Member(0, 1e30), Member(1, 1e-2)], make_networks(), plan)
    without = train_regressors(tables, validation, [Member(0, 1e-2), Member(1, 1e-2)], make_networks(), plan)
    assert mixed.diverged == {0: 0}
    assert mixed.loss[0].isinf()
    assert same_weights(mixed.regressor, 1, without.regressor, 1)


def test_a_member_that_diverges_late_keeps_its_best_epoch():
    tables, validation = [make_table(60, 0)], [make_table(40, 1)]
    networks = make_networks(hidden=())
    members = [Member(0, 1e-2, 0.5), Member(1, 1e-2, 0.5)]
    poison = 12

    def explode(epoch):
        if epoch == poison:
            for layer in regressor.views(regressor.parameters):
                layer[0] = torch.nan

    def keep(seeds):
        nonlocal regressor
        regressor = networks.regressors(seeds)
        return regressor

    regressor = None
    plan = Plan(epochs=30)
    calm = train_regressors(tables, validation, members, networks, plan)
    hit = train_regressors(tables, validation, members, Networks(keep, keep), replace(plan, on_epoch=explode))
    assert hit.diverged == {0: poison}
    assert hit.loss[0] == calm.history[:poison, 0].min()
    assert hit.history[poison:, 0].isinf().all()
    assert hit.regressor.parameters.isfinite().all()
    assert same_weights(hit.regressor, 1, calm.regressor, 1)


@pytest.mark.parametrize("broken", ["regressor", "rejector"])
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_rejection_does_not_hide_an_undefined_network(broken, value):
    networks = make_networks(hidden=())
    pairs = make_pairs([Member(0, 0.1)] * 2, networks.regressors([0, 1]), networks.rejectors([2, 3]))
    pairs.rejector.views(pairs.rejector.parameters)[0][:, 0, :4] = torch.tensor([0.0, 0, 0, -1])  # all rejected
    stack = pairs.regressors.stack if broken == "regressor" else pairs.rejector
    stack.views(stack.parameters)[0][0, 0, 3] = value
    loss = pairs.validate(Batches([make_table(20, 0)], CPU))
    assert not loss[0].isfinite()
    assert loss[1].item() == pytest.approx(1)


# ---- regressors alone


@pytest.mark.parametrize("hidden", [(), (6, 5)])
def test_regressors_equal_a_plain_loop_on_the_squared_error(hidden):
    table, held_out = make_table(60, 0, torch.float64), make_table(40, 1, torch.float64)
    members = [Member(seed, rate) for seed, rate in enumerate([1e-1, 1e-2, 1e-3])]
    networks = make_networks(hidden, torch.float64)
    trained = train_regressors([table], [held_out], members, networks, Plan(epochs=25))
    start = networks.regressors([0, 1, 2])
    for i, member in enumerate(members):
        network = plain_network(start, i)
        optimiser = torch.optim.Adam(network.parameters(), lr=member.learning_rate)
        history, states = [], []
        for _ in range(25):
            optimiser.zero_grad()
            nn.functional.mse_loss(network(table.x).flatten(), table.y).backward()
            optimiser.step()
            with torch.no_grad():
                prediction = network(held_out.x).flatten()
            history.append(nn.functional.mse_loss(prediction, held_out.y))
            states.append(prediction)
        torch.testing.assert_close(trained.history[:, i].double(), torch.stack(history), rtol=1e-5, atol=0)
        ours = outputs(trained.regressor, held_out.x.numpy())[i]
        np.testing.assert_allclose(ours, states[trained.epoch[i]], rtol=1e-6, atol=1e-8)


# ---- the order of members, and progress


@pytest.mark.parametrize("tables", [[1, 0], [0, 1, 0], [0, 0, 1], [0, 1, 1], [0, 2], [0, 0, 0, 1]])
def test_members_out_of_order_or_unevenly_spread_are_refused(tables):
    members = [Member(0, 1e-2, table=table) for table in tables]
    data = [make_table(10, s) for s in range(max(tables) + 1)]
    for train in (train_pairs, train_regressors):
        with pytest.raises(ValueError, match="ordered by table, with the same number for each table, got tables"):
            train(data, data, members, make_networks(), Plan(epochs=2))


@pytest.mark.parametrize(("tables", "validation", "members"), [(1, 1, 2), (2, 2, 1), (2, 1, 2), (1, 2, 1)])
def test_a_table_without_members_or_validation_is_refused(tables, validation, members):
    data = [make_table(10, s) for s in range(2)]
    everyone = [Member(0, 1e-2, table=table) for table in range(members)]
    for train in (train_pairs, train_regressors):
        with pytest.raises(ValueError, match=f"got {tables} tables, {validation} validation tables and members for"):
            train(data[:tables], data[:validation], everyone, make_networks(), Plan(epochs=2))


@given(epochs=st.integers(1, 12), slow_start=st.integers(0, 12))
@few
def test_every_epoch_is_reported_once_in_order(epochs, slow_start):
    table, seen = [make_table(10, 0)], []
    plan = Plan(epochs=epochs, slow_start=slow_start, on_epoch=seen.append)
    train_pairs(table, table, [Member(0, 1e-2)], make_networks(()), plan)
    assert seen == list(range(1, epochs + 1))
    seen.clear()
    train_regressors(table, table, [Member(0, 1e-2)], make_networks(()), plan)
    assert seen == list(range(1, epochs + 1))


def test_the_last_epoch_reported_by_an_automatic_slow_start_is_the_last_of_the_plan():
    seen = []
    tables, validation = [make_table(60, 0)], [make_table(40, 1)]
    train_pairs(tables, validation, auto_members(), make_networks(), replace(AUTO, on_epoch=seen.append))
    assert seen[-1] == AUTO.epochs == max(seen)
    assert set(seen) == set(range(1, AUTO.epochs + 1))
