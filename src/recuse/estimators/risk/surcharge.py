"""Extra expected loss of rows with cells that carry no information, such as unseen categories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recuse.losses import TargetLoss
from recuse.rules.risk import Surcharge
from recuse.tabular.encoder import TableEncoder

__all__ = ["HeldOut", "learn_surcharge"]

Floats = NDArray[np.float64]

_ROWS = 1_000  # maximum number of blanked rows of one fold, about
_MIN_ROWS = 3  # of which each column is blanked, in one fold of a wide table
_CELLS = 20_000_000  # maximum number of their cells


@dataclass(frozen=True)
class HeldOut:
    """Rows that a model was not fitted to, and the model's predictions.

    Attributes
    ----------
    features : ndarray of shape (row, feature)
    target : ndarray of shape (row,)
    predict : callable
        Function from features to predictions, of a model that was not fitted to the rows.
    """

    features: Floats
    target: Floats
    predict: Callable[[Floats], Floats]


def learn_surcharge(
    encoder: TableEncoder, held_out: Sequence[HeldOut], loss: TargetLoss, random: np.random.RandomState
) -> Surcharge:
    """Measure the extra loss of blanked columns on held-out rows.

    Training rows have no such cells, so a risk model cannot learn their effect. Instead, each column of held-out rows
    is blanked, then all columns at once, and the increase of the loss is measured. If the sum of the increases is
    below the increase for all columns, they are scaled up to it.
    """
    measured = [_extra_losses(encoder, part, loss, random) for part in held_out if len(part.target)]
    rows = np.array([count for count, _ in measured], dtype=np.float64)
    extra = np.average([losses for _, losses in measured], axis=0, weights=rows)
    columns, together = np.maximum(extra[:-1], 0.0), max(float(extra[-1]), 0.0)
    if columns.sum() < together:
        equal = np.full(len(columns), together / len(columns))
        columns = columns * (together / columns.sum()) if columns.sum() > 0.1 * together else equal
    return Surcharge(columns)


def _extra_losses(
    encoder: TableEncoder, part: HeldOut, loss: TargetLoss, random: np.random.RandomState
) -> tuple[int, Floats]:
    """Return the number of rows used, and the extra loss of each blanked column and, last, of all of them."""
    columns, width = len(encoder.slices), part.features.shape[1]
    missing = encoder.missing_row
    count = min(max(_ROWS // (columns + 2), _MIN_ROWS), _CELLS // ((columns + 2) * width), len(part.target))
    if count == 0:  # a wide table: only measure all columns together
        some = random.choice(len(part.target), min(len(part.target), max(1, _CELLS // (2 * width))), replace=False)
        features, target = part.features[some], part.target[some]
        blank = np.tile(missing, (len(some), 1))
        extra = _mean_loss(part, blank, target, loss) - _mean_loss(part, features, target, loss)
        return len(some), np.append(np.zeros(columns), extra)
    some = random.choice(len(part.target), count, replace=False)
    features, target = part.features[some], part.target[some]
    blanked = [features]
    for where in [*encoder.slices, slice(None)]:
        copy = features.copy()
        copy[:, where] = missing[where]
        blanked.append(copy)
    predictions = part.predict(np.concatenate(blanked)).reshape(columns + 2, -1)
    losses = loss(predictions - target).mean(axis=1)
    return count, losses[1:] - losses[0]


def _mean_loss(part: HeldOut, features: Floats, target: Floats, loss: TargetLoss) -> float:
    return float(loss(part.predict(features) - target).mean())
