from dataclasses import replace

import pandas as pd
import pytest

from recuse.bench import spec
from recuse.bench.leaderboard.summary import cell_table, named, paper_best, standings, time_table
from recuse.bench.methods.registry import ALWAYS_ACCEPT, choose

METHODS = choose(["auto", "rcr_mae", "knn_plug"])
SHARE_OF_PAPER = {"auto": 0.5, "mlp": 1.2, "knn_plug": 2.0, "always_accept": 3.0}  # by the name of the groups


@pytest.fixture
def paper():
    return spec.load()


@pytest.fixture
def records(paper):
    """All cells, three splits; every method has a fixed share of the paper's best, give or take 1%."""
    best = paper_best(paper)
    rows = [
        {
            **{"dataset": name, "model": method.model, "surrogate": method.surrogate, "share": 1.0, "cost": cost},
            **{"repeat": repeat, "oracle": 0.1, "rej": 30.0, "al": 1.0, "rl": 2.0, "ar": 3.0, "ra": None},
            "rcrloss": best[name, cost] * SHARE_OF_PAPER[method.model] * (0.99 + 0.01 * repeat),
        }
        for method in (*METHODS, ALWAYS_ACCEPT)
        for name, costs in paper.costs.items()
        for cost in costs
        for repeat in range(3)
    ]
    return named(pd.DataFrame(rows), METHODS)


def test_the_papers_best_is_over_its_three_tables_of_networks(paper):
    best = paper_best(paper)
    assert len(best) == 24
    assert (best["abalone", 3.0], best["airfoil", 9.0], best["housing", 16.0]) == (2.39, 6.40, 8.52)


def test_ratio_and_rank_say_who_is_better(records, paper):
    summary = standings(records, paper).summary.set_index("method")
    assert list(summary.index) == ["auto", "rcr_mae", "knn_plug", "always_accept", "always_reject", "oracle"]
    assert summary["ratio"][:4].tolist() == pytest.approx([0.5, 1.2, 2.0, 3.0])
    assert summary["mean_rank"][:3].tolist() == [1, 2, 3]
    assert summary["mean_rank"][3:].isna().all()
    assert summary["below_paper"][:4].tolist() == [24, 0, 0, 0]
    assert summary["lowest"][:3].tolist() == [24, 0, 0]
    assert (summary["ratio_low"] <= summary["ratio"]).all()
    assert (summary["ratio"] <= summary["ratio_high"]).all()


def test_tests_take_cells_or_data_sets_as_blocks(records, paper):
    tests = standings(records, paper).tests
    assert [test.blocks for test in tests.values()] == [24, 5]
    assert tests["data sets"].critical_difference > tests["cells"].critical_difference


def test_yardsticks_have_the_loss_alone(records, paper):
    table = cell_table(records, paper)
    assert len(table) == 24 * (3 * 6 + 3)
    always_reject = table[table["method"] == "always_reject"]
    assert (always_reject["mean"] == always_reject["cost"]).all()
    assert set(table[table["method"] == "oracle"]["metric"]) == {"rcrloss"}


def test_a_data_set_that_the_paper_does_not_print_has_no_ratio(records, paper):
    silent = replace(paper, printed=paper.printed[:0])
    summary = standings(records, silent).summary
    assert summary["ratio"].isna().all()
    assert (summary["printed"] == 0).all()
    assert summary["mean_rank"][:3].tolist() == [1, 2, 3]


def test_times_are_medians_of_what_was_run():
    seconds = pd.DataFrame(
        [("housing", "auto", "cost", repeat, time) for repeat, time in enumerate((3.0, 1.0, 8.0))],
        columns=["dataset", "model", "surrogate", "repeat", "seconds"],
    )
    assert time_table(seconds, METHODS).to_dict("records") == [
        {"method": "auto", "dataset": "housing", "median": 3.0, "least": 1.0, "most": 8.0, "splits": 3}
    ]
