"""Training and evaluation leave thread counts and global random streams as they were, and train on one thread."""

import random
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits
from torch import nn

from recuse.engine.batches import Table
from recuse.engine.cost_range import CostRange
from recuse.engine.loop import train_regressors, train_rejectors, train_selective
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.objectives.selective import SelectiveMember
from recuse.engine.pairs import train_pairs
from recuse.engine.plan import Networks, Plan, SelectivePlan
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.engine.stack import outputs, threads_for
from recuse.engine.user_modules import LoopedModules

MEMBERS = [Member(0, 1e-2), Member(1, 1e-1, surrogate="logistic")]


def make_table(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 3, generator=generator)
    return Table(x, x[:, 0] ** 2, seed=seed)


TABLES, VALIDATION = [make_table(60, 0)], [make_table(40, 1)]


def user_network(inputs):
    return nn.Sequential(nn.Linear(inputs, 5), nn.Dropout(0.5), nn.Linear(5, 1))


mlps = partial(StackedMLP, inputs=3, hidden=(5, 4))
user_modules = partial(LoopedModules, inputs=3, factory=user_network)


def pairs(build, plan):
    return train_pairs(TABLES, VALIDATION, MEMBERS, Networks(build, build), plan).rejector


TRAININGS = {
    "pairs": partial(pairs, mlps),
    "pairs of user modules": partial(pairs, user_modules),
    "regressors": lambda plan: train_regressors(TABLES, VALIDATION, MEMBERS, Networks(mlps, mlps), plan).regressor,
    "rejectors": lambda plan: train_rejectors(TABLES, VALIDATION, MEMBERS, mlps, plan).regressor,
    "rejectors of a cost range": (
        lambda plan: train_rejectors(TABLES, VALIDATION, MEMBERS, mlps, plan, CostRange(0.2, 5.0)).regressor
    ),
    "selectivenets": lambda plan: (
        train_selective(
            TABLES,
            [SelectiveMember(0), SelectiveMember(1)],
            partial(StackedSelectiveNet, inputs=3, hidden=(5,)),
            SelectivePlan(epochs=plan.epochs, batch_size=plan.batch_size, on_epoch=plan.on_epoch),
        ).stack
    ),
}
every_training = pytest.mark.parametrize("train", TRAININGS.values(), ids=TRAININGS.keys())


@pytest.fixture(autouse=True)
def several_threads():
    """Let the calling thread start from three threads, whatever the environment."""
    torch.get_num_threads()
    with threadpool_limits(limits=3, user_api="openmp"):
        yield


def global_state():
    threads = [(each["filepath"], each["num_threads"]) for each in threadpool_info()]
    numpy_state = np.random.get_state()[1].tobytes()  # noqa: NPY002
    return torch.get_num_threads(), threads, torch.get_rng_state().tolist(), numpy_state, random.getstate()


@every_training
def test_thread_counts_and_random_streams_are_the_same_before_and_after(train):
    before = global_state()
    stack = train(Plan(epochs=4, slow_start=2, batch_size=25))
    outputs(stack, np.zeros((10, 3)))
    assert global_state() == before


@every_training
def test_small_networks_train_on_one_thread(train):
    counts = set()
    train(Plan(epochs=4, slow_start=2, batch_size=25, on_epoch=lambda _: counts.add(torch.get_num_threads())))
    assert counts == {1}


@every_training
def test_the_limit_is_lifted_when_training_is_interrupted(train):
    def interrupt(epoch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(Plan(epochs=4, slow_start=2, on_epoch=interrupt))
    assert torch.get_num_threads() == 3


def test_another_thread_keeps_its_threads_while_one_trains():
    seen = []
    with ThreadPoolExecutor(1) as pool:
        pool.submit(torch.get_num_threads).result()
        pool.submit(threadpool_limits, limits=2, user_api="openmp").result()
        plan = Plan(epochs=2, on_epoch=lambda _: seen.append(pool.submit(torch.get_num_threads).result()))
        train_regressors(TABLES, VALIDATION, MEMBERS, Networks(mlps, mlps), plan)
    assert seen == [2, 2]


def test_user_modules_that_train_in_several_threads_end_as_in_one():
    plan = Plan(epochs=6, slow_start=3, batch_size=25)
    expected, before = pairs(user_modules, plan).parameters, torch.get_rng_state()
    with ThreadPoolExecutor(4) as pool:
        trained = list(pool.map(lambda _: pairs(user_modules, plan).parameters, range(8)))
    assert all(torch.equal(parameters, expected) for parameters in trained)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("rows", "count"), [(10, 1), (1024, 1), (10**7, 3)])
def test_large_steps_use_all_threads(rows, count):
    with threads_for([mlps(range(4))], rows):
        assert torch.get_num_threads() == count
