"""The length of Slow-Start and the detection of a stalled loss."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from recuse.engine.schedule import slow_start_epochs, stalled

histories = st.integers(1, 4).flatmap(
    lambda members: st.lists(
        st.lists(st.floats(0, 100, width=32), min_size=members, max_size=members), min_size=1, max_size=25
    )
)


@given(slow_start=st.integers(0, 2000), epochs=st.integers(1, 2000))
def test_slow_start_is_limited_to_half_of_the_epochs(slow_start, epochs):
    count = slow_start_epochs(slow_start, epochs)
    assert count == slow_start if 2 * slow_start <= epochs else count == epochs // 2


@given(epochs=st.integers(1, 2000))
def test_auto_may_take_half_of_the_epochs(epochs):
    assert slow_start_epochs("auto", epochs) == epochs // 2


@given(slow_start=st.integers(0, 2000) | st.just("auto"), epochs=st.integers(1, 2000))
def test_both_networks_always_have_an_epoch_to_train_together(slow_start, epochs):
    assert 0 <= slow_start_epochs(slow_start, epochs) < epochs


@given(rows=histories, patience=st.integers(1, 10))
def test_a_member_has_stalled_when_its_best_epoch_is_patience_epochs_ago(rows, patience):
    history = torch.tensor(rows)
    expected = [len(rows) - 1 - column.index(min(column)) >= patience for column in history.T.tolist()]
    assert stalled(history, patience=patience).tolist() == expected


@given(rows=histories, patience=st.integers(1, 10))
def test_stalling_does_not_depend_on_the_other_members(rows, patience):
    history = torch.tensor(rows)
    together = stalled(history, patience=patience)
    alone = [stalled(column[:, None], patience=patience) for column in history.T]
    assert torch.equal(together, torch.cat(alone))


def test_a_member_that_equals_its_best_has_not_improved():
    assert stalled(torch.tensor([[1.0], [1.0], [1.0]]), patience=2).tolist() == [True]


def test_an_improvement_starts_the_patience_again():
    history = torch.tensor([[3.0], [4.0], [5.0], [1.0], [2.0]])
    assert stalled(history[:3], patience=2).tolist() == [True]
    assert stalled(history, patience=2).tolist() == [False]


def test_an_undefined_loss_counts_as_the_last_improvement():
    history = torch.tensor([[3.0], [2.0], [torch.nan], [torch.nan], [torch.nan]])
    assert stalled(history, patience=2).tolist() == [True]
    assert stalled(history, patience=3).tolist() == [False]


def test_no_member_has_stalled_before_the_first_epoch():
    assert stalled(torch.empty(0, 3), patience=1).tolist() == [False] * 3
