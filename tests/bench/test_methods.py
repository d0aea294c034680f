import numpy as np
import pandas as pd
import pytest

from recuse import Decision, datasets, metrics
from recuse.bench import spec
from recuse.bench.cells import BenchOptions, finished, list_cells, measures
from recuse.bench.leaderboard import paper_best, standings
from recuse.bench.method import BenchMethod
from recuse.bench.methods import METHODS

FILES = ("splits", "leaderboard", "ranks", "friedman", "paired_tests")


@pytest.mark.parametrize("name", [name for name in METHODS if name != "auto"])
def test_every_method_decides_at_every_cost(name, paper, tmp_path):
    options = BenchOptions(repeats=1, datasets=["auto_mpg"], progress=False)
    cells = list_cells(paper, [METHODS[name]], options.costs_of(paper.costs), options)
    table = measures(finished(cells, tmp_path, options))
    assert table["cost"].tolist() == [4.0, 6.0]
    rejected = table["rej"] / 100
    np.testing.assert_allclose(table["rcrloss"], (1 - rejected) * table["al"].fillna(0) + rejected * table["cost"])
    assert (table["oracle"] <= table["rcrloss"]).all()


def test_a_method_is_one_class_in_a_file_of_the_user(bench, mine, tmp_path):
    assert len(mine.read_text().partition("def bent")[0].splitlines()) < 40
    output = bench(f"methods --methods mean,knn_plug --methods-from {mine} --no-figures -o {tmp_path}")
    assert "mean" in output
    table = pd.read_csv(tmp_path / "leaderboard.csv").query("metric == 'rcrloss' and dataset == 'housing'")
    loss = table.set_index(["method", "cost"])["mean"]
    assert loss["mean", 9.0] == 9.0  # the variance is above the cost
    page = (tmp_path / "README.md").read_text()
    assert "| Mean | `mean` | the mean of the targets | training and validation together |" in page
    before = {path.name for path in (tmp_path / "cells").iterdir()}
    mine.write_text(mine.read_text().replace("y.mean()", "y.median()"))
    bench(f"methods --methods mean,knn_plug --methods-from {mine} --no-figures -o {tmp_path}")
    new = {path.name for path in (tmp_path / "cells").iterdir()} - before
    assert len(new) == 4
    assert all("-mean-" in name for name in new)


def test_a_new_method_is_ranked_beside_published_splits_without_running_them(bench, mine, tmp_path):
    bench(f"methods --methods knn_plug,no_rejection --no-figures -o {tmp_path / 'old'}")
    splits = tmp_path / "old" / "splits.csv"
    bench(f"methods --methods-from {mine} --against {splits} --costs 4,9 --no-figures -o {tmp_path / 'new'}")
    assert {path.name.split("-")[1] for path in (tmp_path / "new" / "cells").iterdir()} == {"mean", "rcr_bent"}
    ranks = pd.read_csv(tmp_path / "new" / "ranks.csv").set_index("method")
    assert set(ranks.index[:4]) == {"mean", "rcr_bent", "knn_plug", "no_rejection"}
    assert ranks["cells"].dropna().tolist() == [2.0] * 4
    old, new = (pd.read_csv(tmp_path / name / "leaderboard.csv") for name in ("old", "new"))
    shared = new[~new["method"].isin(["mean", "rcr_bent"])]
    pd.testing.assert_frame_equal(shared.merge(old), shared.reset_index(drop=True))
    assert "the splits of" in bench(
        f"methods --methods-from {mine} --against {splits} --repeats 3 -o {tmp_path / 'new'}", code=2
    )


def test_everything_is_written(bench, tmp_path):
    bench(f"methods --methods no_rejection,knn_plug --predictions -o {tmp_path}")
    table = pd.read_csv(tmp_path / "leaderboard.csv")
    assert list(table.columns) == ["dataset", "method", "cost", "metric", "mean", "std", "repeats", "paper_best"]
    assert len(table) == 4 * (2 * 8 + 3)  # cells; all measures of the methods, one of the reference lines
    loss = table[table["metric"] == "rcrloss"].set_index(["method", "dataset", "cost"])
    assert loss.loc[("always_reject", "auto_mpg", 4.0)]["mean"] == 4.0
    assert loss.loc["oracle"]["mean"].lt(loss.loc["always_accept"]["mean"]).all()
    page = (tmp_path / "README.md").read_text()
    for part in ("| always accept |", "| always reject |", "| oracle |", "| the paper's best | 3.50 |", "## Glossary"):
        assert part in page
    written = {path.name for path in tmp_path.iterdir()}
    assert {"times.csv", "paired_tests.csv", "ranks.png", "loss_against_cost.png", "environment.json"} <= written
    tex = (tmp_path / "leaderboard.tex").read_text()
    assert tex.count(r"\begin{tabular}{lrr}") == 2
    assert "\\textbf{" in tex
    assert "\\%" in tex


def test_predictions_give_the_measures_of_every_split(bench, tmp_path):
    bench(f"methods --methods knn_plug --datasets housing --predictions --no-figures -o {tmp_path}")
    rows = pd.read_csv(tmp_path / "predictions.csv.gz").query("method == 'knn_plug'")
    splits = pd.read_csv(tmp_path / "splits.csv").query("method == 'knn_plug'").set_index(["cost", "repeat"])
    _, _, (_, y) = datasets.split(datasets.load("housing"), 0)
    for (cost, repeat), part in rows.groupby(["cost", "repeat"]):
        if repeat == 0:
            assert part["target"].tolist() == y.tolist()
        decision = Decision(part["prediction"], part["accepted"], part["score"], cost)
        row = splits.loc[(cost, repeat)]
        assert row["rcrloss"] == pytest.approx(decision.evaluate(part["target"])["rcr_loss"], rel=1e-5)
        area = metrics.area_under_risk_coverage(part["target"], part["prediction"], part["score"])
        assert row["aurc"] == pytest.approx(area, rel=1e-5)


def test_two_processes_give_the_bytes_of_one_also_with_methods_of_the_user(bench, mine, tmp_path):
    for jobs in (1, 2):
        options = f"--methods mean,rcr_bent,knn_plug --methods-from {mine} --datasets housing --repeats 1 --no-figures"
        bench(f"methods {options} --jobs {jobs} -o {tmp_path / str(jobs)}")
    for name in FILES[1:]:
        assert (tmp_path / "1" / f"{name}.csv").read_bytes() == (tmp_path / "2" / f"{name}.csv").read_bytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import nothing_there", "raises ModuleNotFoundError"),
        ("x = 1", "must define a subclass of BenchMethod"),
        ("from recuse.bench.method import BenchMethod\nclass A(BenchMethod):\n    name = 'a'", "must define fit"),
    ],
)
def test_a_file_that_defines_no_method_is_explained(text, message, bench, tmp_path):
    (tmp_path / "bad.py").write_text(text)
    assert message in bench(f"methods --methods-from {tmp_path / 'bad.py'} --methods a -o {tmp_path}", code=2)


def test_a_method_that_decides_too_little_is_named(paper, tmp_path):
    class Short(BenchMethod):
        name = "short"

        def decide(self, split):
            return [Decision([1.0], [True], [1.0], cost) for cost in split.costs]

    options = BenchOptions(repeats=1, datasets=["housing"], progress=False)
    with pytest.raises(ValueError, match="the result of short must be one Decision about 102 rows for each of 2 costs"):
        finished(list_cells(paper, [Short()], options.costs_of(paper.costs), options), tmp_path, options)


@pytest.mark.parametrize("names", ["knn_plugs", ","])
def test_unknown_methods_are_explained(names, bench, tmp_path):
    assert "methods must be" in bench(f"methods --methods {names} -o {tmp_path}", code=2)


SHARE_OF_PAPER = {"auto": 0.5, "rcr_mae": 1.2, "knn_plug": 2.0, "always_accept": 3.0}


@pytest.fixture
def ranked():
    """All cells of the paper, three splits; every method has a fixed share of the paper's best, give or take 1%."""
    paper = spec.load()
    best = paper_best(paper)
    random = np.random.default_rng(0)
    rows = [
        {"dataset": name, "method": method, "cost": cost, "repeat": repeat, "seconds": 1.0 + repeat}
        | dict.fromkeys(("al", "rl", "rej", "ar", "ra", "aurc", "oracle"), 1.0)
        | {"rcrloss": best[name, cost] * share * (0.99 + 0.01 * repeat + 0.001 * random.random())}
        for method, share in SHARE_OF_PAPER.items()
        for name, costs in paper.costs.items()
        for cost in costs
        for repeat in range(3)
    ]
    return standings(pd.DataFrame(rows), paper)


def test_the_papers_best_is_over_its_three_tables_of_networks():
    best = paper_best(spec.load())
    assert len(best) == 24
    assert (best["abalone", 3.0], best["airfoil", 9.0], best["housing", 16.0]) == (2.39, 6.40, 8.52)


def test_ratio_and_rank_say_who_is_better(ranked):
    summary = ranked["ranks"].set_index("method")
    assert list(summary.index) == ["auto", "rcr_mae", "knn_plug", "always_accept", "always_reject", "oracle"]
    assert summary["ratio"][:4].tolist() == pytest.approx([0.5, 1.2, 2.0, 3.0], rel=1e-2)
    assert summary["mean_rank"][:3].tolist() == [1, 2, 3]
    assert summary["mean_rank"][3:].isna().all()
    assert summary["below_paper"][:4].tolist() == [24, 0, 0, 0]
    assert summary["lowest"][:3].tolist() == [24, 0, 0]
    assert (summary["ratio_low"] <= summary["ratio"]).all()
    assert (summary["ratio"] <= summary["ratio_high"]).all()


def test_tests_take_cells_or_data_sets_as_blocks(ranked):
    tests = ranked["friedman"]
    assert tests["blocks"].tolist() == [24, 5]
    assert tests["critical_difference"][1] > tests["critical_difference"][0]


def test_every_method_is_tested_against_the_best_on_every_data_set(ranked):
    tests = ranked["paired_tests"]
    assert tests.groupby("method").size().to_dict() == {"rcr_mae": 5, "knn_plug": 5}
    assert (tests["p_holm"] >= tests["p"]).all()
    assert (tests["p_holm"] < 0.05).all()


def test_reference_lines_have_the_loss_alone_and_times_are_of_a_split_at_all_costs(ranked):
    table = ranked["leaderboard"]
    assert len(table) == 24 * (3 * 8 + 3)
    always_reject = table[table["method"] == "always_reject"]
    assert (always_reject["mean"] == always_reject["cost"]).all()
    times = ranked["times"].set_index(["method", "dataset"])
    assert times.loc[("auto", "abalone"), ["median", "least", "most", "splits"]].tolist() == [8.0, 4.0, 12.0, 3.0]
