"""The speed of the stacked engine against that of a plain PyTorch script, on the same trainings and core.

    OMP_NUM_THREADS=1 python benchmarks/speed.py

Both train all pairs of one table of the paper, and the regressors alone, on one split of each data set, for all costs
and learning rates. Both use one thread, and fewer epochs than the paper, with Slow-Start shortened in proportion.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from recuse import surrogates
from recuse.bench import spec
from recuse.bench.cells import BenchCells
from recuse.bench.method import BenchSplit
from recuse.bench.rcr import AcceptAll, RcR
from recuse.tabular.encoder import TableEncoder
from recuse.threads import one_thread


def main() -> None:
    """Print one line for each data set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", default="mlp", help="table whose trainings are timed")
    parser.add_argument("--epochs", type=int, default=100, help="epochs of each training, instead of the protocol's")
    parser.add_argument("--datasets", nargs="*", help="only these data sets")
    arguments = parser.parse_args()
    paper = spec.load()
    slow_start = round(paper.protocol.slow_start * arguments.epochs / paper.protocol.epochs)
    paper = replace(paper, protocol=replace(paper.protocol, epochs=arguments.epochs, slow_start=slow_start))
    table, total = paper.tables[arguments.table], [0.0, 0.0]
    methods = [
        each for model in table["models"] for each in (AcceptAll(model), *(RcR(model, s) for s in table["surrogates"]))
    ]
    print(f"{'data set':12} {'trainings':>9} {'plain script':>13} {'stacked':>9} {'ratio':>7}")
    for name in arguments.datasets or paper.costs:
        split, _ = BenchCells(paper, methods[0], name, 0, paper.costs[name]).split()
        alone = [isinstance(method, AcceptAll) for method in methods]
        trainings = sum(1 if each else len(split.costs) for each in alone) * len(paper.protocol.learning_rates)
        with one_thread():
            methods[0].decide(replace(split, protocol=replace(paper.protocol, epochs=2, slow_start=1)))  # warms up
            start = time.perf_counter()
            for method in methods:
                method.decide(split)
            middle = time.perf_counter()
            for method in methods:
                run_plain_script(method, split)
        plain, stacked = time.perf_counter() - middle, middle - start
        total = [total[0] + plain, total[1] + stacked]
        print(f"{name:12} {trainings:9} {plain:11.1f} s {stacked:7.2f} s {plain / stacked:5.1f} x", flush=True)
    print(f"{'whole table':12} {'':9} {total[0]:11.1f} s {total[1]:7.2f} s {total[0] / total[1]:5.1f} x")


def run_plain_script(method: AcceptAll | RcR, split: BenchSplit) -> None:
    """Run one training after the other, with batches from DataLoaders and copies of the best weights."""
    encoder = TableEncoder(unseen="keep").fit(split.train[0])
    sets = [
        TensorDataset(
            torch.tensor(encoder.transform(X), dtype=torch.float32),
            torch.tensor(y.to_numpy(), dtype=torch.float32),
        )
        for X, y in (split.train, split.validation)
    ]
    for cost in split.costs if isinstance(method, RcR) else (None,):
        for rate in split.protocol.learning_rates:
            train(sets[0], sets[1], cost, rate, method, split)


def train(
    rows: TensorDataset,
    validation: TensorDataset,
    cost: float | None,
    rate: float,
    method: AcceptAll | RcR,
    split: BenchSplit,
) -> dict[str, Tensor]:
    """Train one pair, or one regressor without a cost, and return the weights of the best epoch."""
    protocol = split.protocol
    hidden = protocol.hidden if method.model == "mlp" else ()
    pair = nn.ModuleDict({"h": mlp(rows.tensors[0].shape[1], hidden), "r": mlp(rows.tensors[0].shape[1], hidden)})
    optimiser = torch.optim.Adam(pair.parameters(), lr=rate)
    loader = DataLoader(rows, batch_size=protocol.batch_size, shuffle=True)
    held_out = DataLoader(validation, batch_size=protocol.batch_size)
    best, best_weights = float("inf"), pair.state_dict()
    for epoch in range(protocol.epochs):
        joint = cost is not None and epoch >= protocol.slow_start
        for x, y in loader:
            optimiser.zero_grad()
            loss_of(pair, x, y, cost if joint else None, method).backward()
            optimiser.step()
        if cost is None or joint:
            loss = validate(pair, held_out, cost, len(validation))
            if loss < best:
                best, best_weights = loss, {name: value.clone() for name, value in pair.state_dict().items()}
    return best_weights


def mlp(inputs: int, hidden: tuple[int, ...]) -> nn.Sequential:
    """Make a network with one output."""
    widths = (inputs, *hidden)
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 1))


def loss_of(pair: nn.ModuleDict, x: Tensor, y: Tensor, cost: float | None, method: AcceptAll | RcR) -> Tensor:
    """Compute the loss of a batch: the surrogate loss, or the squared error without a cost."""
    error: Tensor = (pair["h"](x).squeeze(1) - y) ** 2
    if cost is None or isinstance(method, AcceptAll):
        return error.mean()
    accept, reject = surrogates.get(method.surrogate)(pair["r"](x).squeeze(1))
    return (error * accept + cost * reject).mean()


@torch.no_grad()
def validate(pair: nn.ModuleDict, loader: DataLoader[tuple[Tensor, ...]], cost: float | None, rows: int) -> float:
    """Compute the RcR loss, or the squared error without a cost."""
    total = 0.0
    for x, y in loader:
        error = (pair["h"](x).squeeze(1) - y) ** 2
        if cost is not None:
            error = torch.where(pair["r"](x).squeeze(1) > 0, error, cost)
        total += error.sum().item()
    return total / rows


if __name__ == "__main__":
    main()
