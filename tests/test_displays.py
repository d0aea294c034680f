import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from recuse import Decision, RiskRejector
from recuse.displays import CostCurveDisplay, RiskCoverageDisplay


class AnyCost:
    """An estimator that serves any cost: it accepts rows whose feature is below the cost."""

    def decide(self, X, cost=None):
        cost = 1.0 if cost is None else cost
        return Decision(X[:, 0], X[:, 0] < cost, -X[:, 0], cost)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def rows():
    X = np.linspace(0.1, 3, 30)[:, None]
    return X, np.zeros(30)


def test_a_cost_curve_computes_what_it_draws(rows):
    display = CostCurveDisplay.from_estimator(AnyCost(), *rows, costs=[2.0, 1.0])
    assert display.curve["cost"].tolist() == [1.0, 2.0]
    drawn = {line.get_label(): line.get_ydata() for line in display.ax_.lines}
    np.testing.assert_allclose(drawn["with rejection"], display.curve["rcr_loss"])
    np.testing.assert_allclose(drawn["always predict"], display.curve["always_accept"])


def test_a_risk_coverage_curve_draws_into_given_axes(rows):
    _, ax = plt.subplots()
    display = RiskCoverageDisplay.from_estimator(AnyCost(), *rows, ax=ax, name="mine")
    assert display.ax_ is ax
    assert ax.lines[0].get_label() == f"mine (area {display.area:.3g})"
    np.testing.assert_allclose(ax.lines[0].get_xdata(), display.coverage)
    assert display.risk[-1] == pytest.approx(np.mean(rows[0] ** 2))


class ByAbsoluteError(AnyCost):
    """The same, whose costs are weighed against the absolute error."""

    def decide(self, X, cost=None):
        decision = super().decide(X, cost)
        return Decision(decision.prediction, decision.accepted, decision.score, decision.cost, loss="absolute")


def test_displays_measure_and_name_the_loss_of_the_decisions(rows):
    X, y = rows
    curve = CostCurveDisplay.from_estimator(ByAbsoluteError(), *rows, costs=[1.0, 2.0])
    assert curve.curve["always_accept"].tolist() == pytest.approx([X.mean(), X.mean()])
    assert curve.ax_.get_xlabel() == "cost of a rejection (absolute loss)"
    coverage = RiskCoverageDisplay.from_estimator(ByAbsoluteError(), *rows)
    assert coverage.risk[-1] == pytest.approx(X.mean())
    assert coverage.ax_.get_ylabel() == "mean absolute loss of accepted rows"
    assert RiskCoverageDisplay.from_predictions(y, X[:, 0], -X[:, 0], loss="absolute").area == coverage.area


def test_the_squared_error_has_its_usual_name(rows):
    assert CostCurveDisplay.from_estimator(AnyCost(), *rows, costs=[1.0]).ax_.get_xlabel().endswith("(squared units)")
    assert RiskCoverageDisplay.from_estimator(AnyCost(), *rows).ax_.get_ylabel().startswith("mean squared error")


def test_the_estimator_may_be_inside_a_pipeline(rows):
    X, y = rows[0], np.sin(9 * rows[0][:, 0])
    pipeline = make_pipeline(StandardScaler(), RiskRejector(LinearRegression(), KNeighborsRegressor(), random_state=0))
    pipeline.fit(X, y)
    scaled = pipeline[:-1].transform(X)
    curve = CostCurveDisplay.from_estimator(pipeline, X, y, costs=[0.2, 0.6]).curve
    assert curve.equals(CostCurveDisplay.from_estimator(pipeline[-1], scaled, y, costs=[0.2, 0.6]).curve)
    area = RiskCoverageDisplay.from_estimator(pipeline, X, y).area
    assert area == RiskCoverageDisplay.from_estimator(pipeline[-1], scaled, y).area
