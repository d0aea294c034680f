"""Steady training of pairs: members stay independent, scores stay bounded, and training ends when it stalls."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from recuse.engine import steady
from recuse.engine.batches import Batches, Table
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.objectives.pairs import Pairs, Regressors, StartingPairs
from recuse.engine.pairs import train_pairs
from recuse.engine.plan import Networks, Plan
from recuse.engine.stack import outputs
from recuse.engine.steady import AveragedWeights

CPU = torch.device("cpu")
BUILD = partial(StackedMLP, inputs=3, hidden=(5, 4))
NETWORKS = Networks(BUILD, BUILD)
PLAN = Plan(epochs=30, slow_start=10, batch_size=25, steady=True)


def make_table(rows, seed):
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 3))
    y = x[:, 0] + 0.5 * random.normal(size=rows) * (1 + np.abs(x[:, 1]))
    return Table(torch.as_tensor(x, dtype=torch.float32), torch.as_tensor(y, dtype=torch.float32), seed=seed)


@pytest.mark.parametrize("slow_start", [0, 10, "auto"])
def test_an_ensemble_trained_beside_others_ends_as_trained_alone(slow_start, monkeypatch):
    monkeypatch.setattr(steady, "_PATIENCE_STEPS", 1)
    monkeypatch.setattr(steady, "_PATIENCE_EPOCHS", 4)  # so that ensembles end at different epochs
    monkeypatch.setattr(steady, "_START_PATIENCE_STEPS", 1)
    monkeypatch.setattr(steady, "_START_PATIENCE_EPOCHS", 2)
    tables, validation = [make_table(60, seed) for seed in (0, 1)], [make_table(40, seed) for seed in (2, 3)]
    aims = [(0.5, "mae"), (0.5, "sigmoid"), (1.0, "logistic")]
    members = [Member(table, rate, *aim, table) for table in (0, 1) for rate in (1e-1, 1e-2) for aim in aims]
    plan = replace(PLAN, slow_start=slow_start)
    together = train_pairs(tables, validation, members, NETWORKS, plan)
    for i in range(6):
        alone = train_pairs(tables, validation, [members[i], members[i + 6]], NETWORKS, plan)
        assert together.epoch[[i, i + 6]].tolist() == alone.epoch.tolist()
        torch.testing.assert_close(together.loss[[i, i + 6]], alone.loss, rtol=1e-4, atol=0)


def test_members_that_differ_in_seed_and_table_only_share_their_best_epoch():
    tables, validation = [make_table(60, seed) for seed in (0, 1)], [make_table(40, seed) for seed in (2, 3)]
    members = [Member(table, rate, 0.5, table=table) for table in (0, 1) for rate in (1e-1, 1e-2)]
    trained = train_pairs(tables, validation, members, NETWORKS, PLAN)
    assert torch.equal(trained.history[:, :2], trained.history[:, 2:])
    assert trained.epoch[0] == trained.epoch[2]
    assert trained.epoch[0] == 10 + trained.history[:, 0].argmin()
    assert not torch.equal(trained.history[:, 0], trained.history[:, 1])


def test_training_ends_if_no_member_improves_any_more_and_the_progress_is_complete(monkeypatch):
    monkeypatch.setattr(steady, "_PATIENCE_STEPS", 1)
    monkeypatch.setattr(steady, "_PATIENCE_EPOCHS", 5)
    table, seen = make_table(40, 0), []
    plan = replace(PLAN, epochs=400, on_epoch=seen.append)
    trained = train_pairs([table], [make_table(30, 1)], [Member(0, 1e-1, 0.5)], NETWORKS, plan)
    assert len(trained.history) < 390
    assert len(trained.history) == int(trained.epoch[0]) - 10 + 7  # five epochs of patience, and the one after it
    assert seen[-1] == 400


def test_a_member_that_diverges_ends_and_does_not_disturb_the_others():
    table, held_out = make_table(40, 0), make_table(30, 1)
    members = [Member(0, 1e30, 0.5), Member(1, 1e-2, 0.5)]
    mixed = train_pairs([table], [held_out], members, NETWORKS, PLAN)
    alone = train_pairs([table], [held_out], members[1:], NETWORKS, PLAN)
    assert list(mixed.diverged) == [0]
    torch.testing.assert_close(mixed.loss[1], alone.loss[0], rtol=1e-4, atol=0)


def test_scores_do_not_grow_without_bound():
    table = make_table(60, 0)
    plan = Plan(epochs=300, slow_start=10, batch_size=25)
    largest = []
    for bounded in (False, True):
        pair = train_pairs([table], [table], [Member(0, 1e-1, 0.5, "sigmoid")], NETWORKS, replace(plan, steady=bounded))
        largest.append(np.abs(outputs(pair.rejector, table.x.numpy())).max())
    assert largest[1] < min(3, largest[0])


@pytest.mark.parametrize("surrogate", ["mae", "hinge", "square", "logistic", "sigmoid"])
def test_a_regressor_learns_although_its_rejector_rejects_every_row(surrogate):
    batches = Batches([make_table(60, 0)], CPU)
    pairs = Pairs(Regressors([Member(0, 1e-2, 0.01, surrogate)], BUILD([0])), BUILD([1]), bounded=True)
    before = pairs.regressors.validate(batches).item()
    for _ in range(200):
        for batch in batches.in_order():
            pairs.step(batch)
    assert pairs.regressors.validate(batches).item() < 0.8 * before


def test_the_rejector_does_not_learn_from_the_first_errors():
    (batch,) = Batches([make_table(40, 0)], CPU).in_order()
    starting = StartingPairs(Regressors([Member(0, 1e-2, 0.5)], BUILD([0])), BUILD([1]), alone=2)
    first = [stack.parameters.clone() for stack in starting.stacks]
    starting.step(batch)
    starting.step(batch)
    unchanged = [torch.equal(stack.parameters, old) for stack, old in zip(starting.stacks, first, strict=True)]
    assert unchanged == [False, True]
    starting.step(batch)
    assert not torch.equal(starting.stacks[1].parameters, first[1])


def test_averages_replace_the_weights_only_within_the_block():
    stack = BUILD([0])
    start = stack.parameters.clone()
    averages = AveragedWeights([stack], window=10)
    stack.parameters.mul_(3)
    averages.update()
    with averages.in_place():
        inside = stack.parameters.clone()
    assert torch.equal(stack.parameters, 3 * start)
    lowest, highest = torch.minimum(start, 3 * start), torch.maximum(start, 3 * start)
    assert ((lowest <= inside) & (inside <= highest)).all()
    assert not torch.equal(inside, 3 * start)
