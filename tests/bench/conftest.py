import shlex

import pytest
from typer.testing import CliRunner

from recuse.bench import spec
from recuse.cli.app import app

SMALL_PAPER = """
name = "small"
title = "A small paper"
citation = "Nobody: A small paper."

[protocol]
repeats = 2
epochs = 6
slow_start = 2
batch_size = 256
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
PRINTED = """table,dataset,model,surrogate,cost,metric,mean,std
mlp,auto_mpg,mlp,mae,4,rcrloss,3.5,0.4
mlp,auto_mpg,mlp,mae,4,sup,0.5,0.1
mlp,auto_mpg,mlp,mae,6,rcrloss,900,0.1
"""
COMPARED = """dataset,method,cost,target_rejection,al_mean,al_std,rej_mean,rej_std,rcrloss_mean,rcrloss_std
auto_mpg,rcr_mae,4,,3.9,0.4,37,14,4.8,0.9
auto_mpg,mlp_plug,4,40,5.6,2.1,36,9,,
"""
# A method of the user, and a surrogate.
MINE = """
import numpy as np

from recuse import Decision, surrogates
from recuse.bench.method import BenchMethod


class Mean(BenchMethod):
    name, title, description = "mean", "Mean", "the mean of the targets"

    def decide(self, split):
        _, y = split.both
        prediction, spread = np.full(len(split.X), y.mean()), np.full(len(split.X), y.var())
        return [Decision(prediction, cost > spread, cost - spread, cost) for cost in split.costs]


def bent(r):
    return np.exp(r.clip(-5, None)), np.exp((-r).clip(-5, None))


surrogates.register("bent", bent, overwrite=True)
"""


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """The path of a paper of a few seconds, with a few printed numbers."""
    folder = tmp_path_factory.mktemp("papers")
    (folder / "small").mkdir()
    (folder / "small.toml").write_text(SMALL_PAPER)
    (folder / "small" / "results.csv").write_text(PRINTED)
    (folder / "small" / "comparison.csv").write_text(COMPARED)
    return folder / "small.toml"


@pytest.fixture(scope="session")
def paper(small):
    return spec.load(small)


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    return path


@pytest.fixture
def bench(small):
    """Run a command of `recuse bench` with the small paper, and return what it prints."""

    def run(command, code=0):
        words = ["bench", *shlex.split(command)]
        result = CliRunner().invoke(app, [*words, *([] if "--paper" in words else ["--paper", str(small)])])
        assert result.exit_code == code, result.output
        return result.output

    return run
