"""`recuse bench images` on generated images and on folders in the published layouts."""

import json
import random
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import Dataset
from typer.testing import CliRunner

pytest.importorskip("lightning")
pytest.importorskip("tifffile")

import tifffile
from PIL import Image

from recuse.bench import spec as papers
from recuse.bench.images.data import ImageParts, ImageSource, augmentation, load_parts
from recuse.bench.images.run import adjusted, image_table
from recuse.bench.images.spec import ImageProtocol
from recuse.bench.images.training import Hardware, ImageTraining
from recuse.bench.images.work_unit import KNOWN, YARDSTICKS, ImageWork, against_bayes, image_groups
from recuse.bench.paper.tables import COLUMNS
from recuse.bench.work_unit import SUPERVISED, Group
from recuse.cli.app import app
from recuse.decision import Decision
from recuse.estimators.images.regressor import RcRImageRegressor
from recuse.theory import bayes_decision

PROTOCOL = ImageProtocol(5, 2, 16, 1e-2, "cosine", "turn", 16, (40, 20, 20))


def bench(*options):
    result = CliRunner().invoke(app, ["bench", "images", *map(str, options)])
    assert result.exit_code == 0, result.output
    return result


def refused(*options):
    result = CliRunner().invoke(app, ["bench", "images", *map(str, options)])
    assert result.exit_code == 2, result.output
    return " ".join(result.output.replace("│", " ").split())


def tiny(output, *options):
    size = ("--size", 16, "--rows", 24, "--epochs", 2, "--repeats", 1)
    return bench("--dataset", "cellularity", *size, "--costs", ".005,.02", "-o", output, *options)


# ------------------------------------------------------------------------------------------- the command


def test_everything_is_written_and_a_second_start_runs_nothing_again(tmp_path):
    first = tiny(tmp_path, "--surrogates", "mae,logistic")
    assert "logistic" in first.output
    table = pd.read_csv(tmp_path / "cellularity.csv")
    assert list(table.columns) == COLUMNS
    metrics = ["rcrloss", "al", "rl", "rej", "ar", "ra", "sup", *YARDSTICKS, *KNOWN]
    assert table["metric"].tolist() == metrics * 4
    assert (table.loc[table["metric"] == "always_reject", "mean"] == table["cost"][:: len(metrics)].to_numpy()).all()
    ratios = table[table["metric"] == "risk_ratio"]["mean"]
    assert (ratios >= 1).all()
    page = (tmp_path / "README.md").read_text()
    for name in ("cellularity_losses.png", "cellularity_pictures.png"):
        assert (tmp_path / name).stat().st_size > 10_000
        assert f"]({name})" in page
    assert "--surrogates mae,logistic --costs 0.005,0.02 --repeats 1 --epochs 2 --size 16 --rows 24" in page
    assert not any((tmp_path / "groups" / "checkpoints").iterdir())

    before, csv = (tmp_path / "groups"), (tmp_path / "cellularity.csv").read_bytes()
    stored = {path: path.stat().st_mtime_ns for path in before.glob("*.json")}
    assert len(stored) == 1 + 2 * 2
    lost = next(path for path in stored if "mae-0.02-0" in path.name)
    lost.unlink()
    tiny(tmp_path, "--surrogates", "mae,logistic", "--no-figures")
    changed = [path for path, time in stored.items() if path.stat().st_mtime_ns != time]
    assert changed == [lost]
    assert (tmp_path / "cellularity.csv").read_bytes() == csv


def test_another_protocol_is_another_run(tmp_path):
    tiny(tmp_path, "--costs", "0.01", "--no-figures")
    facts = json.loads((tmp_path / "cellularity.json").read_text())
    assert facts["protocol"]["rows"] == [24, 8, 20]
    tiny(tmp_path, "--costs", "0.01", "--no-figures", "--epochs", 3)
    assert json.loads((tmp_path / "cellularity.json").read_text())["protocol"]["epochs"] == 3


@pytest.fixture
def faces(tmp_path):
    """A folder in the layout of AgeDB."""
    random, root = np.random.default_rng(0), tmp_path / "AgeDB"
    root.mkdir()
    for row in range(30):
        age = int(random.integers(1, 90))
        picture = np.clip(age * 2 + random.normal(scale=20, size=(20, 20, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(picture).save(root / f"{row}_Some_Body_{age}_{'fm'[row % 2]}.jpg")
    return root


@pytest.fixture
def tissue(tmp_path):
    """A folder in the layout of BreastPathQ."""
    random, root = np.random.default_rng(1), tmp_path / "breastpathq"
    for part, file, count in (("train", "train_labels.csv", 24), ("validation", "val_labels.csv", 8)):
        (root / part).mkdir(parents=True)
        lines = ["slide,rid,y"]
        for rid in range(count):
            y = random.uniform()
            picture = np.clip(255 * y + random.normal(scale=20, size=(20, 20, 3)), 0, 255).astype(np.uint8)
            tifffile.imwrite(root / part / f"99{count}_{rid}.tif", picture, photometric="rgb")
            lines.append(f"99{count},{rid},{y:.3f}")
        (root / file).write_text("\n".join(lines) + "\n")
    return root


@pytest.mark.parametrize(("name", "costs", "scale"), [("agedb", (60.0, 120.0), 1.0), ("breastpathq", (0.005,), 1000.0)])
def test_a_folder_in_the_published_layout_trains_and_tests(name, costs, scale, tmp_path, request):
    root = request.getfixturevalue("faces" if name == "agedb" else "tissue")
    output, given = tmp_path / "out", ",".join(map(str, costs))
    small = ("--model", "small_cnn", "--epochs", 2, "--size", 16, "--repeats", 1, "--surrogates", "mae")
    bench("--dataset", name, "--root", root, *small, "--costs", given, "-o", output)
    table = pd.read_csv(output / f"{name}.csv")
    assert table.groupby("cost").size().to_dict() == dict.fromkeys(costs, 7 + len(YARDSTICKS))
    wide = table.pivot(index="cost", columns="metric", values="mean")
    assert (wide["oracle"] <= wide[["rcrloss", "always_reject"]].min(axis=1) + 1e-9).all()
    page = (output / "README.md").read_text()
    assert f"| {name} | {costs[0] * scale:g} |" in page
    assert str(root) not in page
    assert (output / f"{name}_pictures.png").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dataset", "agedb"], "--root FOLDER must be a folder with the images of AgeDB"),
        (["--dataset", "breastpathq"], "columns slide, rid, y with y in [0, 1]"),
        (["--dataset", "agedb", "--root", "no/such/folder"], "no/such/folder must be a folder"),
        (["--dataset", "faces"], "dataset must be one of agedb, breastpathq, cellularity, got 'faces'"),
        (["--dataset", "cellularity", "--root", "."], "root must not be given"),
        (["--dataset", "cellularity", "--model", "vgg"], "model must be one of resnet50, small_cnn, got 'vgg'"),
        (["--dataset", "cellularity", "--surrogates", "mea"], "mea"),
        (["--dataset", "agedb", "--rows", "20"], "rows can be set for a generated data set only"),
        (["--dataset", "cellularity", "--jobs", "2", "--devices", "2"], "either jobs or devices"),
    ],
)
def test_a_wrong_option_is_explained(options, message, tmp_path):
    assert message in refused(*options, "-o", tmp_path)
    assert not any(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------ the trainings


class Rows(Dataset):
    """Images as a data set; reading one in a certain epoch may fail."""

    def __init__(self, part, fails_in_epoch=None):
        (self.images, self.y), self.fails_in_epoch, self.epoch = part, fails_in_epoch, 0

    def __len__(self):
        return len(self.y)

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __getitem__(self, row):
        if self.epoch == self.fails_in_epoch:
            raise RuntimeError("reading failed")
        return self.images[row], float(self.y[row])


def training(folder, fails_in_epoch=None):
    parts = load_parts(ImageSource("cellularity", None, 16, PROTOCOL.rows), 0)
    parts = replace(parts, train=Rows(parts.train, fails_in_epoch))
    return ImageTraining("small_cnn", 0, parts, PROTOCOL, folder, Hardware("cpu"))


def test_a_shared_slow_start_changes_nothing(tmp_path):
    task = training(tmp_path)
    shared = task.pair("logistic", 0.01)
    alone = RcRImageRegressor(
        0.01,
        "logistic",
        epochs=PROTOCOL.epochs,
        slow_start=PROTOCOL.slow_start,
        batch_size=PROTOCOL.batch_size,
        learning_rate=PROTOCOL.learning_rate,
        schedule="cosine",
        augment=augmentation(PROTOCOL),
        trainer={"accelerator": "cpu"},
        random_state=0,
    ).fit(task.parts.train, validation=task.parts.validation)
    images = task.parts.test_images
    assert len(shared.history_) == PROTOCOL.epochs
    np.testing.assert_allclose(shared.predict(images), alone.predict(images), rtol=1e-5)
    np.testing.assert_allclose(shared.decision_function(images), alone.decision_function(images), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_training_that_was_cut_off_ends_as_if_it_had_not_been(tmp_path, epoch):
    whole = training(tmp_path / "whole")
    cut = tmp_path / "cut"
    for run in (lambda task: task.supervised(), lambda task: task.pair("mae", 0.01)):
        with pytest.raises(RuntimeError, match="reading failed"):
            run(training(cut, fails_in_epoch=epoch))
    again = training(cut)
    np.testing.assert_allclose(again.supervised(), whole.supervised(), rtol=1e-6)
    images = again.parts.test_images
    one, other = (task.pair("mae", 0.01).decision_function(images) for task in (again, whole))
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("surrogate", [SUPERVISED, "mae"])
def test_a_group_restores_seeds_and_thread_counts(surrogate, tmp_path):
    threads = torch.get_num_threads()
    before = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()  # noqa: NPY002
    source = ImageSource("cellularity", None, 16, PROTOCOL.rows)
    group = Group("cellularity", "small_cnn", surrogate, 0, () if surrogate == SUPERVISED else (0.01,), apart=True)
    protocol = replace(PROTOCOL, epochs=2, slow_start=1)
    ImageWork(source, tmp_path, Hardware("cpu", threads=threads + 1))(group, protocol)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]  # noqa: NPY002
    assert random.getstate() == before[2]


def test_the_regressor_alone_is_that_of_the_lowest_validation_error(tmp_path):
    task = training(tmp_path)
    prediction = replace(task, parts=replace(task.parts, test=task.parts.validation)).supervised()
    state = torch.load(tmp_path / "sup" / "last.ckpt", weights_only=True)["callbacks"]
    history = next(each["epochs"] for each in state.values() if "epochs" in each)
    assert [epoch["epoch"] for epoch in history] == list(range(PROTOCOL.epochs))
    lowest = min(epoch["val/always_accept"] for epoch in history)
    assert np.mean((prediction - task.parts.validation[1]) ** 2) == pytest.approx(lowest, rel=1e-4)


# ------------------------------------------------------------------------------------- specs and measures


def test_the_protocol_is_that_of_the_paper():
    images = papers.load("rcr2023").images
    faces, tissue = images["agedb"].protocol, images["breastpathq"].protocol
    assert (faces.epochs, faces.alone, faces.batch_size, faces.learning_rate) == (100, 40, 256, 1e-3)
    assert (tissue.epochs, tissue.alone, tissue.batch_size, tissue.learning_rate) == (300, 50, 128, 1e-3)
    assert {(each.size, each.padding, each.schedule) for each in (faces, tissue)} == {(224, 16, "constant")}
    assert images["agedb"].costs == (60, 70, 80, 90, 100, 110, 120)
    assert images["breastpathq"].costs == images["cellularity"].costs == (0.005, 0.01, 0.015, 0.02, 0.025)


@pytest.mark.parametrize(("name", "cells"), [("agedb", 7 * 2), ("breastpathq", 5 * 5)])
def test_every_printed_cell_stands_beside_ours(name, cells):
    paper = papers.load("rcr2023")
    spec = adjusted(paper.images[name], repeats=2)
    rows = [
        {"dataset": name, "model": group.model, "surrogate": group.surrogate, "repeat": group.repeat}
        | (
            {"cost": group.costs[0], **dict.fromkeys(("rcrloss", "al", "rl", "rej", "ar", "ra", *YARDSTICKS), 1.0)}
            if group.costs
            else {"sup": 2.0}
        )
        for group in image_groups(name, spec.model, spec.surrogates, spec.costs, spec.repeats)
    ]
    table = image_table(pd.DataFrame(rows), spec, paper)
    beside = table.dropna(subset=["paper_mean"])
    assert len(beside) == len(paper.printed.query("dataset == @name")) == 7 * cells
    assert len(table) == (7 + len(YARDSTICKS)) * cells
    assert set(table["repeats"]) == {2}
    first = beside[beside["metric"].isin(["rcrloss", "rej"])].head(2)["paper_mean"].tolist()
    assert first == pytest.approx([59.80, 95.40] if name == "agedb" else [0.00437, 72.53])


def test_the_best_pair_has_a_ratio_of_one():
    random = np.random.default_rng(0)
    mean, variance = random.uniform(size=(2, 2000))
    y = mean + variance**0.5 * random.normal(size=2000)
    parts = ImageParts(None, None, (torch.zeros(2000, 1, 1, 1), y), mean, variance)
    best = bayes_decision(mean, variance, 0.3)
    measured = against_bayes(Decision(best.prediction, best.accepted, 0.3 - variance, 0.3), parts)
    assert measured["risk_ratio"] == pytest.approx(1)
    assert measured["bayes_ratio"] == pytest.approx(1, abs=0.05)
    assert measured["rank_correlation"] == pytest.approx(1)
    assert measured["bayes_rej"] == pytest.approx(100 * (1 - best.accepted.mean()))
    worse = against_bayes(Decision(best.prediction + 0.1, best.accepted, 0.3 - variance, 0.3), parts)
    assert worse["risk_ratio"] > 1.01


def test_a_shorter_training_keeps_its_proportions():
    spec = adjusted(papers.load("rcr2023").images["cellularity"], epochs=10, rows=600)
    whole = papers.load("rcr2023").images["cellularity"].protocol
    assert spec.protocol.rows == tuple(part // 10 for part in whole.rows)
    assert spec.protocol.alone == round(whole.slow_start * 10 / whole.epochs)
