import math

import numpy as np
import pandas as pd
import pytest

from recuse.bench import spec
from recuse.bench.rcr import RcR
from recuse.bench.tables import comparison, gaps, lowest_loss, paper_table, trends, with_rates

COLUMNS = ["dataset", "model", "surrogate", "cost", "metric", "mean", "std", "repeats", "paper_mean", "paper_std"]


@pytest.fixture
def table():
    """Two splits of two cells, and the regressor alone; nothing is accepted in one split."""
    base = {"dataset": "abalone", "method": "rcr_mae", "rl": 9.0, "rej": 40.0, "ar": 30.0, "ra": 30.0}
    rows = [
        base | {"repeat": repeat, "cost": cost, "rcrloss": loss, "al": accepted}
        for repeat, cost, loss, accepted in ((0, 3, 2, 1), (1, 3, 3, math.nan), (0, 4, 9, 2), (1, 4, 9.1, 2))
    ]
    alone = [
        base | {"method": "always_accept", "repeat": repeat, "cost": cost, "rcrloss": 4.0 + repeat, "al": 4.0 + repeat}
        for repeat in (0, 1)
        for cost in (3, 4)
    ]
    return paper_table(pd.DataFrame([*rows, *alone]).astype({"cost": float}), spec.load(), [RcR("mlp", "mae")])


def cell(table, cost, metric):
    return table[(table["cost"] == cost) & (table["metric"] == metric)].iloc[0]


def test_means_and_deviations_are_over_the_splits_beside_the_printed_numbers(table):
    assert list(table.columns) == COLUMNS
    row = cell(table, 3.0, "rcrloss")
    assert (row["mean"], row["std"], row["repeats"]) == (2.5, pytest.approx(np.std([2, 3], ddof=1)), 2)
    assert (row["paper_mean"], row["paper_std"]) == (2.41, 0.12)


def test_a_measure_that_does_not_exist_is_left_out_of_its_mean(table):
    row = cell(table, 3.0, "al")
    assert (row["mean"], row["repeats"]) == (1.0, 1)


def test_sup_stands_beside_every_cost(table):
    sup = table[table["metric"] == "sup"]
    assert sup["mean"].tolist() == [4.5, 4.5]
    assert sup["paper_mean"].tolist() == [4.44, 4.44]


def test_a_gap_is_in_standard_errors_and_a_lower_loss_is_no_agreement(table):
    table = table.assign(gap=gaps(table, 10))
    row = cell(table, 3.0, "rcrloss")
    assert row["gap"] == pytest.approx((2.5 - 2.41) / math.sqrt(0.5 / 2 + 0.12**2 / 10))
    assert math.isnan(cell(table, 3.0, "al")["gap"])  # one split has no deviation
    lower = table.assign(mean=table["paper_mean"] - 10, std=0.01)
    assert (gaps(lower, 10).dropna() < -2).all()


def test_trends_tell_rising_from_falling_and_leave_out_what_is_not_defined():
    base = {"model": "mlp", "surrogate": "mae", "std": 1.0, "repeats": 2}
    rows = [
        base | {"dataset": "abalone", "cost": float(cost), "metric": metric, "mean": mean}
        for metric, means in {"rej": (50, 40, 30), "al": (3, 2, 1)}.items()
        for cost, mean in zip((1, 2, 3), means, strict=True)
    ]
    rows += [base | {"dataset": "housing", "cost": 1.0, "metric": metric, "mean": 1.0} for metric in ("rej", "al")]
    assert trends(pd.DataFrame(rows)).tolist() == [True, False]


def test_our_methods_have_the_lowest_rate_of_each_cell():
    table = with_rates(spec.load().comparison, ["auto"]).query("method == 'auto' and dataset == 'concrete'")
    np.testing.assert_allclose(table["target_rejection"], [69, 44, 31, 19.76, 12])


def compared(auto_loss):
    """One split of every method in every cell, as printed; ours with a loss of its own."""
    printed = spec.load().comparison
    rows = printed.rename(columns={"al_mean": "al", "rej_mean": "rej"})[["dataset", "method", "cost", "al", "rej"]]
    ours = rows.drop_duplicates(["dataset", "cost"]).assign(method="auto", al=auto_loss, rej=10.0)
    return comparison(pd.concat([rows, ours]).assign(repeat=0, rcrloss=1.0), spec.load(), ["auto"])


def test_ours_stands_after_the_methods_of_each_cell_without_printed_numbers():
    table = compared(0.1)
    assert list(table.columns) == COLUMNS
    assert table["model"].drop_duplicates().tolist() == ["rcr_mae", "mlp_plug", "selectivenet", "auto"]
    assert len(table) == 17 * 4 * 3
    assert table.loc[table["model"] == "auto", ["paper_mean", "paper_std"]].isna().all(axis=None)
    first = table[(table["dataset"] == "abalone") & (table["cost"] == 3.0)]
    assert first["model"].tolist()[-3:] == ["auto"] * 3


@pytest.mark.parametrize(("loss", "wins"), [(0.1, 17), (2.2, 16), (100.0, 0)])
def test_cells_with_the_lowest_loss_are_counted(loss, wins):
    counts = lowest_loss(compared(loss), "auto")
    assert counts == {"cells": 17, "our_runs": wins, "printed": wins, "both": wins}


def test_our_runs_and_printed_numbers_are_counted_apart():
    table = compared(0.5)
    better = table["mean"].where(table["model"] == "auto", 0.4)  # our runs of the others are below ours
    counts = lowest_loss(table.assign(mean=better), "auto")
    assert counts == {"cells": 17, "our_runs": 0, "printed": 17, "both": 0}
