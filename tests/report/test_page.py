"""The report page: its content, and that it is one file."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import recuse
from recuse import RcRRegressor, RcRRegressorCV, RiskRejector, SelectiveNetRegressor, datasets, report
from recuse.guarantees import by_cost_within_budget
from recuse.report.content import row_decisions
from report_runs import accepted_rows

(X, Y), _, (NEW, Y_NEW) = datasets.split(datasets.load("auto_mpg"), repeat=0)
QUICK = {"cv": 3, "random_state": 0}


@pytest.fixture(scope="module")
def model():
    return RiskRejector(Ridge(), cost=6.0, **QUICK).fit(X, Y)


def content(path):
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="content">(.*?)</script>', text, re.DOTALL)
    return json.loads(found.group(1))


def measured(model, cost, budget=1.0):
    decision = model.decide(NEW, cost=cost)
    rows = row_decisions(model, NEW, model.decide(NEW), decision.loss(decision.prediction - np.asarray(Y_NEW)))
    return rows, decision, accepted_rows(rows, cost if not rows.by_row else 1.0, budget)


def test_the_thresholds_give_the_decisions_at_every_cost(model):
    for cost in (1.0, 3.0, 6.0, 20.0):
        rows, decision, accepted = measured(model, cost)
        np.testing.assert_array_equal(accepted, decision.accepted[rows.order])


def test_a_budget_keeps_the_rows_with_the_lowest_thresholds(model):
    rows, decision, accepted = measured(model, 1.0, budget=0.2)
    assert (~decision.accepted).mean() > 0.2
    assert (~accepted).sum() == int(0.2 * len(NEW))
    assert rows.threshold[accepted].max() <= rows.threshold[~accepted].min()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("estimator", "cost"),
    [
        (RcRRegressor(6.0, epochs=10, random_state=0), None),
        (SelectiveNetRegressor(None, cost=6.0, epochs=10, random_state=0), None),
        (RcRRegressorCV(cost_range=(4, 13), cv=3, n_members=2, epochs=10, random_state=0), 6.0),
        (RiskRejector(Ridge(), **QUICK), np.linspace(2, 9, len(NEW))),
    ],
    ids=["one cost", "any cost without an expected loss", "range", "cost per row"],
)
def test_every_kind_of_model_has_a_page(estimator, cost, tmp_path):
    estimator.fit(X, Y)
    report.write(estimator, NEW, Y_NEW, tmp_path / "report.html", cost=cost)
    recuse.save(estimator, tmp_path / "model.recuse")
    served = recuse.load(tmp_path / "model.recuse")
    decision = served.decide(NEW, cost=cost)
    loss = decision.loss(decision.prediction - np.asarray(Y_NEW))
    rows = row_decisions(served, NEW, decision, loss)
    for position in rows.positions[:: max(1, len(rows.positions) // 5)]:
        costs = position * (rows.unit[np.argsort(rows.order)] if rows.by_row else 1.0)
        expected = served.decide(NEW, cost=costs).accepted
        np.testing.assert_array_equal(accepted_rows(rows, position), expected[rows.order])


def test_the_page_needs_nothing_else(model, tmp_path):
    path = tmp_path / "report.html"
    report.write(model, NEW, Y_NEW, path, group="origin", training=(X, Y), title="Cars & <trucks>")
    text = path.read_text(encoding="utf-8")
    assert not re.search(r'(src|href)="(?!#)', text)
    assert "Content-Security-Policy" in text
    assert "<title>Cars &amp; &lt;trucks&gt;</title>" in text
    assert "{{" not in text
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_the_content_says_what_is_in_the_data(model, tmp_path):
    path = tmp_path / "report.html"
    rows = NEW.assign(weight=NEW["weight"].where(NEW.index != NEW.index[0]))
    report.write(model, rows, Y_NEW, path, group="model_year", training=(X, Y), cost=5.0)
    found = content(path)
    assert ("weight", "new missing value", 1) in [
        (each["column"], each["problem"], each["rows"]) for each in found["problems"]
    ]
    assert [each["column"] for each in found["groups"]] == ["model_year"]
    assert found["drivers"]["importances"][0]["changed"] > 0
    assert len(found["drivers"]["curves"]) == 4
    shown = found["examples"]["kinds"][0]["rows"][0]
    assert shown["score"] < 0
    assert len(shown["neighbours"]) == 3
    assert found["rows"]["positions"][found["rows"]["start"]] == 5.0


def test_a_saved_model_and_its_estimator_have_the_same_page(model, tmp_path):
    recuse.save(model, tmp_path / "model.recuse")
    for name, each in (("one", model), ("two", recuse.load(tmp_path / "model.recuse"))):
        report.write(each, NEW, Y_NEW, tmp_path / f"{name}.html")
    one, two = (content(tmp_path / f"{name}.html") for name in ("one", "two"))
    one["model"].pop("date"), two["model"].pop("date")
    assert one == two


def test_errors(model, tmp_path):
    path = tmp_path / "report.html"
    with pytest.raises(ValueError, match=r"group must name columns of X, got 'colour'"):
        report.write(model, NEW, Y_NEW, path, group="colour")
    with pytest.raises(ValueError, match="y must be finite"):
        report.write(model, NEW, np.full(len(NEW), np.nan), path)
    with pytest.raises(ValueError, match="error must be a finite number > 0"):
        report.write(model, NEW, Y_NEW, path, money={"error": 0, "error_cost": 1, "review_cost": 1})
    assert not path.exists()


def test_within_a_budget_costs_per_row_reject_as_the_library_does():
    model = RiskRejector(Ridge(), **QUICK).fit(X, Y)
    cost = np.where(np.arange(len(NEW)) % 2, 0.5, 12.0)
    decision = model.decide(NEW, cost=cost)
    rows = row_decisions(model, NEW, decision, decision.loss(decision.prediction - np.asarray(Y_NEW)))
    np.testing.assert_array_equal(accepted_rows(rows, 1.0), decision.accepted[rows.order])
    expected = decision.score > by_cost_within_budget(decision.score, 0.2, finite_sample=False)
    np.testing.assert_array_equal(accepted_rows(rows, 1.0, 0.2), expected[rows.order])


def test_small_groups_keep_their_flags(model, tmp_path):
    risky = np.argsort(model.expected_loss(NEW))[-10:]
    group = np.array(["plain"] * len(NEW), dtype=object)
    group[risky] = None
    report.write(model, NEW, Y_NEW, tmp_path / "report.html", group=group, cost=20.0)
    (found,) = content(tmp_path / "report.html")["groups"]
    assert found["flags"][found["labels"].index("missing")]["rejected_more"]


def test_training_targets_are_matched_by_label(model, tmp_path):
    shuffled = pd.Series(Y, index=X.index).sample(frac=1, random_state=0)
    pages = []
    for number, y in enumerate((pd.Series(Y, index=X.index), shuffled)):
        path = tmp_path / f"{number}.html"
        report.write(model, NEW, Y_NEW, path, training=(X, y))
        pages.append(content(path)["examples"])
    assert pages[0] == pages[1]
    with pytest.raises(ValueError, match="the training rows must have the column 'weight'"):
        report.write(model, NEW, Y_NEW, tmp_path / "report.html", training=(X.drop(columns="weight"), Y))
    with pytest.raises(ValueError, match=f"as many targets as rows, {len(X)}, got shape"):
        report.write(model, NEW, Y_NEW, tmp_path / "report.html", training=(X, np.asarray(Y)[:3]))


def test_money_sets_the_cost_and_needs_the_squared_loss(model, tmp_path):
    path, money = tmp_path / "report.html", {"error": 10, "error_cost": 50, "review_cost": 18}
    report.write(model, NEW, Y_NEW, path, money=money)
    assert content(path)["rows"]["positions"][content(path)["rows"]["start"]] == 36.0
    absolute = RiskRejector(Ridge(), loss="absolute", **QUICK).fit(X, Y)
    with pytest.raises(ValueError, match="money needs a model of the squared loss, got the absolute loss"):
        report.write(absolute, NEW, Y_NEW, path, money=money)


def test_durations_are_in_seconds(tmp_path):
    frame = X.assign(time=pd.to_timedelta(X["weight"], unit="m"))
    model = RiskRejector(Ridge(), **QUICK).fit(frame, Y)
    new = NEW.assign(time=pd.to_timedelta(NEW["weight"], unit="m"))
    path = tmp_path / "report.html"
    report.write(model, new, Y_NEW, path, training=(frame, Y))
    curves = [each for each in content(path)["drivers"]["curves"] if each["column"] == "time"]
    assert all(60 * 1000 < value < 60 * 6000 for each in curves for value in each["values"])


def test_arrays_without_names(tmp_path):
    numbers = X.to_numpy(float)
    array_model = RiskRejector(Ridge(), **QUICK).fit(numbers, np.asarray(Y))
    report.write(array_model, NEW.to_numpy(float), np.asarray(Y_NEW), tmp_path / "report.html", training=(numbers, Y))
    assert content(tmp_path / "report.html")["examples"]["columns"][0] == "0"


def test_text_that_would_end_the_script_is_escaped(tmp_path):
    frame = X.assign(note=np.where(X["weight"] > 3000, "</script><b>", "plain"))
    model = RiskRejector(Ridge(), **QUICK).fit(frame, Y)
    new = pd.DataFrame(NEW).assign(note="</script><b>", other="<!--<script>")
    path = tmp_path / "report.html"
    report.write(model, new, Y_NEW, path, group=["note", "other"], title="{{content}}")
    assert [each["labels"] for each in content(path)["groups"]] == [["</script><b>"], ["<!--<script>"]]
    assert "<!--" not in path.read_text(encoding="utf-8")
