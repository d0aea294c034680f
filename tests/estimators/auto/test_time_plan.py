"""The number of folds follows from predicted times: as many as there is time for."""

from hypothesis import given
from hypothesis import strategies as st

from recuse.estimators.auto.time_budget import FitTime
from recuse.estimators.auto.time_plan import Forecast, fewer_folds

SECONDS = st.floats(0.001, 100.0)


def forecast(regressor=1.0, risk=0.1, **more):
    return Forecast({"a": FitTime(regressor, 1000, 1.0)}, {"b": FitTime(risk, 1000, 1.0)}, rows=1000, **more)


@given(SECONDS, SECONDS, SECONDS, st.booleans())
def test_with_more_time_there_are_not_fewer_folds(regressor, left, more, last_fits):
    plan = forecast(regressor)
    short, long = (fewer_folds(plan, 8, 2, seconds, last_fits=last_fits) for seconds in (left, left + more))
    assert short <= long


@given(SECONDS, st.sampled_from([2, 3, 5, 8, 10]), st.integers(1, 5))
def test_with_plenty_of_time_the_folds_stay(regressor, folds, repeats):
    assert fewer_folds(forecast(regressor), folds, repeats, 1e9, last_fits=True) == (folds, repeats)


def test_last_fits_weighted_variants_and_few_processes_take_time():
    least = forecast(processes=5).total(5, 1, 100.0, last_fits=False)
    assert least < forecast(processes=5).total(5, 1, 100.0, last_fits=True)
    assert least < forecast(processes=5, weighted=frozenset("a")).total(5, 1, 100.0, last_fits=False)
    assert least < forecast().total(5, 1, 100.0, last_fits=False)


def test_slow_risk_models_get_a_quarter_of_the_time_or_the_time_of_the_fastest():
    risks = {"quick": FitTime(0.1, 1000, 1.0), "slow": FitTime(100.0, 1000, 1.0)}
    plan = Forecast({}, risks, rows=1000)
    assert plan.after_regressors(4, left=40.0) == 10.0
    assert plan.after_regressors(4, left=1.0) == 0.5


def test_folds_of_a_small_table_do_not_depend_on_the_slowest_regressors():
    times = {f"quick_{number}": FitTime(0.01, 100, 1.0) for number in range(3)} | {"slow": FitTime(10.0, 100, 1.0)}
    plans = [Forecast(times, {"risk": FitTime(0.01, 100, 0.5)}, rows=rows) for rows in (1000, 4000)]
    assert [fewer_folds(plan, 8, 1, 60.0, last_fits=True) for plan in plans] == [(8, 1), (3, 1)]
    assert fewer_folds(plans[0], 8, 2, 60.0, last_fits=True) == (8, 1)  # a second division is for all regressors
