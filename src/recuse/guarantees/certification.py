"""Certificates of the loss of a model: tests of a fixed sequence of thresholds on calibration rows."""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.costs import Cost
from recuse.dataframes import aligned, row_index
from recuse.decision import Decision, RejectingModel
from recuse.guarantees.attempts import FILE_NAME, Attempt, AttemptLog, HashedQuestion
from recuse.guarantees.betting import refutes
from recuse.guarantees.calibration_rows import CalibrationRows
from recuse.guarantees.certificate import CannotCertify, Certificate, What, needed_rows
from recuse.guarantees.request import (
    BoundedValues,
    BoundWarning,
    CertificationRequest,
    ScoredRows,
    check_parameters,
    cost_limit,
    how_given,
    refusal,
    stated_cost,
    thresholds_to_test,
)
from recuse.metrics.measures import numbers
from recuse.out_of_fold import OutOfFold
from recuse.validation import require

Floats = NDArray[np.float64]

# Share of the rows that choose the thresholds if there are fewer out-of-fold scores than `_MIN_PILOT`.
_SET_ASIDE, _MIN_PILOT = 0.2, 20
# Number of thresholds that are tested at once.
_TESTED_AT_ONCE = 8


def certify(
    model: RejectingModel,
    X: Any,
    y: Any,
    target: float,
    *,
    delta: float = 0.05,
    bound: float | None = None,
    what: What = "accepted_loss",
    cost: Cost | None = None,
    cost_bound: float | None = None,
    groups: Any = None,
    allow_training_rows: bool = False,
    attempts: str | os.PathLike[str] | None = None,
) -> Certificate:
    """Certify that the loss of a model is at most a target, at the most accepting threshold for which that is sure.

    The thresholds are fixed without the calibration rows, from the out-of-fold scores of the model. A model without
    them needs a random fifth of the calibration rows for that, which are then not used for the test. The thresholds are
    tested from strict to accepting at level delta each, until one fails; the last that passed is certified. Each test
    is a betting game; see `recuse.guarantees.betting`. No assumption about the distribution is made except that the
    calibration rows and the new rows are independent draws from it. The order of the rows in the game follows from the
    set of rows.

    Each try with the same rows is another chance of a wrong promise, so attempts are counted. Beside a model file,
    attempt k is tested at level 0.9 delta if it is the first, else ``0.1 delta / (k (k - 1))``: the probability of any
    wrong promise among them is at most delta. Those of an estimator in memory are tested at level delta each, and the
    certificate says how many there were and how sure their promises are together. The same question has the same
    answer, and is not another attempt.

    Parameters
    ----------
    model : fitted estimator or ServedModel
    X : array-like or DataFrame of shape (n_rows, n_features)
        Calibration rows, which were never used for training or for any choice. Rows that equal training rows in all
        features and the target are found by their hashes. If there are so many that as many would occur among fresh
        rows with a probability below 1 in 1,000, this is an error. So it is if rows repeat each other, in all features,
        more often than the training rows let expect.
    y : array-like of shape (n_rows,)
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
    groups : array-like of shape (n_rows,), optional
        One label for each row. Rows of one group, such as repeated measurements, count as one draw: the promise is
        about a row drawn at random from a group drawn at random.
    allow_training_rows : bool, default=False
        Whether to accept calibration rows that equal training rows. Only for fresh rows that are equal by chance.
    attempts : path-like, optional
        The file in which attempts are counted; by default "certification-attempts.json" in the folder of the model
        file, if the model was loaded from one. An estimator in memory has no such folder: without `attempts`, those
        of this process are counted, all models together. Sets that share more than a tenth of the rows are the same
        rows.

    Returns
    -------
    Certificate

    Raises
    ------
    CannotCertify
        If no threshold passes; the message says what it would take.
    ValueError
        If a parameter is wrong, or too many rows are copies.
    OSError
        If attempts cannot be counted, since their file cannot be written.

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
    check_parameters(target, delta, bound, what)
    assert bound is not None
    decision: Decision = model.decide(X, cost=cost)
    require(
        decision.takes is None, "model", "one without experts, who take rows by their fees, not by a threshold", model
    )
    truth = _targets(y, X, decision)
    calibration = CalibrationRows.check(model, X, truth, groups, allow_training_rows)
    stated = stated_cost(model, cost)
    limit = cost_limit(what, stated, cost_bound, bound, decision)
    request = CertificationRequest(what, float(target), float(delta), float(bound), limit)
    loss = decision.loss(decision.prediction - truth)
    _warn_of_bound(bound, loss)
    order, draw = calibration.order(decision.score, loss, decision.cost)
    rows = ScoredRows(decision.score[order], loss[order], decision.cost[order], draw if calibration.grouped else None)
    pilot, tested = _divided(rows, _out_of_fold(model, cost, stated))
    trial = _ReadyRequest(model, request, calibration, rows, pilot, tested, decision.loss.name, stated, cost)
    result = trial.counted(_place_of_attempts(model, attempts))
    if isinstance(result, CannotCertify):
        raise result
    return result


@dataclass(frozen=True, eq=False)
class _ReadyRequest:
    """A checked question, ready to be tested."""

    model: RejectingModel
    request: CertificationRequest
    calibration: CalibrationRows
    rows: ScoredRows
    pilot: ScoredRows
    tested: ScoredRows
    loss: str
    stated: float | str | None
    cost: Cost | None

    def counted(self, path: Path | None) -> Certificate | CannotCertify:
        """Test at the level of the attempt, and note the attempt before the result is known to anybody."""
        with AttemptLog.of_process() if path is None else AttemptLog.opened(path) as log:
            question = self.question()
            attempt = log.attempt(question, self.request.delta)
            result = self.result(attempt)
            log.record(question, attempt, "refused" if isinstance(result, CannotCertify) else "certified")
        return result

    def question(self) -> HashedQuestion:
        """Return what the answer depends on. Numbers count as float32, so that rounding makes no other question."""
        request, rows, fingerprint = self.request, self.rows, str(self.model.fingerprint)
        asked = (request.what, request.target, request.delta, request.bound, request.cost_bound, self.stated)
        digest = hashlib.sha256(repr((*asked, fingerprint, self.calibration.fingerprint)).encode())
        for values in (rows.score, rows.loss, rows.cost):
            digest.update(values.astype("<f4").tobytes())
        if rows.draw is not None:
            digest.update(rows.draw.astype("<i8").tobytes())
        calibration = self.calibration
        hashes = {"rows": calibration.parts.rows, "given": calibration.given, "targets": calibration.targets}
        return HashedQuestion(digest.hexdigest(), fingerprint, request.target, calibration.fingerprint, hashes)

    def result(self, attempt: Attempt) -> Certificate | CannotCertify:
        """Test the thresholds."""
        request, tested, level = self.request, self.tested, attempt.level
        n_least = needed_rows(request.target / request.limit, level) if request.what == "accepted_loss" else 0
        thresholds = thresholds_to_test(self.pilot.score, request.values(self.pilot), tested.n_draws, n_least)
        passed = count_certified(tested.score, request.values(tested), thresholds, level)
        if passed == 0:
            return refusal(request, attempt, tested, float(thresholds[0]), self.rows.n_draws)
        return self._certificate(attempt, float(thresholds[passed - 1]), len(thresholds))

    def _certificate(self, attempt: Attempt, threshold: float, n_thresholds: int) -> Certificate:
        request, tested = self.request, self.tested
        accepted = tested.score > threshold
        drawn = tested if tested.starts is None else tested.take(tested.starts)  # one row of each draw
        drawn = drawn.take(drawn.score > threshold)
        above = int(np.sum(drawn.loss > request.bound))
        certificate = Certificate(
            **vars(request),
            loss=self.loss,
            cost=self.stated,
            threshold=threshold,
            n_rows=len(tested),
            n_accepted=int(accepted.sum()),
            n_set_aside=len(self.rows) - len(tested),
            n_thresholds=n_thresholds,
            observed=request.observed(tested, accepted),
            clipped_share=float(np.mean(tested.loss[accepted] > request.bound)) if accepted.any() else 0.0,
            tail_bound=tail_bound(above, len(drawn), attempt.level / n_thresholds),
            training_copies=self.calibration.copies,
            repeats=self.calibration.repeats,
            n_groups=tested.n_draws if self.calibration.grouped else None,
            attempt=attempt.number,
            level=attempt.level,
            joint_level=attempt.joint_level,
            data_fingerprint=self.calibration.fingerprint,
            model_fingerprint=str(self.model.fingerprint),
            cost_given=how_given(self.cost),
        )
        return certificate.of_model(self.model)


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
    truth = numbers(aligned(y, row_index(X), "y"), "y")
    if len(truth) != len(decision):
        raise ValueError(f"y must have one value for each of {len(decision)} rows, got {len(truth)}")
    return truth


def _place_of_attempts(model: RejectingModel, given: str | os.PathLike[str] | None) -> Path | None:
    """Return the file of attempts: the given one, or that in the folder of the model file, if there is one."""
    if given is not None:
        return Path(given)
    path: Path | None = getattr(model, "path_", None)
    return None if path is None else path.parent / FILE_NAME


def _divided(rows: ScoredRows, out_of_fold: ScoredRows | None) -> tuple[ScoredRows, ScoredRows]:
    """Return the rows that choose the thresholds, and the calibration rows that test them."""
    if out_of_fold is not None:
        return out_of_fold, rows
    aside = math.ceil(_SET_ASIDE * rows.n_draws)
    if aside == rows.n_draws:
        unit = "rows" if rows.draw is None else "groups"
        raise ValueError(f"certify needs at least 2 calibration {unit}, got {rows.n_draws}")
    pilot, tested = rows.split(aside)
    return replace(pilot, draw=None), tested


def _warn_of_bound(bound: float, loss: Floats) -> None:
    if len(loss) and bound == loss.max():
        warnings.warn(
            f"bound = {bound:g} is the largest loss of the calibration rows: a bound that is read off these rows makes "
            "the certificate invalid",
            BoundWarning,
            stacklevel=3,
        )


def _out_of_fold(model: RejectingModel, cost: Cost | None, stated: float | str | None) -> ScoredRows | None:
    """Return the out-of-fold rows at the cost of the certificate; None if there are none."""
    known = OutOfFold.of(model)
    if known is None or known.known.sum() < _MIN_PILOT:
        return None
    decision, loss = known.decision(stated if cost is not None and isinstance(stated, float) else None), known.losses()
    if cost is not None and not isinstance(stated, float) and np.ptp(decision.cost) == 0:
        return None
    return ScoredRows(decision.score, loss, decision.cost)
