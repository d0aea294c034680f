"""Steadier joint training: bounded scores, averaged weights, and limits on the number of steps.

Surrogates with a bounded or piecewise linear loss have an optimum at a step function. Without these measures the scores
grow until the slope of the surrogate vanishes, so that a row with a wrong decision no longer changes the rejector, and
the loss varies much from epoch to epoch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor

from recuse.engine.stack import Stack

__all__ = [
    "LEAST_WEIGHT",
    "AveragedWeights",
    "averaged_epochs",
    "excess_score",
    "patience_epochs",
    "start_epochs",
    "start_patience_epochs",
    "steps_alone",
]

# A row keeps at least this weight in the loss of the regressor, however sure its rejection is.
LEAST_WEIGHT = 0.5
# What was tried is in docs/choices.md; the numbers of steps are round numbers near those tried.
# Steps and epochs over which weights are averaged.
_WINDOW_STEPS, _WINDOW_EPOCHS = 600, 10
_RECENT = 0.3  # share of the epochs in the average at first, since the rejector changes fast then
# Steps of Slow-Start in which the regressor is trained without the rejector.
_ALONE_STEPS = 100
# Most steps of Slow-Start; after more, the regressor begins to overfit.
_START_STEPS = 1500
_START_PATIENCE_STEPS, _START_PATIENCE_EPOCHS = 150, 5
_PATIENCE_STEPS, _PATIENCE_EPOCHS = 1000, 20


def excess_score(score: Tensor) -> Tensor:
    """Return how far scores are beyond -1 or 1: the slope of a penalty that does not change the sign of an optimum.

    Examples
    --------
    >>> import torch
    >>> excess_score(torch.tensor([-1.5, 0.5, 3.0]))
    tensor([-0.5000,  0.0000,  2.0000])
    """
    return score - score.clamp(-1, 1)


def start_epochs(epochs: int, steps_per_epoch: int) -> int:
    """Limit the epochs of Slow-Start to a number of steps.

    Examples
    --------
    >>> start_epochs(200, steps_per_epoch=2), start_epochs(200, steps_per_epoch=50), start_epochs(200, 5000)
    (200, 30, 1)
    """
    return min(epochs, math.ceil(_START_STEPS / steps_per_epoch))


def start_patience_epochs(steps_per_epoch: int) -> int:
    """Return the number of epochs without improvement of the regressor after which an automatic Slow-Start ends.

    Examples
    --------
    >>> start_patience_epochs(2), start_patience_epochs(100)
    (75, 5)
    """
    return max(_START_PATIENCE_EPOCHS, math.ceil(_START_PATIENCE_STEPS / steps_per_epoch))


def steps_alone(steps: int) -> int:
    """Return the number of steps of Slow-Start before the rejector learns too, for a number of steps in all.

    The first errors of a regressor are large everywhere. A rejector that learns from them rejects all rows.

    Examples
    --------
    >>> steps_alone(20), steps_alone(2000)
    (10, 100)
    """
    return min(steps // 2, _ALONE_STEPS)


def patience_epochs(steps_per_epoch: int) -> int:
    """Return the number of epochs without improvement after which the training of a member ends.

    Examples
    --------
    >>> patience_epochs(2), patience_epochs(100)
    (500, 20)
    """
    return max(_PATIENCE_EPOCHS, math.ceil(_PATIENCE_STEPS / steps_per_epoch))


def averaged_epochs(steps_per_epoch: int) -> int:
    """Return the number of epochs whose weights are averaged.

    Examples
    --------
    >>> averaged_epochs(2), averaged_epochs(100)
    (300, 10)
    """
    return max(_WINDOW_EPOCHS, math.ceil(_WINDOW_STEPS / steps_per_epoch))


class AveragedWeights:
    """Exponential averages over the epochs of the weights of some stacks.

    Parameters
    ----------
    stacks : sequence of Stack
    window : int
        Epochs that the average covers, roughly; at first fewer.
    """

    def __init__(self, stacks: Sequence[Stack], window: int) -> None:
        self._stacks, self._window, self._epochs = stacks, window, 0
        self._averages = [stack.parameters.clone() for stack in stacks]

    def update(self) -> None:
        """Move the averages towards the current weights, after an epoch."""
        self._epochs += 1
        share = max(1 / self._window, 1 / (1 + _RECENT * self._epochs))
        for average, stack in zip(self._averages, self._stacks, strict=True):
            average.lerp_(stack.parameters, share)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Exchange the weights of the stacks for their averages until the end of the block."""
        self._exchange()
        yield
        self._exchange()

    def _exchange(self) -> None:
        for average, stack in zip(self._averages, self._stacks, strict=True):
            current = stack.parameters.clone()
            stack.parameters.copy_(average)
            average.copy_(current)
