import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import recuse
from recuse import Decision, audit
from recuse.audit.significance import adjusted, higher_mean, higher_rate, mean_interval, rate_interval

FLAGS = ["rejected_more", "mispredicted_more"]
SHARES = (0.30, 0.22, 0.16, 0.12, 0.08, 0.06, 0.04, 0.02)


def simulated(seed, *, planted=-1, rejected=1.0, loss=1.0, rows=1500):
    generator = np.random.default_rng(seed)
    group = generator.choice(len(SHARES), size=rows, p=SHARES)
    here = group == planted
    accepted = generator.random(rows) >= 0.2 * np.where(here, rejected, 1.0)
    error = generator.standard_t(4, size=rows) * np.sqrt(np.where(here, loss, 1.0))
    return audit.groups(Decision(error, accepted, accepted - 0.5, 2.0), np.zeros(rows), group.astype(str))


def decided(rows=120, index=None, **options):
    generator = np.random.default_rng(0)
    return Decision(generator.normal(size=rows), np.arange(rows) % 3 > 0, np.zeros(rows), 2.0, index=index, **options)


def test_the_module_is_an_attribute_of_the_package():
    assert recuse.audit.groups is audit.groups


def test_measures_are_those_of_the_rows_of_the_group():
    decision, group = decided(), np.repeat(["a", "b"], [40, 80])
    y = np.linspace(-1, 1, 120)
    table = audit.groups(decision, y, group).set_index("group")
    for name, rows in {"a": slice(0, 40), "b": slice(40, 120)}.items():
        measures = decision[rows].evaluate(y[rows])
        for measure in ("rejection_rate", "accepted_loss", "rcr_loss"):
            assert table.loc[name, measure] == pytest.approx(measures[measure])
            assert table.loc[name, f"{measure}_low"] < measures[measure] < table.loc[name, f"{measure}_high"]
        assert table.loc[name, "mean_loss"] == pytest.approx(measures["always_accept"])
        assert table.loc[name, "bias"] == pytest.approx(np.mean(decision.prediction[rows] - y[rows]))
    assert table.loc["a", "bias_difference"] == pytest.approx(table.loc["a", "bias"] - table.loc["b", "bias"])
    assert table["rows"].tolist() == [40, 80]
    assert table["share"].tolist() == pytest.approx([1 / 3, 2 / 3])
    assert table.attrs["overall"]["rcr_loss"] == pytest.approx(decision.evaluate(y)["rcr_loss"])


@pytest.mark.parametrize("seed", range(3))
def test_a_group_that_is_rejected_more_often_is_flagged(seed):
    table = simulated(seed, planted=0, rejected=1.5)
    assert table["rejected_more"].tolist() == [True] + [False] * 7
    assert not table["mispredicted_more"].any()


@pytest.mark.parametrize("seed", range(3))
def test_a_group_with_twice_the_loss_is_flagged(seed):
    table = simulated(seed, planted=2, loss=2.0)
    assert table["mispredicted_more"].tolist() == [False, False, True] + [False] * 5
    assert not table["rejected_more"].any()


def test_without_unequal_treatment_flags_are_rare():
    alarms = sum(simulated(seed)[FLAGS].to_numpy().any() for seed in range(60))
    assert alarms <= 7  # a rate of 5% gives more in 2% of all runs


def test_the_same_seed_gives_the_same_table():
    pd.testing.assert_frame_equal(simulated(1), simulated(1))


def test_a_series_is_aligned_by_label():
    index = pd.Index([f"row {place}" for place in range(120)])
    decision, group = decided(index=index), pd.Series(np.repeat(["a", "b"], 60), index, name="site")
    y = pd.Series(np.linspace(-1, 1, 120), index)
    expected = audit.groups(decision, y, group)
    shuffled = np.random.default_rng(1).permutation(120)
    pd.testing.assert_frame_equal(audit.groups(decision, y.iloc[shuffled], group.iloc[shuffled]), expected)
    assert set(expected["column"]) == {"site"}
    with pytest.raises(ValueError, match="group must have the row labels"):
        audit.groups(decision, y, group.rename(index={"row 3": "else"}))


@pytest.mark.parametrize("library", [pl.DataFrame, pa.table], ids=["polars", "pyarrow"])
def test_tables_of_other_libraries_give_the_same_groups(library):
    columns = {"site": ["a", "b", None] * 40, "age": [float(place) for place in range(120)]}
    expected = audit.groups(decided(), np.zeros(120), pd.DataFrame(columns))
    pd.testing.assert_frame_equal(audit.groups(decided(), np.zeros(120), library(columns)), expected)
    assert expected["group"].tolist() == ["a", "b", "missing", "≤ 29.8", "(29.8, 59.5]", "(59.5, 89.2]", "> 89.2"]


def test_numbers_with_few_values_are_not_binned_and_categories_keep_their_order():
    frame = pd.DataFrame({"origin": [1, 2, 3] * 40, "grade": pd.Categorical(["low", "high"] * 60, ["low", "high"])})
    assert audit.groups(decided(), np.zeros(120), frame)["group"].tolist() == ["1", "2", "3", "low", "high"]


def test_dates_are_binned():
    dates = pd.date_range("2024-01-01", periods=120).to_series()
    groups = audit.groups(decided(), np.zeros(120), dates.to_numpy(), bins=2)["group"].tolist()
    assert groups == ["≤ 2024-02-29", "> 2024-02-29"]


def test_small_groups_are_pooled_with_their_number_and_missing_values_stay():
    group = np.array(["big"] * 100 + ["x"] * 7 + ["y"] * 8 + [None] * 5, dtype=object)
    table = audit.groups(decided(), np.zeros(120), group, min_rows=10)
    assert table["group"].tolist() == ["big", "missing", "other"]
    assert table["rows"].tolist() == [100, 5, 15]
    assert table["pooled_groups"].tolist() == [0, 0, 2]


def test_a_level_may_have_the_name_of_a_special_group():
    group = np.array(["other"] * 60 + ["missing"] * 40 + ["rare"] * 10 + [None] * 10, dtype=object)
    table = audit.groups(decided(), np.zeros(120), group)
    assert table["group"].tolist() == ["missing", "other", "(missing)", "(other)"]
    assert table["rows"].tolist() == [40, 60, 10, 10]


def test_intersections_are_added_on_request():
    frame = pd.DataFrame({"a": ["u", "v"] * 60, "b": ["s", "s", "t", "t"] * 30, "c": ["m"] * 120})
    alone = audit.groups(decided(), np.zeros(120), frame)
    pairs = audit.groups(decided(), np.zeros(120), frame, intersections=True)
    assert len(alone) == 5
    assert set(pairs["column"]) == {"a", "b", "c", "a & b", "a & c", "b & c"}
    assert pairs.loc[pairs["column"] == "a & b", "group"].tolist() == ["u & s", "u & t", "v & s", "v & t"]
    triples = audit.groups(decided(), np.zeros(120), frame, intersections=3)
    assert "a & b & c" in set(triples["column"])


def test_one_group_has_nothing_to_be_compared_with():
    table = audit.groups(decided(), np.zeros(120), ["all"] * 120)
    assert np.isnan(table["rejected_more_p"][0])
    assert not table[FLAGS].to_numpy().any()


def test_a_group_without_accepted_rows_has_no_accepted_loss():
    decision = Decision(np.ones(60), np.repeat([False, True], 30), np.zeros(60), 2.0)
    table = audit.groups(decision, np.zeros(60), np.repeat(["a", "b"], 30))
    assert np.isnan(table["accepted_loss"][0])
    assert table["rejected_more"].tolist() == [True, False]


def test_other_losses():
    decision = Decision(np.ones(60), np.ones(60), np.zeros(60), 2.0, loss="absolute")
    table = audit.groups(decision, np.zeros(60), np.repeat(["a", "b"], 30))
    assert table["mean_loss"].tolist() == table["bias"].tolist() == [1.0, 1.0]
    assert table.attrs["loss"] == "absolute"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group": ["a"]}, "group must have one value for each of 120 rows, got 1"),
        ({"group": "site"}, "group must have one value per row, got 'site'"),
        ({"bins": 1}, "bins must be an integer >= 2"),
        ({"level": 5}, "level must be a number between 0 and 1, got 5"),
        ({"intersections": -1}, "intersections must be a bool or an int >= 1"),
        ({"y": np.full(120, np.nan)}, "must be finite"),
    ],
)
def test_wrong_arguments_give_a_clear_error(options, message):
    arguments = {"y": np.zeros(120), "group": ["a", "b"] * 60} | options
    with pytest.raises(ValueError, match=message):
        audit.groups(decided(), **arguments)


def test_the_interval_of_a_rate_is_that_of_clopper_and_pearson():
    assert rate_interval(0, 10) == (0.0, pytest.approx(1 - 0.025**0.1))
    assert rate_interval(10, 10) == (pytest.approx(0.025**0.1), 1.0)
    assert rate_interval(0, 0) == (0.0, 1.0)


def test_the_interval_of_a_skewed_mean_holds_it_more_often_than_that_of_student():
    generator = np.random.default_rng(0)
    hits = np.zeros(2)
    for _ in range(400):
        losses = generator.standard_t(5, 50) ** 2
        low, high = mean_interval(losses)
        half = 2.01 * losses.std(ddof=1) / np.sqrt(50)
        hits += low < 5 / 3 < high, abs(losses.mean() - 5 / 3) < half
    assert hits[0] / 400 > 0.9
    assert hits[0] > hits[1] + 15


def test_the_interval_of_few_or_equal_values():
    assert np.isnan(mean_interval(np.array([1.0]))).all()
    assert mean_interval(np.full(5, 2.0)) == (2.0, 2.0)
    low, high = mean_interval(np.array([-1.0, 1.0]))
    assert low == pytest.approx(-high)


def test_the_adjustment_is_that_of_holm():
    np.testing.assert_allclose(adjusted(np.array([0.04, 0.01, 0.03])), [0.06, 0.03, 0.06])


def test_the_permutation_test_is_uniform_under_equality_and_one_sided():
    generator = np.random.default_rng(0)
    member = np.arange(60) < 12
    p = np.array([higher_mean(np.exp(2 * generator.normal(size=60)), member, 199, generator) for _ in range(200)])
    assert np.mean(p <= 0.1) <= 0.16
    values = np.where(member, 0.0, 1.0) + 0.1 * generator.random(60)
    assert higher_mean(values, member, 199, generator) > 0.9
    assert higher_mean(values, ~member, 199, generator) == 1 / 200
    assert higher_mean(np.ones(60), member, 199, generator) == 1.0


def test_the_test_of_rates_is_that_of_fisher():
    flags = np.array([True] * 4 + [False] * 6)
    assert higher_rate(flags, flags) == pytest.approx(1 / 210)
