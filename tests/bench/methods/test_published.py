import numpy as np
import pandas as pd
import pytest

from recuse.bench import spec
from recuse.bench.methods.auto import at_rejection_rates, our_group, run_ours
from recuse.bench.methods.published import mlp_plug_model, rival_groups, selectivenet_model
from recuse.bench.paper.comparison import compare, lowest_accepted_loss
from recuse.bench.paper.tables import COLUMNS
from recuse.bench.work_unit import Group
from recuse.estimators import SelectiveNetRegressor


@pytest.fixture
def paper():
    return spec.load()


def records(paper, auto_loss):
    """One split of every method in every cell, as printed; ours with a loss of its own."""
    printed = paper.comparison
    names = {"rcr_mae": ("mlp", "mae"), "mlp_plug": ("mlp_plug", "budget"), "selectivenet": ("selectivenet", "budget")}
    rows = [
        {"dataset": row["dataset"], "model": names[row["method"]][0], "surrogate": names[row["method"]][1]}
        | {"cost": row["cost"], "repeat": 0, "al": row["al_mean"], "rej": row["rej_mean"], "rcrloss": 1.0}
        for row in printed.to_dict("records")
    ]
    cells = printed[["dataset", "cost"]].drop_duplicates()
    ours = cells.assign(model="auto", surrogate="budget", repeat=0, al=auto_loss, rej=10.0, rcrloss=1.0)
    return pd.concat([pd.DataFrame(rows), ours], ignore_index=True)


def test_the_rate_of_auto_rejector_is_the_lowest_of_the_cell(paper):
    group = our_group(paper, "concrete", 0)
    assert group.costs == (20.0, 30.0, 40.0, 50.0, 60.0)
    np.testing.assert_allclose(group.budgets, [0.69, 0.44, 0.31, 0.1976, 0.12])


def test_a_cost_that_is_not_compared_has_no_rate(paper):
    assert [budget >= 0 for budget in our_group(paper, "auto_mpg", 0).budgets].count(False) == 1
    assert set(our_group(paper, "airfoil", 0).budgets) == {-1.0}


def test_rivals_keep_their_rates(paper):
    plug, selective = rival_groups(paper, repeats=1, names=["abalone"], costs=[3.0])
    assert (plug.budgets, selective.budgets) == ((0.4204,), (0.42,))


def test_ours_stands_after_the_methods_of_each_cell_without_printed_numbers(paper):
    table = compare(records(paper, 0.1), paper)
    assert list(table.columns) == COLUMNS
    methods = table["model"].drop_duplicates()
    assert methods.tolist() == ["rcr_mae", "mlp_plug", "selectivenet", "auto"]
    assert len(table) == 17 * 4 * 3
    assert table.loc[table["model"] == "auto", ["paper_mean", "paper_std"]].isna().all(axis=None)
    first = table[(table["dataset"] == "abalone") & (table["cost"] == 3.0)]
    assert first["model"].tolist()[-3:] == ["auto"] * 3


@pytest.mark.parametrize(("loss", "wins"), [(0.1, 17), (2.2, 16), (100.0, 0)])
def test_cells_with_the_lowest_accepted_loss_are_counted(paper, loss, wins):
    counts = lowest_accepted_loss(compare(records(paper, loss), paper))
    assert counts == {"cells": 17, "our_runs": wins, "printed": wins, "both": wins}


def test_our_runs_and_printed_numbers_are_counted_apart(paper):
    table = compare(records(paper, 0.5), paper)
    better = table["mean"].where(table["model"] == "auto", 0.4)  # our runs of the others are below ours
    counts = lowest_accepted_loss(table.assign(mean=better))
    assert counts == {"cells": 17, "our_runs": 0, "printed": 17, "both": 0}


def test_one_fit_of_ours_serves_costs_and_rejection_rates(paper):
    group = our_group(paper, "auto_mpg", 0)
    cells = run_ours(group, paper.protocol, learners=["support_vectors"], cv=2)["cells"]
    assert [cell["cost"] for cell in cells] == list(group.costs)
    rates = at_rejection_rates(pd.DataFrame(cells).assign(dataset="auto_mpg", model="auto", repeat=0))
    asked = [100 * budget for budget in group.budgets if budget >= 0]
    assert rates["surrogate"].unique() == ["budget"]
    np.testing.assert_allclose(rates["rej"], asked, atol=15)
    assert rates["rej"].tolist() != pd.DataFrame(cells).loc[rates.index, "rej"].tolist()


def test_both_tables_run_the_same_models(paper):
    by_rate, by_cost = (
        Group("auto_mpg", "mlp_plug", surrogate, 3, (4.0,), budgets=(0.1,)) for surrogate in ("budget", "cost")
    )
    assert repr(mlp_plug_model(by_rate, paper.protocol)) == repr(mlp_plug_model(by_cost, paper.protocol))
    one, other = (selectivenet_model(group, paper.protocol, 4.0, 0.9) for group in (by_rate, by_cost))
    assert one.get_params() == other.get_params() == {**SelectiveNetRegressor(0.9, 4.0, random_state=3).get_params()}
