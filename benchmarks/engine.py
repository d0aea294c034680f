"""Speed of the stacked engine on one thread, compared with two plain PyTorch loops.

    OMP_NUM_THREADS=1 python benchmarks/engine.py   # needs the extra `torch`

The tasks have the size of the housing and abalone tables. All candidates train 32 pairs (h, r) of MLPs d-20-30-10-1
with Adam on the surrogate, and compute the validation loss of every pair after each epoch. Times are the best of
several rounds, in which the candidates alternate.
"""

from __future__ import annotations

import argparse
import itertools
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from recuse.engine.batches import Batches, Table
from recuse.engine.members import Member
from recuse.engine.mlp import StackedMLP
from recuse.engine.pairs import Pairs
from recuse.engine.regressors import Regressors
from recuse.threads import one_blas_thread

HIDDEN, BATCH, COST = (20, 30, 10), 1024, 0.5
TASKS = {"housing": (303, 101, 14), "abalone": (2506, 835, 10)}
RATES = (1e-1, 1e-2, 1e-3)


def make_table(rows: int, features: int, seed: int = 0) -> Table:
    """Return rows with heteroscedastic noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, features))
    y = x[:, 0] + random.normal(size=rows) * np.exp(x[:, 1]) * 0.3
    return Table(x.astype(np.float32), y.astype(np.float32))


def members(count: int) -> list[Member]:
    """Return pairs that differ in seed, learning rate and cost, as in a grid."""
    return [Member(seed=i, learning_rate=RATES[i % 3], cost=COST * (1 + i % 4)) for i in range(count)]


def stacked(train: Table, validation: Table, count: int) -> Callable[[], None]:
    """Return a function that trains all pairs for one epoch with the engine, and validates them."""
    batches, held_out = Batches([train]), Batches([validation])
    seeds = [member.seed for member in members(count)]
    regressors, rejectors = (StackedMLP(seeds, train.x.shape[1], HIDDEN) for _ in range(2))
    pairs = Pairs(Regressors(members(count), regressors), rejectors)
    epochs = itertools.count()

    def run() -> None:
        for batch in batches.shuffled(BATCH, 1, next(epochs)):
            pairs.step(batch)
        pairs.validate(held_out)

    return run


def mlp(features: int) -> nn.Sequential:
    """Return one network as a plain script builds it."""
    widths = [features, *HIDDEN]
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 1))


class Loop:
    """One pair trained by an ordinary PyTorch loop."""

    def __init__(self, train: Table, validation: Table, member: Member, *, fused: bool | None) -> None:
        self.h, self.r = mlp(train.x.shape[1]), mlp(train.x.shape[1])
        parameters = [*self.h.parameters(), *self.r.parameters()]
        self.adam = torch.optim.Adam(parameters, lr=member.learning_rate, fused=fused)
        self.cost = member.cost
        self.train, self.validation = (TensorDataset(*map(torch.tensor, (t.x, t.y))) for t in (train, validation))
        self.loader = DataLoader(self.train, batch_size=BATCH, shuffle=True)
        self.validation_loader = DataLoader(self.validation, batch_size=BATCH)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """Take one step on psi with the mae surrogate."""
        self.adam.zero_grad()
        error, score = (self.h(x).squeeze(1) - y) ** 2, self.r(x).squeeze(1)
        loss = (error * (score + 1).abs() + self.cost * (score - 1).abs()).mean()
        loss.backward()
        self.adam.step()
        return loss

    @torch.no_grad()
    def rcr_loss(self, x: Tensor, y: Tensor) -> float:
        """Return the RcR loss of some rows."""
        error = (self.h(x).squeeze(1) - y) ** 2
        return torch.where(self.r(x).squeeze(1) > 0, error, self.cost).mean().item()

    def bare_epoch(self) -> None:
        """Train for one epoch, with batches by indexing tensors."""
        count = len(self.train)
        order = torch.randperm(count) if count > BATCH else None
        for start in range(0, count, BATCH):
            self.step(*self.train[slice(None) if order is None else order[start : start + BATCH]])
        self.rcr_loss(*self.validation[:])

    def loader_epoch(self) -> None:
        """Train for one epoch, with batches from a DataLoader and running means of the losses."""
        training = [self.step(x, y).item() * len(y) for x, y in self.loader]
        validation = [self.rcr_loss(x, y) * len(y) for x, y in self.validation_loader]
        self.logged = sum(training) / len(self.train), sum(validation) / len(self.validation)


def every(loops: list[Loop], method: str) -> Callable[[], None]:
    """Return a function that trains all pairs for one epoch, one after the other."""

    def run() -> None:
        for loop in loops:
            getattr(loop, method)()

    return run


def best_times(candidates: dict[str, Callable[[], object]], rounds: int, epochs: int) -> dict[str, float]:
    """Return the seconds per epoch of each candidate, the best of some rounds in which they alternate."""
    best = dict.fromkeys(candidates, float("inf"))
    for run in candidates.values():
        run()
    for _ in range(rounds):
        for name, run in candidates.items():
            repeats = epochs if name.startswith("stacked") else max(1, epochs // 10)
            start = time.perf_counter()
            for _ in range(repeats):
                run()
            best[name] = min(best[name], (time.perf_counter() - start) / repeats)
    return best


def sgemm_rate() -> float:
    """Return the speed of a large matrix product, in flop/s."""
    a, b = np.random.default_rng(0).normal(size=(2, 1024, 1024)).astype(np.float32)
    out = np.empty_like(a)
    seconds = best_times({"stacked": lambda: np.matmul(a, b, out=out)}, rounds=5, epochs=10)["stacked"]
    return 2 * 1024**3 / seconds


def flops(rows: int, validation_rows: int, features: int, count: int) -> int:
    """Return the multiplications and additions of an epoch, without padding."""
    widths = [features, *HIDDEN, 1]
    forward = sum(2 * a * b for a, b in pairwise(widths))
    backward = 2 * forward - 2 * features * HIDDEN[0]  # no gradient by the inputs
    return 2 * count * (rows * (forward + backward) + validation_rows * forward)


def engine_bytes(rows: int, features: int, count: int) -> int:
    """Return the most bytes that a training has in use."""
    train, validation = make_table(rows, features), make_table(rows // 3, features)
    tracemalloc.start()
    stacked(train, validation, count)()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def compare(count: int, rounds: int, epochs: int) -> None:
    """Print the times of all candidates for each task."""
    for task, (rows, validation_rows, features) in TASKS.items():
        train, validation = make_table(rows, features), make_table(validation_rows, features, seed=1)
        default = [Loop(train, validation, member, fused=None) for member in members(count)]
        fused = [Loop(train, validation, member, fused=True) for member in members(count)]
        candidates = {
            "stacked": stacked(train, validation, count),
            "bare loop": every(default, "bare_epoch"),
            "bare loop, fused Adam": every(fused, "bare_epoch"),
            "DataLoader loop": every(default, "loader_epoch"),
        }
        times = best_times(candidates, rounds, epochs)
        rate, ours = sgemm_rate(), times["stacked"]
        print(f"\n{task}-sized: {rows} x {features}, {count} pairs, ms per epoch of all of them")
        for name, seconds in times.items():
            print(f"  {name:22} {seconds * 1e3:8.2f} ms   {seconds / ours:6.1f} x")
        share = flops(rows, validation_rows, features, count) / ours / rate
        print(f"  useful arithmetic at {share:.0%} of the speed of a large matrix product, {rate / 1e9:.0f} Gflop/s")


def print_memory() -> None:
    """Print the memory of the engine for several numbers of members and rows."""
    print("\nmemory of the engine, MiB (it grows linearly with members, and with rows up to the batch size)")
    for count in (8, 16, 32, 64):
        sizes = [f"{engine_bytes(rows, 10, count) / 2**20:7.1f} ({rows} rows)" for rows in (250, 500, 1000, 100_000)]
        print(f"  {count:3} members: " + "  ".join(sizes))


def main() -> None:
    """Print the times of each task, then the memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=50)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with one_blas_thread():
        compare(arguments.members, arguments.rounds, arguments.epochs)
        print_memory()


if __name__ == "__main__":
    main()
