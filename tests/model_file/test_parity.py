"""A loaded file decides like the estimator that was saved, for every estimator."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import recuse
from recuse import AutoRejector, RcRImageRegressor, RcRRegressor, RiskRejector, SelectiveNetRegressor, datasets
from recuse.estimators import StackedMLPRegressor, knn_plug, mlp_plug, no_rejection

RANDOM = np.random.RandomState(0)
(TRAIN, Y), _, (NEW, _) = datasets.split(datasets.load("auto_mpg"), repeat=0)
Y = np.asarray(Y)
TWO = np.column_stack([Y, 2 * Y + RANDOM.normal(size=len(Y))])


def messy(table, *, new):
    """Add dates, towns with gaps and an identifier; new rows also have unseen categories and gaps."""
    count = len(table)
    frame = table.reset_index(drop=True).assign(
        sold=pd.Timestamp("2020-01-01") + pd.to_timedelta(RANDOM.randint(0, 90_000_000, count), unit="s"),
        town=np.array(["a", "b", "c", None], object)[RANDOM.randint(0, 4, count)],
        fuel=pd.Categorical(np.array(["gas", "diesel"])[RANDOM.randint(0, 2, count)], ["gas", "diesel", "hydrogen"]),
        number=[f"car {row}" for row in range(count)],
        doors=RANDOM.randint(0, 2, count).astype(bool),
    )
    frame.loc[RANDOM.rand(count) < 0.05, "weight"] = np.nan
    if new:
        frame["town"] = frame["town"].where(RANDOM.rand(count) > 0.1, "elsewhere")
        frame.loc[RANDOM.rand(count) < 0.05, "fuel"] = "hydrogen"
        frame.loc[RANDOM.rand(count) < 0.05, "horsepower"] = np.nan
        frame.loc[RANDOM.rand(count) < 0.05, "displacement"] *= 3
        frame.loc[RANDOM.rand(count) < 0.05, "sold"] = pd.NaT
    return frame


FRAME, ROWS = messy(TRAIN, new=False), messy(pd.concat([NEW] * 10), new=True)
FEE, NEW_FEE = 2 + 10 * RANDOM.rand(len(FRAME)), 20 * RANDOM.rand(len(ROWS))
SMALL = {"epochs": 15, "random_state": 0}
QUICK = {"cv": 3, "random_state": 0}


def own_network(inputs, outputs=1):
    return torch.nn.Sequential(torch.nn.Linear(inputs, 8), torch.nn.Tanh(), torch.nn.Linear(8, outputs))


CASES = {
    "rcr": (RcRRegressor(6.0, **SMALL), {}, {}),
    "rcr of one member": (RcRRegressor(6.0, n_members=1, **SMALL), {}, {}),
    "linear, absolute loss": (RcRRegressor(2.0, network="linear", loss="absolute", **SMALL), {}, {}),
    "cost per row": (RcRRegressor(**SMALL), {"cost": FEE}, {"cost": NEW_FEE}),
    "own network": (RcRRegressor(6.0, network=own_network, n_members=2, **SMALL), {}, {}),
    "own network, cost per row": (
        RcRRegressor(network=own_network, n_members=1, **SMALL),
        {"cost": FEE},
        {"cost": NEW_FEE},
    ),
    "cross-fitted": (RcRRegressor(6.0, residuals="crossfit", cv=3, n_members=2, **SMALL), {}, {}),
    "cross-fitted, two targets": (RcRRegressor(6.0, residuals="crossfit", cv=3, n_members=2, **SMALL), {"y": TWO}, {}),
    "range": (
        RcRRegressor(cost_range=(4, 13), residuals="crossfit", cv=3, **SMALL),
        {},
        {"cost": 4 + 9 * RANDOM.rand(len(ROWS))},
    ),
    "two targets": (RcRRegressor(6.0, **SMALL), {"y": TWO}, {}),
    "kept cells": (RcRRegressor(6.0, unseen="keep", **SMALL), {}, {}),
    "selective": (SelectiveNetRegressor(0.7, **SMALL), {}, {}),
    "selective by cost": (
        SelectiveNetRegressor(None, cost=6.0, learning_rate=5e-3, n_members=2, **SMALL),
        {},
        {"cost": NEW_FEE},
    ),
    "risk": (RiskRejector(**QUICK), {}, {"cost": NEW_FEE}),
    "risk, pinball": (RiskRejector(loss="pinball:0.9", **QUICK), {}, {"cost": 2.0}),
    "risk, pipeline": (RiskRejector(make_pipeline(StandardScaler(), Ridge()), **QUICK), {}, {"cost": 6.0}),
    "risk, two targets": (RiskRejector(RandomForestRegressor(10), **QUICK), {"y": TWO}, {"cost": 6.0}),
    "risk of networks": (RiskRejector(StackedMLPRegressor(epochs=10, n_members=3), **QUICK), {}, {"cost": 6.0}),
    "knn": (knn_plug(cost=6.0), {}, {}),
    "mlp plug": (mlp_plug(cost=6.0, regressor__epochs=20, risk__epochs=20), {}, {}),
    "no rejection": (no_rejection(cost=6.0, regressor__epochs=20), {}, {}),
    "auto": (AutoRejector(6.0, **QUICK), {}, {"cost": NEW_FEE}),
    "auto, huber, two targets": (
        AutoRejector(3.0, loss="huber:2", learners=["networks", "extra_trees"], **QUICK),
        {"y": TWO},
        {},
    ),
}


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
    assert (found.loss, found.target_names, found.score_unit) == (
        expected.loss,
        expected.target_names,
        expected.score_unit,
    )
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
