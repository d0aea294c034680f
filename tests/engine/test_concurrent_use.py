"""A stack outside training is a value: any number of threads may run it, and nothing in it or around it changes."""

import pickle
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from recuse.engine.batches import Table
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.pairs import train_pairs
from recuse.engine.plan import Networks, Plan
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.engine.stack import outputs, pad_rows, with_bias
from recuse.engine.user_modules import LoopedModules

FEATURES = np.random.default_rng(0).normal(size=(9000, 3))
ROW_COUNTS = [1, 7, 31, 32, 33, 64, 500, 1000, 4096, 4097, 6000]


def user_network(inputs):
    return nn.Sequential(nn.Linear(inputs, 16), nn.Dropout(0.5), nn.Tanh(), nn.Linear(16, 1))


KINDS = {
    "mlp": lambda: StackedMLP(range(4), 3, (20, 30, 10)),
    "linear": lambda: StackedMLP(range(4), 3, ()),
    "several outputs": lambda: StackedMLP(range(4), 3, (8,), outputs=3),
    "user modules": lambda: LoopedModules(range(4), 3, user_network),
    "selectivenet": lambda: StackedSelectiveNet(range(4), 3, (16,)),
}


@pytest.fixture(params=KINDS)
def stack(request):
    """A stack after one training step, with its buffers of training."""
    stack = KINDS[request.param]()
    out = stack.forward(with_bias(torch.randn(64, 3), pad_rows(64))[None], training=True)
    stack.backward(torch.ones_like(out))
    return stack


def tensors_of(thing, path="stack", seen=None):
    """All tensors that can be reached from an object, by their path."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return {}
    seen.add(id(thing))
    if isinstance(thing, torch.Tensor):
        return {path: thing.detach().clone()}
    if isinstance(thing, dict):
        parts = thing.items()
    elif isinstance(thing, list | tuple):
        parts = enumerate(thing)
    else:
        parts = getattr(thing, "__dict__", {}).items()
    found = {}
    for name, part in parts:
        found |= tensors_of(part, f"{path}.{name}", seen)
    return found


def resident_megabytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def test_threads_that_run_one_stack_get_the_numbers_of_a_serial_run(stack):
    counts = np.random.default_rng(1).choice(ROW_COUNTS, size=(8, 50))
    expected = {count: outputs(stack, FEATURES[:count]) for count in ROW_COUNTS}
    together = threading.Barrier(8)

    def run(own_counts):
        together.wait()
        return [np.array_equal(outputs(stack, FEATURES[:count]), expected[count]) for count in own_counts]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            equal = list(pool.map(run, counts))
    finally:
        sys.setswitchinterval(interval)
    assert np.all(equal)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the memory in /proc")
def test_memory_does_not_grow_with_the_number_of_row_counts(stack):
    outputs(stack, FEATURES[:4096])
    before = resident_megabytes()
    for count in range(1, 4096, 4096 // 300):
        outputs(stack, FEATURES[:count])
    assert resident_megabytes() - before < 50


def test_no_tensor_of_the_stack_changes_when_it_runs(stack):
    before = tensors_of(stack)
    outputs(stack, FEATURES[:500])
    after = tensors_of(stack)
    assert before.keys() == after.keys()
    assert [path for path, tensor in before.items() if not torch.equal(tensor, after[path])] == []


def test_no_module_changes_its_mode_when_it_runs():
    stack = KINDS["user modules"]()
    modes = [part.training for module in stack.modules for part in module.modules()]
    assert not any(modes)
    stack.forward(with_bias(torch.randn(64, 3), 64)[None], training=True)
    for each in (stack, stack.take([1, 0]), stack.to(torch.float64), pickle.loads(pickle.dumps(stack))):
        assert not any(part.training for module in each.modules for part in module.modules())


def test_the_result_of_a_run_is_not_overwritten_by_the_next(stack):
    x = with_bias(torch.as_tensor(FEATURES[:64], dtype=torch.float32), 64)[None]
    first = stack.forward(x)
    kept = first.clone()
    stack.forward(-x)
    assert torch.equal(first, kept)


def test_a_run_between_forward_and_backward_leaves_the_gradient_alone(stack):
    x = with_bias(torch.as_tensor(FEATURES[:64], dtype=torch.float32), 64)[None]
    twin = pickle.loads(pickle.dumps(stack))
    slope = torch.ones_like(twin.forward(x, training=True))
    twin.backward(slope)
    stack.forward(x, training=True)
    stack.forward(-x)
    stack.backward(slope)
    assert torch.equal(stack.gradient, twin.gradient)


def test_running_leaves_the_global_random_streams_alone(stack):
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    outputs(stack, FEATURES[:500])
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]


def test_the_buffers_of_training_are_gone_after_the_end_of_training(stack):
    stack.end_training()
    # what is left is what a stack has that was never trained
    assert tensors_of(stack).keys() == tensors_of(stack.take(range(len(stack)))).keys()


def test_trained_stacks_keep_no_buffers_of_training():
    table = Table(torch.as_tensor(FEATURES[:50], dtype=torch.float32), torch.zeros(50))
    networks = Networks(lambda seeds: StackedMLP(seeds, 3, (4,)), lambda seeds: StackedMLP(seeds, 3, (4,)))
    trained = train_pairs([table], [table], [Member(0, 1e-2)], networks, Plan(epochs=4, batch_size=20))
    for stack in (trained.regressor, trained.rejector):
        assert tensors_of(stack).keys() == tensors_of(stack.take([0])).keys()


@pytest.mark.parametrize("kind", KINDS)
def test_backward_without_a_training_step_is_refused(kind):
    stack = KINDS[kind]()
    out = stack.forward(with_bias(torch.randn(64, 3), 64)[None])
    with pytest.raises(RuntimeError, match=r"^backward needs a forward\(x, training=True\) before it$"):
        stack.backward(torch.ones_like(out))
