"""Estimators of every kind to save, with messy tables to fit and to decide."""

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from recuse import AutoRejector, RcRRegressor, RcRRegressorCV, RiskRejector, SelectiveNetRegressor, datasets
from recuse.estimators import StackedMLPRegressor, knn_plug, mlp_plug, no_rejection

RANDOM = np.random.RandomState(0)
(TRAIN, Y), _, (NEW, _) = datasets.split(datasets.load("auto_mpg"), repeat=0)
Y = np.asarray(Y)


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


CASES = {
    "rcr": (RcRRegressor(6.0, n_members=3, **SMALL), {}, {}),
    "rcr of one member": (RcRRegressor(6.0, **SMALL), {}, {}),
    "linear, absolute loss": (RcRRegressor(2.0, network="linear", loss="absolute", **SMALL), {}, {}),
    "cost per row": (RcRRegressor(**SMALL), {"cost": FEE}, {"cost": NEW_FEE}),
    "cross-fitted": (RcRRegressorCV(6.0, cv=3, n_members=2, **SMALL), {}, {}),
    "cross-fitted, cost per row": (RcRRegressorCV(cv=3, n_members=1, **SMALL), {"cost": FEE}, {"cost": NEW_FEE}),
    "range": (
        RcRRegressorCV(cost_range=(4, 13), cv=3, n_members=2, **SMALL),
        {},
        {"cost": 4 + 9 * RANDOM.rand(len(ROWS))},
    ),
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
    "risk, forest": (RiskRejector(RandomForestRegressor(10), **QUICK), {}, {"cost": 6.0}),
    "risk of networks": (RiskRejector(StackedMLPRegressor(epochs=10, n_members=3), **QUICK), {}, {"cost": 6.0}),
    "knn": (knn_plug(cost=6.0), {}, {}),
    "mlp plug": (mlp_plug(cost=6.0, regressor__epochs=20, risk__epochs=20), {}, {}),
    "no rejection": (no_rejection(cost=6.0, regressor__epochs=20), {}, {}),
    "auto": (AutoRejector(6.0, **QUICK), {}, {"cost": NEW_FEE}),
    "auto, huber": (AutoRejector(3.0, loss="huber:2", learners=["networks", "extra_trees"], **QUICK), {}, {}),
}
