"""Ratios and the page of benchmarks/automl.py, from results that are stored."""

import importlib.util
from pathlib import Path

import pandas as pd
import pytest

_PATH = Path(__file__).parents[2] / "benchmarks" / "automl_page.py"
_spec = importlib.util.spec_from_file_location("automl_page", _PATH)
automl_page = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(automl_page)


def line(table, split, method, level, loss, limit="60", setting="usual"):
    words = {"table": table, "split": split, "method": method, "level": level, "limit": limit, "setting": setting}
    numbers = {"cost": 1.0, "loss": loss, "accepted": 0.5, "train_rows": 80, "features": 3, "cores": 1}
    accepted = {"test_rows": 20, "expected": 3.0, "observed": 2.0}
    return words | numbers | accepted | {"fit_seconds": 10.0, "processor_seconds": 9.0}


def results(*losses):
    """Lines from (table, split, level, our loss, rival's loss)."""
    return pd.DataFrame(
        [
            line(table, split, method, level, loss)
            for table, split, level, *both in losses
            for method, loss in zip((automl_page.AUTOREJECTOR, automl_page.AUTOGLUON), both, strict=True)
        ]
    )


def test_the_ratio_of_a_table_is_the_geometric_mean_over_costs_of_ratios_of_mean_losses():
    pairs = automl_page.paired(
        results(("a", 0, "1", 1.0, 4.0), ("a", 1, "1", 3.0, 4.0), ("a", 0, "2", 2.0, 1.0), ("a", 1, "2", 2.0, 1.0)),
        automl_page.AUTOREJECTOR,
    )
    table = automl_page.by_table(pairs).iloc[0]
    assert table["ratio"] == pytest.approx((4.0 / 8.0 * 2.0) ** 0.5)
    assert table["lowest"] == pytest.approx((0.25 * 2.0) ** 0.5)
    assert table["highest"] == pytest.approx((0.75 * 2.0) ** 0.5)
    assert table["splits"] == 2


def test_expected_over_observed_loss_is_that_of_the_accepted_rows_of_all_splits():
    stored = results(("a", 0, "1", 1.0, 1.0), ("a", 1, "1", 1.0, 1.0))
    ours = stored["method"] == automl_page.AUTOREJECTOR
    stored.loc[ours, ["accepted", "expected", "observed"]] = [[0.75, 4.0, 2.0], [0.25, 1.0, 2.0]]
    stored.loc[~ours, ["accepted", "expected", "observed"]] = [0.0, float("nan"), float("nan")]
    cost = automl_page.by_cost(automl_page.paired(stored, automl_page.AUTOREJECTOR)).iloc[0]
    assert cost["calibration"] == pytest.approx((0.75 * 4 + 0.25 * 1) / 2)
    assert pd.isna(cost["calibration_rival"])
    assert " | 1.62 |  |\n" in automl_page.page(stored)


def test_only_splits_that_both_methods_ran_are_compared():
    stored = results(("a", 0, "1", 1.0, 2.0), ("a", 1, "1", 100.0, 1.0))
    stored = stored[~((stored["split"] == 1) & (stored["method"] == automl_page.AUTOGLUON))]
    table = automl_page.by_table(automl_page.paired(stored, automl_page.AUTOREJECTOR)).iloc[0]
    assert (table["splits"], table["ratio"]) == (1, 0.5)


def test_the_page_has_a_line_for_every_table_also_where_the_rival_is_better():
    text = automl_page.page(results(("concrete", 0, "20", 1.0, 2.0), ("other", 0, "30%", 3.0, 2.0)))
    assert "| all | 2 | 0.866 | 1 | 1.500 |" in text
    assert "| of the paper | 1 | 0.500 | 1 | 0.500 |" in text
    assert "| other | 80 | 3 | 1 | 1.500 |  | 1.50 to 1.50 | 50% | 50% | 10 (9) | 10 (9) |" in text
    assert "### AutoRejector without a limit" not in text


def test_the_interval_of_a_ratio_needs_five_splits_and_contains_the_ratio():
    losses = [("a", split, level, loss, 4.0) for level in "12" for split, loss in enumerate([1.0, 2.0, 3.0, 4.0, 5.0])]
    by_table = [
        automl_page.by_table(automl_page.paired(results(*some), automl_page.AUTOREJECTOR)).iloc[0]
        for some in (losses, [line for line in losses if line[1] < 4])
    ]
    assert 0.25 < by_table[0]["low"] < by_table[0]["ratio"] < by_table[0]["high"] < 1.25
    assert pd.isna(by_table[1]["low"])


def test_fits_without_a_limit_are_compared_with_the_rival_of_each_limit():
    free = pd.DataFrame([line("concrete", 0, automl_page.NO_LIMIT, "20", 0.5, limit="")])
    text = automl_page.page(pd.concat([results(("concrete", 0, "20", 1.0, 2.0)), free]))
    assert text.count("## 60 seconds, one core") == 1
    _, _, unlimited = text.partition("### AutoRejector without a limit")
    assert "| all | 1 | 0.250 | 1 | 0.250 |" in unlimited


def test_results_of_several_settings_are_not_mixed():
    other = pd.DataFrame([line("a", 1, automl_page.AUTOGLUON, "1", 1.0, setting="other")])
    with pytest.raises(ValueError, match=r"one setting for each method, got \['other', 'usual'\] for AutoGluon"):
        automl_page.page(pd.concat([results(("a", 0, "1", 1.0, 2.0)), other]))
