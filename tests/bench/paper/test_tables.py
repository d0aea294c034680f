import numpy as np
import pandas as pd
import pytest

from recuse.bench import spec
from recuse.bench.paper.page import trends
from recuse.bench.paper.tables import COLUMNS, agreement, markdown, side_by_side, summarise


def records():
    """Two repeats of two cells, and the regressor alone; nothing accepted in one repeat."""
    base = {"dataset": "abalone", "model": "mlp", "surrogate": "mae", "share": 1.0}
    measures = {"rl": 9.0, "rej": 40.0, "ar": 30.0, "ra": 30.0}
    return pd.DataFrame(
        [
            base | measures | {"repeat": 0, "cost": 3.0, "rcrloss": 2.0, "al": 1.0},
            base | measures | {"repeat": 1, "cost": 3.0, "rcrloss": 3.0, "al": None},
            base | measures | {"repeat": 0, "cost": 4.0, "rcrloss": 9.0, "al": 2.0},
            base | measures | {"repeat": 1, "cost": 4.0, "rcrloss": 9.1, "al": 2.0},
            base | {"surrogate": "sup", "repeat": 0, "sup": 4.0},
            base | {"surrogate": "sup", "repeat": 1, "sup": 5.0},
        ]
    )


@pytest.fixture
def table():
    return side_by_side(summarise(records()), spec.load(), "mlp")


def cell(table, cost, metric):
    return table[(table["cost"] == cost) & (table["metric"] == metric)].iloc[0]


def test_means_and_deviations_are_over_the_repeats(table):
    assert list(table.columns) == COLUMNS
    row = cell(table, 3.0, "rcrloss")
    assert (row["mean"], row["std"], row["repeats"]) == (2.5, pytest.approx(np.std([2, 3], ddof=1)), 2)


def test_a_measure_that_does_not_exist_is_left_out_of_its_mean(table):
    row = cell(table, 3.0, "al")
    assert (row["mean"], row["repeats"]) == (1.0, 1)


def test_the_printed_number_stands_beside(table):
    row = cell(table, 3.0, "rcrloss")
    assert (row["paper_mean"], row["paper_std"]) == (2.41, 0.12)


def test_sup_stands_beside_every_cost(table):
    sup = table[table["metric"] == "sup"]
    assert sup["mean"].tolist() == [4.5, 4.5]
    assert sup["paper_mean"].tolist() == [4.44, 4.44]


def test_a_lower_loss_counts_as_agreement_and_other_measures_do_not(table):
    checked = agreement(table).set_index(["cost", "metric"])["agrees"]
    assert checked[3.0, "rcrloss"]
    assert not checked[4.0, "rcrloss"]
    lower = table.assign(mean=table["paper_mean"] - 10, std=0.01)
    checked = agreement(lower).set_index(["cost", "metric"])["agrees"]
    assert checked[3.0, "rcrloss"]
    assert checked[3.0, "sup"]
    assert not checked[3.0, "al"]


def test_disagreement_is_bold_in_markdown(table):
    lines = markdown(table).splitlines()
    assert lines[0].startswith("| data set | cost | rcrloss | al |")
    assert "| 2.50 (0.71) / 2.41 (0.12) |" in lines[2]
    assert "| **9.05 (0.07)** / 2.88 (0.13) |" in lines[3]


def test_trends_tell_rising_from_falling():
    base = {"dataset": "abalone", "model": "mlp", "surrogate": "mae", "std": 1.0, "repeats": 2}
    rows = [
        base | {"cost": float(cost), "metric": metric, "mean": mean}
        for metric, means in {"rej": (50, 40, 30), "al": (3, 2, 1)}.items()
        for cost, mean in zip((1, 2, 3), means, strict=True)
    ]
    assert trends(pd.DataFrame(rows)).iloc[0].tolist() == [True, False]
