"""What does not fit into the time limit is fitted to fewer rows or left out, with a note."""

import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from recuse.estimators.auto.candidates import LEARNERS, Learner, choose
from recuse.estimators.auto.time_budget import FitTime, TimeBudget, measured_time
from recuse.estimators.auto.trials import Setting, run_trials
from recuse.estimators.crossfitting import Sample, cross_fit
from recuse.losses import SQUARED, Pinball

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(3000, 2))
SAMPLE = Sample(X, X[:, 0] + RANDOM.normal(size=3000), np.ones(3000))
FOLD = np.arange(3000) % 3
SPLITS = [(np.flatnonzero(k != FOLD), np.flatnonzero(k == FOLD)) for k in range(3)]


class Slow(RegressorMixin, BaseEstimator):
    """Takes a fixed time and so much for each row."""

    def __init__(self, fixed=0.0, per_row=0.0):
        self.fixed = fixed
        self.per_row = per_row

    def fit(self, X, y):
        time.sleep(self.fixed + self.per_row * len(X))
        self.mean_ = y.mean()
        return self

    def predict(self, X):
        return np.full(len(X), self.mean_)


def run(learners, limit=None, timings=None):
    def fit(estimator, sample, most_rows):
        return cross_fit(estimator, sample, SPLITS, np.random.RandomState(0), most_rows=most_rows)

    setting = Setting(2000, 3, SQUARED, TimeBudget(limit), None)
    return run_trials(learners, SAMPLE, fit, setting, timings=timings)


def learner(part, **more):
    return Learner(lambda n_rows, loss: part, **more)


def test_a_model_predicts_only_rows_it_was_not_fitted_to():
    (trial,) = run({"nearest": learner(KNeighborsRegressor(1))})
    assert np.mean((trial.fitted.out_of_fold.mean - SAMPLE.target) ** 2) > 1.5  # 0 if fitted to them, 2 for two draws
    assert len(trial.fitted.models) == 3


def test_without_a_limit_all_rows_are_fitted_to():
    trials = run({"a": learner(Ridge()), "b": learner(Slow(per_row=1e-6))})
    assert [trial.rows for trial in trials] == [2000, 2000]
    assert [trial.note for trial in trials] == ["", ""]


def test_what_would_take_too_long_is_fitted_to_fewer_rows():
    (trial,) = run({"slow": learner(Slow(per_row=1e-3))}, limit=2.5)
    assert 200 <= trial.rows < 1000  # all rows would take 6 s
    assert trial.note == f"fitted to {trial.rows} of 2000 rows, for lack of time"


def test_what_has_no_chance_is_left_out():
    trials = run({"slow": learner(Slow(fixed=0.5)), "ridge": learner(Ridge())}, limit=2.5)
    slow, ridge = trials
    assert slow.fitted is None
    assert slow.note == "left out: no time"
    assert ridge.fitted is not None


def test_something_is_fitted_however_short_the_time():
    trials = run({"slow": learner(Slow(fixed=0.05)), "other": learner(Ridge())}, limit=1e-3)
    assert any(trial.fitted for trial in trials)


def test_if_the_time_is_short_the_fastest_come_first():
    names = ("slow", "slowest", "quick")
    timings = dict(zip(names, (FitTime(seconds, 2000, 0.5) for seconds in (4.0, 20.0, 1.0)), strict=True))
    trials = run({name: learner(Ridge()) for name in names}, limit=27.0, timings=timings)  # each is fitted three times
    assert [trial.name for trial in trials] == list(names)  # in the order in which they were given
    assert [trial.rows == 2000 for trial in trials] == [True, False, True]


def test_known_times_decide_what_is_fitted():
    learners = {"slow": learner(Ridge()), "quick": learner(Ridge())}
    timings = {"slow": FitTime(100.0, 2000, 0.5), "quick": FitTime(0.01, 2000, 0.5)}
    slow, quick = run(learners, limit=50.0, timings=timings)
    assert slow.note == "left out: no time"
    assert quick.rows == 2000
    for name in timings:
        timings[name] = FitTime(timings[name].seconds + 100.0, 2000, 0.5)
    assert [trial.fitted is not None for trial in run(learners, limit=1.0, timings=timings)] == [False, True]


def test_the_last_resort_is_fitted_to_as_few_rows_as_there_is_time_for():
    (trial,) = run({"slow": learner(Ridge())}, limit=3.0, timings={"slow": FitTime(20.0, 2000, 1.0)})
    assert 50 <= trial.rows < 200  # 1 s for each of three fits


def test_a_candidate_may_use_the_time_that_later_ones_do_not_need():
    timings = {"slow": FitTime(10.0, 2000, 1.0), "quick": FitTime(0.01, 2000, 1.0)}
    trials = run({"slow": learner(Ridge()), "quick": learner(Ridge())}, limit=40.0, timings=timings)
    assert [trial.rows for trial in trials] == [2000, 2000]  # with equal shares, the first has 20 of 30 s


def test_a_learner_for_other_tables_is_left_out():
    trials = run({"small": learner(Ridge(), most_rows=100), "ridge": learner(Ridge())})
    assert {trial.name: trial.fitted is not None for trial in trials} == {"small": False, "ridge": True}
    assert not LEARNERS["extra_trees"].suits(SAMPLE, Pinball(0.9))
    assert LEARNERS["networks"].suits(SAMPLE, Pinball(0.9))


@pytest.mark.parametrize(("columns", "few"), [(64, True), (65, False)])
def test_pieces_are_for_tables_of_few_columns(columns, few):
    wide = Sample(RANDOM.normal(size=(100, columns)), RANDOM.normal(size=100), np.ones(100))
    assert LEARNERS["process_of_pieces"].suits(wide, SQUARED) == few
    assert LEARNERS["process"].suits(wide, SQUARED)


def test_columns_of_two_values_do_not_count_where_pieces_are_too_many():
    binary = np.column_stack([RANDOM.normal(size=(100, 5)), RANDOM.integers(2, size=(100, 200))])
    assert LEARNERS["process_of_pieces"].suits(Sample(binary, binary[:, 0], np.ones(100)), SQUARED)


def measured(seconds, time_of_fit, rows=3000, growth=1.0):
    tried = []

    def measure(estimator, sample, count):
        tried.append(count)
        return time_of_fit(count)

    return measured_time(None, growth, SAMPLE, rows, seconds, measure), tried


def test_the_time_of_a_fit_is_predicted_from_growing_fits():
    time_of, tried = measured(10.0, lambda count: 1e-3 * count)
    assert tried == [50, 200, 800]
    assert time_of.of(3000) == pytest.approx(3.0)
    assert time_of.affordable(1.5, 3000) == 1500
    assert time_of.affordable(99.0, 3000) == 3000


def test_trial_fits_end_where_the_next_would_take_too_long():
    time_of, tried = measured(0.3, lambda count: 1e-3 * count)
    assert tried == [50]  # the next one would take 0.1 s or more
    assert time_of.of(3000) == pytest.approx(3.0)


def test_trial_fits_take_at_most_a_third_of_the_rows():
    assert measured(10.0, lambda count: 1e-3 * count, rows=1000)[1] == [50, 200, 333]


def test_one_trial_fit_is_enough_where_there_is_plenty_of_time():
    assert measured(1000.0, lambda count: 1e-3 * count)[1] == [50]


def test_a_constant_time_is_not_extrapolated_in_proportion():
    time_of, _ = measured(10.0, lambda count: 0.5)
    assert time_of.of(3000) < 2.0
    assert FitTime(1.0, 100, 2.0).affordable(-1.0, 1000) == 0


@pytest.mark.parametrize("given", ["boosting", [], 3, {}])
def test_learners_of_the_wrong_form_are_named(given):
    with pytest.raises(ValueError, match="learners must be None, a mapping of names to regressors, or a list of names"):
        choose(given, LEARNERS, "learners")


def test_unknown_learners_are_named():
    with pytest.raises(ValueError, match=r"learners\['magic'\] must be an estimator or one of \['boosting'"):
        choose(["magic"], LEARNERS, "learners")
    with pytest.raises(ValueError, match=r"learners\['mine'\] must be an estimator with fit, predict and get_params"):
        choose({"mine": 3}, LEARNERS, "learners")


def test_an_error_names_the_learners_if_none_suits():
    with pytest.raises(ValueError, match="at least one learner must suit 3000 rows of 2 features, this target and the"):
        run({"small": learner(Ridge(), most_rows=100)})
