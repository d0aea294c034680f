"""Model files for the tests of MLflow, written where torch is installed: python tests/mlflow_models.py FOLDER."""

import sys
from pathlib import Path

from sklearn.linear_model import Ridge

import recuse
from recuse import datasets


def write_models(folder):
    """Write one model of a table with categories, one of an array, and one with two targets and a cost column."""
    (X, y), _, _ = datasets.split(datasets.load("auto_mpg"), repeat=0)
    reject = recuse.RiskRejector(Ridge(), cost=6.0, cv=3, random_state=0)
    recuse.save(reject.fit(X, y), Path(folder) / "cars.recuse")
    fees = X.assign(fee=2.0 + X["weight"] / 1000)
    two = recuse.RiskRejector(Ridge(), cost="fee", cv=3, random_state=0)
    recuse.save(two.fit(fees, y.to_frame("mpg").assign(lphk=235 / y)), Path(folder) / "two.recuse")
    rows, target, _, _ = datasets.make_heteroscedastic(300, n_features=5, random_state=0)
    plain = recuse.RiskRejector(Ridge(), cost=1.0, cv=3, random_state=0)
    recuse.save(plain.fit(rows, target), Path(folder) / "array.recuse")


if __name__ == "__main__":
    write_models(sys.argv[1])
