"""Certificates of the loss of a model: tests of a fixed sequence of thresholds on calibration rows."""

from __future__ import annotations

import hashlib
import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.costs import Cost
from recuse.dataframes import aligned, aligned_columns, float_array, row_index, row_name
from recuse.decision import Decision
from recuse.guarantees.betting import refutes
from recuse.guarantees.certificate import Certificate, What, needed_rows
from recuse.guarantees.refusal import refusal
from recuse.guarantees.request import (
    BoundWarning,
    Request,
    ScoredRows,
    check_parameters,
    cost_limit,
    how_given,
    stated_cost,
)
from recuse.guarantees.sequence import BoundedValues, Pilot, thresholds_to_test

__all__ = ["certify", "count_certified", "tail_bound"]

Floats = NDArray[np.float64]

_SET_ASIDE = 0.2  # share of the rows that choose the thresholds if there are no out-of-fold scores
_MIN_PILOT = 20
_TESTED_AT_ONCE = 8  # thresholds
_IMPLAUSIBLE = 0.001  # probability of as many copies of training rows


def certify(
    model: Any,
    X: Any,
    y: Any,
    target: float,
    *,
    delta: float = 0.05,
    bound: float | None = None,
    what: What = "accepted_loss",
    cost: Cost | None = None,
    cost_bound: float | None = None,
    random_state: int = 0,
    allow_training_rows: bool = False,
) -> Certificate:
    """Certify that the loss of a model is at most a target, at the most accepting threshold for which that is sure.

    The thresholds are fixed without the calibration rows, from the out-of-fold scores of the model. A model without
    them needs a random fifth of the calibration rows for that, which are then not used for the test. The thresholds are
    tested from strict to accepting at level delta each, until one fails; the last that passed is certified. Each test
    is a betting game; see `recuse.guarantees.betting`. No assumption about the distribution is made except that the
    calibration rows and the new rows are independent draws from it.

    Parameters
    ----------
    model : fitted estimator or ServedModel
    X : array-like or DataFrame of shape (n_rows, n_features)
        Calibration rows, which were never used for training or for any choice. Rows that equal training rows in all
        features and the target are found by their hashes. If there are so many that as many would occur among fresh
        rows with a probability below 1 in 1,000, this is an error.
    y : array-like of shape (n_rows,) or (n_rows, n_outputs)
    target : float
        The largest mean loss, in the units of the loss.
    delta : float, default=0.05
        Largest probability that a promise is given which does not hold.
    bound : float
        Losses count as at most `bound`. It must be chosen without the calibration rows: without a bound, no finite
        number of rows can bound a mean. A `BoundWarning` tells if it equals the largest loss of these rows.
    what : {"accepted_loss", "rcr_loss"}, default="accepted_loss"
        The mean loss of accepted rows, or the mean over all rows of the loss if accepted and the cost if rejected.
    cost : float, array-like, callable or str, optional
        The cost of a rejection, if it is not that of the model. With an array or a callable, the promise is about new
        rows with costs from the same distribution, and the certified model needs the costs of new rows.
    cost_bound : float, optional
        Largest cost that the certificate of an RcR loss covers, if rows have different costs; by default `bound`.
    random_state : int, default=0
        Seed of the order of the rows. It must be chosen beforehand, too: do not try several.
    allow_training_rows : bool, default=False
        Whether to accept calibration rows that equal training rows. Only for fresh rows that are equal by chance.

    Returns
    -------
    Certificate

    Raises
    ------
    CannotCertify
        If no threshold passes; the message says what it would take.

    Examples
    --------
    >>> from recuse import RiskRejector, datasets
    >>> X, y, _, _ = datasets.make_heteroscedastic(4000, random_state=0)
    >>> model = RiskRejector(cost=1.0, random_state=0).fit(X[:1000], y[:1000])
    >>> certificate = certify(model, X[1000:], y[1000:], target=1.0, bound=50.0)
    >>> certificate.observed < 1.0, certificate.n_rows
    (True, 3000)
    >>> certificate.model.decide(X[:5]).accepted.shape
    (5,)
    """
    seed = check_parameters(target, delta, bound, what, random_state)
    assert bound is not None
    decision: Decision = model.decide(X, cost=cost)
    truth = _targets(y, X, decision)
    overlap = _checked_overlap(model, X, truth, allow_training_rows)
    stated = stated_cost(model, cost)
    limit = cost_limit(what, stated, cost_bound, bound, decision)
    request = Request(what, float(target), float(delta), float(bound), limit)
    loss = decision.loss.of_rows(decision.prediction - truth)
    _warn_of_bound(bound, loss)
    order = np.random.default_rng(seed).permutation(len(truth))
    rows = ScoredRows(decision.score, loss, decision.cost).take(order)
    pilot, tested = _divided(rows, _out_of_fold(model, cost, stated))
    n_least = needed_rows(request.target / request.limit, delta) if what == "accepted_loss" else 0
    thresholds = thresholds_to_test(Pilot(pilot.score, request.values(pilot)), len(tested), n_least)
    passed = count_certified(tested.score, request.values(tested), thresholds, delta)
    if passed == 0:
        raise refusal(request, tested, float(thresholds[0]))
    threshold = float(thresholds[passed - 1])
    accepted = tested.score > threshold
    above = int(np.sum(tested.loss[accepted] > bound))
    certificate = Certificate(
        what=what,
        target=request.target,
        delta=request.delta,
        bound=request.bound,
        loss=decision.loss.name,
        cost=stated,
        cost_bound=limit,
        threshold=threshold,
        n_rows=len(accepted),
        n_accepted=int(accepted.sum()),
        n_set_aside=len(rows) - len(tested),
        n_thresholds=len(thresholds),
        observed=request.observed(tested, accepted),
        clipped_share=above / max(int(accepted.sum()), 1),
        tail_bound=tail_bound(above, int(accepted.sum()), delta / len(thresholds)),
        training_copies=None if overlap is None else int(overlap.copies.sum()),
        seed=seed,
        data_fingerprint=_fingerprint_of_rows(None if overlap is None else overlap.hashes, X, truth),
        model_fingerprint=str(model.fingerprint),
        cost_given=how_given(cost),
    )
    return certificate.of_model(model)


def count_certified(score: Floats, values: BoundedValues, thresholds: Floats, delta: float) -> int:
    """Test thresholds one after the other, and return how many pass before the first that fails.

    Parameters
    ----------
    score : ndarray of shape (row,)
    values : BoundedValues
        Of the same rows.
    thresholds : ndarray of shape (threshold,)
        In the order of the tests, which must not depend on the rows.
    delta : float

    Examples
    --------
    >>> score = np.linspace(0.0, 1.0, 200)
    >>> values = BoundedValues(np.where(score > 0.5, 0.01, 0.5), None, mean=0.1)
    >>> count_certified(score, values, np.array([0.6, 0.5, 0.0]), delta=0.05)
    2
    """
    for start in range(0, len(thresholds), _TESTED_AT_ONCE):
        some = thresholds[start : start + _TESTED_AT_ONCE]
        of_rows, used = values.at(score[:, None] > some)
        passed = refutes(of_rows, values.mean, delta, used)
        if not passed.all():
            return start + int(passed.argmin())
    return len(thresholds)


def tail_bound(count: int, total: int, delta: float) -> float:
    """Return the upper end of the one-sided interval of Clopper and Pearson for a share.

    Examples
    --------
    >>> round(tail_bound(0, 100, 0.05), 4)
    0.0295
    """
    from scipy.special import betaincinv

    return 1.0 if count >= total else float(betaincinv(count + 1, total - count, 1 - delta))


def _targets(y: Any, X: Any, decision: Decision) -> Floats:
    """Return the targets in the order of the rows and of the predictions."""
    columns = aligned_columns(aligned(y, row_index(X), "y"), decision.target_names, "y")
    truth = float_array(columns, "y")
    if truth.ndim == 2 and truth.shape[1] == 1:
        truth = truth[:, 0]
    if truth.shape != decision.prediction.shape:
        raise ValueError(f"y must have the shape {decision.prediction.shape} of the predictions, got {truth.shape}")
    wrong = ~np.isfinite(truth.reshape(len(truth), -1)).all(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(f"y must be finite, got {truth[row]} at {row_name(row, row_index(X))}")
    return truth


def _checked_overlap(model: Any, X: Any, truth: Floats, allowed: bool) -> Any:
    """Compare the rows with training rows, if possible, and raise an error if too many are equal."""
    overlap = model.training_overlap(X, truth) if hasattr(model, "training_overlap") else None
    if overlap is not None and overlap.probability < _IMPLAUSIBLE and not allowed:
        raise ValueError(
            f"{int(overlap.copies.sum()):,} of the {len(truth):,} calibration rows equal training rows in all features "
            f"and the target, where {overlap.expected:.2g} would be expected of fresh rows: certify with rows that the "
            "model was not trained on, or pass allow_training_rows=True if these rows are fresh"
        )
    return overlap


def _divided(rows: ScoredRows, out_of_fold: ScoredRows | None) -> tuple[ScoredRows, ScoredRows]:
    """Return the rows that choose the thresholds, and the calibration rows that test them."""
    if out_of_fold is not None:
        return out_of_fold, rows
    aside = math.ceil(_SET_ASIDE * len(rows))
    if aside == len(rows):
        raise ValueError(f"certify needs at least 2 calibration rows, got {len(rows)}")
    return rows.take(slice(0, aside)), rows.take(slice(aside, None))


def _warn_of_bound(bound: float, loss: Floats) -> None:
    if len(loss) and bound == loss.max():
        warnings.warn(
            f"bound = {bound:g} is the largest loss of the calibration rows: a bound that is read off these rows makes "
            "the certificate invalid",
            BoundWarning,
            stacklevel=3,
        )


def _out_of_fold(model: Any, cost: Cost | None, stated: float | str | None) -> ScoredRows | None:
    """Return the out-of-fold rows at the cost of the certificate; None if there are none."""
    table = getattr(model, "out_of_fold_", None)
    table = getattr(model, "out_of_fold", None) if table is None else table
    if table is None:
        return None
    columns = {str(name): np.asarray(table[name], dtype=np.float64) for name in table}
    known = np.logical_and.reduce([~np.isnan(column) for column in columns.values()])
    columns = {name: column[known] for name, column in columns.items()}
    truth, prediction = (
        np.column_stack([column for name, column in columns.items() if name.split("_")[0] == kind])
        for kind in ("target", "prediction")
    )
    loss = np.asarray(model.loss_(prediction - truth).mean(axis=1))
    rows = ScoredRows(columns["score"], loss, columns["cost"])
    if len(loss) < _MIN_PILOT:
        return None
    if cost is None:
        return rows
    if isinstance(stated, float) and "expected_loss" in columns:
        return ScoredRows(stated - columns["expected_loss"], loss, np.full(len(loss), stated))
    return rows if np.ptp(rows.cost) > 0 else None


def _fingerprint_of_rows(hashes: NDArray[np.uint64] | None, X: Any, truth: Floats) -> str:
    """Return a checksum of the rows that does not depend on their order; of images it does."""
    if hashes is not None:
        return hashlib.sha256(np.sort(hashes).astype("<u8").tobytes()).hexdigest()
    digest = hashlib.sha256(np.ascontiguousarray(truth).tobytes())
    digest.update(np.ascontiguousarray(np.asarray(X)).tobytes())
    return digest.hexdigest()
