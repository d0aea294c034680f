"""Every estimator accepts all kinds of tables, and aligns inputs with row labels."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge

from recuse import AutoRejector, RcRRegressor, RcRRegressorCV, RiskRejector, SelectiveNetRegressor
from recuse.estimators import KernelAverage, StackedMLPRegressor, cross_val_decide
from sample_rows import ROW_COST, X, Y, mixed_frame

TREES = ExtraTreesRegressor(10, min_samples_leaf=5)
REJECTING = {
    "rcr": RcRRegressor(epochs=10, n_members=1, random_state=0),
    "crossfit": RcRRegressorCV(epochs=10, n_members=1, cv=2, random_state=0),
    "selectivenet": SelectiveNetRegressor(epochs=10, random_state=0),
    "risk": RiskRejector(Ridge(), TREES, cv=2, random_state=0),
    "auto": AutoRejector(learners={"ridge": Ridge()}, risk_models={"trees": TREES}, cv=2, random_state=0),
}
PLAIN = {"mlp": StackedMLPRegressor(epochs=10, random_state=0), "kernel": KernelAverage(random_state=0)}
every_rejecting = pytest.mark.parametrize("model", list(REJECTING.values()), ids=list(REJECTING))
every = pytest.mark.parametrize("model", [*REJECTING.values(), *PLAIN.values()], ids=[*REJECTING, *PLAIN])


@every
def test_polars_and_pyarrow_tables_give_the_model_of_pandas(model):
    frame, y = mixed_frame()
    expected = model.fit(frame, y).predict(frame)
    text = frame.astype({"kind": object}).where(frame.notna(), None)
    for table in (polars.from_dict(text.to_dict("list"), strict=False), pyarrow.table(text.to_dict("list"))):
        np.testing.assert_allclose(model.fit(table, y).predict(table), expected, rtol=1e-12)
        np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-12)


@every
def test_missing_values_in_arrays_are_those_of_frames(model):
    gaps = X.copy()
    gaps[::7, 0] = np.nan
    by_array = model.fit(gaps, Y).predict(gaps)
    np.testing.assert_array_equal(model.fit(pd.DataFrame(gaps), Y).predict(pd.DataFrame(gaps)), by_array)
    assert np.isfinite(by_array).all()


@every
def test_dates_booleans_decimals_and_nullable_columns_are_features(model):
    frame = pd.DataFrame(
        {
            "when": pd.date_range("2024-01-01", periods=len(Y), freq="D", tz="Europe/Paris"),
            "flag": X[:, 0] > 0,
            "whole": pd.array(np.arange(len(Y)), dtype="Int64").astype("Int64"),
            "price": [Decimal(str(round(value, 3))) for value in X[:, 1]],
            "text": pd.array(np.where(X[:, 0] > 0, "up", "down"), dtype="string[pyarrow]"),
        }
    )
    assert np.isfinite(model.fit(frame, Y).predict(frame)).all()


@every
def test_dates_as_targets_are_a_type_error(model):
    with pytest.raises(TypeError, match="y must hold numbers, got datetime64"):
        model.fit(X, pd.date_range("2024-01-01", periods=len(Y)))


@every_rejecting
def test_what_has_the_labels_of_x_is_aligned_with_them(model):
    frame = pd.DataFrame(X, columns=["a", "b"], index=[f"row {i}" for i in range(len(X))])
    y, cost, weight = (pd.Series(values, frame.index) for values in (Y, ROW_COST, 1.0 + np.arange(len(Y)) % 3))
    order = np.random.default_rng(0).permutation(len(Y))
    plain = model.fit(frame, y, cost=cost, sample_weight=weight).decide(frame, cost=cost)
    shuffled = {"cost": cost.iloc[order], "sample_weight": weight.iloc[order]}
    again = model.fit(frame, y.iloc[order], **shuffled).decide(frame, cost=cost.iloc[order])
    assert again == plain
    assert plain.evaluate(y.iloc[order]) == pytest.approx(plain.evaluate(y), nan_ok=True)
    with pytest.raises(ValueError, match="y must have the row labels of X, got no value for the label 'row 0' of X"):
        model.fit(frame, y.set_axis([f"car {i}" for i in range(len(Y))]))


def test_groups_are_aligned_too():
    frame = pd.DataFrame(X, index=[f"row {i}" for i in range(len(X))])
    groups = pd.Series(np.arange(len(Y)) // 4, frame.index)
    model = REJECTING["risk"]
    plain = model.fit(frame, Y, groups=groups).out_of_fold_
    pd.testing.assert_frame_equal(model.fit(frame, Y, groups=groups.sample(frac=1, random_state=0)).out_of_fold_, plain)


@every_rejecting
def test_the_score_states_its_unit(model):
    decision = model.fit(X, Y).decide(X)
    unit = "loss saved by accepting" if hasattr(model, "expected_loss") else "surrogate score, no unit"
    assert decision.to_frame().attrs["score_unit"] == unit


def test_cross_validated_decisions_align_costs_by_label():
    frame = pd.DataFrame(X, index=[f"row {i}" for i in range(len(X))])
    cost, y = pd.Series(ROW_COST, frame.index), pd.Series(Y, frame.index)
    plain = cross_val_decide(REJECTING["risk"], frame, y, cv=3, cost=cost)
    order = np.random.default_rng(0).permutation(len(Y))
    assert cross_val_decide(REJECTING["risk"], frame, y.iloc[order], cv=3, cost=cost.iloc[order]) == plain


def test_a_refit_leaves_no_out_of_fold_results_of_the_fit_before():
    model = RiskRejector(Ridge(), TREES, random_state=0).fit(X, Y)
    assert len(model.out_of_fold_) == len(X)
    assert not hasattr(model.set_params(residuals="train").fit(X[:30], Y[:30]), "out_of_fold_")
