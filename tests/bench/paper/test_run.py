import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from recuse import surrogates
from recuse.bench import spec
from recuse.bench.paper.run import run_paper
from recuse.bench.paper.tables import COLUMNS
from recuse.cli.app import app

SMALL_PAPER = """
name = "small"
title = "A small paper"
citation = "Nobody: A small paper."

[protocol]
repeats = 2
epochs = 12
slow_start = 4
batch_size = 128
learning_rates = [1e-1, 1e-2]
hidden = [8]
target = { mlp = "standardised" }

[costs]
auto_mpg = [4, 6]
housing = [9, 12]

[tables.mlp]
models = ["mlp"]
surrogates = ["mae", "logistic"]

[figures.training_share]
model = "mlp"
surrogate = "mae"
shares = [0.5, 1.0]
costs = { housing = [12] }

[figures.accepted_loss]
datasets = ["auto_mpg"]
"""


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A paper of a few seconds, as a file that a command can read."""
    folder = tmp_path_factory.mktemp("small") / "papers"
    (folder / "small").mkdir(parents=True)
    (folder / "small.toml").write_text(SMALL_PAPER)
    (folder / "small" / "results.csv").write_text("table,dataset,model,surrogate,cost,metric,mean,std\n")
    (folder / "small" / "comparison.csv").write_text("table,dataset,method,cost,rej_mean,al_mean\n")
    return folder / "small.toml"


def bench(small: Path, output: Path, *options: str) -> list[str]:
    command = [sys.executable, "-m", "recuse.cli", "bench", "paper", "--tables", "mlp", "--no-figures"]
    return [*command, "--paper", str(small), "-o", str(output), *options]


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.fixture(scope="module")
def whole(small, tmp_path_factory):
    """The table that one process writes without interruption."""
    output = tmp_path_factory.mktemp("whole")
    assert CliRunner().invoke(app, bench(small, output, "--jobs", "1")[3:]).exit_code == 0
    return (output / "mlp.csv").read_bytes()


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bytes(small, whole, tmp_path):
    command = bench(small, tmp_path, "--jobs", "1")
    for finished, jobs in ((1, "1"), (4, "2")):
        process = subprocess.Popen([*command, "--jobs", jobs], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and len(list((tmp_path / "groups").glob("*.json"))) < finished:
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    run(command)
    assert (tmp_path / "mlp.csv").read_bytes() == whole


def test_finished_groups_are_not_run_again(paper, tmp_path):
    run_paper(paper, ["mlp"], tmp_path, draw=False, progress=False)
    stored = {path: path.stat().st_mtime_ns for path in (tmp_path / "groups").iterdir()}
    next(iter(stored)).unlink()
    run_paper(paper, ["mlp"], tmp_path, draw=False, progress=False)
    changed = [path for path, before in stored.items() if path.stat().st_mtime_ns != before]
    assert changed == [next(iter(stored))]


def test_everything_is_written(paper, tmp_path):
    written = run_paper(paper, ["mlp", "linear_logistic"], tmp_path, progress=False)
    csv = pd.read_csv(tmp_path / "mlp.csv")
    assert list(csv.columns) == COLUMNS
    assert len(csv) == len(written["mlp"]) == 3 * 7
    names = {path.name for path in tmp_path.iterdir()}
    assert {"README.md", "environment.json", "linear_logistic.csv", "losses_against_cost_mlp.png"} <= names
    page = (tmp_path / "README.md").read_text()
    assert "![accepted_loss_against_rejection](accepted_loss_against_rejection.png)" in page
    assert "### linear_logistic" in page


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tables", "mlq"], "tables must be among"),
        (["--datasets", "abalon"], "datasets must be among"),
        (["--costs", "7"], "costs must be among"),
        (["--paper", "nothing"], "paper must be one of rcr2023"),
    ],
)
def test_a_wrong_option_is_explained(options, message, tmp_path):
    result = CliRunner().invoke(app, ["bench", "paper", "-o", str(tmp_path), *options])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_the_command_on_the_page_has_every_option_of_the_run(small, tmp_path):
    options = ["--datasets", "housing", "--costs", "9", "--repeats", "1"]
    result = CliRunner().invoke(app, bench(small, tmp_path / "out", *options)[3:])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "README.md").read_text()
    assert (
        f"recuse bench paper --paper {small} --tables mlp --repeats 1 --datasets housing --costs 9 --no-figures "
        f"--jobs 2 -o {tmp_path / 'out'}"
    ) in page


def test_two_processes_give_the_bytes_of_one_also_with_a_surrogate_of_the_user(small, tmp_path, monkeypatch):
    monkeypatch.setattr(surrogates.losses, "_REGISTRY", dict(surrogates.losses._REGISTRY))
    surrogates.register("bent", lambda r: (torch.exp(r.clamp(max=5)), torch.exp(-r.clamp(min=-5))))
    shutil.copytree(small.parent, tmp_path / "papers")
    paper = tmp_path / "papers" / small.name
    paper.write_text(SMALL_PAPER.replace('"logistic"', '"bent"'))
    for jobs in (1, 2):
        run_paper(spec.load(paper), ["mlp"], tmp_path / str(jobs), jobs=jobs, draw=False, progress=False)
    assert (tmp_path / "1" / "mlp.csv").read_bytes() == (tmp_path / "2" / "mlp.csv").read_bytes()
    assert "bent" in (tmp_path / "2" / "mlp.csv").read_text()
