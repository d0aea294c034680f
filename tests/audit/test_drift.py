import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from recuse import Decision, audit


def table(seed, rows=400):
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": generator.normal(size=rows),
            "site": generator.choice(["a", "b", "c"], rows),
            "flag": generator.random(rows) < 0.5,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(generator.integers(0, 90, rows), unit="D"),
        }
    )


def lines(*args, **options):
    return audit.drift(*args, **options).set_index("column")


def test_one_line_for_each_column_with_its_kind():
    found = audit.drift(table(0), table(1))
    assert found["column"].tolist() == ["size", "site", "flag", "day"]
    assert found["kind"].tolist() == ["number", "category", "category", "date"]
    assert not found["drifted"].any()
    assert found["missing_p"].isna().all()


def test_a_shift_of_numbers_is_found_with_the_share_outside_the_range():
    past, today = table(0), table(1)
    today["size"] += 0.7
    found = lines(past, today).loc["size"]
    assert found["drifted"]
    assert found["distance"] > 0.2
    assert found["new"] == np.mean((today["size"] < past["size"].min()) | (today["size"] > past["size"].max()))


def test_new_categories_are_named():
    past, today = table(0), table(1)
    today.loc[:40, "site"] = "d"
    found = lines(past, today).loc["site"]
    assert found["drifted"]
    assert found["new_categories"] == ["d"]
    assert found["new"] == 41 / 400
    shares = [frame["site"].value_counts(normalize=True) for frame in (past, today)]
    assert found["distance"] == pytest.approx(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def test_more_missing_values_are_found():
    past, today = table(0), table(1)
    today.loc[::8, "size"] = np.nan
    found = lines(past, today)
    assert found.loc["size", ["missing_reference", "missing_current"]].tolist() == [0.0, 0.125]
    assert found.loc["size", "missing_p"] < 1e-6
    assert found["drifted"].tolist() == [True, False, False, False]


def test_without_drift_flags_are_rare():
    assert sum(audit.drift(table(seed), table(1000 + seed))["drifted"].any() for seed in range(60)) <= 7


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas], ids=["polars", "pyarrow"])
def test_tables_of_other_libraries_give_the_same_lines(convert):
    expected = audit.drift(table(0), table(1))
    pd.testing.assert_frame_equal(audit.drift(convert(table(0)), convert(table(1))), expected)


def test_arrays_have_positions_as_names():
    generator = np.random.default_rng(0)
    assert audit.drift(generator.normal(size=(50, 2)), generator.normal(size=(60, 2)))["column"].tolist() == ["0", "1"]


def test_scores_and_rejections_are_compared_if_decisions_are_given():
    score = np.linspace(-1, 3, 400)
    past = Decision(score, score > 0, score, 2.0)
    today = Decision(score - 1, score > 1, score - 1, 2.0)
    found = lines(table(0), table(1), decisions=(past, today))
    assert found.loc["decision: score", "drifted"]
    assert found.loc["decision: rejected", "drifted"]
    assert found.loc["decision: rejected", "distance"] == pytest.approx(today.rejection_rate - past.rejection_rate)


def test_small_differences_are_ignored_on_request():
    past, today = table(0), table(1)
    today["size"] += 0.7
    assert not audit.drift(past, today, min_distance=0.5)["drifted"].any()


def test_columns_without_values():
    past, today = pd.DataFrame({"a": [None] * 40, "b": [1.0] * 40}), pd.DataFrame({"a": [None] * 30 + ["x"] * 10})
    found = lines(past, today.assign(b=np.nan))
    assert found["kind"].tolist() == ["empty", "number"]
    assert found["drifted"].tolist() == [True, True]  # by the share of missing values
    assert found["distance"].isna().all()


def test_a_column_of_names_is_compared_quickly():
    names = pd.DataFrame({"name": [f"{place}" + "x" for place in range(3000)]})
    found = audit.drift(names.iloc[:1500], names.iloc[1500:])
    assert found["new"][0] == 1.0
    assert len(found["new_categories"][0]) == 10


@pytest.mark.parametrize(
    ("current", "message"),
    [
        (pd.DataFrame({"size": [1.0]}), "current must have the columns of reference, got no column 'site'"),
        (pd.DataFrame(), "current must have at least one row and one column"),
        ([1.0, 2.0], "current must be a table, got shape"),
    ],
)
def test_wrong_tables_give_a_clear_error(current, message):
    with pytest.raises(ValueError, match=message):
        audit.drift(table(0), current)
