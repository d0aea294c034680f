"""Rejectors trained on given errors: gradients, the shared best epoch, and random costs of a range."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from plain_networks import plain_gradient, plain_network, real_gradient, weights
from recuse import surrogates
from recuse.engine.batches import Batches, Table
from recuse.engine.cost_range import CostRange, at_drawn_costs, at_several_costs
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.rejectors import Rejectors, train_rejectors
from recuse.engine.schedule import TrainingPlan
from recuse.engine.stack import outputs

SURROGATES = ["mae", "hinge", "square", "logistic", "sigmoid"]
COSTS = CostRange(0.2, 5.0)
HIDDEN = (5, 4)


def error_table(rows=60, seed=0, dtype=np.float32, **columns):
    """Squared errors that grow with the second feature; the third is the place of the cost, or nothing."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 3))
    error = np.exp(x[:, 1]) * random.chisquare(1, size=rows)
    return Table(x.astype(dtype), error.astype(dtype), seed=seed, **columns)


def double(members):
    return Rejectors(members, StackedMLP([member.rejector_seed for member in members], 3, HIDDEN, np.float64))


def at_cost(batch, epoch):
    """The batch with random costs in place of the third feature."""
    (drawn,) = at_drawn_costs([batch], COSTS, feature=2, seed=0, epoch=epoch)
    return drawn


def accepted_at(cost, trained, x):
    """What the first rejector accepts at a cost."""
    seen = x.copy()
    seen[:, 2] = COSTS.feature(np.array(cost))
    return outputs(trained.regressor, seen)[0] + float(COSTS.offset(np.array(cost))) > 0


class TestStep:
    @pytest.mark.parametrize("surrogate", SURROGATES)
    @pytest.mark.parametrize("per_row", [False, True])
    def test_a_step_follows_the_gradient_of_psi(self, surrogate, per_row):
        table, weight, cost = error_table(40, dtype=np.float64), np.ones(40), np.full(40, 0.75)
        if per_row:
            weight, cost = np.random.default_rng(1).uniform(size=(2, 40))
            table = replace(table, weight=weight, cost=cost)
        rejectors = double([Member(seed, 1e-2, cost=0.75, surrogate=surrogate) for seed in range(3)])
        networks = [plain_network(rejectors.stack, member) for member in range(3)]
        (batch,) = Batches([table]).in_order(64)
        rejectors.step(batch)
        for member, network in enumerate(networks):
            accept, reject = surrogates.get(surrogate)(network(torch.tensor(table.x))[:, 0])
            psi = torch.tensor(table.y) * accept + torch.tensor(cost) * reject
            (psi * torch.tensor(weight / weight.mean())).mean().backward()
            gradient = real_gradient(rejectors._workspace, member)
            np.testing.assert_allclose(gradient, plain_gradient(network), rtol=1e-6, atol=1e-9)

    def test_validation_on_several_tables_gives_each_rejector_the_weighted_loss_of_its_own(self):
        tables = [error_table(rows, seed, np.float64) for seed, rows in enumerate((1500, 1100))]  # several chunks
        tables[0] = replace(tables[0], weight=tables[0].y + 1)
        members = [Member(seed, 1e-2, cost, table=table) for table in (0, 1) for seed, cost in ((0, 0.5), (1, 2.0))]
        stack = StackedMLP([4, 16, 18, 25], 3, HIDDEN, np.float64)
        got = Rejectors(members, stack).validate(Batches([table.padded(1500) for table in tables]))
        for place, member in enumerate(members):
            table = tables[member.table]
            accepted = outputs(stack.take([place]), table.x)[0] > 0
            assert 0 < accepted.mean() < 1
            loss = np.where(accepted, table.y, member.cost)
            assert got[place] == pytest.approx(np.average(loss, weights=table.weight), rel=1e-6)

    def test_validation_at_costs_of_the_rows(self):
        table = error_table(30, dtype=np.float64)
        rejectors = double([Member(0, 1e-2)])
        expected = np.where(outputs(rejectors.stack, table.x) > 0, table.y, table.y[::-1]).mean(axis=1)
        got = rejectors.validate(Batches([replace(table, cost=table.y[::-1])]))
        np.testing.assert_allclose(got, expected, rtol=1e-6)


class TestTraining:
    PLAN = TrainingPlan(epochs=30, batch_size=16)
    TABLES = tuple(error_table(60, seed) for seed in (0, 1, 2))
    NEW = tuple(error_table(50, seed) for seed in (3, 4, 5))

    def alone(self, member, costs=None):
        own = [self.TABLES[member.table]], [self.NEW[member.table]]
        return train_rejectors(*own, [replace(member, table=0)], HIDDEN, self.PLAN, costs)

    @pytest.mark.parametrize("costs", [None, COSTS])
    def test_with_learning_rates_of_their_own_rejectors_end_as_trained_alone_on_their_table_bit_by_bit(self, costs):
        rates = (1e-2, 1e-1, 2e-2, 5e-2, 3e-2, 4e-2)  # no two are equal, so each chooses alone
        table_of = (lambda place: place // 2) if costs is None else (lambda place: 0)  # costs are drawn for all tables
        members = [
            Member(place, rate, cost=0.5 + place / 5, surrogate=("mae", "logistic")[place % 2], table=table_of(place))
            for place, rate in enumerate(rates)
        ]
        count = 3 if costs is None else 1
        together = train_rejectors(self.TABLES[:count], self.NEW[:count], members, HIDDEN, self.PLAN, costs)
        for place, member in enumerate(members):
            alone = self.alone(member, costs)
            np.testing.assert_array_equal(weights(together.regressor, place), weights(alone.regressor, 0))
            np.testing.assert_array_equal(together.history[:, place], alone.history[:, 0])
        assert len(set(together.epoch)) > 1

    def test_the_weights_kept_are_those_of_the_epoch_with_the_lowest_validation_loss(self):
        reported, members = [], [Member(0, 1e-2), Member(1, 1e-1)]
        plan = replace(self.PLAN, on_epoch=reported.append)
        trained = train_rejectors(self.TABLES[:1], self.NEW[:1], members, HIDDEN, plan)
        assert reported == list(range(1, 31))
        assert trained.rejector is None
        np.testing.assert_array_equal(trained.history.min(axis=0), trained.loss)
        np.testing.assert_array_equal(trained.history.argmin(axis=0), trained.epoch)
        kept = Rejectors(members, trained.regressor).validate(Batches(self.NEW[:1]))
        np.testing.assert_allclose(kept, trained.loss, rtol=1e-6)

    def test_it_learns_to_reject_where_errors_are_large(self):
        plan = TrainingPlan(epochs=100, batch_size=64)
        tables = [error_table(600)], [error_table(300, seed=1)]
        trained = train_rejectors(*tables, [Member(0, 1e-2)], HIDDEN, plan)
        new = error_table(1000, seed=2)
        accepted = outputs(trained.regressor, new.x)[0] > 0
        assert (accepted == (np.exp(new.x[:, 1]) < 1)).mean() > 0.85  # E[e | x] = exp(x_1)

    def test_rejectors_of_one_learning_rate_stop_at_the_epoch_that_is_best_over_all_tables(self):
        new = [*self.NEW[:2], replace(self.NEW[2], weight=np.full(50, 50.0, np.float32))]  # the last counts for more
        total = np.array([50.0, 50.0, 2500.0])
        members = [Member(place, rate, table=place) for place in range(3) for rate in (1e-1, 3e-2)]
        pooled = train_rejectors(self.TABLES, new, members, HIDDEN, self.PLAN)
        for rate in (0, 1):
            own = np.concatenate([self.alone(member).history for member in members[rate::2]], axis=1)
            mean = own @ total / total.sum()
            np.testing.assert_allclose(pooled.history[:, rate::2], np.tile(mean[:, None], 3), rtol=1e-6)
            assert pooled.epoch[rate::2].tolist() == [int(mean.argmin())] * 3
        kept = Rejectors(members, pooled.regressor).validate(Batches(new)).reshape(3, 2)
        np.testing.assert_allclose(np.tile(total @ kept / total.sum(), 3), pooled.loss, rtol=1e-6)

    def test_rows_that_fill_up_a_table_count_for_nothing_in_training_or_in_the_choice(self):
        tables = [table.take(np.arange(rows)) for table, rows in zip(self.TABLES, (60, 33, 12), strict=True)]
        new = [table.take(np.arange(rows)) for table, rows in zip(self.NEW, (9, 50, 20), strict=True)]
        members, plan = [Member(place, 3e-2, table=place) for place in range(3)], TrainingPlan(epochs=30)
        pooled = train_rejectors([t.padded(60) for t in tables], [t.padded(50) for t in new], members, HIDDEN, plan)
        own = [
            train_rejectors([table], [chooses], [replace(member, table=0)], HIDDEN, plan).history
            for table, chooses, member in zip(tables, new, members, strict=True)
        ]
        mean = np.concatenate(own, axis=1) @ np.array([9.0, 50.0, 20.0]) / 79  # every real row has the same weight
        np.testing.assert_allclose(pooled.history, np.tile(mean[:, None], 3), rtol=1e-4)
        assert pooled.epoch.tolist() == [int(mean.argmin())] * 3

    @pytest.mark.parametrize("costs", [None, COSTS])
    def test_a_diverged_rejector_does_not_spoil_those_of_the_other_tables_at_the_same_rate(self, costs):
        hopeless = replace(self.TABLES[1], y=np.full(60, np.inf, np.float32))
        members = [Member(place, 3e-2, table=place) for place in range(3)]
        tables = [self.TABLES[0], hopeless, self.TABLES[2]]
        with_it = train_rejectors(tables, self.NEW, members, HIDDEN, self.PLAN, costs)
        assert list(with_it.diverged) == [1]
        assert np.isinf(with_it.loss).tolist() == [False, True, False]
        assert np.isfinite(with_it.history[:, [0, 2]]).all()
        if costs is None:
            own = np.concatenate([self.alone(members[place]).history for place in (0, 2)], axis=1)
            np.testing.assert_allclose(with_it.history[:, 0], own.mean(axis=1), rtol=1e-6)

    def test_tables_and_members_that_do_not_match_get_a_clear_error(self):
        members = [Member(0, 1e-2), Member(0, 1e-2, table=1)]
        with pytest.raises(ValueError, match="got 1 tables, 1 validation tables and members for 2"):
            train_rejectors(self.TABLES[:1], self.NEW[:1], members, HIDDEN, self.PLAN)
        with pytest.raises(ValueError, match=r"same number of rows, got \[40, 60\]"):
            train_rejectors([self.TABLES[0], error_table(40)], self.NEW[:2], members, HIDDEN, self.PLAN)


class TestCostRange:
    def test_costs_are_even_in_the_logarithm_and_the_offset_is_centred_there(self):
        cost = COSTS.at(np.linspace(0, 1, 101))
        assert cost[[0, -1]].tolist() == pytest.approx([0.2, 5.0])
        np.testing.assert_allclose(COSTS.offset(cost), np.log(cost) / np.log(5.0), atol=1e-9)
        assert COSTS.feature(cost).std() == pytest.approx(1.0, rel=3e-2)

    def test_the_offset_does_not_depend_on_the_units(self):
        cost = np.array([0.2, 0.7, 5.0])
        np.testing.assert_allclose(COSTS.offset(cost), CostRange(2.0, 50.0).offset(10 * cost), atol=1e-12)

    def test_every_row_of_a_batch_meets_a_cost_of_its_own_within_the_range(self):
        (batch,) = Batches([error_table(50), error_table(50, 1)]).in_order(64)
        before = batch.x.copy()
        drawn = at_cost(batch, epoch=1)
        assert 0.2 <= drawn.cost.min() < drawn.cost.max() <= 5.0
        assert len(np.unique(drawn.cost)) > 120
        np.testing.assert_allclose(drawn.x[:, 2], COSTS.feature(drawn.cost[:, 0]), rtol=1e-4, atol=1e-4)
        np.testing.assert_array_equal(drawn.x[:, [0, 1, 3]], batch.x[:, [0, 1, 3]])
        np.testing.assert_array_equal(batch.x, before)  # the batch is used again in the next epoch

    def test_drawn_costs_depend_on_the_seed_alone_and_differ_by_epoch(self):
        (batch,) = Batches([error_table(50)]).in_order(64)
        one, again, other = (at_cost(batch, epoch).cost for epoch in (1, 1, 2))
        np.testing.assert_array_equal(one, again)
        assert not np.allclose(one[..., :50], other[..., :50])

    def test_a_dearer_rejection_is_rarer_before_anything_is_learned(self):
        tables = [error_table(100)], [error_table(50, seed=1)]
        trained = train_rejectors(*tables, [Member(0, 1e-9)], HIDDEN, TrainingPlan(epochs=1), COSTS)
        rates = [accepted_at(cost, trained, tables[0][0].x).mean() for cost in (0.2, 1.0, 5.0)]
        assert rates[0] < rates[1] < rates[2]

    def test_validation_meets_every_row_at_costs_from_low_to_high(self):
        table = error_table(10, weight=np.arange(1.0, 11.0))
        several = at_several_costs(table, COSTS)
        np.testing.assert_array_equal(several.y, table.y.repeat(8))
        np.testing.assert_array_equal(several.weight, table.weight.repeat(8))
        assert several.x.shape == (80, 3)
        costs = several.cost.reshape(10, 8)
        assert (costs == costs[0]).all()
        assert 0.2 < costs[0, 0] < costs[0, 7] < 5.0
        assert (np.diff(costs[0]) > 0).all()
        np.testing.assert_array_equal(table.x, error_table(10).x)  # not changed in place

    def test_one_rejector_learns_the_bayes_rule_at_every_cost(self):
        tables = [error_table(1500)], [error_table(500, seed=1)]
        plan = TrainingPlan(epochs=60, batch_size=128)
        trained = train_rejectors(*tables, [Member(0, 1e-2)], HIDDEN, plan, COSTS)
        new = error_table(1000, seed=2).x
        for cost in (0.4, 1.0, 2.5):
            assert (accepted_at(cost, trained, new) == (np.exp(new[:, 1]) < cost)).mean() > 0.85
