import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from recuse.bench.paper.run import run_paper
from recuse.bench.paper.tables import COLUMNS
from recuse.cli.app import app

SMALL_PAPER = """
name = "small"
title = "A small paper"
citation = "Nobody: A small paper."

[protocol]
repeats = 3
epochs = 30
slow_start = 10
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


@pytest.fixture
def small(tmp_path):
    """A paper of a few seconds, as a file that a command can read."""
    folder = tmp_path / "papers"
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


def test_two_processes_give_the_bytes_of_one(small, tmp_path):
    run(bench(small, tmp_path / "one", "--jobs", "1"))
    run(bench(small, tmp_path / "two", "--jobs", "2"))
    assert (tmp_path / "one" / "mlp.csv").read_bytes() == (tmp_path / "two" / "mlp.csv").read_bytes()


@pytest.mark.slow
def test_a_run_killed_five_times_ends_with_the_same_bytes(small, tmp_path):
    run(bench(small, tmp_path / "whole"))
    moments, output = random.Random(7), tmp_path / "killed"
    for _ in range(5):
        process = subprocess.Popen(bench(small, output), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(moments.uniform(3, 6))
        process.kill()
        process.wait()
    run(bench(small, output))
    assert (output / "mlp.csv").read_bytes() == (tmp_path / "whole" / "mlp.csv").read_bytes()


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
    run(bench(small, tmp_path / "out", *options))
    page = (tmp_path / "out" / "README.md").read_text()
    assert (
        f"recuse bench paper --paper {small} --tables mlp --repeats 1 --datasets housing --costs 9 --no-figures "
        f"--jobs 2 -o {tmp_path / 'out'}"
    ) in page


SCRIPT = """
import sys, torch
from pathlib import Path
from recuse import surrogates
from recuse.bench import spec
from recuse.bench.paper.run import run_paper

if __name__ == "__main__":
    surrogates.register("bent", lambda r: (torch.exp(r.clamp(max=5)), torch.exp(-r.clamp(min=-5))))
    for jobs in (1, 2):
        output = Path(sys.argv[2]) / str(jobs)
        run_paper(spec.load(sys.argv[1]), ["mlp"], output, jobs=jobs, repeats=1, draw=False, progress=False)
"""


def test_a_surrogate_that_the_user_registered_reaches_every_process(small, tmp_path):
    small.write_text(SMALL_PAPER.replace('["mae", "logistic"]', '["bent"]'))
    (tmp_path / "script.py").write_text(SCRIPT)
    run([sys.executable, str(tmp_path / "script.py"), str(small), str(tmp_path)])
    assert (tmp_path / "1" / "mlp.csv").read_bytes() == (tmp_path / "2" / "mlp.csv").read_bytes()
    assert "bent" in (tmp_path / "2" / "mlp.csv").read_text()
