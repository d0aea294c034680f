"""Every public estimator keeps scikit-learn's conventions, with one exception by design."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from recuse import RcRRegressor

BY_DESIGN = {
    "check_regressors_no_decision_function": "a rejecting regressor has a score of acceptance by design",
}
SMALL = RcRRegressor(epochs=30, slow_start=10)
DEFAULT_BUT_SHORT = RcRRegressor(epochs=200)


@parametrize_with_checks([SMALL, DEFAULT_BUT_SHORT], expected_failed_checks=lambda _: BY_DESIGN)
def test_an_estimator_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)
