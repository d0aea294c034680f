"""AutoGluon as a regressor with rejection, run in its own environment by benchmarks/automl.py.

One predictor is the regressor h. Its squared out-of-fold errors are the target of a second predictor, whose features
are those of the table and the prediction of h. Each has half of the time.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pandas as pd
from autogluon.tabular import TabularPredictor

TARGET, PREDICTION, RISK = "target", "prediction of h", "squared error"


def read(path: Path, categories: list[str]) -> pd.DataFrame:
    """Read a table; some columns are categories, even if they have numbers."""
    return pd.read_csv(path).astype(dict.fromkeys(categories, "category"))


def fit(train: pd.DataFrame, label: str, folder: Path, task: dict) -> TabularPredictor:
    """Fit a predictor of one column in half of the time."""
    predictor = TabularPredictor(label, problem_type="regression", path=str(folder), verbosity=0)
    return predictor.fit(
        train, presets=task["preset"], time_limit=task["seconds"] / 2, num_cpus=task["cores"], num_gpus=0
    )


def main(folder: Path) -> None:
    """Read train.csv, test.csv and task.json; write decided.csv and run.json."""
    task = json.loads((folder / "task.json").read_text())
    train, test = (read(folder / f"{name}.csv", task["categories"]) for name in ("train", "test"))

    start, processor = time.monotonic(), time.process_time()
    regressor = fit(train, TARGET, folder / "regressor", task)
    out_of_fold = regressor.predict_oof(train_data=train)
    errors = train.drop(columns=TARGET).assign(**{PREDICTION: out_of_fold, RISK: (out_of_fold - train[TARGET]) ** 2})
    middle = time.monotonic()
    risk = fit(errors, RISK, folder / "risk", task)
    end, processor = time.monotonic(), time.process_time() - processor

    prediction = regressor.predict(test)
    expected = risk.predict(test.assign(**{PREDICTION: prediction})).clip(lower=0.0)
    decided = time.monotonic() - end
    pd.DataFrame({"prediction": prediction, "risk": expected}).to_csv(folder / "decided.csv", index=False)
    run = {
        "version": version("autogluon.tabular"),
        "regressor_seconds": middle - start,
        "fit_seconds": end - start,
        "processor_seconds": processor,
        "decide_seconds": decided,
        "models": [regressor.model_best, risk.model_best],
    }
    (folder / "run.json").write_text(json.dumps(run))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
