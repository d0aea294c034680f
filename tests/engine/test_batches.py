"""Tables and their batches: padding, shuffling, and every row once per epoch."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recuse.engine.batches import Batches, Table
from recuse.engine.loop import train_regressors
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.pairs import train_pairs
from recuse.engine.plan import Networks, Plan
from recuse.engine.stack import pad_rows

CPU = torch.device("cpu")
few = settings(deadline=None, max_examples=40)


def numbered(rows, seed=0, **columns):
    """A table whose target is the number of the row, from 1 on; its features are computed from it."""
    number = torch.arange(1.0, rows + 1)
    return Table(torch.stack([10 * number, -number], dim=1), number, seed=seed, **columns)


def row_numbers(batches, table=0):
    """The numbers of the rows in the order of the batches, without padding."""
    return torch.cat([batch.y[table, 0, : batch.real] for batch in batches]).long()


COLUMNS = ("x", "y", "weight", "cost", "rejector_x")


def complete(rows, seed=0):
    """A numbered table with all columns there are, each computed from the number of the row."""
    number = torch.arange(1.0, rows + 1)
    return numbered(rows, seed, weight=2 * number, cost=3 * number, rejector_x=torch.stack([7 * number] * 3, dim=1))


class TestTake:
    @pytest.mark.parametrize("rows", [[3, 0, 0], [4], []], ids=str)
    def test_every_column_gives_the_same_rows_in_the_given_order(self, rows):
        table = complete(5, seed=8)
        taken = table.take(torch.tensor(rows, dtype=torch.long))
        for name in COLUMNS:
            assert torch.equal(getattr(taken, name), getattr(table, name)[rows])
        assert taken.seed == 8

    def test_a_mask_takes_the_rows_it_marks(self):
        mask = torch.tensor([True, False, True, False, False])
        assert torch.equal(complete(5).take(mask).y, torch.tensor([1.0, 3.0]))
        assert torch.equal(complete(5).take(~mask).cost, torch.tensor([6.0, 12.0, 15.0]))

    def test_a_missing_column_stays_missing(self):
        taken = numbered(5).take(torch.tensor([1, 2]))
        assert taken.weight is taken.cost is taken.rejector_x is None

    def test_several_targets_stay_together(self):
        targets = torch.arange(10.0).view(5, 2)
        taken = Table(torch.zeros(5, 1), targets).take(torch.tensor([4, 1]))
        assert torch.equal(taken.y, torch.tensor([[8.0, 9.0], [2.0, 3.0]]))


class TestTotalWeight:
    def test_it_is_the_sum_of_the_weights_or_without_any_the_number_of_rows(self):
        assert float(complete(5).total_weight) == 30
        assert float(numbered(5).total_weight) == 5
        assert float(Table(torch.zeros(5, 1), torch.zeros(5, 2)).total_weight) == 5  # rows, not targets

    def test_it_has_the_type_and_shape_of_a_number_of_the_target(self):
        for table in (complete(5), numbered(5)):
            assert table.total_weight.shape == ()
            assert table.total_weight.dtype == table.y.dtype


class TestPadded:
    @pytest.mark.parametrize("make", [numbered, complete])
    @given(rows=st.integers(1, 40), more=st.integers(0, 40))
    @few
    def test_the_rows_stay_in_front_and_what_follows_has_no_weight(self, make, rows, more):
        table = make(rows, seed=8)
        padded = table.padded(rows + more)
        front, back = padded.take(torch.arange(rows)), padded.take(torch.arange(rows, rows + more))
        for name in COLUMNS:
            column = getattr(table, name)
            if name == "weight":
                assert torch.equal(front.weight, torch.ones(rows) if column is None else column)
                assert torch.equal(back.weight, torch.zeros(more))
            elif column is None:
                assert getattr(padded, name) is None
            else:
                assert torch.equal(getattr(front, name), column)
                assert torch.equal(getattr(back, name), column[[0] * more])  # a row like any: it upsets nothing
        assert len(padded.y) == rows + more
        assert padded.seed == 8
        assert padded.total_weight == table.total_weight

    def test_padding_twice_equals_padding_once(self):
        once, twice = complete(5).padded(9), complete(5).padded(7).padded(9)
        for name in COLUMNS:
            assert torch.equal(getattr(once, name), getattr(twice, name))

    @pytest.mark.parametrize("make", [numbered, complete])
    def test_the_mean_over_all_rows_is_that_of_the_real_ones(self, make):
        means = []
        for table in (make(13), make(13).padded(50)):
            batches = Batches([table], CPU).in_order(8)
            rows = len(table.y)
            means.append(sum((batch.y * batch.share).sum() * batch.real / rows for batch in batches))
        torch.testing.assert_close(*means)

    def test_tables_of_unequal_length_become_equal(self):
        (batch,) = Batches([numbered(5).padded(6), numbered(6)], CPU).in_order()
        assert torch.equal(batch.y[0, 0, :6], torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 1.0]))
        assert torch.equal(batch.share[0, 0, :6], torch.tensor([1 / 5] * 5 + [0.0]))
        assert torch.equal(batch.share[1, 0, :6], torch.full((6,), 1 / 6))

    @pytest.mark.parametrize("train", [train_pairs, train_regressors])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_a_padded_table_trains_like_the_table_itself_where_all_rows_make_one_batch(self, train, weighted):
        random = torch.Generator().manual_seed(0)
        table, new = (
            Table(
                torch.randn(rows, 3, generator=random),
                torch.randn(rows, generator=random),
                torch.rand(rows, generator=random) if weighted else None,
                cost=torch.rand(rows, generator=random),
            )
            for rows in (40, 30)
        )
        build = partial(StackedMLP, inputs=3, hidden=(5, 4))
        members, plan = [Member(seed, rate) for seed, rate in ((0, 1e-2), (1, 1e-1))], Plan(epochs=25, slow_start=10)
        one, other = (
            train([table.padded(40 + more)], [new.padded(30 + more)], members, Networks(build, build), plan)
            for more in (0, 77)
        )
        assert torch.equal(one.epoch, other.epoch)
        torch.testing.assert_close(one.history, other.history, rtol=1e-4, atol=0)
        torch.testing.assert_close(one.regressor.parameters, other.regressor.parameters, rtol=1e-3, atol=1e-5)
        if train is train_pairs:
            torch.testing.assert_close(one.rejector.parameters, other.rejector.parameters, rtol=1e-3, atol=1e-5)
        plain = train([table], [new], members, Networks(build, build), plan)
        torch.testing.assert_close(plain.regressor.parameters, one.regressor.parameters, rtol=1e-3, atol=1e-5)


@given(rows=st.integers(1, 150), batch_size=st.integers(1, 160), epoch=st.integers(0, 2000), seed=st.integers(0, 2**31))
@few
def test_every_row_is_in_one_batch_per_epoch_and_padding_weighs_nothing(rows, batch_size, epoch, seed):
    batches = Batches([numbered(rows, seed)], CPU)
    batches = list(batches.shuffled(batch_size, 1, epoch))
    assert len(batches) == -(-rows // batch_size)
    assert torch.equal(row_numbers(batches).sort().values, torch.arange(1, rows + 1))
    for batch in batches:
        assert batch.real <= batch_size
        assert batch.x.shape[2] == batch.y.shape[2] == batch.share.shape[2] == pad_rows(batch.real)
        assert (batch.share[..., batch.real :] == 0).all()
        assert (batch.x[..., batch.real :] == 0).all()


@given(rows=st.integers(2, 100), batch_size=st.integers(1, 60))
@few
def test_features_target_cost_and_weight_of_a_row_stay_together(rows, batch_size):
    number = torch.arange(1.0, rows + 1)
    table = numbered(rows, cost=3 * number, weight=number, rejector_x=torch.stack([7 * number] * 3, dim=1))
    for batch in Batches([table], CPU).shuffled(batch_size, 0, 5):
        target, real = batch.y[0, 0, : batch.real], batch.real
        assert torch.equal(batch.x[0, 0, :real], 10 * target)
        assert torch.equal(batch.x[0, 1, :real], -target)
        assert (batch.x[0, 2, :real] == 1).all()  # the feature of ones
        assert torch.equal(batch.rejector_x[0, :3, :real], torch.stack([7 * target] * 3))
        assert (batch.rejector_x[0, 3, :real] == 1).all()
        assert torch.equal(batch.cost[0, 0, :real], 3 * target)
        torch.testing.assert_close(batch.share[0, 0, :real], target / number.mean() / real)


def test_the_order_depends_on_seed_phase_and_epoch():
    orders = {
        tuple(row_numbers(Batches([numbered(50, seed)], CPU).shuffled(20, phase, epoch)).tolist())
        for seed in (0, 1)
        for phase in (0, 1)
        for epoch in (0, 1)
    }
    assert len(orders) == 8


def test_the_order_depends_on_nothing_else():
    alone = row_numbers(Batches([numbered(50, seed=3)], CPU).shuffled(20, 1, 4))
    torch.manual_seed(123)
    batches = Batches([numbered(50, seed=s) for s in (9, 3)], CPU)
    list(batches.shuffled(20, 0, 0))  # earlier epochs leave no trace
    assert torch.equal(row_numbers(batches.shuffled(20, 1, 4), table=1), alone)
    assert torch.equal(row_numbers(batches.shuffled(7, 1, 4), table=1), alone)


@pytest.mark.parametrize("batch_size", [50, 51, 1024])
def test_few_rows_make_one_full_batch_in_their_own_order(batch_size):
    batches = Batches([numbered(50)], CPU)
    (first,) = batches.shuffled(batch_size, 0, 0)
    (again,) = batches.shuffled(batch_size, 1, 7)
    assert first.real == 50
    assert torch.equal(row_numbers([first]), torch.arange(1, 51))
    assert again is first  # made once


@given(rows=st.integers(1, 100), chunk=st.integers(1, 120))
@few
def test_in_order_gives_every_row_in_its_own_order(rows, chunk):
    batches = Batches([numbered(rows)], CPU).in_order(chunk)
    assert torch.equal(row_numbers(batches), torch.arange(1, rows + 1))


def test_without_weights_every_row_has_an_equal_share_of_its_batch():
    for batch in Batches([numbered(50)], CPU).shuffled(20, 0, 0):
        assert torch.equal(batch.share[0, 0, : batch.real], torch.full((batch.real,), 1 / batch.real))


@given(
    weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=60),
    scale=st.floats(0.01, 1000),
)
@few
def test_the_scale_of_the_weights_has_no_effect(weights, scale):
    weight = torch.tensor(weights, dtype=torch.float64)
    shares = []
    for factor in (1, scale):
        (batch,) = Batches([numbered(len(weights), weight=factor * weight)], CPU).in_order()
        shares.append(batch.share)
    torch.testing.assert_close(shares[0], shares[1])
    assert shares[0].sum().item() == pytest.approx(1)


def test_without_a_rejector_table_both_networks_get_the_same_tensor():
    (batch,) = Batches([numbered(5)], CPU).in_order()
    assert batch.rejector_x is batch.x
    assert batch.cost is None


def test_without_rejector_features_the_rejector_gets_those_of_the_regressor():
    special = torch.full((5, 2), 4.0)
    (batch,) = Batches([numbered(5, rejector_x=special), numbered(5)], CPU).in_order()
    assert torch.equal(batch.rejector_x[0, :2, :5], special.T)
    assert torch.equal(batch.rejector_x[1], batch.x[1])


def test_tables_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match=r"same number of rows, got \[5, 6\]"):
        Batches([numbered(5), numbered(6), numbered(5)], CPU)


def test_costs_for_some_tables_only_are_refused():
    with pytest.raises(ValueError, match="all tables have a cost per row or none, got 1 of 2"):
        Batches([numbered(5, cost=torch.ones(5)), numbered(5)], CPU)
