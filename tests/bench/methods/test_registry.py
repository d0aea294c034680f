from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from recuse.bench.leaderboard.run import run_methods
from recuse.bench.methods.auto import together
from recuse.bench.methods.registry import ALWAYS_ACCEPT, METHODS, Method, choose, run_method
from recuse.bench.paper.run import run_paper
from recuse.bench.work_unit import SUPERVISED, Group, run_group
from recuse.cli.app import app
from recuse.datasets import load, split
from recuse.decision import Decision

QUICK = ["no_rejection", "knn_plug"]
CSV = ["leaderboard.csv", "ranks.csv", "friedman.csv"]


def run(method, paper):
    return run_method(method.group(paper, "auto_mpg", 0), paper.protocol, [method])["cells"]


@pytest.mark.parametrize("name", [name for name in METHODS if name != "auto"])
def test_every_method_decides_at_every_cost(name, paper):
    cells = run(METHODS[name], paper)
    assert [cell["cost"] for cell in cells] == [4.0, 6.0]
    for cell in cells:
        rejected = cell["rej"] / 100
        assert cell["rcrloss"] == pytest.approx((1 - rejected) * (cell["al"] or 0) + rejected * cell["cost"])
        assert cell.get("oracle", 0) <= cell["rcrloss"]


def test_always_accept_is_sup_of_the_reproduction(paper):
    (sup,) = run_group(Group("auto_mpg", "mlp", SUPERVISED, 0), paper.protocol)["cells"]
    for cell in run(ALWAYS_ACCEPT, paper):
        assert cell["rej"] == 0
        assert cell["rcrloss"] == pytest.approx(sup["sup"])


def test_training_and_validation_rows_together_hold_no_test_row():
    train, validation, test = split(load("housing"), 0)
    X, y = together(train, validation)
    assert len(X) == len(y) == len(train[1]) + len(validation[1])
    assert not set(X.index) & set(test[0].index)


def mean_of_targets(group, protocol, train, validation, X):
    prediction = np.full(len(X), train[1].mean())
    return [Decision(prediction, np.ones(len(X)), np.ones(len(X)), cost) for cost in group.costs]


def test_a_new_method_is_one_entry(paper, tmp_path):
    mine = Method("mean", "Mean", "the mean of the targets", "training", mean_of_targets)
    table, result = run_methods(paper, [*choose(QUICK), mine], tmp_path, progress=False)
    assert set(result.summary["method"][:2]) == set(QUICK)
    assert result.summary["method"][2] == "mean"
    assert set(table["method"]) == {*QUICK, "mean", "always_accept", "always_reject", "oracle"}
    assert "| Mean | `mean` | the mean of the targets | training |" in (tmp_path / "README.md").read_text()


def test_everything_is_written(paper, tmp_path):
    run_methods(paper, choose(QUICK), tmp_path, progress=False)
    table = pd.read_csv(tmp_path / "leaderboard.csv")
    assert list(table.columns) == ["dataset", "method", "cost", "metric", "mean", "std", "repeats", "paper_best"]
    assert len(table) == 3 * (2 * 6 + 3)  # cells; all measures of the methods, one of the yardsticks
    loss = table[table["metric"] == "rcrloss"].set_index(["method", "dataset", "cost"])
    assert loss["paper_best"].notna().all()
    assert loss.loc[("always_reject", "auto_mpg", 4.0)]["mean"] == 4.0
    assert loss.loc["oracle"]["mean"].lt(loss.loc["always_accept"]["mean"]).all()
    page = (tmp_path / "README.md").read_text()
    for line in ("| always accept |", "| always reject |", "| oracle |", "| the paper's best |", "![ranks](ranks.png)"):
        assert line in page
    assert {"times.csv", "ranks.png", "loss_against_cost.png", "environment.json"} <= {
        p.name for p in tmp_path.iterdir()
    }


def test_two_processes_give_the_bytes_of_one(paper, tmp_path):
    for jobs in (1, 2):
        run_methods(paper, choose(QUICK), tmp_path / str(jobs), jobs=jobs, draw=False, progress=False)
    for name in CSV:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_only_missing_groups_are_run_again(paper, tmp_path):
    run_methods(paper, choose(QUICK), tmp_path, draw=False, progress=False)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "groups").iterdir()}
    tables = [(tmp_path / name).read_bytes() for name in CSV]
    gone = tmp_path / "groups" / "housing-no_rejection-cost-1.json"
    gone.unlink()
    run_methods(paper, choose(QUICK), tmp_path, draw=False, progress=False)
    assert [path for path, time in before.items() if path.stat().st_mtime_ns != time] == [gone]
    assert tables == [(tmp_path / name).read_bytes() for name in CSV]


def test_runs_of_the_reproduction_are_reused(paper, tmp_path):
    paper = replace(paper, costs={"housing": (9.0,)})
    run_paper(paper, ["mlp"], tmp_path / "paper", draw=False, progress=False)
    mae, output = choose(["rcr_mae"]), tmp_path / "methods"
    table, _ = run_methods(paper, mae, output, reuse=tmp_path / "paper", draw=False, progress=False)
    assert not list((output / "groups").glob("*-mlp-*"))
    again, _ = run_methods(paper, mae, tmp_path / "alone", draw=False, progress=False)
    pd.testing.assert_frame_equal(table, again)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--methods", "magic"], "methods must be among"),
        (["--methods", ""], "methods must be some of"),
        (["--datasets", "abalon"], "datasets must be among"),
    ],
)
def test_a_wrong_option_is_explained(options, message, tmp_path):
    result = CliRunner().invoke(app, ["bench", "methods", "-o", str(tmp_path), *options])
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())


def test_the_command_prints_a_leaderboard(tmp_path):
    options = ["--methods", "knn_plug", "--datasets", "housing", "--repeats", "1", "--no-figures", "-o", str(tmp_path)]
    result = CliRunner().invoke(app, ["bench", "methods", *options])
    assert result.exit_code == 0
    for name in ("knn_plug", "always_accept", "always_reject", "oracle"):
        assert name in result.output
    assert "--methods knn_plug --datasets housing --repeats 1" in (tmp_path / "README.md").read_text()
