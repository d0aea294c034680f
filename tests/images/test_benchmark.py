"""`benchmarks/images.py` on generated images and on a folder in the published layout."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

pytest.importorskip("lightning")

from recuse import Decision, RcRImageRegressor
from recuse.theory import bayes_decision

PATH = Path(__file__).parents[2] / "benchmarks" / "images.py"


@pytest.fixture(scope="module")
def images():
    spec = importlib.util.spec_from_file_location("benchmark_of_images", PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def run(monkeypatch, images, *options):
    monkeypatch.setattr(sys, "argv", ["images.py", *map(str, options)])
    images.main()


def small(images, **changes):
    quick = {"epochs": 5, "size": 16, "rows": 40, "costs": (0.01,), "repeats": 1}
    return images.experiment_of("cellularity", {**quick, **changes})


def repeat(images, folder, experiment=None):
    experiment = experiment or small(images)
    return images.Repeat(experiment, 0, images.load_parts(experiment, None, 0), folder, "cpu")


def test_everything_is_written_and_a_second_start_trains_only_what_is_lost(images, tmp_path, monkeypatch, capsys):
    options = ["cellularity", "--size", 16, "--rows", 24, "--epochs", 2, "--repeats", 1, "--costs", ".005,.02"]
    run(monkeypatch, images, *options, "-o", tmp_path)
    assert "| logistic | 20 |" in capsys.readouterr().out
    table = pd.read_csv(tmp_path / "cellularity.csv")
    assert (table[table["metric"] == "risk_ratio"]["mean"] >= 1).all()
    page = (tmp_path / "README.md").read_text()
    for name in ("cellularity_losses.png", "cellularity_pictures.png"):
        assert (tmp_path / name).stat().st_size > 10_000
        assert f"]({name})" in page
    assert "benchmarks/images.py cellularity --costs 0.005,0.02 --repeats 1 --epochs 2 --size 16 --rows 24" in page

    stored = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("cells/*/0/*.json")}
    assert len(stored) == 4  # Slow-Start, the regressor alone, two costs
    csv = (tmp_path / "cellularity.csv").read_bytes()
    lost = next(path for path in stored if path.name == "logistic-0.02.json")
    lost.unlink()
    run(monkeypatch, images, *options, "--no-figures", "-o", tmp_path)
    assert [path for path, time in stored.items() if path.stat().st_mtime_ns != time] == [lost]
    assert (tmp_path / "cellularity.csv").read_bytes() == csv
    assert {path.name for path in tmp_path.glob("cells/*/0/*")} == {path.name for path in stored}


def test_a_folder_is_trained_beside_the_printed_numbers(images, tmp_path, monkeypatch):
    random, root = np.random.default_rng(0), tmp_path / "AgeDB"
    root.mkdir()
    for row in range(20):
        picture = random.integers(0, 256, size=(20, 20, 3), dtype=np.uint8)
        Image.fromarray(picture).save(root / f"{row}_Some_Body_{20 + row}_f.jpg")
    options = ["--epochs", 1, "--size", 16, "--repeats", 1, "--surrogates", "mae", "--costs", "60", "--no-figures"]
    run(monkeypatch, images, "agedb", "--root", root, "--model", "small_cnn", *options, "-o", tmp_path / "out")
    assert "| mae | 60 |" in (tmp_path / "out" / "README.md").read_text()
    assert str(root) not in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    ("name", "cells", "first"), [("agedb", 14, [59.80, 95.40]), ("breastpathq", 25, [0.00437, 72.53])]
)
def test_the_settings_and_printed_numbers_are_those_of_the_paper(images, name, cells, first):
    experiment = images.experiment_of(name, {})
    settings = experiment.epochs, experiment.alone, experiment.batch_size, experiment.size, experiment.learning_rate
    assert settings == ((100, 40, 256, 224, 1e-3) if name == "agedb" else (300, 50, 128, 224, 1e-3))
    printed = images.printed(experiment)
    assert len(printed) == 7 * cells
    assert printed[printed["metric"].isin(["rcrloss", "rej"])]["paper_mean"].head(2).tolist() == pytest.approx(first)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["agedb"], "--root FOLDER must be a folder with the images of AgeDB"),
        (["cellularity", "--root", "."], "root must not be given"),
        (["cellularity", "--surrogates", "mea"], "mea"),
        (["agedb", "--rows", "20"], "rows can be set for a generated data set only"),
    ],
)
def test_a_wrong_option_is_explained(images, options, message, tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, images, *options, "-o", tmp_path)
    assert message in capsys.readouterr().err
    assert not any(tmp_path.iterdir())


def test_a_shared_slow_start_changes_nothing(images, tmp_path):
    task = repeat(images, tmp_path)
    experiment = task.experiment
    alone = RcRImageRegressor(
        0.01,
        "logistic",
        epochs=experiment.epochs,
        slow_start=experiment.slow_start,
        batch_size=experiment.batch_size,
        learning_rate=experiment.learning_rate,
        schedule=experiment.schedule,
        augment=task.augment,
        trainer={"accelerator": "cpu"},
        random_state=0,
    ).fit(task.parts.train, validation=task.parts.validation)
    shared = task.pair("logistic", 0.01)
    assert len(shared.history_) == experiment.epochs
    np.testing.assert_allclose(shared.predict(task.parts.images), alone.predict(task.parts.images), rtol=1e-5)
    np.testing.assert_allclose(
        shared.decision_function(task.parts.images), alone.decision_function(task.parts.images), rtol=1e-4, atol=1e-6
    )


def test_the_regressor_alone_is_that_of_the_lowest_validation_error(images, tmp_path):
    task = repeat(images, tmp_path)
    held_out = images.replace(task, parts=images.replace(task.parts, test=task.parts.validation))
    error = np.mean((held_out.supervised() - task.parts.validation[1]) ** 2)
    history = pd.read_csv(tmp_path / "sup" / "history.csv")
    assert len(history) == task.experiment.epochs
    assert error == pytest.approx(history["val/always_accept"].min(), rel=1e-4)


def test_the_best_pair_has_a_ratio_of_one(images):
    random = np.random.default_rng(0)
    mean, variance = random.uniform(size=(2, 2000))
    y = mean + variance**0.5 * random.normal(size=2000)
    parts = images.Parts(None, None, (np.zeros((2000, 1, 1, 1)), y), mean, variance)
    best = bayes_decision(mean, variance, 0.3)
    decision = Decision(prediction=best.prediction, accepted=best.accepted, score=0.3 - variance, cost=0.3)
    found = images.against_bayes(decision, parts)
    assert found["risk_ratio"] == pytest.approx(1)
    assert found["bayes_ratio"] == pytest.approx(1, abs=0.05)
    assert found["rank_correlation"] == pytest.approx(1)
    assert found["bayes_rej"] == pytest.approx(100 * (1 - best.accepted.mean()))
