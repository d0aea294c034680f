"""Every public estimator keeps scikit-learn's conventions, with one exception by design."""

from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

from recuse import AutoRejector, RcRRegressor, RcRRegressorCV, RiskRejector, SelectiveNetRegressor
from recuse.estimators import KernelAverage, StackedMLPRegressor

BY_DESIGN = {
    "check_regressors_no_decision_function": "a rejecting regressor has a score of acceptance by design",
}
SMALL = RcRRegressor(epochs=30, slow_start=10, learning_rate=0.01, n_members=2)
CROSS_FITTED = RcRRegressorCV(epochs=40, cv=2, n_members=2)
SELECTIVE = SelectiveNetRegressor(epochs=60, learning_rate=1e-2)
TREES = ExtraTreesRegressor(10, min_samples_leaf=2)
RISK = [
    RiskRejector(Ridge(), TREES, cv=2),
    RiskRejector(RandomForestRegressor(10), Ridge(), residuals="holdout"),
]
AUTO = AutoRejector(learners={"ridge": Ridge()}, risk_models={"trees": TREES}, cv=2)
PLAIN = [StackedMLPRegressor(epochs=60), KernelAverage()]


@parametrize_with_checks([SMALL, CROSS_FITTED, SELECTIVE, *RISK, AUTO], expected_failed_checks=lambda _: BY_DESIGN)
def test_an_estimator_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


@parametrize_with_checks(PLAIN)
def test_a_regressor_without_rejection_passes_all_of_them(estimator, check):
    check(estimator)
