"""Saving and loading: costs, errors, the schema, processes and threads."""

import json
import os
import pickle
import subprocess
import sys
import textwrap
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import StackingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.pipeline import make_pipeline

import recuse
from recuse import RcRRegressor, RcRRegressorCV, RiskRejector, ServedModel, datasets
from recuse.losses import TargetLoss
from recuse.model_file import ConversionError, ModelFileError, converts
from recuse.model_file.container import read_container, write_container

(X, Y), _, (NEW, Y_NEW) = datasets.split(datasets.load("auto_mpg"), repeat=0)
QUICK = {"cv": 3, "random_state": 0}


def reloaded(model, folder, name="model.recuse"):
    recuse.save(model, folder / name)
    return recuse.load(folder / name)


@pytest.fixture(scope="module")
def risk():
    return RiskRejector(Ridge(), cost=6.0, **QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def served(risk, tmp_path_factory):
    return reloaded(risk, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def rcr():
    return RcRRegressor(6.0, epochs=20, random_state=0).fit(X, Y)


class TestTheCost:
    def test_of_fit_is_the_default_and_another_one_is_served_where_the_estimator_can(self, risk, served):
        assert served.cost_ == 6.0
        for cost in (None, 2.0, np.linspace(1, 9, len(NEW)), lambda rows: rows["weight"] / 500):
            np.testing.assert_allclose(served.decide(NEW, cost=cost).cost, risk.decide(NEW, cost=cost).cost)
            np.testing.assert_array_equal(served.decide(NEW, cost=cost).accepted, risk.decide(NEW, cost=cost).accepted)

    def test_errors_are_those_of_the_estimator(self, rcr, tmp_path):
        model = reloaded(rcr, tmp_path)
        np.testing.assert_array_equal(model.decide(NEW, cost=6.0).accepted, rcr.decide(NEW).accepted)
        for each in (rcr, model):
            with pytest.raises(ValueError, match=r"RcRRegressor was fitted for cost 6.0 and cannot decide at cost 7.0"):
                each.decide(NEW, cost=7.0)
            with pytest.raises(ValueError, match=r"cost must be >= 0, got -1.0"):
                each.decide(NEW, cost=-1.0)

    def test_in_a_column_is_found_there(self, tmp_path):
        fees, new_fees = X.assign(fee=4.0), NEW.assign(fee=np.linspace(0, 9, len(NEW)))
        model = RiskRejector(Ridge(), cost="fee", **QUICK).fit(fees, Y)
        loaded = reloaded(model, tmp_path)
        assert loaded.cost_ == "fee"
        np.testing.assert_array_equal(loaded.decide(new_fees).accepted, model.decide(new_fees).accepted)
        with pytest.raises(ValueError, match="fee"):
            loaded.decide(NEW)

    def test_per_row_or_by_a_callable_must_be_passed(self, tmp_path):
        model = reloaded(RiskRejector(Ridge(), **QUICK).fit(X, Y, cost=np.full(len(X), 5.0)), tmp_path)
        with pytest.raises(ValueError, match="one cost per row, so new rows need theirs"):
            model.decide(NEW)
        model = reloaded(RiskRejector(Ridge(), **QUICK).fit(X, Y, cost=lambda rows: rows["weight"] / 500), tmp_path)
        with pytest.raises(ValueError, match="a callable as cost, which a file cannot hold: pass cost="):
            model.decide(NEW)

    def test_of_tables_of_every_kind(self, risk, served, tmp_path):
        table = pl.from_pandas(NEW.reset_index(drop=True)).with_columns(sold=pl.date(2020, 1, 1))
        np.testing.assert_array_equal(served.decide(table, cost=2.0).cost, 2.0)
        by_weight = served.decide(table, cost=lambda rows: rows["weight"] / 500)
        np.testing.assert_allclose(by_weight.cost, NEW["weight"] / 500)
        row = MappingProxyType({**NEW.iloc[0].to_dict(), "fee": 3.0})
        assert served.decide(row, cost="fee").cost == [3.0]
        assert served.decide(row, cost=lambda rows: 2 * rows["fee"]).cost == [6.0]

    def test_of_a_range_must_be_inside(self, tmp_path):
        model = RcRRegressorCV(cost_range=(4, 13), cv=3, n_members=2, epochs=10, random_state=0).fit(X, Y)
        loaded = reloaded(model, tmp_path)
        assert loaded.cost_range_ == (4.0, 13.0)
        with pytest.raises(ValueError, match=r"every cost from 4.0 to 13.0, so a decision needs one"):
            loaded.decide(NEW)
        with pytest.raises(ValueError, match=r"cost must be within 4.0 to 13.0, .* got 3.0 at row 0"):
            loaded.decide(NEW, cost=3.0)


class TestTheTable:
    def test_a_missing_column_is_named(self, served):
        with pytest.raises(ValueError, match=r"X must have the column 'weight', as in training"):
            served.decide(NEW.drop(columns="weight"))
        with pytest.raises(ValueError, match=r"X must have the column 'horsepower' and 1 more, as in training"):
            served.decide(NEW.drop(columns=["weight", "horsepower"]))

    def test_of_another_width_without_names(self, served):
        with pytest.raises(ValueError, match=r"X must have 7 columns, as in training, got 3"):
            served.decide(np.zeros((2, 3)))

    def test_infinite_numbers_are_errors(self, served):
        with pytest.raises(ValueError, match=r"column 'weight' must be finite, got inf at row"):
            served.decide(NEW.assign(weight=np.inf))

    def test_text_among_numbers_is_unknown_and_warned_of(self, risk, served):
        rows = NEW.astype({"weight": object})
        rows.iloc[0, rows.columns.get_loc("weight")] = "heavy"
        with pytest.warns(UserWarning, match="had only numbers in training and now holds 1 texts such as 'heavy'"):
            found = served.expected_loss(rows)
        with pytest.warns(UserWarning, match="heavy"):
            np.testing.assert_allclose(found, risk.expected_loss(rows))

    def test_without_rows(self, served):
        with pytest.raises(ValueError, match="X must have at least one row"):
            served.decide(NEW.iloc[:0])

    def test_unseen_cells_are_errors_if_the_estimator_says_so(self, tmp_path):
        frame = X.assign(town=np.where(X["weight"] > 3000, "a", "b"))
        model = RiskRejector(Ridge(), unseen="error", **QUICK).fit(frame, Y)
        loaded = reloaded(model, tmp_path)
        for rows in (
            NEW.assign(town="c"),
            NEW.assign(town="a", weight=NEW["weight"].where(NEW.index != NEW.index[3])),
        ):
            with pytest.raises(ValueError, match="column") as expected:
                model.decide(rows)
            with pytest.raises(ValueError, match="column") as found:
                loaded.decide(rows)
            assert (
                str(found.value).split(", got")[0].split("[")[0] == str(expected.value).split(", got")[0].split("[")[0]
            )

    def test_names_that_graphs_use_themselves_may_be_columns(self, tmp_path):
        names = ["cost", "score", "/v1", "accepted", "column:cost", "", "X"]
        frame, new = X.set_axis(names, axis=1), NEW.set_axis(names, axis=1)
        model = RiskRejector(Ridge(), **QUICK).fit(frame, Y)
        np.testing.assert_allclose(reloaded(model, tmp_path).predict(new), model.predict(new))

    def test_is_described(self, served):
        weight = next(column for column in served.schema.columns if column.name == "weight")
        assert (weight.kind, weight.low, weight.high) == ("number", X["weight"].min(), X["weight"].max())
        origin = next(column for column in served.schema.columns if column.name == "origin")
        assert [level.text for level in origin.levels] == ["1", "2", "3"]


class TestTheFile:
    def test_is_small_and_equal_for_equal_models(self, risk, tmp_path):
        for name in ("one", "two"):
            recuse.save(risk, tmp_path / name)
        assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
        assert (tmp_path / "one").stat().st_size < 500_000
        assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]

    def test_says_what_it_is(self, risk, served):
        info = json.loads(json.dumps(served.info()))
        assert info["estimator"] == "RiskRejector"
        assert info["format_version"] == 1
        assert info["cost"]["value"] == 6.0
        assert info["libraries"]["scikit-learn"]
        np.testing.assert_array_equal(list(served.out_of_fold.values()), risk.out_of_fold_.to_numpy().T)
        assert list(served.out_of_fold) == list(risk.out_of_fold_)
        assert repr(served) == "ServedModel(RiskRejector, 7 columns, cost 6)"

    def test_of_an_estimator_that_is_not_fitted(self, tmp_path):
        with pytest.raises(ValueError, match="not fitted"):
            recuse.save(RcRRegressor(), tmp_path / "model.recuse")
        assert not list(tmp_path.iterdir())

    def test_of_something_else(self, tmp_path):
        with pytest.raises(ConversionError, match=r"recuse.save must get a fitted estimator of recuse, got Pipeline"):
            recuse.save(make_pipeline(RiskRejector(Ridge(), **QUICK)).fit(X, Y), tmp_path / "model.recuse")

    @pytest.mark.parametrize("version", [1])
    def test_of_every_format_version_still_loads(self, version):
        """The files were written by the versions of the library that introduced the formats."""
        folder = Path(__file__).parent / "files"
        expected = pd.read_csv(folder / f"format-{version}.csv")
        decision = recuse.load(folder / f"format-{version}.recuse").decide(expected[X.columns])
        np.testing.assert_allclose(decision.prediction, expected["prediction"], rtol=1e-9)
        np.testing.assert_array_equal(decision.accepted, expected["accepted"])

    def test_of_a_newer_version_asks_for_an_upgrade(self, served, tmp_path, risk):
        recuse.save(risk, tmp_path / "new.recuse")
        header, entries, _ = read_container(tmp_path / "new.recuse")
        write_container(tmp_path / "new.recuse", {**header, "format": 99}, entries)
        with pytest.raises(ModelFileError, match="pip install --upgrade recuse"):
            recuse.load(tmp_path / "new.recuse")

    def test_that_is_damaged_names_the_file(self, risk, tmp_path):
        recuse.save(risk, tmp_path / "cars.recuse")
        data = (tmp_path / "cars.recuse").read_bytes()
        for place in (*range(0, 60, 7), *range(len(data) // 2, len(data), 9973), *range(len(data) - 500, len(data), 9)):
            (tmp_path / "cars.recuse").write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
            with pytest.raises(ModelFileError, match=r"cars\.recuse"):
                recuse.load(tmp_path / "cars.recuse")

    def test_is_opened_by_programs_for_zip_archives_and_by_numpy(self, risk, served, tmp_path):
        recuse.save(risk, tmp_path / "cars.recuse")
        with zipfile.ZipFile(tmp_path / "cars.recuse") as archive:
            assert archive.testzip() is None
            assert json.loads(archive.read("header.json"))["estimator"] == "RiskRejector"
            assert archive.read("graph.onnx") == served.onnx_graph()
        arrays = np.load(tmp_path / "cars.recuse")
        np.testing.assert_array_equal(arrays["training_hashes"], served.training_rows_.hashes)
        np.testing.assert_array_equal(arrays["out_of_fold"], list(served.out_of_fold.values()))


class Twice(RegressorMixin, BaseEstimator):
    def fit(self, X, y):
        self.inner_ = LinearRegression().fit(X, y)
        return self

    def predict(self, X):
        return self.inner_.predict(X)


class Mine(Twice):
    pass


def test_a_class_of_the_user_is_named_and_can_be_converted(tmp_path):
    with pytest.raises(ConversionError, match=r"Mine cannot be saved in a model file: there is no converter for it"):
        recuse.save(RiskRejector(Mine(), **QUICK).fit(X, Y), tmp_path / "model.recuse")

    @converts(Twice)
    def convert_twice(model, x):
        return x @ model.inner_.coef_[:, None] + model.inner_.intercept_

    model = RiskRejector(Twice(), **QUICK).fit(X, Y)
    np.testing.assert_allclose(reloaded(model, tmp_path).predict(NEW), model.predict(NEW))


class Odd(TargetLoss):
    name = "odd"

    def __call__(self, residual):
        return residual**4

    def slope(self, residual, weight=1.0):
        return 4 * residual**3 * weight

    def scaled(self, scale):
        return self

    def unit(self, scale):
        return scale**4


@pytest.mark.filterwarnings("ignore")
def test_a_loss_of_the_user_is_named(tmp_path):
    with pytest.raises(ConversionError, match="cannot be saved in a model file: use one of"):
        recuse.save(RiskRejector(Ridge(), loss=Odd(), **QUICK).fit(X, Y), tmp_path / "model.recuse")


def test_categories_that_are_not_unicode_are_named(tmp_path):
    town = pd.Series(np.where(X["weight"] > 3000, "a", "\ud800"), index=X.index, dtype=object)
    model = RiskRejector(Ridge(), **QUICK).fit(X.assign(town=town), Y)
    with pytest.raises(ConversionError, match="column 'town' has a category that is not valid Unicode"):
        recuse.save(model, tmp_path / "model.recuse")


def test_stacks_and_frozen_regressors_can_be_saved(tmp_path):
    stack = StackingRegressor([("ridge", Ridge()), ("linear", LinearRegression())])
    model = RiskRejector(stack, **QUICK).fit(X, Y)
    np.testing.assert_allclose(reloaded(model, tmp_path).predict(NEW), model.predict(NEW))
    frozen = FrozenEstimator(Ridge().fit(X[:100].to_numpy(), Y[:100]))
    model = RiskRejector(frozen, prefit=True, random_state=0).fit(X[100:].to_numpy(), Y[100:])
    np.testing.assert_allclose(reloaded(model, tmp_path).predict(NEW.to_numpy()), model.predict(NEW.to_numpy()))


def test_only_risk_based_estimators_have_an_expected_loss(rcr, tmp_path):
    with pytest.raises(AttributeError, match="RcRRegressor has no expected loss, only a score"):
        reloaded(rcr, tmp_path).expected_loss(NEW)


def test_a_served_model_is_a_value(served):
    copy = pickle.loads(pickle.dumps(served))
    assert isinstance(copy, ServedModel)
    assert copy.decide(NEW) == served.decide(NEW)


def test_threads_get_what_one_thread_gets(served):
    parts = [NEW.iloc[start : start + 5] for start in range(0, 70, 5)]
    expected = [served.decide(part) for part in parts]
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: [served.decide(part) for part in parts], range(40)):
            assert found == expected


def test_memory_does_not_grow_with_the_sizes_of_the_batches(tmp_path, risk):
    recuse.save(risk, tmp_path / "model.recuse")
    script = """
        import sys
        import numpy as np
        import recuse
        served = recuse.load(sys.argv[1])
        rows = np.random.default_rng(0).normal(size=(3000, 7)) + [[6, 200, 100, 3000, 15, 75, 1]]
        rows[:, -1] = 1
        status = lambda: dict(line.split(":") for line in open("/proc/self/status"))
        used = lambda: int(status()["VmRSS"].split()[0]) / 1024
        for size in (1, 500, 3000):
            served.decide(rows[:size])
        before = used()
        for size in range(1, 3000, 50):
            served.decide(rows[:size])
        print(used() - before)
    """
    assert float(run(script, tmp_path / "model.recuse")) < 30


def test_a_scoring_process_needs_neither_torch_nor_scikit_learn(tmp_path, rcr):
    recuse.save(rcr, tmp_path / "model.recuse")
    script = """
        import sys
        import numpy as np
        import recuse
        decision = recuse.load(sys.argv[1]).decide(np.full((3, 7), 2.0))
        assert len(decision) == 3
        print([name for name in ("torch", "sklearn", "scipy", "onnx", "typer") if name in sys.modules])
        print(next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024)
    """
    modules, megabytes = run(script, tmp_path / "model.recuse").splitlines()
    assert modules == "[]"
    assert float(megabytes) < 150


def run(script, path):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(path)],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
