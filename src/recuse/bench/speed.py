"""Comparison of the speed of the stacked engine with that of a plain PyTorch script, for `recuse bench speed`.

Both train all pairs of one table of the paper, and the regressors alone, on one split of each data set, for all costs
and learning rates. Both use one thread, and fewer epochs than the paper, with Slow-Start shortened in proportion.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from recuse import datasets, surrogates
from recuse.bench.runner import table_groups
from recuse.bench.spec import Paper, Protocol
from recuse.bench.work_unit import Group, run_group
from recuse.tabular.encoder import TableEncoder
from recuse.threads import one_thread
from recuse.validation import require

__all__ = ["Timing", "compare"]


@dataclass(frozen=True)
class Timing:
    """Seconds of the plain script and of the stacked engine for the same trainings."""

    dataset: str
    trainings: int
    straightforward: float
    stacked: float


def compare(paper: Paper, table: str = "mlp", *, epochs: int = 50, names: tuple[str, ...] = ()) -> Iterator[Timing]:
    """Measure both on each data set.

    Parameters
    ----------
    paper : Paper
    table : str
    epochs : int
        Epochs of each training, instead of those of the protocol.
    names : tuple of str
        Data sets; all if empty.

    Yields
    ------
    Timing
    """
    require(table in paper.tables, "table", f"one of {list(paper.tables)}", table)
    for name in names:
        require(name in paper.costs, "datasets", f"among {list(paper.costs)}", name)
    slow_start = round(paper.protocol.slow_start * epochs / paper.protocol.epochs)
    protocol = replace(paper.protocol, epochs=epochs, slow_start=slow_start)
    for name in names or tuple(paper.costs):
        groups = table_groups(paper, [table], repeats=1, datasets=[name])
        with one_thread():
            timing = _timing(name, groups, protocol)
        yield timing  # outside the limit, which would otherwise apply to the caller


def _timing(name: str, groups: Sequence[Group], protocol: Protocol) -> Timing:
    trainings = sum(len(group.costs or (1,)) * len(protocol.learning_rates) for group in groups)
    run_group(groups[0], replace(protocol, epochs=2))  # loads the data and warms up
    start = time.perf_counter()
    for group in groups:
        run_group(group, protocol)
    middle = time.perf_counter()
    for group in groups:
        _run_plain_script(group, protocol)
    return Timing(name, trainings, time.perf_counter() - middle, middle - start)


def _run_plain_script(group: Group, protocol: Protocol) -> None:
    """Run one training after the other, with batches from DataLoaders and copies of the best weights."""
    train, validation, _ = datasets.split(datasets.load(group.dataset), group.repeat)
    encoder = TableEncoder(unseen="keep").fit(train[0])
    sets = [
        TensorDataset(
            torch.tensor(encoder.transform(X), dtype=torch.float32),
            torch.tensor(y.to_numpy(), dtype=torch.float32),
        )
        for X, y in (train, validation)
    ]
    for cost in group.costs or (None,):
        for rate in protocol.learning_rates:
            _train(sets[0], sets[1], cost, rate, group, protocol)


def _train(
    train: TensorDataset, validation: TensorDataset, cost: float | None, rate: float, group: Group, protocol: Protocol
) -> dict[str, Tensor]:
    hidden = protocol.hidden if group.model == "mlp" else ()
    pair = nn.ModuleDict({"h": _mlp(train.tensors[0].shape[1], hidden), "r": _mlp(train.tensors[0].shape[1], hidden)})
    optimiser = torch.optim.Adam(pair.parameters(), lr=rate)
    loader = DataLoader(train, batch_size=protocol.batch_size, shuffle=True)
    held_out = DataLoader(validation, batch_size=protocol.batch_size)
    best, best_weights = float("inf"), pair.state_dict()
    for epoch in range(protocol.epochs):
        joint = cost is not None and epoch >= protocol.slow_start
        for x, y in loader:
            optimiser.zero_grad()
            _loss(pair, x, y, cost if joint else None, group.surrogate).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        if cost is None or joint:
            loss = _validate(pair, held_out, cost, len(validation))
            if loss < best:
                best, best_weights = loss, {name: value.clone() for name, value in pair.state_dict().items()}
    return best_weights


def _mlp(inputs: int, hidden: tuple[int, ...]) -> nn.Sequential:
    widths = (inputs, *hidden)
    layers = [layer for a, b in pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 1))


def _loss(pair: nn.ModuleDict, x: Tensor, y: Tensor, cost: float | None, surrogate: str) -> Tensor:
    error: Tensor = (pair["h"](x).squeeze(1) - y) ** 2
    if cost is None:
        return error.mean()
    accept, reject = surrogates.get(surrogate)(pair["r"](x).squeeze(1))
    return (error * accept + cost * reject).mean()


@torch.no_grad()
def _validate(pair: nn.ModuleDict, loader: DataLoader[tuple[Tensor, ...]], cost: float | None, rows: int) -> float:
    total = 0.0
    for x, y in loader:
        error = (pair["h"](x).squeeze(1) - y) ** 2
        if cost is not None:
            error = torch.where(pair["r"](x).squeeze(1) > 0, error, cost)
        total += error.sum().item()
    return total / rows
