"""The unit of work with images: one data set, model, surrogate, cost and repeat -> measures and telling pictures."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.stats import spearmanr

from recuse import metrics, theory
from recuse.bench.images.data import ImageParts, ImageSource, load_parts
from recuse.bench.images.spec import ImageProtocol
from recuse.bench.images.training import Hardware, ImageTraining
from recuse.bench.work_unit import SUPERVISED, Group, measures
from recuse.decision import Decision

__all__ = ["KNOWN", "YARDSTICKS", "ImageWork", "against_bayes", "image_groups", "leads", "measure"]

Floats = NDArray[np.float64]
YARDSTICKS = ("always_reject", "oracle")
# measures that need the mean and the variance of the targets
KNOWN = ("bayes_risk", "bayes_ratio", "risk_ratio", "bayes_al", "bayes_rej", "rank_correlation")
_SHOWN = 16  # pictures of each kind that are kept for the contact sheet


def image_groups(name: str, model: str, surrogates: Sequence[str], costs: Sequence[float], repeats: int) -> list[Group]:
    """List one group for each surrogate, cost and repeat, and one for the regressor alone in each repeat."""
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
    """Runs groups, in any process.

    Attributes
    ----------
    source : ImageSource
    folder : Path
        For checkpoints.
    hardware : Hardware
    """

    source: ImageSource
    folder: Path
    hardware: Hardware

    def __call__(self, group: Group, protocol: ImageProtocol) -> dict[str, Any]:
        """Train and test one group; the result is as of `recuse.bench.work_unit.run_group`."""
        training = self._training(group, protocol)
        if group.surrogate == SUPERVISED:
            error = metrics.squared_error(training.parts.y, training.supervised())
            cells: list[dict[str, Any]] = [{"sup": float(error.mean())}]
        else:
            model = training.pair(group.surrogate, group.costs[0])
            decision = model.decide(training.parts.test_images)
            cells = [{"cost": group.costs[0], **measure(decision, training.parts), "epoch": model.best_epoch_}]
        _meet()
        return {"group": asdict(group), "protocol": asdict(protocol), "cells": cells}

    def slow_starts(self, groups: Sequence[Group], protocol: ImageProtocol, jobs: int) -> None:
        """Train what the groups have in common, before they run side by side."""
        firsts = {(group.model, group.repeat): group for group in groups}
        Parallel(n_jobs=jobs)(delayed(self.slow_start)(group, protocol) for group in firsts.values())

    def slow_start(self, group: Group, protocol: ImageProtocol) -> None:
        """Train what all groups of a repeat have in common."""
        self._training(group, protocol).slow_start()

    def tidy(self, group: Group, protocol: ImageProtocol) -> None:
        """Remove the checkpoints of a group whose result is stored."""
        name = group.surrogate if group.surrogate == SUPERVISED else f"{group.surrogate}-{group.costs[0]:g}"
        shutil.rmtree(self._folder(group, protocol) / name, ignore_errors=True)

    def _training(self, group: Group, protocol: ImageProtocol) -> ImageTraining:
        torch.set_num_threads(self.hardware.threads)
        parts = load_parts(self.source, group.repeat)
        return ImageTraining(group.model, group.repeat, parts, protocol, self._folder(group, protocol), self.hardware)

    def _folder(self, group: Group, protocol: ImageProtocol) -> Path:
        """A training by another protocol must not go on from here."""
        mark = zlib.crc32(repr(protocol).encode())
        return self.folder / f"{group.model}-{group.repeat}-{mark:08x}"


def measure(decision: Decision, parts: ImageParts) -> dict[str, Any]:
    """The paper's measures, yardsticks, how far from the Bayes risk where it is known, and the clearest cases."""
    known = decision.evaluate(parts.y)
    return {
        **measures(decision, parts.y),
        **{name: known[name] for name in YARDSTICKS},
        **against_bayes(decision, parts),
        "clearest": _clearest(decision, parts.y),
    }


def against_bayes(decision: Decision, parts: ImageParts) -> dict[str, float | None]:
    """Compare with what is best if mean and variance of every target are known.

    ``risk_ratio`` puts the expected loss of each decision in the place of the loss on the target that was drawn, so
    that the luck of the draw is out of it: it is never below one.
    """
    if parts.mean is None or parts.variance is None:
        return {}
    best = theory.bayes_risk(parts.variance, decision.cost)
    calm = parts.variance < decision.cost  # what the best rejector accepts
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
    """Test rows of the highest and of the lowest scores, the clearest first."""
    order = np.argsort(decision.score, kind="stable")
    shown = min(_SHOWN, len(order) // 2)
    chosen = {"accepted": order[::-1][:shown], "rejected": order[:shown]}
    return {
        name: [{"row": int(row), "prediction": float(decision.prediction[row]), "y": float(y[row])} for row in rows]
        for name, rows in chosen.items()
    }


def leads() -> bool:
    """Whether this process speaks for those it trains together with: only one of them writes and prints."""
    return not _together() or torch.distributed.get_rank() == 0


def _meet() -> None:
    """Let processes that train together wait for each other, before files are removed that some may still read."""
    if _together():
        torch.distributed.barrier()


def _together() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
