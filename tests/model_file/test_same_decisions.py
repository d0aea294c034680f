"""A loaded file decides like the estimator that was saved, for every estimator."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import Ridge

import recuse
from recuse import AutoRejector, RcRImageRegressor, RcRRegressor, RiskRejector, datasets
from saved_estimators import CASES, FRAME, NEW, QUICK, ROWS, SMALL, TRAIN, Y


def assert_same(model, served, rows, **cost):
    """Predictions agree to 1e-6, and decisions except where the score is below a millionth of the cost."""
    expected, found = model.decide(rows, **cost), served.decide(rows, **cost)
    scale = np.abs(expected.prediction).max()
    np.testing.assert_allclose(found.prediction, expected.prediction, rtol=1e-6, atol=1e-6 * scale)
    clear = np.abs(expected.score) > 1e-6 * np.maximum(expected.cost, 1.0)
    np.testing.assert_array_equal(found.accepted[clear], expected.accepted[clear])
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-6, atol=1e-5 * np.abs(expected.score).max())
    np.testing.assert_array_equal(found.cost, expected.cost)
    np.testing.assert_allclose(served.predict(rows), model.predict(rows), rtol=1e-6, atol=1e-6 * scale)
    if hasattr(model, "expected_loss"):
        np.testing.assert_allclose(served.expected_loss(rows), model.expected_loss(rows), rtol=1e-5, atol=1e-6)
    assert (found.loss, found.score_unit) == (expected.loss, expected.score_unit)
    if expected.index is not None:
        assert found.index.equals(expected.index)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_a_loaded_file_decides_like_the_estimator(name, tmp_path):
    model, fit, decide = CASES[name]
    fit = dict(fit)
    model.fit(FRAME, fit.pop("y", Y), **fit)
    recuse.save(model, tmp_path / "model.recuse")
    served = recuse.load(tmp_path / "model.recuse")
    assert_same(model, served, ROWS, **decide)
    one = {key: value if np.ndim(value) == 0 else value[:1] for key, value in decide.items()}
    assert_same(model, served, ROWS.iloc[:1], **one)


def test_tables_without_names_and_of_other_libraries(tmp_path):
    numbers = TRAIN.to_numpy(float)
    model = RcRRegressor(6.0, **SMALL).fit(numbers, Y)
    recuse.save(model, tmp_path / "array.recuse")
    served = recuse.load(tmp_path / "array.recuse")
    new = NEW.to_numpy(float)
    new[::7, 2] = np.nan
    for rows in (new, new.tolist(), np.asfortranarray(new)):
        assert_same(model, served, rows)
    named = RiskRejector(Ridge(), **QUICK).fit(FRAME.drop(columns=["fuel", "number"]), Y)
    recuse.save(named, tmp_path / "frame.recuse")
    served = recuse.load(tmp_path / "frame.recuse")
    rows = ROWS.drop(columns=["fuel", "number"])
    expected = served.decide(rows)
    for same in (pl.from_pandas(rows), pl.from_pandas(rows).to_arrow(), rows[rows.columns[::-1]], rows.assign(other=1)):
        np.testing.assert_array_equal(served.decide(same).score, expected.score)
    one = served.decide(rows.iloc[0].to_dict())
    np.testing.assert_allclose(one.score, expected.score[:1])


def test_a_prefitted_regressor_sees_the_rows_as_they_are(tmp_path):
    numbers = TRAIN.to_numpy(float)
    model = RiskRejector(Ridge().fit(numbers[:100], Y[:100]), prefit=True, random_state=0)
    model.fit(numbers[100:], Y[100:], cost=6.0)
    recuse.save(model, tmp_path / "model.recuse")
    assert_same(model, recuse.load(tmp_path / "model.recuse"), NEW.to_numpy(float))


@pytest.mark.filterwarnings("ignore")
def test_images(tmp_path):
    images, y, _, _ = datasets.make_cellularity(24, random_state=0, size=32)
    model = RcRImageRegressor(cost=0.02, epochs=1, slow_start=0, random_state=0).fit((images[:16], y[:16]))
    recuse.save(model, tmp_path / "model.recuse")
    served = recuse.load(tmp_path / "model.recuse")
    expected, found = model.decide(images[16:]), served.decide(images[16:])
    np.testing.assert_allclose(found.prediction, expected.prediction, rtol=1e-4)
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-3, atol=1e-4)
    with pytest.raises(ValueError, match=r"images must have shape \(n, 3, 32, 32\), as in training, got"):
        served.decide(images[:, :, :16])


def test_training_rows_get_the_decisions_of_the_estimator(tmp_path):
    """The distance of a training row to itself is zero, also in the graph."""
    model = AutoRejector(6.0, learners=["extra_trees"], risk_models=["network"], cv=3, random_state=0).fit(TRAIN, Y)
    recuse.save(model, tmp_path / "model.recuse")
    assert_same(model, recuse.load(tmp_path / "model.recuse"), TRAIN)


@pytest.mark.parametrize(("count", "parts"), [(150, 2), (None, 1)])
def test_the_mean_over_the_folds_and_over_divisions(count, parts, tmp_path):
    """Fewer than 200 rows are divided into folds twice."""
    learners = ["linear", "support_vectors"]
    model = AutoRejector(6.0, learners=learners, risk_models=["boosting"], random_state=0).fit(TRAIN[:count], Y[:count])
    copies = model.rule_.models.regressors[0]
    assert len(copies) == 8
    assert len(getattr(copies[0], "models", [copies[0]])) == parts
    recuse.save(model, tmp_path / "model.recuse")
    assert_same(model, recuse.load(tmp_path / "model.recuse"), NEW)


@pytest.mark.parametrize("columns", [["weight", "sold"], ["sold"], ["sold", "town"], ["town", "sold", "weight"]])
def test_dates_with_and_without_other_columns(columns, tmp_path):
    model = RiskRejector(Ridge(), cost=6.0, **QUICK).fit(FRAME[columns], Y)
    recuse.save(model, tmp_path / "model.recuse")
    rows = ROWS[columns].copy()
    some = ["1969-12-31T23:59:59", "2000-02-29", "1900-03-01", "2024-02-29T12:30", "2100-02-28"]
    if int(pd.__version__.split(".")[0]) >= 3:  # before, pandas has no dates outside 1677 to 2262
        some.append("1600-02-29")
    rows.loc[: len(some) - 1, "sold"] = pd.to_datetime(pd.Series(some), format="ISO8601")
    assert_same(model, recuse.load(tmp_path / "model.recuse"), rows)


def test_cycles_of_dates_are_those_of_the_estimator_to_the_last_digit(tmp_path):
    """Thresholds of trees are often values of training rows, so a deviation by one step of rounding decides."""
    times = pd.date_range("2023-01-01", periods=400, freq="37h13min")
    frame = pd.DataFrame({"at": times})
    model = RiskRejector(Ridge(1e-9), cost=6.0, **QUICK).fit(frame, 1e6 * np.sin(times.hour / 4) + 1e6 * times.month)
    recuse.save(model, tmp_path / "model.recuse")
    expected = model.predict(frame)
    found = recuse.load(tmp_path / "model.recuse").predict(frame)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.filterwarnings("ignore:column")
def test_a_column_without_values_in_an_array(tmp_path):
    numbers = TRAIN.to_numpy(float)
    numbers[:, 1] = np.nan
    model = RiskRejector(Ridge(), cost=6.0, **QUICK).fit(numbers, Y)
    recuse.save(model, tmp_path / "model.recuse")
    assert_same(model, recuse.load(tmp_path / "model.recuse"), NEW.to_numpy(float))


@pytest.mark.parametrize(
    "levels", [["", "\0", "a"], ["\1", "b"], [1, 2], [True, False], [Decimal("1.0"), Decimal("2")]], ids=repr
)
def test_odd_categories(levels, tmp_path):
    def odd(values, count):
        return pd.Categorical(np.resize(np.array([*values, None], dtype=object), count))

    model = RiskRejector(Ridge(), cost=6.0, **QUICK).fit(TRAIN.assign(odd=odd(levels, len(TRAIN))), Y)
    recuse.save(model, tmp_path / "model.recuse")
    rows = NEW.assign(odd=odd([*levels, "other" if isinstance(levels[0], str) else 77], len(NEW)))
    assert_same(model, recuse.load(tmp_path / "model.recuse"), rows)


def test_dates_with_a_zone_as_categories(tmp_path):
    days = pd.to_datetime(["2024-01-01", "2024-06-01"]).tz_localize("Europe/Berlin")
    frame = TRAIN.assign(day=pd.Categorical(days[np.arange(len(TRAIN)) % 2]))
    rows = NEW.assign(day=pd.Categorical(days.tz_convert("UTC")[np.arange(len(NEW)) % 2]))
    model = RiskRejector(Ridge(), cost=6.0, **QUICK).fit(frame, Y)
    recuse.save(model, tmp_path / "model.recuse")
    assert_same(model, recuse.load(tmp_path / "model.recuse"), rows)
