"""The best epoch of each member, or of all members of a pool by their mean loss."""

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain_networks import weights
from recuse.engine.best_epoch import BestEpochs
from recuse.engine.mlp import StackedMLP

NAN, INF = np.nan, np.inf
UNWATCHED = -1.0  # what the weights are before the first epoch


@dataclass
class Walk:
    """Networks whose weights are all the number of the epoch, and the members that were frozen."""

    stacks: list[StackedMLP]
    frozen: list = field(default_factory=list)

    def freeze(self, member):
        self.frozen.append(member)

    def go_to(self, epoch):
        for stack in self.stacks:
            stack.parameters.fill(epoch)


def watch(losses, pools=(), share=None, pairs=False):
    """Let members go through epochs with these losses (epoch, member); give what is left and who was frozen."""
    losses = np.array(losses)
    seeds = range(losses.shape[1])
    walk = Walk([StackedMLP(seeds, inputs=2, hidden=(3,)) for _ in range(1 + pairs)])
    walk.go_to(UNWATCHED)
    best = BestEpochs(walk, pools, None if share is None else np.array(share))
    for epoch, loss in enumerate(losses):
        walk.go_to(epoch)
        best.record(loss, epoch)
    return best.restore(), walk


def kept(walk):
    """The epoch that the weights of each member are of; one and the same for all its weights."""
    by_member = np.array(
        [np.concatenate([weights(stack, m) for stack in walk.stacks]) for m in range(len(walk.stacks[0]))]
    )
    assert (by_member == by_member[:, :1]).all()
    return by_member[:, 0].astype(int).tolist()


LOSSES = [[3.0, 1.0, 5.0], [2.0, 2.5, 4.0], [1.0, 4.0, 6.0]]  # means of the first two: 2, 2.25, 2.5


def test_without_pools_every_member_keeps_its_own_best_epoch():
    trained, walk = watch(LOSSES)
    assert kept(walk) == trained.epoch.tolist() == [2, 0, 1]
    assert trained.loss.tolist() == [1.0, 1.0, 4.0]
    assert trained.history.tolist() == LOSSES
    assert trained.diverged == {}


@pytest.mark.parametrize("pairs", [False, True])
def test_members_of_a_pool_keep_the_weights_of_the_same_epoch_and_the_others_their_own(pairs):
    trained, walk = watch(LOSSES, pools=[[0, 1]], pairs=pairs)
    assert kept(walk) == trained.epoch.tolist() == [0, 0, 1]
    assert trained.loss.tolist() == [2.0, 2.0, 4.0]
    assert trained.history.tolist() == [[2.0, 2.0, 5.0], [2.25, 2.25, 4.0], [2.5, 2.5, 6.0]]


def test_the_members_of_a_pool_need_not_be_neighbours():
    trained, walk = watch([[1.0, 5.0, 9.0, 2.0], [2.0, 1.0, 2.0, 4.0]], pools=[[0, 2], [1, 3]])
    assert kept(walk) == trained.epoch.tolist() == [1, 1, 1, 1]
    assert trained.loss.tolist() == [2.0, 2.5, 2.0, 2.5]


def test_a_pool_of_one_chooses_alone():
    trained, walk = watch(LOSSES, pools=[[0], [1], [2]], share=[1.0, 2.0, 3.0])
    assert kept(walk) == [2, 0, 1]
    assert trained.loss.tolist() == [1.0, 1.0, 4.0]


def test_a_larger_share_counts_for_more():
    for share, epoch, loss in (([1.0, 1.0], 0, 2.0), ([3.0, 1.0], 2, 1.75), ([1.0, 9.0], 0, 1.2)):
        trained, walk = watch([row[:2] for row in LOSSES], pools=[[0, 1]], share=share)
        assert kept(walk) == trained.epoch.tolist() == [epoch] * 2
        assert trained.loss.tolist() == pytest.approx([loss] * 2)


def test_a_member_without_share_follows_the_others_of_its_pool():
    trained, walk = watch([row[:2] for row in LOSSES], pools=[[0, 1]], share=[1.0, 0.0])
    assert kept(walk) == [2, 2]
    assert trained.loss.tolist() == [1.0, 1.0]


def test_of_equally_good_epochs_the_first_is_kept():
    _, walk = watch([[2.0, 4.0], [4.0, 2.0], [3.0, 3.0]], pools=[[0, 1]])
    assert kept(walk) == [0, 0]


@given(
    losses=st.lists(st.lists(st.integers(0, 64), min_size=5, max_size=5), min_size=1, max_size=8),
    share=st.lists(st.integers(1, 4), min_size=5, max_size=5),
    unit=st.sampled_from([0.25, 1.0, 1024.0]),
)
def test_a_pool_chooses_the_epoch_of_the_lowest_weighted_mean_whatever_the_unit_of_the_shares(losses, share, unit):
    trained, walk = watch(losses, pools=[[0, 2, 4], [1]], share=[unit * each for each in share])
    table, pool = np.array(losses), [0, 2, 4]
    mean = np.average(table[:, pool], axis=1, weights=np.array(share)[pool])
    (epoch,) = {kept(walk)[member] for member in pool}
    assert epoch == int(mean.argmin())
    np.testing.assert_allclose(trained.loss[pool], mean.min())
    for alone in (1, 3):
        assert kept(walk)[alone] == int(table[:, alone].argmin())


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_member_that_diverges_at_once_does_not_spoil_the_others_of_its_pool(bad):
    losses = [[3.0, bad, 1.0], [2.0, 0.0, 2.5], [1.0, bad, 4.0]]
    trained, walk = watch(losses, pools=[[0, 1, 2]], share=[1.0, 100.0, 1.0])
    assert trained.diverged == {1: 0}
    assert walk.frozen == [1]  # once
    assert trained.epoch.tolist() == [0, -1, 0]
    assert kept(walk) == [0, UNWATCHED, 0]
    assert trained.loss.tolist() == [2.0, INF, 2.0]
    assert trained.history[:, [0, 2]].tolist() == [[2.0, 2.0], [2.25, 2.25], [2.5, 2.5]]
    assert np.isinf(trained.history[:, 1]).all()


def test_a_member_that_diverges_later_keeps_what_it_had_and_the_others_go_on():
    trained, walk = watch([[4.0, 4.0, 4.0], [3.0, NAN, 3.0], [1.0, 0.0, 2.0]], pools=[[0, 1, 2]])
    assert trained.diverged == {1: 1}
    assert kept(walk) == trained.epoch.tolist() == [2, 0, 2]
    assert trained.loss[1] == 4.0
    assert trained.loss[0] == trained.loss[2] < 4.0


def test_the_loss_of_a_bad_member_that_is_dropped_does_not_make_later_epochs_look_better():
    _, walk = watch([[1.0, 9.0, 1.0], [2.0, NAN, 2.0], [3.0, NAN, 3.0]], pools=[[0, 1, 2]])
    assert kept(walk) == [0, 0, 0]


def test_a_pool_that_has_diverged_as_a_whole_leaves_the_other_pools_alone():
    trained, walk = watch([[NAN, INF, 3.0], [1.0, 1.0, 2.0]], pools=[[0, 1], [2]])
    assert trained.diverged == {0: 0, 1: 0}
    assert kept(walk) == [UNWATCHED, UNWATCHED, 1]
    assert trained.loss.tolist() == [INF, INF, 2.0]
