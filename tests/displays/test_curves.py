import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from recuse import Decision, RiskRejector
from recuse.displays import AcceptedLossDisplay, CostCurveDisplay, RiskCoverageDisplay


class AnyCost:
    """An estimator that serves any cost: it accepts rows whose feature is below the cost."""

    def decide(self, X, cost=None):
        cost = 1.0 if cost is None else cost
        return Decision(X[:, 0], X[:, 0] < cost, -X[:, 0], cost)


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


def labels(ax):
    return {text.get_text() for text in ax.texts}


def test_lines_are_labelled_at_their_ends_instead_of_in_a_legend(rows):
    ax = CostCurveDisplay.from_estimator(AnyCost(), *rows, costs=[1.0, 2.0]).ax_
    assert ax.get_legend() is None
    assert labels(ax) == {"with rejection", "always predict", "always reject", "if errors were known"}
    colours = {line.get_label(): line.get_color() for line in ax.lines}
    assert all(text.get_color() == colours[text.get_text()] for text in ax.texts)


def test_labels_do_not_overlap(rows):
    display = CostCurveDisplay.from_estimator(AnyCost(), *rows, costs=[0.2, 0.4])
    display.figure_.draw_without_rendering()
    boxes = [text.get_window_extent() for text in display.ax_.texts]
    assert not any(a.overlaps(b) for place, a in enumerate(boxes) for b in boxes[:place])


def test_a_second_model_in_the_same_axes_is_labelled_and_in_view(rows):
    X, y = rows
    first = RiskCoverageDisplay.from_estimator(AnyCost(), X, y, name="first")
    second = RiskCoverageDisplay.from_predictions(y, 3 * X[:, 0], -X[:, 0], name="second", ax=first.ax_)
    assert {text.partition("\n")[0] for text in labels(first.ax_)} == {"first", "second"}
    assert first.ax_.get_ylim()[0] == 0
    assert first.ax_.get_ylim()[1] > second.risk.max()


def test_the_accepted_loss_falls_from_that_of_all_rows(rows):
    X, y = rows
    display = AcceptedLossDisplay.from_estimator(AnyCost(), X, y, costs=[1.0, 2.0])
    drawn = {line.get_label(): line.get_xydata() for line in display.ax_.lines}
    np.testing.assert_allclose(drawn["by score"][0], [0, np.mean(X**2)])
    np.testing.assert_allclose(drawn["by score"], drawn["if errors were known"])  # the score is the order of the errors
    np.testing.assert_allclose(drawn["at random"][:, 1], np.mean(X**2))
    decisions = [AnyCost().decide(X, cost) for cost in (1.0, 2.0)]
    marks = [(d.rejection_rate, d.evaluate(y)["accepted_loss"]) for d in decisions]
    np.testing.assert_allclose(drawn["_marks"], marks)
    assert {"cost 1", "cost 2"} <= labels(display.ax_)


def test_the_accepted_loss_of_a_decision_is_marked(rows):
    X, y = rows
    decision = AnyCost().decide(X)
    display = AcceptedLossDisplay.from_decision(decision, y)
    assert display.points["rejection_rate"].tolist() == [decision.rejection_rate]
    plain = AcceptedLossDisplay.from_predictions(y, X[:, 0], -X[:, 0])
    np.testing.assert_array_equal(plain.accepted_loss, display.accepted_loss)
    assert len(plain.points) == 0
