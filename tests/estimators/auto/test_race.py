"""Regressors without a weight on some folds are not fitted to all, and the time limit is kept."""

import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor

from recuse.estimators.auto.candidates import Learner
from recuse.estimators.auto.comparison import Comparison
from recuse.estimators.auto.interrupts import Interrupts
from recuse.estimators.auto.race import Race
from recuse.estimators.auto.time_budget import FitTime, OutOfTime, TimeBudget
from recuse.estimators.crossfitting import FoldFits, RepeatedFits, Sample
from recuse.estimators.mlp import StackedMLPRegressor
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


class Clock:
    """Replaces the module `time`; fits of `Timed` advance it."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


CLOCK = Clock()


class Timed(Ridge):
    """A regression on one feature that takes seconds of the clock: so many for the first fits, and for later ones."""

    fits = 0

    def __init__(self, feature=0, first=1.0, later=1.0):
        super().__init__()
        self.feature = feature
        self.first = first
        self.later = later

    def fit(self, X, y, sample_weight=None):
        CLOCK.now += self.first if Timed.fits < 2 else self.later
        Timed.fits += 1
        return super().fit(X[:, : self.feature + 1], y)

    def predict(self, X):
        return super().predict(X[:, : self.feature + 1])


@pytest.fixture
def clock(monkeypatch):
    """Replace the clock of the race and of the time limit."""
    CLOCK.now, Timed.fits = 0.0, 0
    for module in ("race", "time_budget"):
        monkeypatch.setattr(f"recuse.estimators.auto.{module}.time", CLOCK)
    return CLOCK


def constant(seconds):
    """Predict nearly the same time for any number of rows."""
    return FitTime(seconds, 1000, 1e-6)


def race(limit=None, mode="raise", sample=SAMPLE, splits=SPLITS, **options):
    def start(estimator, most_rows):
        return FoldFits(estimator, sample, splits, np.random.RandomState(0), most_rows=most_rows)

    Slow.fits = 0
    shared = start, sample, 5, SQUARED, TimeBudget(limit), Comparison(sample, SQUARED)
    return Race(*shared, interrupts=Interrupts(mode), **options)


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


@pytest.mark.parametrize(("copies", "kept"), [(1, 2), (3, 1)])
def test_with_many_rows_a_regressor_that_is_hardly_needed_is_not_fitted_to_all_folds(copies, kept):
    sample = Sample(*(np.concatenate([part] * copies) for part in SAMPLE))
    splits = [tuple(np.concatenate([part + 1000 * i for i in range(copies)]) for part in split) for split in SPLITS]
    learners = {"one": learner(Ridge(1.0)), "other": learner(Ridge(1.001))}  # the second adds nothing
    trials = by_name(race(sample=sample, splits=splits).run(learners, {}))
    fitted = [trial.fitted for trial in trials.values() if trial.fitted is not None]
    assert len(fitted) == kept
    assert all(len(each.models) == 5 for each in fitted)


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


def test_a_limit_that_is_not_reached_gives_the_fits_without_a_limit():
    networks = StackedMLPRegressor(hidden=(4,), epochs=3, n_members=2)
    parts = {"good": Ridge(), "networks": networks, "useless": Useless(), "nearest": KNeighborsRegressor(20)}
    learners = {name: learner(part) for name, part in parts.items()}
    variants = {"good": learner(Ridge(10.0))}
    free, limited = (shared_random_race(limit).run(learners, variants) for limit in (None, 1e6))
    assert [(trial.name, trial.note) for trial in limited.trials] == [(trial.name, trial.note) for trial in free.trials]
    for one, other in zip(free.trials, limited.trials, strict=True):
        if one.fitted is not None:
            np.testing.assert_array_equal(one.fitted.out_of_fold.mean, other.fitted.out_of_fold.mean)


def shared_random_race(limit):
    random = np.random.RandomState(0)

    def start(estimator, most_rows):
        return FoldFits(estimator, SAMPLE, SPLITS, random, most_rows=most_rows)

    return Race(start, SAMPLE, 5, SQUARED, TimeBudget(limit), Comparison(SAMPLE, SQUARED))


def test_where_the_time_is_too_short_for_all_the_most_useful_regressors_get_all_folds(clock):
    parts = {"two_features": Timed(1), "one_feature": Timed(0), "quick": Timed(0, 0.0, 0.0)}
    learners = {name: learner(part) for name, part in parts.items()}
    timings = {name: constant(0.1) for name in learners}  # too low, which the first fits show
    result = race(limit=9.0, last_fits=False, timings=timings).run(learners, {})
    assert result.folds == [0, 1, 2, 3, 4]
    assert {name for name, trial in by_name(result).items() if trial.fitted} == {"two_features", "quick"}
    assert clock.now < 9


def test_a_slow_regressor_of_a_small_table_is_tried_if_there_is_time_for_it_and_the_leading_one(clock):
    parts = {"one_feature": Timed(0), "quick": Timed(0), "two_features": Timed(1, 2.0, 2.0)}
    learners = {name: learner(part) for name, part in parts.items()}
    timings = {name: constant(part.first) for name, part in parts.items()}
    # all folds of all would take 20 seconds
    result = race(limit=18.5, last_fits=False, timings=timings).run(learners, {})
    assert by_name(result)["two_features"].fitted is not None
    assert result.folds == [0, 1, 2, 3, 4]
    assert clock.now < 18.5


def test_time_that_is_left_at_the_end_is_used(clock):
    learners = {"faster": learner(Timed(1, 2.0, 0.1)), "slower": learner(Timed(2, 0.1, 0.1))}
    timings = {"faster": constant(2.0), "slower": constant(2.5)}
    result = race(limit=19.0, last_fits=False, timings=timings).run(learners, {})
    assert all(len(trial.fitted.models) == 5 for trial in result.trials)


def test_known_times_need_no_trial_fits(clock):
    race(limit=100.0, timings={"known": constant(1.0)}).run({"known": learner(Timed(1))}, {})
    assert Timed.fits == 5


def test_the_end_of_the_time_loses_no_fold_of_a_stack():
    def on_fit():
        raise OutOfTime

    networks = StackedMLPRegressor(hidden=(4,), epochs=2, n_members=1)
    fits = FoldFits(networks, SAMPLE, SPLITS, np.random.RandomState(0), on_fit=on_fit)
    with pytest.raises(OutOfTime):
        fits.fit([0, 1, 2])
    assert fits.missing == [3, 4]


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
