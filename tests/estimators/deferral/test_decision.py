"""The table of a decision, and its measures."""

import pickle

import numpy as np
import pandas as pd
import pytest

from recuse.estimators import DeferralDecision


@pytest.fixture
def decision():
    return DeferralDecision(
        ("model", "day", "night"),
        np.array([0, 1, 2, 2]),
        predictions=np.array([[1.0, np.nan, 2.0], [1.0, np.nan, 2.0], [1.0, np.nan, 2.0], [1.0, np.nan, np.nan]]),
        expected_loss=np.array([[1.0, 2.0, 3.0]] * 4),
        fees=np.array([[0.0, 0.5, 0.25]] * 4),
        index=pd.Index(list("abcd")),
    )


def test_the_chosen_prediction_fee_and_name(decision):
    assert decision.takes.tolist() == ["model", "day", "night", "night"]
    np.testing.assert_array_equal(decision.prediction, [1.0, np.nan, 2.0, np.nan])
    assert decision.fee.tolist() == [0.0, 0.5, 0.25, 0.25]
    frame = decision.to_frame()
    assert frame.index.tolist() == list("abcd")
    assert frame["expected_loss"].tolist() == [1.0, 2.0, 3.0, 3.0]
    assert frame["expected_loss_night"].tolist() == [3.0] * 4


def test_it_is_immutable_and_can_be_selected_and_pickled(decision):
    with pytest.raises(ValueError, match="read-only"):
        decision.action[0] = 1
    some = decision[decision.takes == "night"]
    assert repr(some) == "DeferralDecision(2 rows: 0 model, 0 day, 2 night)"
    assert some.index.tolist() == ["c", "d"]
    assert len(decision[1]) == 1
    assert pickle.loads(pickle.dumps(decision)).to_frame().equals(decision.to_frame())


def test_measures_of_each_action_in_total_and_of_simple_rules(decision):
    measures = decision.evaluate([2.0, 2.0, 4.0, 4.0], {"night": [np.nan, np.nan, np.nan, 3.0]})
    names = ["model", "day", "night", "total", "always model", "always day", "always night", "oracle"]
    assert measures.index.tolist() == names
    assert measures["rows"].tolist() == [1, 1, 2, 4, 4, 4, 4, 4]
    assert measures["share"].tolist() == [0.25, 0.25, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert measures["loss"].tolist() == [1.0, 2.0, 2.5, 2.0, 5.0, 2.0, 1.25, 0.75]  # "day" by its expected loss
    assert measures["fees_paid"].tolist() == [0.0, 0.5, 0.5, 1.0, 0.0, 2.0, 1.0, 1.25]
    assert measures["estimated"].tolist() == [0, 1, 0, 1, 0, 4, 0, 1]
    np.testing.assert_allclose(measures["total"], measures["loss"] + measures["fee"])


def test_targets_and_weights_are_matched_by_label(decision):
    target = pd.Series([4.0, 4.0, 2.0, 2.0], index=list("dcba"))
    assert decision.evaluate(target).equals(decision.evaluate([2.0, 2.0, 4.0, 4.0]))
    weighted = decision.evaluate(target, sample_weight=pd.Series([0.0, 0.0, 0.0, 1.0], index=list("dcba")))
    assert weighted.loc["total", "total"] == 1.0
    assert np.isnan(weighted.loc["night", "loss"])


def test_wrong_answers_are_named(decision):
    with pytest.raises(ValueError, match="answers must be a mapping with names among"):
        decision.evaluate([1.0] * 4, {"model": [1.0] * 4})
    with pytest.raises(
        ValueError, match=r"the answers of 'day' must have one value for each of 4 rows, got shape \(3,\)"
    ):
        decision.evaluate([1.0] * 4, {"day": [1.0] * 3})
    with pytest.raises(ValueError, match="same number of rows"):
        decision.evaluate([1.0] * 3)
