"""Trials: every learning rate for every seed, side by side; validation keeps the best of each seed.

What the estimators trained on the stacked engine share: their parameters, the rows they choose by, and the choice.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from recuse.engine.batches import Table
from recuse.engine.best_epoch import Trained
from recuse.engine.members import Member
from recuse.tabular.folds import held_out_split
from recuse.tabular.rows import Rows
from recuse.tabular.units import Units
from recuse.validation import is_count, is_rate, require

__all__ = [
    "best_trials",
    "check_trial_parameters",
    "divide",
    "draw_seeds",
    "engine_table",
    "learning_rates",
    "report_diverged",
]


def check_trial_parameters(estimator: Any) -> None:
    """Check the parameters that every estimator trained in trials has."""
    for name in ("epochs", "batch_size", "n_members"):
        require(is_count(getattr(estimator, name)), name, "an int >= 1", getattr(estimator, name))
    share = estimator.validation_fraction
    require(is_rate(share) and share < 1, "validation_fraction", "between 0 and 1", share)
    rates = learning_rates(estimator.learning_rate)
    require(bool(rates) and all(map(is_rate, rates)), "learning_rate", "> 0 and finite", estimator.learning_rate)
    widths = isinstance(estimator.hidden, Sequence) and all(map(is_count, estimator.hidden))
    require(widths, "hidden", "a tuple of ints >= 1", estimator.hidden)


def learning_rates(rates: float | Sequence[float]) -> list[float]:
    """Give one rate or several as a list.

    Examples
    --------
    >>> learning_rates(0.1), learning_rates((0.1, 0.01))
    ([0.1], [0.1, 0.01])
    """
    several = list(rates) if isinstance(rates, Sequence | np.ndarray) else [rates]
    return [float(rate) if is_rate(rate) else rate for rate in several]


def draw_seeds(random: np.random.RandomState, count: int) -> list[int]:
    """Draw seeds for the engine."""
    return [int(seed) for seed in random.randint(2**31 - 1, size=count)]


def divide(rows: Rows, fraction: float, random: np.random.RandomState) -> tuple[Rows, Rows]:
    """Give the rows to train on and a random share of the rows to choose by; at least one of each."""
    train, held_out = held_out_split(rows, fraction, random)
    return rows.take(train), rows.take(held_out)


def engine_table(units: Units, rows: Rows, seed: int = 0) -> Table:
    """Give rows as a table of the engine; the seed fixes the order of minibatches."""
    features = units.features(rows.X)
    varied = units.log_cost is not None
    return Table(
        x=_tensor(features),
        y=_tensor((rows.y - units.target_mean) / units.target_scale),
        weight=None if np.ptp(rows.weight) == 0 else _tensor(rows.weight),
        cost=_tensor(units.cost(rows.cost)) if varied else None,
        rejector_x=_tensor(units.rejector_features(features, rows.cost)) if varied else None,
        seed=seed,
    )


def best_trials(loss: Tensor, rates: Sequence[float]) -> list[int]:
    """Find the best learning rate of each seed by validation loss, and pass by seeds for which none will do.

    Parameters
    ----------
    loss : Tensor of shape (trial,)
        The rates of one seed stand together.
    rates : sequence of float

    Returns
    -------
    list of int
        The places of the chosen trials; that of their rates is the remainder by the number of rates.

    Examples
    --------
    >>> import torch
    >>> best_trials(torch.tensor([3.0, 1.0, 2.0, torch.inf]), rates=(0.1, 0.01))
    [1, 2]
    """
    best_loss, best_rate = loss.view(-1, len(rates)).min(dim=1)
    usable = best_loss.isfinite().nonzero().flatten().tolist()
    if not usable:
        raise ValueError(
            f"every training met infinite values; try a learning_rate smaller than {min(rates)}, "
            "or look for extreme values in X and y"
        )
    return [seed * len(rates) + int(best_rate[seed]) for seed in usable]


def report_diverged(trained: Trained, members: Sequence[Member], n_rates: int) -> list[tuple[int, float, int]]:
    """Give (member, learning rate, epoch) of every training that was dropped, and warn if there are any."""
    diverged = [
        (trial // n_rates, members[trial].learning_rate, epoch) for trial, epoch in sorted(trained.diverged.items())
    ]
    if diverged:
        warnings.warn(
            f"{len(diverged)} of {len(members)} trainings met infinite values and were dropped, "
            f"as (member, learning rate, epoch): {diverged}",
            ConvergenceWarning,
            stacklevel=4,  # the caller of fit
        )
    return diverged


def _tensor(values: NDArray[np.float64]) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32)
