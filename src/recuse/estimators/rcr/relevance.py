"""Selection of the inputs of regressors and rejectors, by permutation importance on held-out rows.

Networks fit the noise of features without effect. With many rows, these can be found, and the loss is lower without
them. The features that matter for the prediction and for the rejection are often different.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from recuse.engine.best_epoch import Trained
from recuse.engine.pairs import train_pairs
from recuse.engine.plan import Plan
from recuse.engine.stack import outputs
from recuse.estimators.auto.models.relevant_features import certainly_relevant, loss_increases
from recuse.estimators.rate_search import engine_table, of_equal_length
from recuse.estimators.rcr.networks import Aim, NetworkMaker, make_members
from recuse.rules.networks import mean_score
from recuse.tabular.rows import Rows
from recuse.tabular.units import Units

__all__ = ["RelevantInputs", "relevant_inputs", "selects_inputs"]

Floats = NDArray[np.float64]

# Features are selected by tables of this many rows: with fewer it is too uncertain, with more it is not needed.
_ROWS = (4_000, 80_000)
# Tables of this many features have some left out; importances of wider tables take too long.
_FEATURES = (2, 100)
_MAX_ROWS = 20_000  # that the selection is made on
_MEMBERS, _RATE = 4, 1e-2
_PLAN = Plan(epochs=30, slow_start="auto", batch_size=128, steady=True)


@dataclass(frozen=True)
class RelevantInputs:
    """The inputs that networks use; None for all."""

    regressor: tuple[int, ...] | None = None
    rejector: tuple[int, ...] | None = None


def selects_inputs(maker: NetworkMaker, n_rows: int, n_features: int) -> bool:
    """Whether inputs are selected: for networks of ours, and tables of some thousand rows and not too many features.

    Examples
    --------
    >>> maker = NetworkMaker("mlp", (20, 30, 10), "cpu")
    >>> selects_inputs(maker, 1000, 8), selects_inputs(maker, 10_000, 8), selects_inputs(maker, 10_000, 500)
    (False, True, False)
    """
    least, most = _FEATURES
    return maker.network == "mlp" and _ROWS[0] <= n_rows <= _ROWS[1] and least <= n_features <= most


def relevant_inputs(
    units: Units, rows: Rows, aims: Sequence[Aim], maker: NetworkMaker, seed: int
) -> list[RelevantInputs]:
    """Select the inputs of the networks of each aim; aims of the same cost have the same.

    Pairs of networks are trained on each half of the rows, for a short time and with the logistic surrogate. The
    importance of a feature is the increase of the loss of the other half if the feature is permuted (Breiman, 2001).
    Features are kept if it is two standard errors above zero. A cost that varies by row is always an input of the
    rejectors.

    Parameters
    ----------
    units : Units
    rows : Rows
    aims : sequence of Aim
    maker : NetworkMaker
    seed : int
    """
    random = np.random.RandomState(seed)
    some = random.permutation(len(rows))[:_MAX_ROWS]
    halves = [rows.take(np.sort(some[start::2])) for start in (0, 1)]
    tables = of_equal_length([engine_table(units, half, seed) for half in halves])
    seeds = [int(value) for value in random.randint(2**31 - 1, size=_MEMBERS)]
    held_out = [(half, random.permutation(len(half))) for half in halves[::-1]]
    costs = list(dict.fromkeys(aim.cost for aim in aims))
    members = [
        member
        for table in (0, 1)
        for cost in costs
        for member in make_members(units, Aim(cost, "logistic"), seeds, [_RATE], table)
    ]
    plan = replace(_PLAN, device=maker.device)
    trained = train_pairs(tables, tables[::-1], members, maker.pairs(units), plan, units.engine_loss)
    found = {}
    for place, cost in enumerate(costs):
        starts = (place * _MEMBERS, (len(costs) + place) * _MEMBERS)  # first members of the ensembles of both halves
        increases = [
            _increases(trained, range(start, start + _MEMBERS), units, half, cost, order)
            for start, (half, order) in zip(starts, held_out, strict=True)
        ]
        regressor, rejector = (_kept(np.concatenate(parts)) for parts in zip(*increases, strict=True))
        if rejector is not None and units.log_cost is not None:
            rejector = (*rejector, units.encoder.n_features)
        found[cost] = RelevantInputs(regressor, rejector)
    return [found[aim.cost] for aim in aims]


def _increases(
    trained: Trained,
    members: Sequence[int],
    units: Units,
    rows: Rows,
    cost: float | None,
    order: NDArray[np.intp],
) -> tuple[Floats, Floats]:
    """Return the increase (row, feature) of the loss of the prediction, and of the surrogate, if a feature is permuted.

    Parameters
    ----------
    trained : Trained
    members : sequence of int
        An ensemble that was not trained on the rows.
    units : Units
    rows : Rows
    cost : float or None
        None if it varies by row.
    order : ndarray of shape (row,)
        The permutation.
    """
    assert trained.rejector is not None
    regressor, rejector = trained.regressor.take(members), trained.rejector.take(members)
    features, of_rows = units.features(rows.X), rows.cost if cost is None else np.full(len(rows), cost)

    def errors(inputs: Floats) -> Floats:
        return units.errors(outputs(regressor, inputs).mean(axis=0), rows)

    def surrogate(inputs: Floats) -> Floats:
        score = mean_score(outputs(rejector, units.rejector_features(inputs, of_rows)))
        return np.asarray(error * np.logaddexp(0, score) + of_rows * np.logaddexp(0, -score))

    error = errors(features)
    return loss_increases(errors, features, order, rows.weight), loss_increases(surrogate, features, order, rows.weight)


def _kept(increases: Floats) -> tuple[int, ...] | None:
    """Return the features whose mean increase is certainly above zero; None if there are none, or all."""
    kept = certainly_relevant(increases)
    return None if len(kept) in (0, increases.shape[1]) else tuple(int(place) for place in kept)
