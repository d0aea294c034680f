"""Tables and their batches: padding, shuffling, and every row once per epoch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recuse.engine.batches import Batches, Table
from recuse.engine.members import Member
from recuse.engine.pairs import train_pairs
from recuse.engine.regressors import train_regressors
from recuse.engine.schedule import TrainingPlan
from recuse.engine.stack import pad_rows

few = settings(deadline=None, max_examples=40)


def numbered(rows, seed=0, **columns):
    """A table whose target is the number of the row, from 1 on; its features are computed from it."""
    number = np.arange(1.0, rows + 1)
    return Table(np.stack([10 * number, -number], axis=1), number, seed=seed, **columns)


def row_numbers(batches, table=0):
    """The numbers of the rows in the order of the batches, without padding."""
    return np.concatenate([batch.y[table, 0, : batch.real] for batch in batches]).astype(int)


COLUMNS = ("x", "y", "weight", "cost", "rejector_x")


def complete(rows, seed=0):
    """A numbered table with all columns there are, each computed from the number of the row."""
    number = np.arange(1.0, rows + 1)
    return numbered(rows, seed, weight=2 * number, cost=3 * number, rejector_x=np.stack([7 * number] * 3, axis=1))


class TestTake:
    @pytest.mark.parametrize("rows", [[3, 0, 0], [4], []], ids=str)
    def test_every_column_gives_the_same_rows_in_the_given_order(self, rows):
        table = complete(5, seed=8)
        taken = table.take(np.array(rows, int))
        for name in COLUMNS:
            assert np.array_equal(getattr(taken, name), getattr(table, name)[rows])
        assert taken.seed == 8

    def test_a_mask_takes_the_rows_it_marks(self):
        mask = np.array([True, False, True, False, False])
        assert np.array_equal(complete(5).take(mask).y, np.array([1.0, 3.0]))
        assert np.array_equal(complete(5).take(~mask).cost, np.array([6.0, 12.0, 15.0]))

    def test_a_missing_column_stays_missing(self):
        taken = numbered(5).take(np.array([1, 2]))
        assert taken.weight is taken.cost is taken.rejector_x is None


class TestTotalWeight:
    def test_it_is_the_sum_of_the_weights_or_without_any_the_number_of_rows(self):
        assert float(complete(5).total_weight) == 30
        assert float(numbered(5).total_weight) == 5


class TestPadded:
    @pytest.mark.parametrize("make", [numbered, complete])
    @given(rows=st.integers(1, 40), more=st.integers(0, 40))
    @few
    def test_the_rows_stay_in_front_and_what_follows_has_no_weight(self, make, rows, more):
        table = make(rows, seed=8)
        padded = table.padded(rows + more)
        front, back = padded.take(np.arange(rows)), padded.take(np.arange(rows, rows + more))
        for name in COLUMNS:
            column = getattr(table, name)
            if name == "weight":
                assert np.array_equal(front.weight, np.ones(rows) if column is None else column)
                assert np.array_equal(back.weight, np.zeros(more))
            elif column is None:
                assert getattr(padded, name) is None
            else:
                assert np.array_equal(getattr(front, name), column)
                assert np.array_equal(getattr(back, name), column[[0] * more])  # a row like any: it upsets nothing
        assert len(padded.y) == rows + more
        assert padded.seed == 8
        assert padded.total_weight == table.total_weight

    def test_padding_twice_equals_padding_once(self):
        once, twice = complete(5).padded(9), complete(5).padded(7).padded(9)
        for name in COLUMNS:
            assert np.array_equal(getattr(once, name), getattr(twice, name))

    @pytest.mark.parametrize("make", [numbered, complete])
    def test_the_mean_over_all_rows_is_that_of_the_real_ones(self, make):
        means = []
        for table in (make(13), make(13).padded(50)):
            batches = Batches([table]).in_order(8)
            rows = len(table.y)
            means.append(sum((batch.y * batch.share).sum() * batch.real / rows for batch in batches))
        np.testing.assert_allclose(*means)

    def test_tables_of_unequal_length_become_equal(self):
        (batch,) = Batches([numbered(5).padded(6), numbered(6)]).in_order()
        assert np.array_equal(batch.y[0, 0, :6], np.array([1.0, 2.0, 3.0, 4.0, 5.0, 1.0]))
        np.testing.assert_allclose(batch.share[0, 0, :6], [1 / 5] * 5 + [0.0])
        assert np.array_equal(batch.share[1, 0, :6], np.full((6,), 1 / 6))

    @pytest.mark.parametrize("train", [train_pairs, train_regressors])
    @pytest.mark.parametrize("weighted", [False, True])
    def test_a_padded_table_trains_like_the_table_itself_where_all_rows_make_one_batch(self, train, weighted):
        random = np.random.default_rng(0)
        table, new = (
            Table(
                random.normal(size=(rows, 3)).astype(np.float32),
                random.normal(size=rows).astype(np.float32),
                random.uniform(size=rows).astype(np.float32) if weighted else None,
                cost=random.uniform(size=rows).astype(np.float32),
            )
            for rows in (40, 30)
        )
        members, plan = (
            [Member(seed, rate) for seed, rate in ((0, 1e-2), (1, 1e-1))],
            TrainingPlan(epochs=25, slow_start=10),
        )
        plain, one, other = (
            train([table.padded(40 + more) if padded else table], [new.padded(30 + more)], members, (5, 4), plan)
            for padded, more in ((False, 0), (True, 0), (True, 77))
        )
        np.testing.assert_array_equal(one.epoch, other.epoch)
        for trained in (plain, other):
            np.testing.assert_allclose(one.history, trained.history, rtol=1e-4)
            for ours, theirs in zip(of(one), of(trained), strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5)


def of(trained):
    """The weights of all networks."""
    return [stack.parameters for stack in (trained.regressor, trained.rejector) if stack is not None]


@given(rows=st.integers(1, 150), batch_size=st.integers(1, 160), epoch=st.integers(0, 2000), seed=st.integers(0, 2**31))
@few
def test_every_row_is_in_one_batch_per_epoch_and_padding_weighs_nothing(rows, batch_size, epoch, seed):
    batches = Batches([numbered(rows, seed)])
    batches = list(batches.shuffled(batch_size, 1, epoch))
    assert len(batches) == -(-rows // batch_size)
    assert np.array_equal(np.sort(row_numbers(batches)), np.arange(1, rows + 1))
    for batch in batches:
        assert batch.real <= batch_size
        assert batch.x.shape[2] == batch.y.shape[2] == batch.share.shape[2] == pad_rows(batch.real)
        assert (batch.share[..., batch.real :] == 0).all()
        assert (batch.x[..., batch.real :] == 0).all()


@given(rows=st.integers(2, 100), batch_size=st.integers(1, 60))
@few
def test_features_target_cost_and_weight_of_a_row_stay_together(rows, batch_size):
    number = np.arange(1.0, rows + 1)
    table = numbered(rows, cost=3 * number, weight=number, rejector_x=np.stack([7 * number] * 3, axis=1))
    for batch in Batches([table]).shuffled(batch_size, 0, 5):
        target, real = batch.y[0, 0, : batch.real], batch.real
        assert np.array_equal(batch.x[0, 0, :real], 10 * target)
        assert np.array_equal(batch.x[0, 1, :real], -target)
        assert (batch.x[0, 2, :real] == 1).all()  # the feature of ones
        assert np.array_equal(batch.rejector_x[0, :3, :real], np.stack([7 * target] * 3))
        assert (batch.rejector_x[0, 3, :real] == 1).all()
        assert np.array_equal(batch.cost[0, 0, :real], 3 * target)
        np.testing.assert_allclose(batch.share[0, 0, :real], target / number.mean() / real)


def test_the_order_depends_on_seed_phase_and_epoch():
    orders = {
        tuple(row_numbers(Batches([numbered(50, seed)]).shuffled(20, phase, epoch)).tolist())
        for seed in (0, 1)
        for phase in (0, 1)
        for epoch in (0, 1)
    }
    assert len(orders) == 8


def test_the_order_depends_on_nothing_else():
    alone = row_numbers(Batches([numbered(50, seed=3)]).shuffled(20, 1, 4))
    batches = Batches([numbered(50, seed=s) for s in (9, 3)])
    list(batches.shuffled(20, 0, 0))  # earlier epochs leave no trace
    assert np.array_equal(row_numbers(batches.shuffled(20, 1, 4), table=1), alone)
    assert np.array_equal(row_numbers(batches.shuffled(7, 1, 4), table=1), alone)


@pytest.mark.parametrize("batch_size", [50, 51, 1024])
def test_few_rows_make_one_full_batch_in_their_own_order(batch_size):
    batches = Batches([numbered(50)])
    (first,) = batches.shuffled(batch_size, 0, 0)
    (again,) = batches.shuffled(batch_size, 1, 7)
    assert first.real == 50
    assert np.array_equal(row_numbers([first]), np.arange(1, 51))
    assert again is first  # made once


@given(rows=st.integers(1, 100), chunk=st.integers(1, 120))
@few
def test_in_order_gives_every_row_in_its_own_order(rows, chunk):
    batches = Batches([numbered(rows)]).in_order(chunk)
    assert np.array_equal(row_numbers(batches), np.arange(1, rows + 1))


def test_without_weights_every_row_has_an_equal_share_of_its_batch():
    for batch in Batches([numbered(50)]).shuffled(20, 0, 0):
        assert np.array_equal(batch.share[0, 0, : batch.real], np.full((batch.real,), 1 / batch.real))


@given(
    weights=st.lists(st.floats(0.01, 100), min_size=1, max_size=60),
    scale=st.floats(0.01, 1000),
)
@few
def test_the_scale_of_the_weights_has_no_effect(weights, scale):
    weight = np.array(weights)
    shares = []
    for factor in (1, scale):
        (batch,) = Batches([numbered(len(weights), weight=factor * weight)]).in_order()
        shares.append(batch.share)
    np.testing.assert_allclose(shares[0], shares[1])
    assert shares[0].sum() == pytest.approx(1)


def test_without_a_rejector_table_both_networks_get_the_same_array():
    (batch,) = Batches([numbered(5)]).in_order()
    assert batch.rejector_x is batch.x
    assert batch.cost is None


def test_without_rejector_features_the_rejector_gets_those_of_the_regressor():
    special = np.full((5, 2), 4.0)
    (batch,) = Batches([numbered(5, rejector_x=special), numbered(5)]).in_order()
    assert np.array_equal(batch.rejector_x[0, :2, :5], special.T)
    assert np.array_equal(batch.rejector_x[1], batch.x[1])


def test_tables_of_unequal_length_are_refused():
    with pytest.raises(ValueError, match=r"same number of rows, got \[5, 6\]"):
        Batches([numbered(5), numbered(6), numbered(5)])


def test_costs_for_some_tables_only_are_refused():
    with pytest.raises(ValueError, match="all tables have a cost per row or none, got 1 of 2"):
        Batches([numbered(5, cost=np.ones(5)), numbered(5)])
