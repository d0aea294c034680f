"""Regressors without a weight on some folds are not fitted to all, and the time limit is kept."""

import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, Ridge

from recuse.estimators.auto.candidates import Learner
from recuse.estimators.auto.interrupts import Interrupts
from recuse.estimators.auto.race import Race
from recuse.estimators.auto.time_budget import TimeBudget
from recuse.estimators.crossfitting import FoldFits, RepeatedFits, Sample
from recuse.losses import SQUARED

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(1000, 3))
SAMPLE = Sample(X, X.sum(axis=1) + RANDOM.normal(size=1000), np.ones(1000))
FOLD = np.arange(1000) % 5
SPLITS = [(np.flatnonzero(k != FOLD), np.flatnonzero(k == FOLD)) for k in range(5)]


class Slow(LinearRegression):
    """A linear regression that takes some time, and can be interrupted in a fit of a given number."""

    fits = 0

    def __init__(self, seconds=0.0, interrupt=None):
        super().__init__()
        self.seconds = seconds
        self.interrupt = interrupt

    def fit(self, X, y):
        Slow.fits += 1
        if Slow.fits == self.interrupt:
            raise KeyboardInterrupt
        time.sleep(self.seconds)
        return super().fit(X, y)


class Useless(RegressorMixin, BaseEstimator):
    """Predicts a large constant."""

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.full(len(X), 100.0)


def race(limit=None, mode="raise", **options):
    def start(estimator, most_rows):
        return FoldFits(estimator, SAMPLE, SPLITS, np.random.RandomState(0), most_rows=most_rows)

    Slow.fits = 0
    return Race(start, SAMPLE, 5, SQUARED, TimeBudget(limit), interrupts=Interrupts(mode), **options)


def learner(part):
    return Learner(lambda n_rows, loss: part)


def by_name(result):
    return {trial.name: trial for trial in result.trials}


def test_a_regressor_without_weight_is_not_fitted_to_all_folds():
    result = race().run({"good": learner(Ridge()), "useless": learner(Useless())}, {})
    trials = by_name(result)
    assert result.folds == [0, 1, 2, 3, 4]
    assert len(trials["good"].fitted.models) == 5
    assert trials["useless"].fitted is None
    assert trials["useless"].note == "left out: no weight on 2 of 5 folds"


def test_a_weighted_variant_is_tried_only_if_the_regressor_is_selected():
    learners = {"good": learner(Ridge()), "useless": learner(Useless())}
    variants = {"good": learner(Ridge(1.0)), "useless": learner(Useless())}
    assert [trial.name for trial in race().run(learners, variants).trials] == ["good", "useless", "good_weighted"]


def test_results_are_those_of_all_folds_at_once():
    fitted = by_name(race().run({"good": learner(Ridge())}, {}))["good"].fitted
    whole = FoldFits(Ridge(), SAMPLE, SPLITS, np.random.RandomState(0))
    whole.fit(range(5))
    np.testing.assert_array_equal(fitted.out_of_fold.mean, whole.result().out_of_fold.mean)


def test_fewer_folds_are_used_where_there_is_no_time_for_all():
    start = time.monotonic()
    result = race(limit=2.0).run({"slow": learner(Slow(0.4))}, {})
    assert time.monotonic() - start < 2.0
    assert 2 <= len(result.folds) < 5
    fitted = by_name(result)["slow"].fitted
    assert np.isfinite(fitted.out_of_fold.mean).sum() == 200 * len(result.folds)


def test_a_regressor_that_takes_too_long_is_left_out():
    result = race(limit=2.0).run({"quick": learner(Ridge()), "slow": learner(Slow(0.9))}, {})
    assert by_name(result)["slow"].note == "left out: no time"
    assert len(result.folds) == 5


def test_time_for_later_steps_is_reserved():
    start = time.monotonic()
    race(limit=2.0, reserve=1.2).run({"slow": learner(Slow(0.1))}, {})
    assert time.monotonic() - start < 0.8


def test_an_interrupt_keeps_what_is_finished():
    learners = {"ridge": learner(Ridge()), "slow": learner(Slow(interrupt=2))}
    result = race(mode="keep").run(learners, {})
    assert result.folds == [0, 1]
    assert by_name(result)["slow"].note == "left out: interrupted"
    assert by_name(result)["ridge"].fitted is not None


@pytest.mark.parametrize(("mode", "interrupt"), [("raise", 3), ("keep", 1)])
def test_an_interrupt_ends_the_fit_by_default_and_before_there_is_a_model(mode, interrupt):
    with pytest.raises(KeyboardInterrupt):
        race(mode=mode).run({"slow": learner(Slow(interrupt=interrupt))}, {})


def test_repeats_are_averaged():
    divisions = [FoldFits(Ridge(), SAMPLE, splits, np.random.RandomState(0)) for splits in (SPLITS, SPLITS[::-1])]
    repeated = RepeatedFits(divisions)
    repeated.fit(range(5))
    result = repeated.result()
    mean = np.mean([fits.result().out_of_fold.mean for fits in divisions], axis=0)
    np.testing.assert_allclose(result.out_of_fold.mean, mean)
    assert len(result.models) == 5
    assert result.models[0].first.coef_.shape == (3,)
