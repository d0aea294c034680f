"""Online training: memory does not grow with the sizes of the tables, and a pickled training continues."""

import pickle
from functools import partial

import torch

from recuse.engine.batches import Table
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.plan import Networks
from recuse.estimators.rcr.online import OnlineTraining

build = partial(StackedMLP, inputs=3, hidden=(4,))


def start():
    members = [Member(0, 1e-2), Member(1, 1e-2)]
    return OnlineTraining(members, Networks(build, build), rates=[1e-2], slow_start=2)


def make_table(rows):
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
    return Table(x, x[:, 0] + x[:, 1] ** 2)


def test_the_networks_keep_no_buffers_between_tables():
    training = start()
    for rows in (40, 70, 100, 130):
        training = training.trained_on(make_table(rows), batch_size=32)
        for stack in (training.regressor, training.rejector):
            assert stack._outputs == stack._deltas == {}


def test_a_pickled_training_continues_like_the_original():
    training = start()
    for rows in (40, 50, 60):
        training = training.trained_on(make_table(rows), batch_size=32)
    twin = pickle.loads(pickle.dumps(training))
    one, other = (each.trained_on(make_table(70), batch_size=32) for each in (training, twin))
    assert torch.equal(one.loss, other.loss)
    assert torch.equal(one.regressor.parameters, other.regressor.parameters)
    assert torch.equal(one.rejector.parameters, other.rejector.parameters)
