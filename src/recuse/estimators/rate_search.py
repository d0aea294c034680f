"""Search over learning rates, shared by the estimators that train stacks of networks.

Every learning rate is trained for every member of an ensemble, all side by side. The validation loss then chooses one
rate for each member.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from recuse.engine.batches import Table
from recuse.tabular.folds import held_out_split
from recuse.tabular.rows import Rows
from recuse.tabular.units import Units
from recuse.validation import is_count, is_rate, require

Floats = NDArray[np.float64]
RandomStateLike = int | np.random.RandomState | Sequence[int] | None

_MAX_SEED = 2**32 - 1


def check_trial_parameters(parameters: Mapping[str, Any]) -> None:
    """Check the parameters that these estimators have in common.

    Examples
    --------
    >>> from recuse.estimators import StackedMLPRegressor
    >>> check_trial_parameters(StackedMLPRegressor(epochs=0).get_params(deep=False))
    Traceback (most recent call last):
    ValueError: epochs must be an int >= 1, got 0
    """
    for name in ("epochs", "batch_size", "n_members"):
        require(is_count(parameters[name]), name, "an int >= 1", parameters[name])
    share = parameters["validation_fraction"]
    require(is_rate(share) and share < 1, "validation_fraction", "between 0 and 1", share)
    rates = learning_rates(parameters["learning_rate"])
    require(bool(rates) and all(map(is_rate, rates)), "learning_rate", "> 0 and finite", parameters["learning_rate"])
    hidden = parameters["hidden"]
    widths = isinstance(hidden, Sequence) and all(map(is_count, hidden))
    require(widths, "hidden", "a tuple of ints >= 1", hidden)
    scale = parameters.get("scale_target", True)
    known = isinstance(scale, bool) or (isinstance(scale, str) and scale == "centre")
    require(known, "scale_target", "True, False or 'centre'", scale)


def learning_rates(rates: float | Sequence[float]) -> list[float]:
    """Return one rate or several as a list.

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


def member_seeds(random_state: RandomStateLike, n_members: int) -> tuple[int, list[int], np.random.RandomState]:
    """Return the seed of the minibatches, the seed of each member, and a generator for other random choices.

    Parameters
    ----------
    random_state : int, RandomState, None or sequence of int
        A sequence holds one seed for each member; the first also seeds the minibatches and the generator.
    n_members : int

    Examples
    --------
    >>> member_seeds([3, 5], n_members=2)[:2]
    (3, [3, 5])
    """
    if not isinstance(random_state, Sequence | np.ndarray):
        random = check_random_state(random_state)
        shuffle, *drawn = draw_seeds(random, n_members + 1)
        return shuffle, drawn, random
    usable = len(random_state) == n_members and all(is_count(s, least=0) and s <= _MAX_SEED for s in random_state)
    rule = f"an int, a RandomState, None or {n_members} ints >= 0, one for each member"
    require(usable, "random_state", rule, random_state)
    seeds = [int(seed) for seed in random_state]
    return seeds[0], seeds, np.random.RandomState(seeds[0])


def divide(rows: Rows, fraction: float, random: np.random.RandomState) -> tuple[Rows, Rows]:
    """Split the rows at random into training rows and a share of validation rows; at least one of each."""
    train, held_out = held_out_split(rows, fraction, random)
    return rows.take(train), rows.take(held_out)


def engine_table(units: Units, rows: Rows, seed: int = 0) -> Table:
    """Return rows as a table of the engine; the seed fixes the order of minibatches."""
    features = units.features(rows.X)
    varying_cost = units.log_cost is not None
    return Table(
        x=single(features),
        y=single((rows.y - units.target_mean) / units.target_scale),
        weight=None if np.ptp(rows.weight) == 0 else single(rows.weight),
        cost=single(units.cost(rows.cost)) if varying_cost else None,
        rejector_x=single(units.rejector_features(features, rows.cost)) if varying_cost else None,
        seed=seed,
    )


def of_equal_length(tables: Sequence[Table]) -> list[Table]:
    """Pad the shorter of several tables with rows of weight zero."""
    longest = max(len(table.y) for table in tables)
    return list(tables) if len(tables) == 1 else [table.padded(longest) for table in tables]


def best_trials(loss: Floats, rates: Sequence[float]) -> list[int]:
    """Find the best learning rate of each seed by validation loss, and skip seeds whose trials all diverged.

    Parameters
    ----------
    loss : ndarray of shape (trial,)
        All rates of the first seed, then all rates of the second, and so on.
    rates : sequence of float

    Returns
    -------
    list of int
        Positions of the chosen trials. The rate of a trial is ``rates[trial % len(rates)]``.

    Examples
    --------
    >>> best_trials(np.array([3.0, 1.0, 2.0, np.inf]), rates=(0.1, 0.01))
    [1, 2]
    """
    by_seed = loss.reshape(-1, len(rates))
    best, usable = by_seed.argmin(axis=1), np.flatnonzero(np.isfinite(by_seed.min(axis=1)))
    if not len(usable):
        raise ValueError(
            f"every training diverged; try a learning_rate smaller than {min(rates)}, "
            "or look for extreme values in X and y"
        )
    return [int(seed * len(rates) + best[seed]) for seed in usable]


def without_outliers(loss: Floats, chosen: Sequence[int]) -> list[int]:
    """Leave out trials whose validation loss is further above the median than the lowest is below it.

    Parameters
    ----------
    loss : ndarray of shape (trial,)
    chosen : sequence of int
        Positions of the trials to compare.

    Examples
    --------
    >>> without_outliers(np.array([1.0, 9.0, 1.1, 1.2, 1.3, 2.0]), chosen=[0, 2, 3, 4, 5])
    [0, 2, 3, 4]
    """
    own = loss[list(chosen)]
    median = np.median(own)
    allowed = own - median <= (median - own.min()) * (1 + 1e-9)  # both of two, in spite of rounding
    return [trial for trial, kept in zip(chosen, allowed, strict=True) if kept]


def warn_of_diverged(
    diverged: Sequence[tuple[Any, ...]],
    n_trainings: int,
    *,
    stacklevel: int,
    names: str = "member, learning rate, epoch",
) -> None:
    """Warn of the trainings that were dropped, if there are any; `names` says what is known of each of them."""
    if diverged:
        warnings.warn(
            f"{len(diverged)} of {n_trainings} trainings diverged and were dropped, as ({names}): {list(diverged)}",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def single(values: Floats) -> NDArray[np.float32]:
    """Return values in single precision, as the tables of the engine have them."""
    return np.asarray(values, np.float32)
