import numpy as np
import pandas as pd
import pytest

from recuse.model_file.table_report import TableProblem, table_report
from recuse.tabular.schema import TableSchema


@pytest.fixture
def rooms():
    return pd.DataFrame(
        {
            "area": [20.0, 35.0, 50.0],
            "age": [1.0, np.nan, 3.0],
            "sold": ["2024-01-01", "2024-02-01", "2024-03-01"],
            "city": ["Bonn", "Ulm", "Ulm"],
            "lift": pd.Categorical(["yes", "no", "yes"], categories=["yes", "no", "planned"]),
        }
    )


@pytest.fixture
def schema(rooms):
    return TableSchema.learn(rooms)


def facts(problems):
    return [(each.column, each.problem, each.rows, each.example) for each in problems]


def test_training_rows_have_no_problems(schema, rooms):
    assert table_report(schema, rooms) == []


def test_missing_columns_come_first_and_ignored_columns_last(schema, rooms):
    new = rooms.drop(columns=["city"]).assign(area=99.0, extra=1)
    assert facts(table_report(schema, new)) == [
        ("city", "missing column", 3, ""),
        ("area", "outside the training range", 3, "99"),
        ("extra", "ignored column", 3, ""),
    ]


def test_text_where_numbers_were(schema, rooms):
    new = rooms.assign(area=["20", "large", "50"])
    assert table_report(schema, new) == [TableProblem("area", "wrong type", 1, "large", "numbers")]


def test_words_are_no_problem_where_training_had_words_among_numbers(rooms):
    with pytest.warns(UserWarning, match="holds numbers and 1 texts"):
        schema = TableSchema.learn(rooms.assign(area=["20.5", "n/a", "50.5"]))
    assert table_report(schema, rooms.assign(area=["?", "21", "50"])) == []


def test_missing_values_are_reported_only_if_training_had_none(schema, rooms):
    new = rooms.assign(area=[np.nan, np.nan, 30], age=np.nan, city=["Bonn", None, "Ulm"])
    assert facts(table_report(schema, new)) == [
        ("area", "new missing value", 2, ""),
        ("city", "new missing value", 1, ""),
    ]


def test_the_number_farthest_from_the_range_is_the_example(schema, rooms):
    (problem,) = table_report(schema, rooms.assign(area=[10.0, 52.0, -40.0]))
    assert (problem.rows, problem.example, problem.expected) == (3, "-40", "20 to 50")


def test_dates(schema, rooms):
    new = rooms.assign(sold=["2023-12-01", "soon", "2024-03-01"])
    wrong, outside = table_report(schema, new)
    assert (wrong.problem, wrong.rows, wrong.example) == ("wrong type", 1, "soon")
    assert (outside.example, outside.expected) == ("2023-12-01", "2024-01-01 to 2024-03-01")
    (wrong,) = table_report(schema, rooms.assign(sold=[1, 2, 3]))
    assert (wrong.problem, wrong.rows, wrong.example) == ("wrong type", 3, "1")
    (wrong,) = table_report(schema, rooms.assign(area=pd.Timestamp("2024-01-01")))
    assert (wrong.problem, wrong.rows, wrong.expected) == ("wrong type", 3, "numbers")


def test_new_categories_and_declared_ones_without_training_rows(schema, rooms):
    new = rooms.assign(city=["Köln", "Ulm", "Kiel"], lift=["planned", "yes", "no"])
    assert facts(table_report(schema, new)) == [
        ("city", "new category", 2, "Köln"),
        ("lift", "new category", 1, "planned"),
    ]


def test_values_that_json_does_not_have_are_found_by_their_text():
    table = pd.DataFrame({"band": pd.cut([1.0, 2.0, 3.0, 4.0], 2), "n": [1.0, 2.0, 3.0, 4.0]})
    schema = TableSchema.learn(table)
    assert table_report(schema, table) == []
    assert facts(table_report(schema, table.assign(band="x"))) == [("band", "new category", 4, "x")]


def test_tables_without_names_are_compared_by_position():
    schema = TableSchema.learn(np.array([[1.0, 2.0], [3.0, 4.0]]))
    new = pd.DataFrame({"u": [1.0, 9.0], "v": [2.0, 3.0]})
    assert facts(table_report(schema, new)) == [(0, "outside the training range", 1, "9")]
    (problem,) = table_report(schema, new[["u"]])
    assert (problem.problem, problem.expected) == ("missing column", "2 columns")
