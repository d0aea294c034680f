"""Certificates of the loss of a model: tests of a fixed sequence of thresholds on calibration rows."""

from __future__ import annotations

import hashlib
import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.costs import Cost, is_constant
from recuse.dataframes import aligned, aligned_columns, float_array, row_index, row_name
from recuse.decision import LOSS_SAVED, Decision
from recuse.guarantees.betting import bets_to_choose_from, refutes
from recuse.guarantees.certificate import CannotCertify, Certificate, What, needed_rows
from recuse.guarantees.certified_model import CertifiedModel
from recuse.guarantees.sequence import BoundedValues, Pilot, thresholds_to_test
from recuse.validation import require

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
        number of rows can bound a mean.
    what : {"accepted_loss", "rcr_loss"}, default="accepted_loss"
        The mean loss of accepted rows, or the mean over all rows of the loss if accepted and the cost if rejected.
    cost : float, array-like, callable or str, optional
        The cost of a rejection, if it is not that of the model.
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
    seed = _checked_parameters(target, delta, bound, what, random_state)
    assert bound is not None
    decision: Decision = model.decide(X, cost=cost)
    truth = _targets(y, X, decision)
    overlap = model.training_overlap(X, truth) if hasattr(model, "training_overlap") else None
    copies = None if overlap is None else int(overlap.copies.sum())
    if overlap is not None and overlap.probability < _IMPLAUSIBLE and not allow_training_rows:
        raise ValueError(_training_rows_message(int(copies or 0), len(truth), overlap.expected))
    loss = decision.loss.of_rows(decision.prediction - truth)
    _warn_of_bound(bound, loss)
    stated = _stated_cost(model, cost)
    limit = _cost_limit(what, stated, cost_bound, bound, decision)
    request = _Request(what, float(target), float(delta), float(bound), limit)
    order = np.random.default_rng(seed).permutation(len(truth))
    rows = _Rows(decision.score[order], loss[order], decision.cost[order])
    pilot = _out_of_fold(model, cost, stated)
    aside = 0 if pilot is not None else math.ceil(_SET_ASIDE * len(truth))
    pilot, tested = (rows.take(slice(0, aside)) if pilot is None else pilot), rows.take(slice(aside, None))
    if len(tested.score) == 0 or len(pilot.score) == 0:
        raise ValueError(f"certify needs at least 2 calibration rows, got {len(truth)}")
    thresholds = thresholds_to_test(Pilot(pilot.score, request.values(pilot)), len(tested.score))
    passed = count_certified(tested.score, request.values(tested), thresholds, delta)
    if passed == 0:
        raise _refusal(request, tested, float(thresholds[0]))
    threshold = float(thresholds[passed - 1])
    accepted = tested.score > threshold
    above = int(np.sum(tested.loss[accepted] > bound))
    return Certificate(
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
        n_set_aside=aside,
        n_thresholds=len(thresholds),
        observed=request.observed(tested, accepted),
        clipped_share=above / max(int(accepted.sum()), 1),
        tail_bound=tail_bound(above, int(accepted.sum()), delta / len(thresholds)),
        training_copies=copies,
        seed=seed,
        data_fingerprint=_fingerprint_of_rows(None if overlap is None else overlap.hashes, X, truth),
        model_fingerprint=str(model.fingerprint),
        model=CertifiedModel(model, threshold, stated, limit),
    )


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


@dataclass(frozen=True)
class _Rows:
    """Scores, losses and costs of rows."""

    score: Floats
    loss: Floats
    cost: Floats

    def take(self, rows: Any) -> _Rows:
        return _Rows(self.score[rows], self.loss[rows], self.cost[rows])


@dataclass(frozen=True)
class _Request:
    """What is to be certified."""

    what: What
    target: float
    delta: float
    bound: float
    cost_bound: float | None

    def values(self, rows: _Rows) -> BoundedValues:
        cost = rows.cost if self.what == "rcr_loss" else None
        return BoundedValues.of_rows(rows.loss, cost, self.target, self.bound, self.cost_bound)

    def observed(self, rows: _Rows, accepted: NDArray[np.bool_]) -> float:
        """Return the mean that the promise is about; NaN if no row is accepted."""
        clipped = np.minimum(rows.loss, self.bound)
        if self.what == "rcr_loss":
            return float(np.where(accepted, clipped, rows.cost).mean())
        return float(clipped[accepted].mean()) if accepted.any() else math.nan


def _checked_parameters(target: float, delta: float, bound: float | None, what: str, seed: Any) -> int:
    if bound is None or not _is_positive(bound):
        raise ValueError(
            f"bound must be a finite number > 0 that no loss exceeds or at which losses are clipped, got {bound!r}: "
            "without it, no number of rows bounds a mean loss"
        )
    require(what in ("accepted_loss", "rcr_loss"), "what", "'accepted_loss' or 'rcr_loss'", what)
    require(_is_positive(target), "target", "a finite number > 0", target)
    require(what == "rcr_loss" or target < bound, "target", f"below bound = {bound}", target)
    require(isinstance(delta, float) and 0 < delta < 1, "delta", "a number between 0 and 1", delta)
    whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool) and seed >= 0
    require(whole, "random_state", "an int >= 0, which the certificate states", seed)
    return int(seed)


def _is_positive(value: Any) -> bool:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0


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


def _stated_cost(model: Any, cost: Cost | None) -> float | str | None:
    """Return the cost as a number or the name of a column; None if it was given in another form."""
    chosen = getattr(model, "cost_", None) if cost is None else cost
    if chosen is None or isinstance(chosen, str):
        return chosen
    return float(chosen) if is_constant(chosen) else None  # type: ignore[arg-type]


def _cost_limit(
    what: str, stated: float | str | None, cost_bound: float | None, bound: float, decision: Decision
) -> float | None:
    """Return the largest cost that the certificate covers; None if it does not depend on costs."""
    if what == "accepted_loss":
        require(cost_bound is None, "cost_bound", "None unless what='rcr_loss'", cost_bound)
        return None
    if isinstance(stated, float):
        return stated
    limit = bound if cost_bound is None else cost_bound
    require(_is_positive(limit), "cost_bound", "a finite number > 0", cost_bound)
    largest = float(decision.cost.max())
    if largest > limit:
        raise ValueError(
            f"cost must be at most {limit:g}, got {largest:g}: pass cost_bound, the largest cost that can occur, "
            "chosen without the calibration rows"
        )
    return float(limit)


def _training_rows_message(copies: int, total: int, expected: float) -> str:
    return (
        f"{copies:,} of the {total:,} calibration rows equal training rows in all features and the target, where "
        f"{expected:.2g} would be expected of fresh rows: certify with rows that the model was not trained on, or pass "
        "allow_training_rows=True if these rows are fresh"
    )


def _warn_of_bound(bound: float, loss: Floats) -> None:
    if len(loss) and bound == loss.max():
        warnings.warn(
            f"bound = {bound:g} is the largest loss of the calibration rows: a bound that is read off these rows makes "
            "the certificate invalid",
            UserWarning,
            stacklevel=3,
        )


def _out_of_fold(model: Any, cost: Cost | None, stated: float | str | None) -> _Rows | None:
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
    rows = _Rows(columns["score"], loss, columns["cost"])
    if len(loss) < _MIN_PILOT:
        return None
    if cost is None:
        return rows
    if isinstance(stated, float) and "expected_loss" in columns:
        return _Rows(stated - columns["expected_loss"], loss, np.full(len(loss), stated))
    return rows if np.ptp(rows.cost) > 0 else None


def _fingerprint_of_rows(hashes: NDArray[np.uint64] | None, X: Any, truth: Floats) -> str:
    """Return a checksum of the rows that does not depend on their order; of images it does."""
    if hashes is not None:
        return hashlib.sha256(np.sort(hashes).astype("<u8").tobytes()).hexdigest()
    digest = hashlib.sha256(np.ascontiguousarray(truth).tobytes())
    digest.update(np.ascontiguousarray(np.asarray(X)).tobytes())
    return digest.hexdigest()


def _refusal(request: _Request, rows: _Rows, threshold: float) -> CannotCertify:
    """Return the error for rows at the first threshold, with what it would take."""
    accepted = rows.score > threshold
    values = request.values(rows)
    of_rows, used = values.at(accepted[:, None])
    counted = of_rows[:, 0] if used is None else of_rows[used[:, 0], 0]
    least = needed_rows(values.mean, request.delta) if values.mean < 1 else 1
    share = len(counted) / len(accepted)
    name = "mean loss of accepted rows" if request.what == "accepted_loss" else "RcR loss"
    start = (
        f"cannot certify a {name} of at most {request.target:g} with confidence {1 - request.delta:g} and bound "
        f"{request.bound:g} from {len(accepted):,} calibration rows"
    )
    kind = "accepted rows" if request.what == "accepted_loss" else "rows"
    minimum = f"it takes at least {least:,} {kind}, even without any loss"
    if len(counted) == 0:
        return CannotCertify(f"{start}: no row is accepted at the first threshold; {minimum}", least, None)
    seen = f"at the first threshold {int(accepted.sum()):,} are accepted and the {name} is {_number(request, rows, accepted)}"
    growth = float(np.log1p(-bets_to_choose_from(values.mean)[:, None] * (counted - values.mean)).mean(axis=1).max())
    if growth <= 0 or counted.mean() >= values.mean:
        return CannotCertify(
            f"{start}: {seen}, so more rows would not help, but a higher target or a better model; {minimum}", least, None
        )
    total = math.ceil(max(least, math.log(1 / request.delta) / growth) / share)
    hint = f"{minimum}, that is {math.ceil(least / share):,} calibration rows at this coverage"
    return CannotCertify(f"{start}: {seen}; {hint}, and about {total:,} with such losses", least, total)


def _number(request: _Request, rows: _Rows, accepted: NDArray[np.bool_]) -> str:
    return f"{request.observed(rows, accepted):.4g}"
