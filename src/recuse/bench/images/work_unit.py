"""The unit of work of the image experiments: one data set, model, surrogate, cost and repeat."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from recuse import metrics, theory
from recuse.bench.images.data import ImageParts, ImageSource, load_parts
from recuse.bench.images.spec import ImageProtocol
from recuse.bench.images.training import Hardware, ImageTraining
from recuse.bench.work_unit import SUPERVISED, Group, measures
from recuse.decision import Decision
from recuse.tasks import run_tasks

__all__ = ["KNOWN", "YARDSTICKS", "ImageWork", "against_bayes", "image_groups", "is_main_process", "measure"]

Floats = NDArray[np.float64]
YARDSTICKS = ("always_reject", "oracle")
# measures that need the mean and the variance of each target
KNOWN = ("bayes_risk", "bayes_ratio", "risk_ratio", "bayes_al", "bayes_rej", "rank_correlation")
_SHOWN = 16  # images of each kind on the contact sheet


def image_groups(name: str, model: str, surrogates: Sequence[str], costs: Sequence[float], repeats: int) -> list[Group]:
    """List one group per surrogate, cost and repeat, and one per repeat for the regressor without a rejector."""
    return [
        group
        for repeat in range(repeats)
        for group in (
            Group(name, model, SUPERVISED, repeat),
            *(Group(name, model, each, repeat, (cost,), apart=True) for each in surrogates for cost in costs),
        )
    ]


@dataclass(frozen=True)
class ImageWork:
    """Runs groups; can be sent to other processes.

    Attributes
    ----------
    source : ImageSource
    folder : Path
        Folder of checkpoints.
    hardware : Hardware
    """

    source: ImageSource
    folder: Path
    hardware: Hardware

    def __call__(self, group: Group, protocol: ImageProtocol) -> dict[str, Any]:
        """Train and test one group; the result has the form of `recuse.bench.work_unit.run_group`."""
        training = self._training(group, protocol)
        with _torch_threads(self.hardware.threads):
            if group.surrogate == SUPERVISED:
                error = metrics.squared_error(training.parts.y, training.supervised())
                cells: list[dict[str, Any]] = [{"sup": float(error.mean())}]
            else:
                model = training.pair(group.surrogate, group.costs[0])
                decision = model.decide(training.parts.test_images)
                cells = [{"cost": group.costs[0], **measure(decision, training.parts), "epoch": model.best_epoch_}]
        if _distributed():  # wait before files are removed that another process may still read
            torch.distributed.barrier()
        return {"group": asdict(group), "protocol": asdict(protocol), "cells": cells}

    def slow_starts(self, groups: Sequence[Group], protocol: ImageProtocol, jobs: int) -> None:
        """Train the Slow-Start of every repeat, before the groups run in parallel."""
        firsts = {(group.model, group.repeat): group for group in groups}
        for _ in run_tasks(partial(self.slow_start, protocol=protocol), firsts.values(), jobs=jobs):
            pass

    def slow_start(self, group: Group, protocol: ImageProtocol) -> None:
        """Train the Slow-Start that all groups of a repeat share."""
        with _torch_threads(self.hardware.threads):
            self._training(group, protocol).slow_start()

    def tidy(self, group: Group, protocol: ImageProtocol) -> None:
        """Remove the checkpoints of a group whose result is stored."""
        name = group.surrogate if group.surrogate == SUPERVISED else f"{group.surrogate}-{group.costs[0]:g}"
        shutil.rmtree(self._folder(group, protocol) / name, ignore_errors=True)

    def _training(self, group: Group, protocol: ImageProtocol) -> ImageTraining:
        parts = load_parts(self.source, group.repeat)
        return ImageTraining(group.model, group.repeat, parts, protocol, self._folder(group, protocol), self.hardware)

    def _folder(self, group: Group, protocol: ImageProtocol) -> Path:
        """Return a folder that depends on the protocol, so that no training resumes from another protocol."""
        mark = zlib.crc32(repr(protocol).encode())
        return self.folder / f"{group.model}-{group.repeat}-{mark:08x}"


def measure(decision: Decision, parts: ImageParts) -> dict[str, Any]:
    """Return the paper's measures, the reference losses, the Bayes measures if known, and the clearest cases."""
    known = decision.evaluate(parts.y)
    return {
        **measures(decision, parts.y),
        **{name: known[name] for name in YARDSTICKS},
        **against_bayes(decision, parts),
        "clearest": _clearest(decision, parts.y),
    }


def against_bayes(decision: Decision, parts: ImageParts) -> dict[str, float | None]:
    """Compare with the Bayes decision, if mean and variance of every target are known.

    ``risk_ratio`` uses the expected loss of each decision instead of the loss on the drawn target, so it does not
    depend on the draw and is never below one.
    """
    if parts.mean is None or parts.variance is None:
        return {}
    best = theory.bayes_risk(parts.variance, decision.cost)
    calm = parts.variance < decision.cost  # what the Bayes rejector accepts
    expected = parts.variance + (decision.prediction - parts.mean) ** 2
    loss = metrics.rcr_loss(parts.y, decision.prediction, decision.accepted, decision.cost)
    return {
        "bayes_risk": best,
        "bayes_ratio": loss / best,
        "risk_ratio": float(np.where(decision.accepted, expected, decision.cost).mean()) / best,
        "bayes_al": float(parts.variance[calm].mean()) if calm.any() else None,
        "bayes_rej": 100 * float(1 - calm.mean()),
        "rank_correlation": float(spearmanr(-decision.score, parts.variance).statistic),
    }


def _clearest(decision: Decision, y: Floats) -> dict[str, list[dict[str, float]]]:
    """Return the test rows with the highest and the lowest scores, most extreme first."""
    order = np.argsort(decision.score, kind="stable")
    shown = min(_SHOWN, len(order) // 2)
    chosen = {"accepted": order[::-1][:shown], "rejected": order[:shown]}
    return {
        name: [{"row": int(row), "prediction": float(decision.prediction[row]), "y": float(y[row])} for row in rows]
        for name, rows in chosen.items()
    }


def is_main_process() -> bool:
    """Whether this process writes and prints, of those that train together."""
    return not _distributed() or torch.distributed.get_rank() == 0


def _distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    """Set torch's number of threads in the block, and restore it after it."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
