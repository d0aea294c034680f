"""Rejectors trained on given errors: gradients, the shared best epoch, and random costs of a range."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from recuse import surrogates
from recuse.engine.batches import Batches, Table
from recuse.engine.cost_range import CostRange, at_drawn_costs, at_several_costs
from recuse.engine.loop import train_rejectors
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.objectives.rejectors import Rejectors
from recuse.engine.plan import Plan
from recuse.engine.stack import outputs

CPU = torch.device("cpu")
SURROGATES = ["mae", "hinge", "square", "logistic", "sigmoid"]
COSTS = CostRange(0.2, 5.0)
build = partial(StackedMLP, inputs=3, hidden=(5, 4))
build_double = partial(build, dtype=torch.float64)


def error_table(rows=60, seed=0, dtype=torch.float32, **columns):
    """Squared errors that grow with the second feature; the third is the place of the cost, or nothing."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 3))
    error = np.exp(x[:, 1]) * random.chisquare(1, size=rows)
    return Table(torch.as_tensor(x, dtype=dtype), torch.as_tensor(error, dtype=dtype), seed=seed, **columns)


def layers_of(stack, flat, member):
    """The real weights (out, in) and biases (out,) of one member, without padding."""
    sizes = pairwise((stack.inputs, *stack.hidden, 1))
    for layer, (into, out) in zip(stack.views(flat), sizes, strict=True):
        yield layer[member, :out, :into]
        yield layer[member, :out, into]


def plain_network(stack, member):
    layers, weights = [], list(layers_of(stack, stack.parameters, member))
    for weight, bias in zip(weights[::2], weights[1::2], strict=True):
        linear = nn.Linear(weight.shape[1], weight.shape[0], dtype=weight.dtype)
        linear.weight.data, linear.bias.data = weight.clone(), bias.clone()
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def assert_same_weights(one, one_place, other, other_place):
    layers = (layers_of(stack, stack.parameters, at) for stack, at in ((one, one_place), (other, other_place)))
    for ours, theirs in zip(*layers, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def at_cost(batch, epoch):
    """The batch with random costs in place of the third feature."""
    (drawn,) = at_drawn_costs([batch], COSTS, feature=2, seed=0, epoch=epoch)
    return drawn


def accepted_at(cost, trained, x):
    """What the first rejector accepts at a cost."""
    seen = x.clone()
    seen[:, 2] = COSTS.feature(torch.tensor(cost))
    return outputs(trained.regressor, seen.numpy())[0] + float(COSTS.offset(torch.tensor(cost))) > 0


class TestStep:
    @pytest.mark.parametrize("surrogate", SURROGATES)
    @pytest.mark.parametrize("per_row", [False, True])
    def test_a_step_follows_the_gradient_of_psi(self, surrogate, per_row):
        table = error_table(40, dtype=torch.float64)
        if per_row:
            weight, cost = torch.rand(2, 40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
            table = replace(table, weight=weight, cost=cost)
        members = [Member(seed, 1e-2, cost=0.75, surrogate=surrogate) for seed in range(3)]
        rejectors = Rejectors(members, build_double([m.rejector_seed for m in members]))
        networks = [plain_network(rejectors.stack, member) for member in range(3)]
        (batch,) = Batches([table], CPU).in_order(64)
        rejectors.step(batch)
        for member, network in enumerate(networks):
            accept, reject = surrogates.get(surrogate)(network(table.x)[:, 0])
            psi = table.y * accept + (table.cost if per_row else 0.75) * reject
            weight = table.weight / table.weight.mean() if per_row else torch.ones(40)
            (psi * weight).mean().backward()
            expected = torch.cat([p.grad.flatten() for p in network.parameters()])
            gradient = rejectors.stack.gradient
            got = torch.cat([part.flatten() for part in layers_of(rejectors.stack, gradient, member)])
            torch.testing.assert_close(got, expected)

    def test_in_a_step_on_several_tables_each_rejector_learns_from_its_own(self):
        tables = [error_table(rows, seed, dtype=torch.float64) for seed, rows in enumerate((40, 25))]
        members = [Member(seed, 1e-2, cost, name, table) for table in (0, 1)
                   for seed, cost, name in ((1, 0.5, "mae"), (2, 2.0, "logistic"))]  # fmt: skip
        together = Rejectors(members, build_double([1, 2, 1, 2]))
        (batch,) = Batches([table.padded(40) for table in tables], CPU).in_order(64)
        together.step(batch)
        for place, member in enumerate(members):
            alone = Rejectors([replace(member, table=0)], build_double([member.seed]))
            (batch,) = Batches([tables[member.table]], CPU).in_order(64)
            alone.step(batch)
            gradients = (
                torch.cat([part.flatten() for part in layers_of(rejectors.stack, rejectors.stack.gradient, at)])
                for rejectors, at in ((together, place), (alone, 0))
            )
            torch.testing.assert_close(*gradients)

    def test_validation_measures_the_rcr_loss_at_the_cost_of_the_member_or_of_the_row(self):
        table = error_table(30, dtype=torch.float64)
        members = [Member(seed, 1e-2, cost=cost) for seed, cost in ((0, 0.5), (1, 2.0))]
        rejectors = Rejectors(members, build_double([0, 1]))
        accepted = outputs(rejectors.stack, table.x.numpy()) > 0
        expected = np.where(accepted, table.y, [[0.5], [2.0]]).mean(axis=1)
        np.testing.assert_allclose(rejectors.validate(Batches([table], CPU)), expected, rtol=1e-6)
        per_row = replace(table, cost=table.y.flip(0))
        expected = np.where(accepted, table.y, per_row.cost).mean(axis=1)
        np.testing.assert_allclose(rejectors.validate(Batches([per_row], CPU)), expected, rtol=1e-6)

    def test_validation_on_several_tables_gives_each_rejector_the_weighted_loss_of_its_own(self):
        tables = [error_table(rows, seed, torch.float64) for seed, rows in enumerate((1500, 1100))]  # several chunks
        tables[0] = replace(tables[0], weight=tables[0].y + 1)
        members = [Member(seed, 1e-2, cost, table=table) for table in (0, 1) for seed, cost in ((0, 0.5), (1, 2.0))]
        rejectors = Rejectors(members, build_double([4, 16, 18, 25]))
        got = rejectors.validate(Batches([table.padded(1500) for table in tables], CPU))
        for place, member in enumerate(members):
            table = tables[member.table]
            accepted = outputs(rejectors.stack.take([place]), table.x.numpy())[0] > 0
            assert 0 < accepted.mean() < 1
            loss = np.where(accepted, table.y, member.cost)
            assert float(got[place]) == pytest.approx(np.average(loss, weights=table.weight), rel=1e-6)


class TestTraining:
    def train(self, members, costs=None, epochs=25, batch_size=16, table=None, new_table=None):
        table = error_table() if table is None else table
        new_table = error_table(50, seed=1) if new_table is None else new_table
        return train_rejectors([table], [new_table], members, build, Plan(epochs=epochs, batch_size=batch_size), costs)

    @pytest.mark.parametrize("costs", [None, COSTS])
    def test_a_member_in_a_stack_ends_like_the_same_member_alone(self, costs):
        members = [Member(seed, rate, cost, name) for seed, rate, cost, name in
                   ((1, 1e-2, 1.0, "mae"), (2, 1e-1, 2.0, "logistic"), (3, 1e-3, 0.5, "mae"))]  # fmt: skip
        together = self.train(members, costs)
        for place, member in enumerate(members):
            alone = self.train([member], costs)
            assert_same_weights(together.regressor, place, alone.regressor, 0)
            assert int(together.epoch[place]) == int(alone.epoch[0])

    def test_the_weights_kept_are_those_of_the_epoch_with_the_lowest_validation_loss(self):
        reported = []
        plan = Plan(epochs=40, batch_size=16, on_epoch=reported.append)
        new = error_table(50, seed=1)
        trained = train_rejectors([error_table()], [new], [Member(0, 1e-2), Member(1, 1e-1)], build, plan)
        assert reported == list(range(1, 41))
        assert trained.rejector is None
        assert trained.history.shape == (40, 2)
        torch.testing.assert_close(trained.history.min(dim=0).values, trained.loss)
        torch.testing.assert_close(trained.history.argmin(dim=0), trained.epoch)
        kept = Rejectors([Member(0, 1e-2), Member(1, 1e-1)], trained.regressor)
        torch.testing.assert_close(kept.validate(Batches([new], CPU)), trained.loss)

    def test_it_learns_to_reject_where_errors_are_large(self):
        trained = self.train([Member(0, 1e-2)], epochs=150, table=error_table(600), new_table=error_table(300, seed=1))
        new = error_table(1000, seed=2)
        accepted = outputs(trained.regressor, new.x.numpy())[0] > 0
        best = np.exp(new.x[:, 1].numpy()) < 1  # E[e | x] = exp(x_1)
        assert (accepted == best).mean() > 0.85

    def test_a_diverged_rejector_is_dropped_and_the_other_does_not_change(self):
        trained = self.train([Member(0, 1e30), Member(1, 1e-2)])
        assert list(trained.diverged) == [0]
        assert torch.isinf(trained.loss[0])
        torch.testing.assert_close(trained.loss[1], self.train([Member(1, 1e-2)]).loss[0])

    def test_all_rejectors_of_a_learning_rate_stop_at_the_epoch_that_is_best_for_their_mean(self):
        members = [Member(seed, rate) for seed in range(3) for rate in (1e-1, 3e-2)]
        pooled = self.train(members, epochs=60)
        alone = [self.train([member], epochs=60) for member in members]
        own_epochs = torch.cat([each.epoch for each in alone])
        for rate in (0, 1):
            mean = torch.stack([each.history[:, 0] for each in alone[rate::2]]).mean(dim=0)
            torch.testing.assert_close(pooled.history[:, rate::2], mean[:, None].expand(-1, 3), rtol=1e-4, atol=0)
            assert pooled.epoch[rate::2].tolist() == [int(mean.argmin())] * 3
            assert len(set(own_epochs[rate::2].tolist())) > 1  # they would not have agreed


class TestSeveralTables:
    PLAN = Plan(epochs=30, batch_size=16)
    TABLES = tuple(error_table(60, seed) for seed in (0, 1, 2))
    NEW = tuple(error_table(50, seed) for seed in (3, 4, 5))

    def alone(self, member):
        own = [self.TABLES[member.table]], [self.NEW[member.table]]
        return train_rejectors(*own, [replace(member, table=0)], build, self.PLAN)

    def test_with_learning_rates_of_their_own_rejectors_end_as_trained_alone_on_their_table(self):
        rates = (1e-2, 1e-1, 2e-2, 5e-2, 3e-2, 4e-2)  # no two are equal, so each chooses alone
        members = [
            Member(place, rate, cost=0.5 + place / 5, surrogate=("mae", "logistic")[place % 2], table=place // 2)
            for place, rate in enumerate(rates)
        ]
        together = train_rejectors(self.TABLES, self.NEW, members, build, self.PLAN)
        epochs = set()
        for place, member in enumerate(members):
            alone = self.alone(member)
            assert_same_weights(together.regressor, place, alone.regressor, 0)
            torch.testing.assert_close(together.history[:, place], alone.history[:, 0], rtol=1e-4, atol=0)
            assert int(together.epoch[place]) == int(alone.epoch[0])
            epochs.add(int(alone.epoch[0]))
        assert len(epochs) > 1

    def test_rejectors_of_one_learning_rate_stop_at_the_epoch_that_is_best_over_all_tables(self):
        new = [*self.NEW[:2], replace(self.NEW[2], weight=torch.full((50,), 50.0))]  # the last counts for more
        total = torch.tensor([50.0, 50.0, 2500.0])
        members = [Member(place, rate, table=place) for place in range(3) for rate in (1e-1, 3e-2)]
        pooled = train_rejectors(self.TABLES, new, members, build, self.PLAN)
        for rate in (0, 1):
            own = torch.cat([self.alone(member).history for member in members[rate::2]], dim=1)
            mean = own @ total / total.sum()
            torch.testing.assert_close(pooled.history[:, rate::2], mean[:, None].expand(-1, 3), rtol=1e-4, atol=0)
            assert pooled.epoch[rate::2].tolist() == [int(mean.argmin())] * 3
        kept = Rejectors(members, pooled.regressor).validate(Batches(new, CPU)).view(3, 2)
        torch.testing.assert_close((total @ kept / total.sum()).repeat(3), pooled.loss)  # of the weights left behind

    def test_rows_that_fill_up_a_table_count_for_nothing_in_training_or_in_the_choice(self):
        tables = [table.take(torch.arange(rows)) for table, rows in zip(self.TABLES, (60, 33, 12), strict=True)]
        new = [table.take(torch.arange(rows)) for table, rows in zip(self.NEW, (9, 50, 20), strict=True)]
        members, plan = [Member(place, 3e-2, table=place) for place in range(3)], Plan(epochs=30)
        pooled = train_rejectors([t.padded(60) for t in tables], [t.padded(50) for t in new], members, build, plan)
        own = [
            train_rejectors([table], [chooses], [replace(member, table=0)], build, plan).history
            for table, chooses, member in zip(tables, new, members, strict=True)
        ]
        mean = torch.cat(own, dim=1) @ torch.tensor([9.0, 50.0, 20.0]) / 79  # every real row has the same weight
        torch.testing.assert_close(pooled.history, mean[:, None].expand(-1, 3), rtol=1e-4, atol=0)
        assert pooled.epoch.tolist() == [int(mean.argmin())] * 3
        for place, member in enumerate(members):
            rejectors = Rejectors([replace(member, table=0)], build([member.rejector_seed]))
            (batch,) = Batches([tables[place]], CPU).in_order()
            for _ in range(int(mean.argmin()) + 1):
                rejectors.step(batch)
            assert_same_weights(pooled.regressor, place, rejectors.stack, 0)

    def test_a_padded_table_trains_to_the_same_weights_where_all_rows_make_one_batch(self):
        table, new = error_table(40, weight=torch.arange(1.0, 41.0)), error_table(30, seed=1)
        members, plan = [Member(0, 1e-2), Member(1, 1e-1, surrogate="logistic")], Plan(epochs=25)
        one = train_rejectors([table], [new], members, build, plan)
        other = train_rejectors([table.padded(99)], [new.padded(64)], members, build, plan)
        torch.testing.assert_close(one.history, other.history, rtol=1e-4, atol=0)
        assert torch.equal(one.epoch, other.epoch)
        for place in (0, 1):
            assert_same_weights(one.regressor, place, other.regressor, place)

    @pytest.mark.parametrize("costs", [None, COSTS])
    def test_a_diverged_rejector_does_not_spoil_those_of_the_other_tables_at_the_same_rate(self, costs):
        hopeless = replace(self.TABLES[1], y=torch.full((60,), torch.inf))
        members = [Member(place, 3e-2, table=place) for place in range(3)]
        with_it = train_rejectors(
            [self.TABLES[0], hopeless, self.TABLES[2]], self.NEW, members, build, self.PLAN, costs
        )
        assert list(with_it.diverged) == [1]
        assert with_it.loss.isinf().tolist() == [False, True, False]
        assert with_it.history[:, [0, 2]].isfinite().all()
        if costs is None:
            own = torch.cat([self.alone(members[place]).history for place in (0, 2)], dim=1)
            torch.testing.assert_close(with_it.history[:, 0], own.mean(dim=1), rtol=1e-4, atol=0)
            assert with_it.epoch.tolist() == [int(own.mean(dim=1).argmin()), -1, int(own.mean(dim=1).argmin())]

    def test_rows_of_several_tables_meet_costs_of_their_own_and_training_repeats(self):
        (batch,) = Batches(self.TABLES, CPU).in_order(64)
        drawn = at_cost(batch, epoch=1)
        assert 0.2 <= float(drawn.cost.min()) < float(drawn.cost.max()) <= 5.0
        torch.testing.assert_close(drawn.x[:, 2], COSTS.feature(drawn.cost[:, 0]), rtol=1e-4, atol=1e-4)
        assert len({table.numpy().tobytes() for table in drawn.cost}) == 3
        members = [Member(0, 3e-2, table=place) for place in range(3)]
        one, again = (train_rejectors(self.TABLES, self.NEW, members, build, self.PLAN, COSTS) for _ in range(2))
        torch.testing.assert_close(one.regressor.parameters, again.regressor.parameters, rtol=0, atol=0)

    def test_members_out_of_the_order_of_their_tables_are_refused(self):
        members = [Member(0, 3e-2, table=table) for table in (0, 1, 0, 1)]
        with pytest.raises(
            ValueError, match=r"ordered by table, with the same number for each table, got tables \[0, 1, 0, 1\]"
        ):
            train_rejectors(self.TABLES[:2], self.NEW[:2], members, build, self.PLAN)

    def test_tables_of_unequal_length_are_refused(self):
        members = [Member(0, 3e-2, table=table) for table in (0, 1)]
        with pytest.raises(ValueError, match=r"same number of rows, got \[40, 60\]"):
            train_rejectors([self.TABLES[0], error_table(40)], self.NEW[:2], members, build, self.PLAN)


class TestCostRange:
    def test_costs_are_even_in_the_logarithm_and_the_offset_is_centred_there(self):
        cost = COSTS.at(torch.linspace(0, 1, 101, dtype=torch.float64))
        assert float(cost[0]) == pytest.approx(0.2)
        assert float(cost[-1]) == pytest.approx(5.0)
        assert float(COSTS.offset(torch.tensor(1.0))) == pytest.approx(0.0, abs=1e-6)
        torch.testing.assert_close(COSTS.offset(cost), cost.log() / np.log(5.0))
        assert float(COSTS.feature(cost).std()) == pytest.approx(1.0, rel=3e-2)

    def test_the_offset_does_not_depend_on_the_units(self):
        cost = torch.tensor([0.2, 0.7, 5.0], dtype=torch.float64)
        torch.testing.assert_close(COSTS.offset(cost), CostRange(2.0, 50.0).offset(10 * cost))

    def test_a_batch_meets_costs_within_the_range(self):
        (batch,) = Batches([error_table(50)], CPU).in_order(64)
        before = batch.x.clone()
        drawn = at_cost(batch, epoch=1)
        assert 0.2 <= float(drawn.cost.min()) < float(drawn.cost.max()) <= 5.0
        torch.testing.assert_close(drawn.x[0, 2], COSTS.feature(drawn.cost[0, 0]), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(drawn.x[0, [0, 1, 3]], batch.x[0, [0, 1, 3]])
        torch.testing.assert_close(drawn.y, batch.y)
        torch.testing.assert_close(batch.x, before)  # the batch is used again in the next epoch

    def test_a_dearer_rejection_is_rarer_before_anything_is_learned(self):
        table = error_table(100)
        trained = train_rejectors([table], [error_table(50, seed=1)], [Member(0, 1e-9)], build, Plan(epochs=1), COSTS)
        rates = [accepted_at(cost, trained, table.x).mean() for cost in (0.2, 1.0, 5.0)]
        assert rates[0] < rates[1] < rates[2]

    def test_drawn_costs_depend_on_the_seed_alone_and_differ_by_epoch(self):
        (batch,) = Batches([error_table(50)], CPU).in_order(64)
        one, again, other = (at_cost(batch, epoch).cost for epoch in (1, 1, 2))
        torch.testing.assert_close(one, again, rtol=0, atol=0)
        assert not torch.allclose(one[..., :50], other[..., :50])

    def test_training_with_drawn_costs_repeats_and_depends_on_the_seed_of_the_table(self):
        def train(seed):
            table = replace(error_table(), seed=seed)
            plan = Plan(epochs=10, batch_size=16)
            return train_rejectors([table], [error_table(50, seed=1)], [Member(0, 1e-1)], build, plan, COSTS).history

        torch.random.manual_seed(0)
        before = torch.get_rng_state()
        torch.testing.assert_close(train(3), train(3), rtol=0, atol=0)
        assert not torch.equal(train(3), train(4))
        assert torch.equal(before, torch.get_rng_state())

    def test_validation_meets_every_row_at_costs_from_low_to_high(self):
        table = error_table(10, weight=torch.arange(1.0, 11.0))
        several = at_several_costs(table, COSTS)
        costs = several.cost
        torch.testing.assert_close(several.y, table.y.repeat_interleave(8))
        assert several.x.shape == (80, 3)
        torch.testing.assert_close(costs.view(10, 8), costs[:8].expand(10, 8), rtol=1e-4, atol=0)
        assert (costs[:8].diff() > 0).all()
        assert 0.2 < float(costs[0]) < float(costs[7]) < 5.0
        torch.testing.assert_close(several.weight, table.weight.repeat_interleave(8))
        torch.testing.assert_close(table.x, error_table(10).x)  # not changed in place

    def test_one_rejector_learns_the_bayes_rule_at_every_cost(self):
        tables = [error_table(1500)], [error_table(500, seed=1)]
        plan = Plan(epochs=150, batch_size=256)
        trained = train_rejectors(*tables, [Member(0, 1e-2)], build, plan, COSTS)
        new = error_table(1000, seed=2).x
        for cost in (0.4, 1.0, 2.5):
            assert (accepted_at(cost, trained, new) == (np.exp(new[:, 1].numpy()) < cost)).mean() > 0.85


def test_tables_and_members_that_do_not_match_get_a_clear_error():
    members = [Member(0, 1e-2), Member(0, 1e-2, table=1)]
    with pytest.raises(ValueError, match="got 1 tables, 1 validation tables and members for 2"):
        train_rejectors([error_table()], [error_table(20, seed=1)], members, build, Plan(epochs=1))
