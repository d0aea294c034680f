"""A fitted model is a value: threads may share it, memory does not grow with the calls, global state stays."""

import copy
import gc
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import joblib
import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_info

from recuse import AutoRejector, RcRRegressor, RcRRegressorCV, RiskRejector, SelectiveNetRegressor
from recuse.estimators import KernelAverage, StackedMLPRegressor
from sample_rows import NEW, ROW_COST, X, Y

SMALL = {"epochs": 20, "random_state": 0}
TREES = {"trees": ExtraTreesRegressor(10, min_samples_leaf=5)}


MODELS = {
    "joint": RcRRegressor(**SMALL),
    "cost per row": RcRRegressor(**SMALL).set_params(cost=ROW_COST),
    "crossfit": RcRRegressorCV(n_members=2, **SMALL),
    "range": RcRRegressorCV(cost_range=(0.5, 2.0), n_members=2, **SMALL),
    "selectivenet": SelectiveNetRegressor(coverage=None, **SMALL),
    "risk": RiskRejector(ExtraTreesRegressor(10), TREES["trees"], random_state=0),
    "risk by networks": RiskRejector(StackedMLPRegressor(**SMALL), KernelAverage(), random_state=0),
    "auto": AutoRejector(cv=2, random_state=0, preset="fast"),
}


@pytest.fixture(scope="module", params=list(MODELS))
def fitted(request):
    model = MODELS[request.param]
    return model.fit(X, Y) if isinstance(model, AutoRejector | RiskRejector) else copy.deepcopy(model).fit(X, Y)


def decide(model, rows):
    return model.decide(rows, cost=1.0)


def test_eight_threads_get_the_decisions_of_one(fitted):
    """24 calls of each of 8 threads, with different numbers of rows."""
    tables = [NEW[: 1 + 2 * call % len(NEW)] for call in range(24)]
    alone = [decide(fitted, rows) for rows in tables]
    calls = 24 if not isinstance(fitted, AutoRejector) else 8  # a call of the blend takes longer

    def decide_all(start):
        return all(decide(fitted, tables[(start + call) % 24]) == alone[(start + call) % 24] for call in range(calls))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(decide_all, range(0, 24, 3)))


def test_deciding_changes_nothing_in_the_model(fitted):
    before = fingerprint(fitted)
    decide(fitted, NEW)
    decide(fitted, NEW[:7])
    assert fingerprint(fitted) == before


def fingerprint(value, seen=None):
    """Describe all attributes, arrays of an object, however deep."""
    seen = set() if seen is None else seen
    if isinstance(value, np.ndarray):
        return hash(value.tobytes()) if value.dtype != object else len(value)
    if id(value) in seen or isinstance(value, str | int | float | bool | None | type):
        return repr(value) if isinstance(value, str | int | float | bool | None) else ""
    seen.add(id(value))
    if isinstance(value, dict):
        return {str(key): fingerprint(item, seen) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [fingerprint(item, seen) for item in value]
    return {name: fingerprint(item, seen) for name, item in getattr(value, "__dict__", {}).items()}


def test_memory_does_not_grow_with_the_number_of_batch_sizes(fitted):
    calls = 120 if not isinstance(fitted, AutoRejector) else 30
    rows = np.resize(NEW, (calls + 100, NEW.shape[1]))
    decide(fitted, rows)
    gc.collect()
    before = resident_megabytes()
    for count in range(1, calls):
        decide(fitted, rows[:count])
    gc.collect()
    assert resident_megabytes() - before < 20


def resident_megabytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


@pytest.mark.parametrize("model", [MODELS["joint"], MODELS["crossfit"], MODELS["risk"], MODELS["selectivenet"]])
def test_fitting_and_deciding_leave_global_state_alone(model):
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)

    def state():
        threads = [each["num_threads"] for each in threadpool_info()]
        return threads, str(np.random.get_state()), random.getstate()  # noqa: NPY002

    before = state()
    decide(copy.deepcopy(model).fit(X, Y), NEW)
    assert state() == before


def test_a_blend_of_thousands_of_trees_can_be_loaded_memory_mapped(tmp_path):
    """Each array would be an open file."""
    forest = {"forest": ExtraTreesRegressor(500)}
    model = AutoRejector(learners=forest, risk_models=TREES, cv=2, random_state=0).fit(X, Y)
    joblib.dump(model, tmp_path / "model.joblib")
    before = len(list(Path("/proc/self/fd").iterdir()))
    loaded = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    assert len(list(Path("/proc/self/fd").iterdir())) - before < 100
    assert decide(loaded, NEW) == decide(model, NEW)


def test_a_model_of_the_users_own_class_can_be_pickled():
    class Own(Ridge):
        """Not importable, so plain pickle refuses it; joblib's workers do not."""

    cloudpickle = pytest.importorskip("cloudpickle")
    model = AutoRejector(learners={"own": Own()}, risk_models=TREES, n_jobs=2, cv=2, random_state=0).fit(X, Y)
    assert decide(cloudpickle.loads(cloudpickle.dumps(model)), NEW) == decide(model, NEW)
