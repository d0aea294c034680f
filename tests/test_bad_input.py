"""Bad input gets one clear error that states the rule and the value, and nothing that was there before is lost."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.linear_model import Ridge

from recuse import AutoRejector, RcRRegressor, RiskRejector, SelectiveNetRegressor
from recuse.estimators import KernelAverage, StackedMLPRegressor

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(30, 2))
Y = X[:, 0] + RANDOM.normal(size=30)
COST = RANDOM.uniform(0.5, 2, size=30)
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.where(X[:, 0] > 0, "up", "down"), fee=COST)


def make(**parameters):
    return RcRRegressor(**{"epochs": 4, "slow_start": 1, "random_state": 0, **parameters})


def with_cell(values, place, value):
    """Give a copy with one cell changed."""
    values = values.copy()
    if isinstance(values, pd.DataFrame):
        values.loc[place] = value
    else:
        values[place] = value
    return values


BAD_ROWS = {
    "inf in X": ((with_cell(X, (3, 1), np.inf), Y), r"Input X contains infinity"),
    "NaN in y": ((X, with_cell(Y, 3, np.nan)), r"Input y contains NaN"),
    "inf in y": ((X, with_cell(Y, 3, np.inf)), r"Input y contains infinity"),
    "huge y": (
        (X, with_cell(Y, 3, 1e200)),
        r"^y must be at most 1e\+150 in size, so that it can be squared, got 1e\+200$",
    ),
    "text in y": ((X, ["many"] * 30), r"could not convert string to float: 'many'"),
    "no y": ((X, None), r"RcRRegressor requires y to be passed, but the target y is None"),
    "short y": ((X, Y[:7]), r"inconsistent numbers of samples: \[30, 7\]"),
    "two targets": ((X, np.column_stack([Y, Y])), r"^RcRRegressor predicts one target, got y of shape \(30, 2\)$"),
    "a box of targets": ((X, np.ones((30, 2, 2))), r"Found array with dim 3"),
    "constant y": ((X, np.full(30, 5.5)), r"^y must not be constant, got 5\.5 in all 30 rows$"),
    "no rows": ((X[:0], Y[:0]), r"0 sample\(s\) \(shape=\(0, 2\)\) while a minimum of 1 is required"),
    "no columns": ((X[:, :0], Y), r"0 feature\(s\) \(shape=\(30, 0\)\) while a minimum of 1 is required"),
    "one row": ((X[:1], Y[:1]), r"^training needs at least 2 rows, got n_samples = 1$"),
    "one column as 1-D": ((X[:, 0], Y), r"Expected 2D array, got 1D array instead"),
    "one distinct row": ((X[[0, 0]], [1.0, 1.0]), r"^y must not be constant, got 1\.0 in all 2 rows$"),
    "frame without rows": (
        (FRAME[:0], Y[:0]),
        r"^X must have at least one row and one column, got 0 in shape \(0, 4\)$",
    ),
    "frame without columns": ((FRAME[[]], Y), r"at least one row and one column, got 0 in shape \(30, 0\)$"),
    "inf in frame": (
        (with_cell(FRAME, (17, "b"), -np.inf), Y),
        r"^column 'b' must be finite, got -inf at row 17\b",
    ),
    "column twice": ((FRAME[["a", "b", "a"]], Y), r"^column names must be unique, got 'a' more than once$"),
}

BAD_COSTS = {
    "negative": (-1.0, r"^cost must be >= 0, got -1\.0 at row 0$"),
    "negative in a row": (with_cell(COST, 4, -2.0), r"^cost must be >= 0, got -2\.0 at row 4$"),
    "NaN": (np.nan, r"^cost must be finite, got nan at row 0$"),
    "NaN in a row": (with_cell(COST, 4, np.nan), r"^cost must be finite, got nan at row 4$"),
    "inf": (np.inf, r"^cost must be finite, got inf at row 0$"),
    "short": (COST[:5], r"^cost must be a number or have one value for each of 30 rows, got shape \(5,\)$"),
    "two columns": (np.ones((30, 2)), r"one value for each of 30 rows, got shape \(30, 2\)$"),
    "text": ([["dear"]], r"^cost must be numeric, got \[\['dear'\]\]$"),
    "missing column": ("price", r"^cost='price' must name a column of X, got columns \['a', 'b', 'kind', 'fee'\]$"),
    "text column": ("kind", r"^cost column 'kind' must be numeric"),
    "negative column": ("a", r"^cost column 'a' must be >= 0, got -"),
    "callable of nothing": (lambda rows: None, r"^the cost returned by the callable is missing: pass a number"),
    "callable of too few": (
        lambda rows: [1.0],
        r"^the cost returned by the callable must .* 30 rows, got shape \(1,\)$",
    ),
}

BAD_WEIGHTS = {
    "negative": (with_cell(np.ones(30), 4, -2.0), r"^sample_weight must be >= 0, got -2\.0 at row 4$"),
    "NaN": (with_cell(np.ones(30), 4, np.nan), r"^sample_weight must be finite, got nan at row 4$"),
    "inf": (with_cell(np.ones(30), 4, np.inf), r"^sample_weight must be finite, got inf at row 4$"),
    "short": (np.ones(5), r"^sample_weight must .* one value for each of 30 rows, got shape \(5,\)$"),
    "two columns": (np.ones((30, 2)), r"^sample_weight must .* got shape \(30, 2\)$"),
    "text": (["heavy"] * 30, r"^sample_weight must be numeric, got \['heavy'"),
    "zeros": (np.zeros(30), r"^sample_weight must be > 0 for at least one row, got only zeros$"),
    "one row left": (with_cell(np.zeros(30), 4, 1.0), r"^training needs at least 2 distinct rows, got n_samples = 1$"),
    "constant y left": (
        np.where(np.arange(30) < 3, 1.0, 0.0),
        r"^y must not be constant, got 2\.0 in all rows of weight > 0$",
    ),
}

BAD_VALIDATION = {
    "one part": ((X,), r"^validation must be a tuple \(X, y\) or \(X, y, cost\), got a tuple of 1$"),
    "no tuple": (X, r"^validation must be a tuple \(X, y\) or \(X, y, cost\), got ndarray$"),
    "share": (0.2, r"^validation must be a tuple \(X, y\) or \(X, y, cost\), got float$"),
    "inf in y": ((X, with_cell(Y, 3, np.inf)), r"^in validation: Input y contains infinity"),
    "short y": ((X, Y[:7]), r"^in validation: Found input variables with inconsistent .* \[30, 7\]$"),
    "no rows": ((X[:0], Y[:0]), r"^in validation: Found array with 0 sample\(s\)"),
    "no y": ((X, None), r"^in validation: RcRRegressor requires y"),
    "two targets": (
        (X, np.column_stack([Y, Y])),
        r"^in validation: RcRRegressor predicts one target, got y of shape \(30, 2\)$",
    ),
    "missing column": ((X[:, :1], Y), r"^in validation: X has 1 features, but RcRRegressor is expecting 2 features"),
    "negative cost": ((X, Y, -3.0), r"^in validation: cost must be >= 0, got -3\.0 at row 0$"),
    "short cost": ((X, Y, COST[:5]), r"^in validation: cost must .* each of 30 rows, got shape \(5,\)$"),
    "missing cost": ((X, Y, None), r"^in validation: cost is missing"),
}

BAD_NEW_ROWS = {
    "inf": (with_cell(X, (3, 1), -np.inf), r"Input X contains infinity"),
    "no rows": (X[:0], r"0 sample\(s\) \(shape=\(0, 2\)\) while a minimum of 1 is required"),
    "missing column": (X[:, :1], r"X has 1 features, but RcRRegressor is expecting 2 features as input"),
    "one more column": (np.column_stack([X, Y]), r"X has 3 features, but RcRRegressor is expecting 2 features"),
    "one row as 1-D": (X[0], r"Expected 2D array, got 1D array instead"),
}

BAD_NEW_FRAMES = {
    "inf": (with_cell(FRAME, (12, "a"), np.inf), r"^column 'a' must be finite, got inf at row 12$"),
    "dates for numbers": (
        FRAME.assign(a=pd.Timestamp("2024-01-01")),
        r"^column 'a' must hold numbers as in training, got datetime64",
    ),
    "inf by label": (
        with_cell(FRAME, (12, "a"), np.inf).set_axis([f"car {row}" for row in range(30)]),
        r"^column 'a' must be finite, got inf at row 12 \(label 'car 12'\)$",
    ),
    "missing column": (FRAME.drop(columns="b"), r"(?s)Feature names seen at fit time, yet now missing:\n- b"),
    "one more column": (FRAME.assign(c=1.0), r"(?s)Feature names unseen at fit time:\n- c"),
    "columns in another order": (FRAME[["b", "a", "kind", "fee"]], r"(?s)must be in the same order"),
    "missing cost column": (FRAME.drop(columns="fee"), r"^cost='fee' must name a column of X, got columns"),
    "negative cost column": (
        with_cell(FRAME, (12, "fee"), -1.0),
        r"^cost column 'fee' must be >= 0, got -1\.0 at row 12$",
    ),
    "no rows": (FRAME[:0], r"^X must have at least one row and one column, got 0 in shape \(0, 3\)$"),
    "array": (
        FRAME.drop(columns="kind").assign(one=1.0).to_numpy(),
        r"X has 4 features, but RcRRegressor is expecting 3 features as input",
    ),
}


def each(cases):
    return pytest.mark.parametrize(("bad", "message"), cases.values(), ids=cases.keys())


def refuses(train, message, rows=X, **parameters):
    """A model fitted before loses nothing; one that was not fitted is not fitted after."""
    fresh, fitted = make(**parameters), make(**parameters).fit(rows, Y)
    before, attributes = fitted.decide(rows), dict(vars(fitted))
    with pytest.raises(ValueError, match=message):
        train(fitted)
    assert fitted.decide(rows) == before
    assert vars(fitted) == attributes
    with pytest.raises(ValueError, match=message):
        train(fresh)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        fresh.predict(rows)


@each(BAD_ROWS)
def test_fit_refuses_bad_rows_and_loses_nothing(bad, message):
    refuses(lambda model: model.fit(*bad), message)


@each(BAD_COSTS)
def test_fit_refuses_a_bad_cost_and_loses_nothing(bad, message):
    refuses(lambda model: model.fit(FRAME, Y, cost=bad), message, rows=FRAME)


@each(BAD_COSTS)
def test_a_bad_cost_in_the_constructor_is_refused_by_fit(bad, message):
    with pytest.raises(ValueError, match=message):
        make(cost=bad).fit(FRAME, Y)


def test_a_missing_cost_is_refused():
    model = make().fit(X, Y)
    before = model.decide(X)
    with pytest.raises(ValueError, match=r"^cost is missing: pass a number, one value per row, a callable or a column"):
        model.set_params(cost=None).fit(X, Y)
    assert model.decide(X) == before


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        ("square", r"^loss must be one of squared, absolute, huber, pinball, got 'square'$"),
        ("pinball:1.5", r"^quantile of the pinball loss must be between 0 and 1, got 1\.5$"),
        ("huber:0", r"^delta of Huber's loss must be a finite number > 0, got 0\.0$"),
    ],
)
@pytest.mark.parametrize("kind", [RcRRegressor, RiskRejector, SelectiveNetRegressor, StackedMLPRegressor])
def test_fit_refuses_what_is_no_loss(kind, loss, message):
    model = kind(loss=loss)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        model.predict(X)


EVERY_ESTIMATOR = [RcRRegressor, RiskRejector, AutoRejector, SelectiveNetRegressor, StackedMLPRegressor, KernelAverage]


@pytest.mark.parametrize("kind", EVERY_ESTIMATOR)
def test_two_targets_are_refused(kind):
    with pytest.raises(ValueError, match=rf"^{kind.__name__} predicts one target, got y of shape \(30, 2\)$"):
        kind().fit(X, np.column_stack([Y, Y]))


def test_a_target_in_a_table_of_one_column_is_one_target():
    with pytest.warns(DataConversionWarning, match="A column-vector y was passed"):
        column = RiskRejector(Ridge(), Ridge(), random_state=0).fit(X, pd.DataFrame({"kw": Y}))
    assert column.predict(X).tolist() == RiskRejector(Ridge(), Ridge(), random_state=0).fit(X, Y).predict(X).tolist()


def test_a_table_of_nothing_but_costs_is_refused():
    with pytest.raises(ValueError, match=r"^X must have at least one row and one column, got 0 in shape"):
        make(cost="fee").fit(FRAME[["fee"]], Y)


@each(BAD_WEIGHTS)
def test_fit_refuses_bad_weights_and_loses_nothing(bad, message):
    y = with_cell(Y, slice(0, 3), 2.0)
    refuses(lambda model: model.fit(X, y, sample_weight=bad), message)


@each(BAD_VALIDATION)
def test_fit_refuses_bad_validation_rows_and_loses_nothing(bad, message):
    refuses(lambda model: model.fit(X, Y, validation=bad), message)


@pytest.mark.parametrize("method", ["predict", "decision_function", "decide"])
@each(BAD_NEW_ROWS)
def test_a_fitted_model_refuses_bad_new_rows_and_goes_on(bad, message, method):
    model = make().fit(X, Y)
    before = model.decide(X)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(bad)
    assert model.decide(X) == before


@each(BAD_NEW_FRAMES)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_fitted_model_refuses_bad_new_tables_and_goes_on(bad, message):
    model = make(cost="fee").fit(FRAME, Y)
    before = model.decide(FRAME)
    with pytest.raises(ValueError, match=message):
        model.decide(bad)
    assert model.decide(FRAME) == before


@pytest.mark.parametrize("name", ["missing column", "inf"])
def test_predict_refuses_bad_new_tables_too(name):
    bad, message = BAD_NEW_FRAMES[name]
    with pytest.raises(ValueError, match=message):
        make(cost="fee").fit(FRAME, Y).predict(bad)


@each(BAD_COSTS)
def test_decide_refuses_a_bad_cost_and_goes_on(bad, message):
    model = make().fit(FRAME, Y, cost=COST)
    before = model.decide(FRAME, cost=COST)
    for ask in (model.decide, model.decision_function):
        with pytest.raises(ValueError, match=message):
            ask(FRAME, cost=bad)
    assert model.decide(FRAME, cost=COST) == before


def test_two_rows_are_enough():
    prediction = make().fit(X[:2], Y[:2]).predict(X)
    assert np.isfinite(prediction).all()


def test_one_new_row_is_enough():
    assert len(make().fit(X, Y).decide(X[:1])) == 1


def test_no_error_shows_more_of_the_users_rows_than_the_cell_at_fault():
    with pytest.raises(ValueError, match="at row 12") as error:
        make().fit(FRAME, Y).predict(with_cell(FRAME, (12, "a"), np.inf))
    assert not any(str(value) in str(error.value) for value in FRAME["a"])


NOVEL = {
    "unknown category": with_cell(FRAME, (12, "kind"), "sideways"),
    "missing category": with_cell(FRAME, (12, "kind"), None),
    "missing number": with_cell(FRAME, (12, "a"), np.nan),
    "huge number": with_cell(FRAME, (12, "a"), 1e300),
}


@pytest.mark.parametrize("new", NOVEL.values(), ids=NOVEL)
def test_a_cell_that_training_had_no_example_of_changes_no_other_row_and_stays_finite(new):
    model = make().fit(FRAME, Y)
    before, after = model.decide(FRAME), model.decide(new)
    others = np.arange(30) != 12
    assert after[others] == before[others]
    assert np.isfinite(after.prediction).all()
    assert np.isfinite(after.score).all()


def test_an_unknown_category_among_validation_rows_is_no_reason_to_fail():
    model = make().fit(FRAME, Y, validation=(NOVEL["unknown category"], Y))
    assert np.isfinite(model.predict(FRAME)).all()


def test_dates_are_learned_from_and_a_column_without_values_is_left_out():
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(30), unit="D")
    with pytest.warns(UserWarning, match=r"^column 'b' is not used: all its values are missing$"):
        model = make().fit(FRAME.assign(day=days, b=np.nan), Y)
    assert np.isfinite(model.predict(FRAME.assign(day=days, b=1.0))).all()


def test_costs_with_the_labels_of_the_rows_in_another_order_belong_to_their_rows():
    frame = FRAME.set_axis([f"car {row}" for row in range(30)])
    fees = pd.Series(COST, index=frame.index)
    model = make().fit(frame, Y, cost=fees.sample(frac=1, random_state=0))
    expected = make().fit(frame, Y, cost=COST).decide(frame, cost=COST)
    assert model.decide(frame, cost=fees[::-1]) == expected
    with pytest.raises(ValueError, match=r"^cost must have the row labels of X, got no value for the label 'car 0' of"):
        model.decide(frame, cost=fees.reset_index(drop=True))
