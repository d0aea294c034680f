"""How fast the stacked engine is: one run, one thread, against two loops a researcher would write.

    OMP_NUM_THREADS=1 python benchmarks/engine.py

Tasks have the size of the housing and abalone tables. All contestants train 32 pairs (h, r) of MLPs
d-20-30-10-1 by Adam on the surrogate and measure the validation loss of every pair after each epoch. Times are
the best of several rounds, with the contestants taking turns.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from recuse.engine.batches import Feed, Table
from recuse.engine.mlp import StackedMLP
from recuse.engine.trainer import Member, StackedTrainer

HIDDEN, BATCH, COST = (20, 30, 10), 1024, 0.5
TASKS = {"housing": (303, 101, 14), "abalone": (2506, 835, 10)}
RATES = (1e-1, 1e-2, 1e-3)


def make_table(rows: int, features: int) -> Table:
    """Rows with some structure; only their number matters here."""
    x = torch.randn(rows, features)
    return Table(x, x[:, 0] + torch.randn(rows) * x[:, 1].exp() * 0.3)


def members(count: int) -> list[Member]:
    """Pairs that differ in seed, learning rate and cost, as in a grid."""
    return [Member(seed=i, learning_rate=RATES[i % 3], cost=COST * (1 + i % 4)) for i in range(count)]


def stacked(train: Table, validation: Table, count: int) -> Callable[[], None]:
    """Our engine; calling the result trains all pairs for one epoch and validates them."""
    features, device = train.x.shape[1], torch.device("cpu")
    feed, held_out = Feed([train], device), Feed([validation], device)
    seeds = [member.seed for member in members(count)]
    stacks = StackedMLP(seeds, features, HIDDEN), StackedMLP(seeds, features, HIDDEN)
    trainer = StackedTrainer(members(count), *stacks)
    epoch = iter(range(10**9))

    def run() -> None:
        for batch in feed.shuffled(BATCH, 1, next(epoch)):
            trainer.step_pairs(batch)
        trainer.validate(held_out)

    return run


def mlp(features: int) -> nn.Sequential:
    """One network as the straightforward scripts build it."""
    widths = [features, *HIDDEN]
    layers = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 1))


class Loop:
    """One pair trained by an ordinary PyTorch loop."""

    def __init__(self, train: Table, validation: Table, member: Member, *, fused: bool | None) -> None:
        self.h, self.r = mlp(train.x.shape[1]), mlp(train.x.shape[1])
        parameters = [*self.h.parameters(), *self.r.parameters()]
        self.adam = torch.optim.Adam(parameters, lr=member.learning_rate, fused=fused)
        self.cost, self.train, self.validation = member.cost, train, validation
        self.loader = DataLoader(TensorDataset(train.x, train.y), batch_size=BATCH, shuffle=True)
        self.validation_loader = DataLoader(TensorDataset(validation.x, validation.y), batch_size=BATCH)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """One step on psi with the mae surrogate."""
        self.adam.zero_grad()
        error, score = (self.h(x).squeeze(1) - y) ** 2, self.r(x).squeeze(1)
        loss = (error * (score + 1).abs() + self.cost * (score - 1).abs()).mean()
        loss.backward()
        self.adam.step()
        return loss

    @torch.no_grad()
    def rcr_loss(self, x: Tensor, y: Tensor) -> float:
        """RcR loss of some rows."""
        error = (self.h(x).squeeze(1) - y) ** 2
        return torch.where(self.r(x).squeeze(1) > 0, error, self.cost).mean().item()

    def bare_epoch(self) -> None:
        """Batches by indexing tensors."""
        order = torch.randperm(len(self.train.y)) if len(self.train.y) > BATCH else None
        for start in range(0, len(self.train.y), BATCH):
            rows = slice(None) if order is None else order[start : start + BATCH]
            self.step(self.train.x[rows], self.train.y[rows])
        self.rcr_loss(self.validation.x, self.validation.y)

    def loader_epoch(self) -> None:
        """Batches of both parts by the usual DataLoader, and the usual running means."""
        training = [self.step(x, y).item() * len(y) for x, y in self.loader]
        validation = [self.rcr_loss(x, y) * len(y) for x, y in self.validation_loader]
        self.logged = sum(training) / len(self.train.y), sum(validation) / len(self.validation.y)


def every(loops: list[Loop], method: str) -> Callable[[], None]:
    """One epoch of all pairs, one after the other."""
    return lambda: [getattr(loop, method)() for loop in loops] and None


def best_times(contestants: dict[str, Callable[[], None]], rounds: int, epochs: int) -> dict[str, float]:
    """Seconds per epoch of each, the best of some rounds; they take turns, so a slow moment harms all alike."""
    best = dict.fromkeys(contestants, float("inf"))
    for run in contestants.values():
        run()
    for _ in range(rounds):
        for name, run in contestants.items():
            repeats = epochs if name.startswith("stacked") else max(1, epochs // 10)
            start = time.perf_counter()
            for _ in range(repeats):
                run()
            best[name] = min(best[name], (time.perf_counter() - start) / repeats)
    return best


def sgemm_rate() -> float:
    """What the machine's own matrix product reaches, in flop/s."""
    a, b, out = torch.randn(1024, 1024), torch.randn(1024, 1024), torch.empty(1024, 1024)

    def product() -> None:
        torch.mm(a, b, out=out)

    return 2 * 1024**3 / best_times({"stacked": product}, rounds=5, epochs=10)["stacked"]


def flops(rows: int, validation_rows: int, features: int, count: int) -> int:
    """Multiplications and additions that an epoch needs, without any padding."""
    widths = [features, *HIDDEN, 1]
    forward = sum(2 * a * b for a, b in pairwise(widths))
    backward = 2 * forward - 2 * features * HIDDEN[0]  # no gradient by the inputs
    return 2 * count * (rows * (forward + backward) + validation_rows * forward)


def engine_bytes(rows: int, features: int, count: int) -> int:
    """Bytes of all tensors an epoch of training leaves allocated."""
    gc.collect()
    before = {id(tensor) for tensor in live_tensors()}
    run = stacked(make_table(rows, features), make_table(rows // 3, features), count)
    run()
    storages = [tensor.untyped_storage() for tensor in live_tensors() if id(tensor) not in before]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def live_tensors() -> list[Tensor]:
    """All tensors that are in use."""
    return [thing for thing in gc.get_objects() if issubclass(type(thing), Tensor)]


def main() -> None:
    """Print one block for each task, then the memory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=50)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    count = arguments.members
    for task, (rows, validation_rows, features) in TASKS.items():
        train, validation = make_table(rows, features), make_table(validation_rows, features)
        default = [Loop(train, validation, member, fused=None) for member in members(count)]
        fused = [Loop(train, validation, member, fused=True) for member in members(count)]
        contestants = {
            "stacked": stacked(train, validation, count),
            "bare loop": every(default, "bare_epoch"),
            "bare loop, fused Adam": every(fused, "bare_epoch"),
            "DataLoader loop": every(default, "loader_epoch"),
        }
        times = best_times(contestants, arguments.rounds, arguments.epochs)
        rate, ours = sgemm_rate(), times["stacked"]
        print(f"\n{task}-sized: {rows} x {features}, {count} pairs, ms per epoch of all of them")
        for name, seconds in times.items():
            print(f"  {name:22} {seconds * 1e3:8.2f} ms   {seconds / ours:6.1f} x")
        share = flops(rows, validation_rows, features, count) / ours / rate
        print(f"  useful arithmetic at {share:.0%} of the machine's own sgemm rate of {rate / 1e9:.0f} Gflop/s")
    print("\nmemory of the engine, MiB (it grows linearly with members, and with rows up to the batch size)")
    for count in (8, 16, 32, 64):
        sizes = [f"{engine_bytes(rows, 10, count) / 2**20:7.1f} ({rows} rows)" for rows in (250, 500, 1000, 100_000)]
        print(f"  {count:3} members: " + "  ".join(sizes))


if __name__ == "__main__":
    main()
