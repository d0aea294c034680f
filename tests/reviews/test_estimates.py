"""Estimates from answers: values, weights, intervals that hold the mean, and what is said about gaps."""

import math

import numpy as np
import pytest

from recuse.audit.significance import mean_interval
from recuse.metrics import rcr_loss, row_losses
from recuse.reviews import ReviewQueue
from recuse.reviews.summary import Answers, Stream, estimates_of, summary_of, weighted_mean
from review_runs import answer_all, record, rooms


def answers(loss, cost=1.0, weight=1.0):
    loss = np.asarray(loss, dtype=float)
    return Answers(loss, np.full(len(loss), cost), np.full(len(loss), weight))


def test_equal_weights_give_the_mean_and_unequal_ones_that_of_copies():
    values = np.array([0.1, 0.2, 0.9, 4.0])
    assert weighted_mean(values, np.full(4, 50.0)).value == pytest.approx(values.mean())
    copies = np.repeat(values, [1, 2, 3, 4])
    assert weighted_mean(values, np.array([1.0, 2.0, 3.0, 4.0])).value == pytest.approx(copies.mean())
    assert math.isnan(weighted_mean(np.zeros(0), np.zeros(0)).value)


def test_the_interval_is_wider_above_and_not_below_zero():
    values = np.random.default_rng(0).chisquare(1, 60)
    found, (_, high) = weighted_mean(values, np.ones(60)), mean_interval(values)
    assert found.high > high
    assert 0 <= found.low < found.value
    assert weighted_mean(np.array([0.0, 0.0, 9.0]), np.ones(3)).low >= 0


def test_the_interval_of_the_saving_ends_at_the_cost_and_not_at_the_least_answer():
    found = estimates_of(Stream(0, 9, 9.0, answers([]), answers([0.1, 0.4])))["saved_by_rejecting"]
    assert found.value == pytest.approx(-0.75)
    assert found.low == -1.0


def test_the_interval_holds_the_mean_of_skewed_losses_at_unequal_weights():
    random, held = np.random.default_rng(0), 0
    for _ in range(400):
        share = np.where(np.arange(4000) < 2000, 0.02, 0.1)
        loss = random.standard_t(5, 4000) ** 2 * np.where(share < 0.05, 1.0, 2.0)
        drawn = random.random(4000) < share
        found = weighted_mean(loss[drawn], 1 / share[drawn])
        held += found.low <= loss.mean() <= found.high
    assert held / 400 >= 0.92


def test_all_answers_give_the_measures_of_the_rows():
    stream = Stream(4, 2, 3.0, answers([0.5, 2.0, 0.2, 0.1]), answers([9.0, 0.5], cost=1.5))
    found = estimates_of(stream)
    assert found["accepted_loss"].value == pytest.approx(0.7)
    assert found["rejected_loss"].value == pytest.approx(4.75)
    assert found["saved_by_rejecting"].value == pytest.approx(3.25)
    assert found["rcr_loss"].value == pytest.approx((4 * 0.7 + 3.0) / 6)
    assert found["false_acceptance_rate"].value == pytest.approx(1 / 2)
    assert found["false_rejection_rate"].value == pytest.approx(1 / 4)
    for each in found.values():
        assert each.low <= each.value <= each.high


def test_accepted_rows_count_for_the_rows_they_represent():
    few = estimates_of(Stream(400, 2, 2.0, answers([2.0, 0.2, 0.1, 0.1], weight=100.0), answers([9.0, 0.5])))
    assert few["false_acceptance_rate"].value == pytest.approx(100 / 101)
    assert few["false_rejection_rate"].value == pytest.approx(1 / 301)
    assert few["rcr_loss"].value == pytest.approx((400 * 0.6 + 2.0) / 402)


def test_no_answers_and_no_rows_have_no_estimates():
    found = estimates_of(Stream(10, 5, 5.0, answers([]), answers([])))
    assert all(math.isnan(found[name].value) for name in ("accepted_loss", "rejected_loss", "rcr_loss"))
    assert (found["false_acceptance_rate"].low, found["false_acceptance_rate"].high) == (0.0, 1.0)
    costs_only = estimates_of(Stream(0, 2, 3.0, answers([]), answers([])))["rcr_loss"]
    assert (costs_only.low, costs_only.value, costs_only.high, costs_only.answers) == (1.5, 1.5, 1.5, 0)
    assert math.isnan(estimates_of(Stream(0, 0, 0.0, answers([]), answers([])))["rcr_loss"].value)


def test_a_model_that_rejects_everything_accepts_nothing_wrongly():
    found = estimates_of(Stream(0, 3, 3.0, answers([]), answers([9.0, 0.5, 2.0])))
    wrong, rejected = found["false_acceptance_rate"], found["false_rejection_rate"]
    assert (wrong.low, wrong.value, wrong.high) == (0.0, 0.0, 0.0)
    assert (rejected.low, rejected.value, rejected.high) == (1.0, 1.0, 1.0)


def test_the_summary_has_the_measures_of_decided_rows(tmp_path, loaded):
    table = rooms(120, seed=5)
    decision = loaded.model.decide(table)
    with ReviewQueue.open(tmp_path / "reviews.sqlite", audit_share=1.0) as queue:
        ids = record(queue, loaded, table)
        answer_all(queue, ids, table)
        summary = queue.summary()
    (model,) = summary["models"]
    loss = row_losses(table["price"], decision.prediction)
    measures = decision.evaluate(table["price"])
    assert (summary["waiting"], summary["answered"]) == (0, 120)
    assert (model["accepted"], model["rejected"]) == (decision.accepted.sum(), (~decision.accepted).sum())
    assert model["estimates"]["accepted_loss"]["value"] == pytest.approx(loss[decision.accepted].mean())
    for name in ("rejected_loss", "false_acceptance_rate", "false_rejection_rate"):
        assert model["estimates"][name]["value"] == pytest.approx(measures[name])
    expected = rcr_loss(table["price"], decision.prediction, decision.accepted, 3.0)
    assert model["estimates"]["rcr_loss"]["value"] == pytest.approx(expected)
    assert model["notes"] == []


def test_versions_with_different_losses_have_no_common_estimate(tmp_path, loaded):
    path, table = tmp_path / "reviews.sqlite", rooms(40, seed=5)
    with ReviewQueue.open(path, audit_share=1.0) as queue:
        answer_all(queue, record(queue, loaded, table), table)
        (before,) = queue.summary()["models"]
        queue._connection.execute("INSERT INTO models VALUES (9, 'rooms', 'new', 'absolute', NULL)")
        (model,) = queue.summary()["models"]
    assert before["estimates"]["accepted_loss"]["value"] is not None
    assert model["loss"] == "absolute, squared"
    assert model["estimates"]["accepted_loss"]["value"] is None
    assert model["notes"][0].startswith("The versions have different losses, absolute, squared")
    assert summary_of(path, "0a1b")["models"][0]["estimates"] == before["estimates"]


@pytest.mark.parametrize(("kind", "other"), [("audits", "rejections"), ("rejections", "audits")])
def test_the_summary_counts_no_rows_of_a_kind_that_was_not_recorded(tmp_path, loaded, kind, other):
    table = rooms(60, seed=5)
    accepted = loaded.model.decide(table).accepted
    table = table[accepted if kind == "audits" else ~accepted]
    with ReviewQueue.open(tmp_path / "reviews.sqlite", audit_share=1.0) as queue:
        record(queue, loaded, table)
        (model,) = queue.summary()["models"]
    assert sorted(model[kind].values()) == [0, len(table)]  # none has an answer
    assert set(model[other].values()) == {0}


def test_the_summary_says_what_is_missing(tmp_path, loaded):
    path = tmp_path / "reviews.sqlite"
    with ReviewQueue.open(path, audit_share=0.5) as queue:
        record(queue, loaded, rooms(60, seed=5))
    with ReviewQueue.open(path, audit_share=0.0) as queue:
        record(queue, loaded, rooms(40, seed=6))
        accepted = int(loaded.model.decide(rooms(40, seed=6)).accepted.sum())
        (model,) = queue.summary()["models"]
    few, audits, rejections, unaudited = model["notes"]
    assert few.startswith("0 accepted rows have an answer")
    assert "missing at random" in audits
    assert "rows with a large expected loss are answered first" in rejections
    assert unaudited.startswith(f"{accepted} rows were accepted while the audit share was 0")
    assert model["estimates"]["accepted_loss"] == {"value": None, "low": None, "high": None, "answers": 0}
