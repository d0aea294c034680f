"""Rejectors that learn from given errors: psi's gradient, the best epoch, members on their own, costs drawn anew."""

from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from recuse import surrogates
from recuse.networks import StackedMLP, outputs
from recuse.training.feed import Feed, Table
from recuse.training.rejectors import CostRange, _at_drawn_costs, _at_several_costs, _RejectorTrainer, train_rejectors
from recuse.training.stacked import Plan
from recuse.training.trainer import Member

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
        trainer = _RejectorTrainer(members, build_double([m.rejector_seed for m in members]))
        networks = [plain_network(trainer.regressor, member) for member in range(3)]
        (batch,) = Feed([table], CPU).in_order(64)
        trainer.step(batch)
        for member, network in enumerate(networks):
            accept, reject = surrogates.get(surrogate)(network(table.x)[:, 0])
            psi = table.y * accept + (table.cost if per_row else 0.75) * reject
            weight = table.weight / table.weight.mean() if per_row else torch.ones(40)
            (psi * weight).mean().backward()
            expected = torch.cat([p.grad.flatten() for p in network.parameters()])
            gradient = trainer.regressor.gradient
            got = torch.cat([part.flatten() for part in layers_of(trainer.regressor, gradient, member)])
            torch.testing.assert_close(got, expected)

    def test_validation_measures_the_rcr_loss_at_the_cost_of_the_member_or_of_the_row(self):
        table = error_table(30, dtype=torch.float64)
        members = [Member(seed, 1e-2, cost=cost) for seed, cost in ((0, 0.5), (1, 2.0))]
        trainer = _RejectorTrainer(members, build_double([0, 1]))
        accepted = outputs(trainer.regressor, table.x.numpy()) > 0
        expected = np.where(accepted, table.y, [[0.5], [2.0]]).mean(axis=1)
        np.testing.assert_allclose(trainer.validate(Feed([table], CPU)), expected)
        per_row = replace(table, cost=table.y.flip(0))
        expected = np.where(accepted, table.y, per_row.cost).mean(axis=1)
        np.testing.assert_allclose(trainer.validate(Feed([per_row], CPU)), expected)


class TestTraining:
    def train(self, members, costs=None, epochs=25, batch_size=16, table=None, new_table=None):
        table = error_table() if table is None else table
        new_table = error_table(50, seed=1) if new_table is None else new_table
        return train_rejectors(table, new_table, members, build, Plan(epochs=epochs, batch_size=batch_size), costs)

    @pytest.mark.parametrize("costs", [None, COSTS])
    def test_a_member_in_a_stack_ends_like_the_same_member_alone(self, costs):
        members = [Member(seed, rate, cost, name) for seed, rate, cost, name in
                   ((1, 1e-2, 1.0, "mae"), (2, 1e-1, 2.0, "logistic"), (3, 1e-3, 0.5, "mae"))]  # fmt: skip
        together = self.train(members, costs)
        for place, member in enumerate(members):
            alone = self.train([member], costs)
            for whole, part in zip(
                layers_of(together.regressor, together.regressor.parameters, place),
                layers_of(alone.regressor, alone.regressor.parameters, 0),
                strict=True,
            ):
                torch.testing.assert_close(whole, part, rtol=1e-4, atol=1e-5)
            assert int(together.epoch[place]) == int(alone.epoch[0])

    def test_the_weights_kept_are_those_of_the_epoch_with_the_lowest_validation_loss(self):
        told = []
        plan = Plan(epochs=40, batch_size=16, on_epoch=told.append)
        new = error_table(50, seed=1)
        trained = train_rejectors(error_table(), new, [Member(0, 1e-2), Member(1, 1e-1)], build, plan)
        assert told == list(range(1, 41))
        assert trained.rejector is None
        assert trained.history.shape == (40, 2)
        torch.testing.assert_close(trained.history.min(dim=0).values, trained.loss)
        torch.testing.assert_close(trained.history.argmin(dim=0), trained.epoch)
        kept = _RejectorTrainer([Member(0, 1e-2), Member(1, 1e-1)], trained.regressor)
        torch.testing.assert_close(kept.validate(Feed([new], CPU)), trained.loss)

    def test_it_learns_to_reject_where_errors_are_large(self):
        trained = self.train([Member(0, 1e-2)], epochs=150, table=error_table(600), new_table=error_table(300, seed=1))
        new = error_table(1000, seed=2)
        accepted = outputs(trained.regressor, new.x.numpy())[0] > 0
        best = np.exp(new.x[:, 1].numpy()) < 1  # E[e | x] = exp(x_1)
        assert (accepted == best).mean() > 0.85

    def test_a_diverged_rejector_is_dropped_and_its_neighbour_notices_nothing(self):
        trained = self.train([Member(0, 1e30), Member(1, 1e-2)])
        assert list(trained.diverged) == [0]
        assert torch.isinf(trained.loss[0])
        torch.testing.assert_close(trained.loss[1], self.train([Member(1, 1e-2)]).loss[0])


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
        (batch,) = Feed([error_table(50)], CPU).in_order(64)
        before = batch.x.clone()
        met = _at_drawn_costs(batch, COSTS, 2, (0, 1))
        assert 0.2 <= float(met.cost.min()) < float(met.cost.max()) <= 5.0
        torch.testing.assert_close(met.x[0, 2], COSTS.feature(met.cost[0, 0]), rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(met.x[0, [0, 1, 3]], batch.x[0, [0, 1, 3]])
        torch.testing.assert_close(met.y, batch.y)
        torch.testing.assert_close(batch.x, before)  # a batch is dealt out again in the next epoch

    def test_a_dearer_rejection_is_rarer_before_anything_is_learned(self):
        table = error_table(100)
        trained = train_rejectors(table, error_table(50, seed=1), [Member(0, 1e-9)], build, Plan(epochs=1), COSTS)
        rates = [accepted_at(cost, trained, table.x).mean() for cost in (0.2, 1.0, 5.0)]
        assert rates[0] < rates[1] < rates[2]

    def test_drawn_costs_depend_on_the_seed_alone_and_differ_by_epoch(self):
        (batch,) = Feed([error_table(50)], CPU).in_order(64)
        one, again, other = (_at_drawn_costs(batch, COSTS, 2, seed).cost for seed in ((0, 1), (0, 1), (0, 2)))
        torch.testing.assert_close(one, again, rtol=0, atol=0)
        assert not torch.allclose(one[..., :50], other[..., :50])

    def test_training_with_drawn_costs_repeats_and_depends_on_the_seed_of_the_table(self):
        def train(seed):
            table = replace(error_table(), seed=seed)
            plan = Plan(epochs=10, batch_size=16)
            return train_rejectors(table, error_table(50, seed=1), [Member(0, 1e-1)], build, plan, COSTS).history

        torch.random.manual_seed(0)
        before = torch.get_rng_state()
        torch.testing.assert_close(train(3), train(3), rtol=0, atol=0)
        assert not torch.equal(train(3), train(4))
        assert torch.equal(before, torch.get_rng_state())

    def test_validation_meets_every_row_at_costs_from_low_to_high(self):
        table = error_table(10, weight=torch.arange(1.0, 11.0))
        several = _at_several_costs(table, COSTS)
        costs = several.cost
        torch.testing.assert_close(several.y, table.y.repeat_interleave(8))
        assert several.x.shape == (80, 3)
        torch.testing.assert_close(costs.view(10, 8), costs[:8].expand(10, 8), rtol=1e-4, atol=0)
        assert (costs[:8].diff() > 0).all()
        assert 0.2 < float(costs[0]) < float(costs[7]) < 5.0
        torch.testing.assert_close(several.weight, table.weight.repeat_interleave(8))
        torch.testing.assert_close(table.x, error_table(10).x)  # not changed in place

    def test_one_rejector_learns_the_bayes_rule_at_every_cost(self):
        tables = error_table(1500), error_table(500, seed=1)
        plan = Plan(epochs=150, batch_size=256)
        trained = train_rejectors(*tables, [Member(0, 1e-2)], build, plan, COSTS)
        new = error_table(1000, seed=2).x
        for cost in (0.4, 1.0, 2.5):
            assert (accepted_at(cost, trained, new) == (np.exp(new[:, 1].numpy()) < cost)).mean() > 0.85
