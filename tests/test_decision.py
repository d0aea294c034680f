"""Decision: an immutable table that keeps its values when it is sliced, copied or pickled."""

import copy
import dataclasses
import itertools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recuse import Decision, losses, metrics
from recuse.decision import LOSS_SAVED, SURROGATE_SCORE

FIELDS = ("prediction", "accepted", "score", "cost")
INDEX = pd.Index(["a", "b", "c", "d"], name="car")


def example(index=INDEX):
    return Decision([1.0, 2.0, 3.0, 4.0], [True, False, True, False], [0.4, -0.3, 0.2, -0.1], [5, 6, 7, 8], index)


@pytest.mark.parametrize("name", FIELDS)
def test_no_field_and_no_value_can_be_changed(name):
    decision = example()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(decision, name, np.zeros(4))
    with pytest.raises(ValueError, match="read-only"):
        getattr(decision, name)[0] = 0


def test_later_changes_to_the_arrays_it_was_made_of_do_not_reach_it():
    prediction, accepted, score, cost = np.ones(2), np.array([True, False]), np.ones(2), np.ones(2)
    decision = Decision(prediction, accepted, score, cost)
    for column in (prediction, accepted, score, cost):
        column[:] = 0
    assert decision == Decision([1, 1], [True, False], [1, 1], [1, 1])
    assert prediction.flags.writeable


def test_one_cost_serves_every_row():
    np.testing.assert_array_equal(Decision([1, 2], [True, True], [1, 1], 3).cost, [3.0, 3.0])


@pytest.mark.parametrize(
    "rows",
    [
        slice(1, 3),
        slice(None, None, -1),
        slice(0, 0),
        np.array([True, False, False, True]),
        [True, False, False, True],
        [3, 0],
        [-1],
        np.array([2, 2]),
        [],
    ],
    ids=str,
)
def test_selected_rows_keep_all_their_fields_and_labels(rows):
    decision, part = example(), example()[rows]
    chosen = np.arange(4)[rows] if len(np.atleast_1d(rows)) else []
    pd.testing.assert_frame_equal(part.to_frame(), decision.to_frame().iloc[chosen])
    assert len(part) == len(chosen)


@pytest.mark.parametrize("position", [2, -2, np.int64(2)])
def test_a_single_position_gives_a_decision_of_one_row(position):
    one = example()[position]
    assert isinstance(one, Decision)
    assert (one.prediction.tolist(), one.accepted.tolist(), list(one.index)) == ([3.0], [True], ["c"])


def test_a_position_beyond_the_end_is_refused():
    with pytest.raises(IndexError, match="4"):
        example()[4]


@given(st.slices(4), st.slices(4))
def test_a_cut_of_a_cut_equals_the_cut_of_the_rows(first, second):
    assert example()[first][second] == example()[np.arange(4)[first][second]]


@pytest.mark.parametrize("rows", [np.array([[0, 1]]), (slice(None), None), None], ids=str)
def test_a_selection_that_is_not_one_of_rows_is_refused(rows):
    with pytest.raises((ValueError, IndexError)):
        example(None)[rows]


@pytest.mark.parametrize("rows", [slice(1, 3), [1, 2], 1], ids=str)
@pytest.mark.parametrize("name", FIELDS)
def test_selected_rows_cannot_be_changed_either(name, rows):
    with pytest.raises(ValueError, match="read-only"):
        getattr(example()[rows], name)[0] = 0


def test_a_decision_of_checked_parts_is_that_of_the_constructor():
    parts = (np.array([1.0, 2.0]), np.array([True, False]), np.array([0.4, -0.3]), np.array([5.0, 6.0]))
    rest = (INDEX[:2], losses.Absolute(), LOSS_SAVED)
    quick = Decision.of_checked(*parts, *rest)
    assert quick == Decision(*parts, *rest)
    assert quick == pickle.loads(pickle.dumps(quick)) == copy.deepcopy(quick)
    assert not any(getattr(quick, name).flags.writeable for name in FIELDS)
    assert Decision.of_checked(*parts) == Decision(*parts)
    with pytest.raises(dataclasses.FrozenInstanceError):
        quick.cost = 1.0


def test_accepted_rows_can_be_picked_by_the_decision_itself():
    decision = example()
    assert decision[decision.accepted].prediction.tolist() == [1.0, 3.0]
    assert decision[~decision.accepted].rejection_rate == 1.0


def test_the_frame_is_indexed_like_the_input_or_by_position():
    assert example().to_frame().index.equals(INDEX)
    frame = example(None).to_frame()
    assert frame.index.equals(pd.RangeIndex(4))
    assert frame.dtypes.astype(str).to_dict() == {
        "prediction": "float64",
        "accepted": "bool",
        "score": "float64",
        "cost": "float64",
    }
    np.testing.assert_array_equal(frame["cost"], [5, 6, 7, 8])


def test_changing_the_frame_leaves_the_decision_alone():
    decision = example()
    frame = decision.to_frame()
    frame.loc["a", "prediction"] = 99.0
    assert decision == example()


def test_the_rejection_rate_is_the_share_rejected_and_nan_without_rows():
    assert example().rejection_rate == 0.5
    assert np.isnan(example()[[]].rejection_rate)


def test_evaluate_is_that_of_the_metrics():
    decision, y, weight = example(), [1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0]
    assert decision.evaluate(y) == metrics.evaluate(y, decision)
    assert decision.evaluate(y)["accepted_loss"] == 2.0
    assert decision.evaluate(y, sample_weight=weight) == metrics.evaluate(y, decision, sample_weight=weight)
    assert decision.evaluate(y, sample_weight=weight)["accepted_loss"] == 3.0


def by_pinball(index=INDEX):
    return changed_to(example(index), loss="pinball:0.9")


def changed_to(decision, **changes):
    fields = {name: getattr(decision, name) for name in (*FIELDS, "index", "loss", "score_unit")}
    return Decision(**{**fields, **changes})


def test_the_loss_is_the_squared_error_unless_another_is_named():
    assert example().loss == losses.Squared()
    assert by_pinball().loss == losses.Pinball(0.9)


def test_the_loss_stays_with_the_decision_however_it_is_cut_or_copied():
    decision = by_pinball()
    for other in (decision[1:3], decision[0], pickle.loads(pickle.dumps(decision)), copy.deepcopy(decision)):
        assert other.loss == decision.loss
    assert decision != example()
    assert decision == by_pinball()


def test_decisions_are_measured_by_their_own_loss():
    y = np.zeros(4)
    assert by_pinball().evaluate(y)["accepted_loss"] == pytest.approx(0.1 * 2.0)
    assert changed_to(example(), loss="absolute").evaluate(y)["accepted_loss"] == 2.0


def test_only_a_loss_that_is_not_the_default_is_shown():
    assert repr(by_pinball()) == "Decision(4 rows: 2 accepted, 2 rejected; pinball:0.9 loss)"


def test_rows_with_a_score_above_zero_are_accepted_unless_it_is_said_which_are():
    decision = Decision([1.0, 2.0, 3.0], score=[0.4, 0.0, -0.2], cost=5.0)
    assert decision.accepted.tolist() == [True, False, False]
    assert decision == Decision([1.0, 2.0, 3.0], [True, False, False], [0.4, 0.0, -0.2], 5.0)


@pytest.mark.parametrize("index", [INDEX, None, pd.RangeIndex(4)], ids=["labels", "none", "positions"])
@pytest.mark.parametrize("takes", [None, ["model", "night", "model", "day"]], ids=["one", "experts"])
def test_a_decision_is_read_from_its_frame(index, takes):
    rows = {name: getattr(example(index), name) for name in FIELDS}
    decision = Decision(**rows, index=index, score_unit=LOSS_SAVED, takes=takes)
    again = Decision.from_frame(decision.to_frame())
    assert again == decision
    assert again.score_unit == LOSS_SAVED
    assert Decision.from_frame(decision.at_threshold(0.3).to_frame()) == decision.at_threshold(0.3)


@pytest.mark.parametrize("table", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_a_decision_is_read_from_any_table_with_its_columns(table):
    frame = example(None).to_frame().assign(car="x")
    assert Decision.from_frame(table(frame)) == example(None)
    assert Decision.from_frame(table(frame.drop(columns="accepted"))) == example(None)
    assert Decision.from_frame(table(frame), loss="absolute").loss == losses.Absolute()


@pytest.mark.parametrize("name", ["prediction", "score", "cost"])
def test_a_table_without_a_column_of_decisions_is_refused(name):
    with pytest.raises(ValueError, match=rf"^frame must have the columns .* of decisions, got no '{name}' among \["):
        Decision.from_frame(example().to_frame().drop(columns=name))
    with pytest.raises(TypeError, match=r"^frame must be a table of decisions, got list$"):
        Decision.from_frame([1.0])


def test_the_truth_must_be_one_target():
    with pytest.raises(ValueError, match=r"^y_true must have one value per row, got shape \(4, 2\)$"):
        example().evaluate(np.ones((4, 2)))


def test_truth_and_weights_are_matched_by_label():
    y = pd.Series([1.0, 3.0, 6.0, 9.0], index=list("abcd"))
    weight = pd.Series([1.0, 2.0, 3.0, 4.0], index=list("abcd"))
    expected = example().evaluate(y.to_numpy(), sample_weight=weight.to_numpy())
    assert example().evaluate(y.sample(frac=1, random_state=1), sample_weight=weight[::-1]) == expected
    assert example(None).evaluate(y, sample_weight=weight) == expected
    with pytest.raises(ValueError, match=r"^y_true must have the row labels of X, got no value for the label 'a' of X"):
        example().evaluate(y.reset_index(drop=True))


@pytest.mark.parametrize(
    "form",
    [pd.Series.to_frame, pl.from_pandas, lambda y: pa.array(y), lambda y: pl.from_pandas(y.to_frame("y")), list],
    ids=["one column", "polars", "pyarrow", "polars table", "list"],
)
def test_evaluate_takes_the_truth_of_any_library(form):
    y = pd.Series([1.0, 3.0, 6.0, 9.0])
    assert example(None).evaluate(form(y)) == example(None).evaluate(y.to_numpy())


def test_costs_are_matched_to_the_index_by_label():
    cost = pd.Series([8, 7, 6, 5], index=list("dcba"))
    assert changed_to(example(), cost=cost) == example()


def test_the_unit_stays_with_the_decision_however_it_is_cut_or_copied():
    decision = changed_to(example(), score_unit=LOSS_SAVED)
    for other in (decision[1:3], decision[0], pickle.loads(pickle.dumps(decision)), copy.deepcopy(decision)):
        assert other.score_unit == "loss saved by accepting"
    assert pickle.loads(pickle.dumps(decision)) == decision
    assert decision != example()


def test_the_unit_of_the_score_is_shown_and_goes_with_the_frame():
    decision = changed_to(example(), score_unit=SURROGATE_SCORE)
    assert repr(decision) == "Decision(4 rows: 2 accepted, 2 rejected; score: surrogate score, no unit)"
    assert decision.to_frame().attrs == {"score_unit": "surrogate score, no unit"}
    assert example().to_frame().attrs == {}


def test_decisions_are_equal_when_all_rows_and_labels_are():
    assert example() == example()
    assert example(None) == example(None)
    assert example() != example(None)
    assert example() != example()[:3]
    assert example() != "a decision"
    for name in FIELDS:
        fields = {field: getattr(example(), field) for field in FIELDS}
        changed = ~fields[name] if name == "accepted" else fields[name] + 1
        assert example() != Decision(**{**fields, name: changed}, index=INDEX), name


def test_a_decision_is_not_hashable_since_it_compares_by_value():
    with pytest.raises(TypeError, match="unhashable"):
        hash(example())


@pytest.mark.parametrize("again", [lambda d: pickle.loads(pickle.dumps(d)), copy.copy, copy.deepcopy])
def test_a_copy_through_pickle_or_copy_is_equal_and_whole(again):
    assert again(example()) == example()
    assert again(example(None)) == example(None)


def test_a_pickled_decision_is_still_immutable():
    decision = pickle.loads(pickle.dumps(example()))
    for name in FIELDS:
        with pytest.raises(ValueError, match="read-only"):
            getattr(decision, name)[0] = 0


def test_the_repr_counts_rows_and_shows_none_of_them():
    assert repr(example()) == "Decision(4 rows: 2 accepted, 2 rejected)"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([1, 2], [True], [1, 2], 1.0), r"^accepted must have one value for each of 2 rows, got shape \(1,\)$"),
        (([1, 2], [True, True], [1], 1.0), r"^score must have one value for each of 2 rows, got shape \(1,\)$"),
        (([1, 2], [True, True], [1, 2], [1.0]), r"^cost must .* each of 2 rows, got shape \(1,\)$"),
        (([1, 2], [True, True], [1, 2], [1, -1]), r"^cost must be >= 0, got -1\.0 at row 1$"),
        (([1, 2], [True, True], [1, 2], [np.nan, 1]), r"^cost must be finite, got nan at row 0$"),
        (([1, 2], [True, True], [1, 2], None), r"^cost is missing"),
        (([[1, 2]], [True, True], [1, 2], 1), r"^prediction must .* each of 2 rows, got shape \(1, 2\)$"),
        (([[1], [2]], [True, True], [1, 2], 1), r"^prediction must .* each of 2 rows, got shape \(2, 1\)$"),
        (([1, 2], None, None, 1.0), r"^score must have one value for each of 2 rows, got shape \(\)$"),
        (([1, 2], [True, True], [1, 2], 1, None, "square"), r"^loss must be one of squared, .* got 'square'$"),
        ((1.0, True, 1.0, 1.0), r"^prediction must have one value for each of 1 rows, got shape \(\)$"),
        (([1, 2], [1, 0.3], [1, 2], 1), r"^accepted must be True or False, got 0\.3$"),
        (([1, 2], [True, np.nan], [1, 2], 1), r"^accepted must be True or False, got nan$"),
        (([1, 2], [True, True], [1, 2], 1, pd.Index(["a"])), r"^index must have one label for each of 2 rows, got 1$"),
    ],
)
def test_columns_that_do_not_fit_are_refused_with_the_rule_and_the_value(columns, message):
    with pytest.raises(ValueError, match=message):
        Decision(*columns)


def test_another_threshold_changes_only_which_rows_are_accepted():
    decision = changed_to(example(), score_unit=LOSS_SAVED, loss="pinball:0.9")
    strict = decision.at_threshold(0.2)
    assert strict.accepted.tolist() == [True, False, False, False]
    assert changed_to(strict, accepted=decision.accepted) == decision
    assert decision.at_threshold(0.0) == decision
    with pytest.raises(ValueError, match="read-only"):
        strict.accepted[0] = False
    with pytest.raises(ValueError, match=r"^threshold must be a number, got nan$"):
        decision.at_threshold(np.nan)


@given(st.lists(st.integers(0, 4), max_size=3))
def test_pieces_of_a_decision_make_it_whole_again(cuts):
    ends = [0, *sorted(cuts), 4]
    for whole in (changed_to(example(), score_unit=LOSS_SAVED, loss="pinball:0.9"), example(None)):
        assert Decision.concatenate(whole[a:b] for a, b in itertools.pairwise(ends)) == whole


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (by_pinball(), r"^all decisions must have the same loss, got Squared\(\) and Pinball\("),
        (changed_to(example(), score_unit=LOSS_SAVED), r"^all decisions .* same score_unit, got None and 'loss saved"),
        (example(None), r"^either all decisions or none must have an index, got 1 of 2$"),
    ],
)
def test_decisions_of_different_kinds_are_not_concatenated(other, message):
    with pytest.raises(ValueError, match=message):
        Decision.concatenate([example(), other])


def test_nothing_is_not_a_decision():
    with pytest.raises(ValueError, match=r"^decisions must hold at least one Decision, got none$"):
        Decision.concatenate([])
