"""Online training: memory does not grow with the sizes of the tables, and a pickled stream trains on."""

import pickle
from functools import partial

import torch

from recuse.engine.batches import Table
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.plan import Networks
from recuse.estimators.rcr.online import Stream

build = partial(StackedMLP, inputs=3, hidden=(4,))


def make_stream():
    return Stream([Member(0, 1e-2), Member(1, 1e-1)], Networks(build, build), slow_start=2)


def make_table(rows):
    x = torch.randn(rows, 3, generator=torch.Generator().manual_seed(rows))
    return Table(x, x[:, 0] + x[:, 1] ** 2)


def test_the_networks_keep_no_buffers_between_tables():
    stream = make_stream()
    for rows in (40, 70, 100, 130):
        stream.learn(make_table(rows), batch_size=32)
        for stack in (stream.regressor, stream.rejector):
            assert stack._outputs == stack._deltas == {}


def test_a_pickled_stream_trains_on_like_the_original():
    stream = make_stream()
    for rows in (40, 50, 60):
        stream.learn(make_table(rows), batch_size=32)
    twin = pickle.loads(pickle.dumps(stream))
    for each in (stream, twin):
        each.learn(make_table(70), batch_size=32)
    assert torch.equal(stream.loss, twin.loss)
    assert torch.equal(stream.regressor.parameters, twin.regressor.parameters)
    assert torch.equal(stream.rejector.parameters, twin.rejector.parameters)
