"""RcRRegressor with residuals="crossfit": errors of rows left out, one training for a whole range of costs."""

import pickle
import re
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import TimeSeriesSplit
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from recuse import RcRRegressor, datasets
from recuse.engine.stack import outputs
from recuse.estimators import fit_costs
from recuse.estimators.rcr import crossfit, regressor
from sample_rows import NEW, NEW_Y, ROW_COST, X, Y, mixed_frame

SMALL = {
    "epochs": 12,
    "residuals": "crossfit",
    "cv": 3,
    "learning_rate": (1e-1, 1e-2),
    "n_members": 1,
    "random_state": 0,
}
ONE_COST, RANGE = {"cost": 1.0}, {"cost_range": (0.5, 4.0)}
LONGER = {"epochs": 120, "learning_rate": 1e-2, "n_members": 1, "random_state": 0}


def make(**parameters):
    return RcRRegressor(**{**SMALL, **parameters})


def same(one, other, rows=NEW, rtol=0.0, cost=None):
    np.testing.assert_allclose(one.predict(rows), other.predict(rows), rtol=rtol)
    scores = (model.decision_function(rows, cost) for model in (one, other))
    np.testing.assert_allclose(*scores, rtol=rtol)


@pytest.fixture
def learned(monkeypatch):
    """The tables the rejectors of each fold learned from and were tried on, without the rows that fill them up.

    Validation rows come last in the first.
    """
    pairs = []

    def spy(tables, validation, *rest):
        pairs.extend((real_rows(table), real_rows(own)) for table, own in zip(tables, validation, strict=True))
        return train(tables, validation, *rest)

    train = crossfit.train_rejectors
    monkeypatch.setattr(crossfit, "train_rejectors", spy)
    return pairs


def real_rows(table):
    return table.take(table.weight > 0)


@pytest.fixture
def failing_fold(monkeypatch):
    """Give what makes one stage of training diverge in one fold, by a learning rate beyond measure."""

    def fail(stage, fold, rates=(1e-1, 1e-2)):
        train = getattr(crossfit, stage)

        def too_fast(tables, validation, members, *rest):
            doomed = [
                replace(member, learning_rate=1e30)
                if member.table == fold and member.learning_rate in rates
                else member
                for member in members
            ]
            return train(tables, validation, doomed, *rest)

        monkeypatch.setattr(crossfit, stage, too_fast)

    return fail


def pure_noise(n_rows=200):
    random = np.random.default_rng(0)
    return random.normal(size=(n_rows, 5)), random.normal(size=n_rows)


def errors_left_out(learned):
    """The errors on all training rows, each by members that left it out."""
    return torch.cat([own.y for _, own in learned]).numpy()


def names_of(table):
    """Every row of a table by its two features, as often as it is there."""
    return [tuple(row) for row in table.x[:, :2].tolist()]


def splits_of(fold):
    """The folds as pairs of rows to train on and rows left out, given the fold of each row."""
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(fold.max() + 1)]


THIRDS = splits_of(np.arange(len(X)) % 3)
UNEQUAL = splits_of(np.searchsorted([50, 77, 79], np.arange(len(X)), side="right"))  # 50, 27, 2 rows and a single one


def own_rejections(model, cost, folds=THIRDS):
    """Of each fold: what its rejectors accept (rejector, row), the errors and the costs, by what left it out."""
    units, (n_regressors, n_rejectors) = model.rule_.units, (len(s) // len(folds) for s in stacks_of(model))
    for fold, (_, rows) in enumerate(folds):
        features = units.features(X[rows])
        said = outputs(model.regressor_.take([n_regressors * fold + i for i in range(n_regressors)]), features)
        prediction, row_cost = said.mean(axis=0), np.broadcast_to(cost, len(X))[rows]
        inputs = model.rule_.inputs
        seen = inputs.with_cost(inputs.of_rows(features, prediction, said.std(axis=0)), row_cost)
        score = outputs(model.rejector_.take([n_rejectors * fold + i for i in range(n_rejectors)]), seen)
        if model.cost_range_ is not None:
            score = score + model.rule_.offset(row_cost)
        yield score > 0, (units.prediction(prediction) - Y[rows]) ** 2, row_cost


def inputs_of(model, cost=1.0):
    """The inputs of the rejectors for the new rows."""
    features = model.rule_.units.features(NEW)
    inputs = model.rule_.inputs.of_new_rows(features, model.rule_.predictions(features))
    return model.rule_.inputs.with_cost(inputs, np.full(len(NEW), cost))


def stacks_of(model):
    return model.regressor_, model.rejector_


def loss_of_folds(model, cost, folds=THIRDS, weight=None):
    """The RcR loss of all rejectors on their own fold, where every row counts by its weight, in whichever fold."""
    losses = [
        np.where(accepted, error, cost).mean(axis=0) for accepted, error, cost in own_rejections(model, cost, folds)
    ]
    rows = np.concatenate([rows for _, rows in folds])
    return np.average(np.concatenate(losses), weights=None if weight is None else weight[rows])


class TestOutOfFold:
    def test_errors_are_of_rows_left_out_however_well_the_rows_are_known(self, learned):
        X, y = pure_noise()
        # chosen on the very rows it is trained on, a regressor learns them by heart
        model = make(epochs=300, learning_rate=1e-2, n_members=2).fit(X, y, validation=(X, y))
        in_sample = np.mean((model.predict(X) - y) ** 2) / y.var()
        assert in_sample < 0.6
        for table, _ in learned:
            assert float(table.y[-len(y) :].mean()) == pytest.approx(in_sample, rel=1e-4)  # the members have seen these
            assert float(table.y[: -len(y)].mean()) > 1.0
        assert len(errors_left_out(learned)) == len(y)
        assert errors_left_out(learned).mean() > 1.0

    def test_the_error_of_a_row_is_that_of_the_regressors_of_its_fold(self, learned):
        model = make(n_members=2, cv=THIRDS).fit(X, Y, validation=(NEW, NEW_Y))
        for (_, own), (_, errors, _) in zip(learned, own_rejections(model, 1.0), strict=True):
            told = model.rule_.units.loss(own.y.double().numpy())
            np.testing.assert_allclose(np.sort(told), np.sort(errors), rtol=1e-4, atol=1e-6)

    def test_each_rejector_is_tried_on_rows_it_did_not_learn_from(self, learned):
        make(n_members=4).fit(X, Y)
        for table, own in learned:
            assert len(own.y) in (26, 27)  # a third of the 80 rows
            assert not set(names_of(table)) & set(names_of(own))

    def test_every_error_is_learned_from_by_the_rejectors_of_other_folds_and_tries_those_of_its_own(self, learned):
        make().fit(X, Y, validation=(NEW, NEW_Y))
        times = Counter(name for table, _ in learned for name in names_of(table))
        tries = Counter(name for _, own in learned for name in names_of(own))
        assert sorted(times.values()) == [2] * len(X) + [3] * len(NEW)  # validation rows are of no fold
        assert sorted(tries.values()) == [1] * len(X)
        assert {name for name, count in times.items() if count == 2} == set(tries)

    def test_the_inputs_do_not_give_the_error_away(self, learned):
        X, y = pure_noise(400)
        make(epochs=300, learning_rate=1e-2, n_members=3).fit(X, y, validation=(X, y))
        inputs, error = torch.cat([own.x for _, own in learned]).numpy(), errors_left_out(learned)
        order = np.lexsort(inputs[:, :5].T)
        (prediction, spread), error = inputs[order, 5:].T, error[order]
        far = prediction**2  # a prediction far from the mean errs more, whatever the target
        rest = error - np.polyval(np.polyfit(far, error, 1), far)
        assert abs(np.corrcoef(rest, spread)[0, 1]) < 0.2
        assert np.corrcoef(prediction, y_of(X, y))[0, 1] < 0.15

    def test_below_the_variance_of_noise_nearly_all_is_rejected(self):
        X, y = pure_noise(300)
        new = np.random.default_rng(1).normal(size=(500, 5))
        model = make(cost=0.4, epochs=60, n_members=2).fit(X, y)
        assert model.decide(new).rejection_rate > 0.9

    def test_validation_errors_are_those_of_the_mean_of_all_regressors(self, learned):
        model = make(n_members=2).fit(X, Y, validation=(NEW, NEW_Y))
        for table, _ in learned:
            errors = np.sort(model.rule_.units.loss(table.y[-len(NEW) :].double().numpy()))
            np.testing.assert_allclose(errors, np.sort((model.predict(NEW) - NEW_Y) ** 2), rtol=1e-4, atol=1e-6)

    def test_the_inputs_of_new_rows_are_those_of_validation_rows_in_learning(self, learned):
        model = make(n_members=2).fit(X, Y, validation=(NEW, NEW_Y))
        seen = inputs_of(model)
        assert seen.shape == (len(NEW), 4)  # two features, h(x), disagreement
        for table, _ in learned:
            known = table.x[-len(NEW) :].double().numpy()
            order = [np.lexsort(rows.T) for rows in (seen.round(4), known.round(4))]
            np.testing.assert_allclose(seen[order[0]], known[order[1]], atol=1e-3)

    def test_the_disagreement_of_new_rows_is_the_mean_over_the_folds_of_that_within_them(self):
        model = make(n_members=3, cv=2).fit(X, Y)
        features = model.rule_.units.features(NEW)
        said = outputs(model.regressor_, features)
        floor, mean, scale = model.rule_.inputs.spread
        expected = (np.log((said[:3].std(axis=0) + said[3:].std(axis=0)) / 2 + floor) - mean) / scale
        np.testing.assert_allclose(inputs_of(model)[:, -1], expected)

    def test_a_single_member_has_no_disagreement_to_show(self):
        model = make().fit(X, Y)
        assert inputs_of(model).shape == (len(NEW), 3)


def y_of(X, y):
    """The rows to train on, in the order of their tables: sorted by features from last to first, then by target."""
    return y[np.lexsort(np.column_stack([y, X]).T)]


class TestNumbers:
    def test_the_same_random_state_gives_the_same_numbers(self):
        same(make(batch_size=16).fit(X, Y), make(batch_size=16).fit(X, Y))
        ranged = {"cost_range": (0.5, 4.0), "n_members": 2}
        same(make(**ranged).fit(X, Y), make(**ranged).fit(X, Y), cost=1.0)
        assert not np.allclose(make().fit(X, Y).predict(NEW), make(random_state=1).fit(X, Y).predict(NEW))

    @settings(max_examples=3, deadline=None)
    @given(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X)).filter(lambda w: np.count_nonzero(w) > 20))
    def test_a_whole_weight_equals_so_many_copies_and_zero_equals_none(self, weight):
        weight = np.array(weight)
        copied = make(n_members=2, epochs=5).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
        same(make(n_members=2, epochs=5).fit(X, Y, sample_weight=weight), copied)

    def test_weights_equal_copies_with_a_range_of_costs(self):
        weight = np.arange(len(X)) % 3
        model = make(cost_range=(0.5, 4.0)).fit(X, Y, sample_weight=weight)
        same(model, make(cost_range=(0.5, 4.0)).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight)), cost=1.0)

    @pytest.mark.parametrize("validation", [None, (NEW, NEW_Y)], ids=["a share", "given"])
    def test_the_unit_of_the_weights_does_not_matter(self, validation):
        weight = 1.0 + np.arange(len(X)) % 3
        one, other = (make().fit(X, Y, sample_weight=unit * weight, validation=validation) for unit in (1, 1024))
        same(one, other)

    def test_a_row_of_half_the_weight_counts_half_for_the_rejectors_to_train_on_or_to_choose_by(self, learned):
        for light in range(12):
            learned.clear()
            weight = np.where(np.arange(12) == light, 1.0, 2.0)
            make(epochs=1, learning_rate=1e-2).fit(X[:12], Y[:12], sample_weight=weight)
            weights = torch.cat([torch.cat([table.weight, own.weight]) for table, own in learned])
            assert sorted(set(weights.tolist())) == [1.0, 2.0]
            assert (weights == 1.0).sum() == 3  # of all three folds

    def test_the_order_of_the_rows_does_not_matter(self):
        order = np.random.default_rng(3).permutation(len(X))
        same(make().fit(X[order], Y[order]), make().fit(X, Y))

    @pytest.mark.parametrize(("costs", "scaled"), [(ONE_COST, {"cost": 16.0}), (RANGE, {"cost_range": (8.0, 64.0)})])
    def test_the_units_of_the_target_do_not_matter(self, costs, scaled):
        one, other = make(**costs).fit(X, Y), make(**scaled).fit(X, 4 * Y + 8)
        np.testing.assert_allclose(other.predict(NEW), 4 * one.predict(NEW) + 8, rtol=1e-3, atol=1e-3)
        scores = one.decision_function(NEW, 1.0), other.decision_function(NEW, 16.0)
        np.testing.assert_allclose(*scores, rtol=1e-2, atol=1e-2)
        unit = 16 if costs == ONE_COST else 1  # over a range, losses are in units of the cost
        assert other.validation_loss_ == pytest.approx(unit * one.validation_loss_, rel=1e-3)

    def test_the_regressors_of_a_smaller_ensemble_are_among_those_of_a_larger_one(self):
        small, large = (make(n_members=n).fit(X, Y, validation=(NEW, NEW_Y)) for n in (1, 2))
        features = small.rule_.units.features(NEW)
        np.testing.assert_allclose(
            outputs(large.regressor_.take([0, 2, 4]), features), outputs(small.regressor_, features), rtol=1e-4
        )

    def test_the_folds_differ_in_their_rows_and_initial_weights(self):
        model = make(epochs=1, learning_rate=1e-9).fit(X, Y)
        first, second, third = outputs(model.regressor_, model.rule_.units.features(NEW))
        assert not np.allclose(first, second, atol=1e-3)
        assert not np.allclose(second, third, atol=1e-3)

    def test_the_prediction_is_the_mean_and_the_score_the_mean_clipped_score(self):
        model = make(n_members=2).fit(X, Y)
        assert len(model.regressor_) == 6
        assert len(model.rejector_) == 3
        features = model.rule_.units.features(NEW)
        mean = outputs(model.regressor_, features).mean(axis=0)
        np.testing.assert_allclose(model.predict(NEW), model.rule_.units.prediction(mean))
        scores = outputs(model.rejector_, inputs_of(model)).clip(-1, 1)
        np.testing.assert_allclose(model.decision_function(NEW), scores.mean(axis=0))

    @pytest.mark.parametrize(("n_members", "rejectors"), [(1, 3), (3, 3), (4, 6)])
    def test_each_fold_has_equally_many_rejectors_and_all_together_at_least_as_many_as_members(
        self, n_members, rejectors
    ):
        model = make(n_members=n_members, epochs=2).fit(X, Y)
        assert len(model.regressor_) == 3 * n_members
        assert len(model.rejector_) == len(model.learning_rate_) == len(model.best_epoch_) == rejectors

    def test_the_rejectors_differ_in_their_initial_weights(self):
        model = make(n_members=4, epochs=1, learning_rate=1e-9).fit(X, Y)
        said = outputs(model.rejector_, inputs_of(model))
        assert len({row.round(3).tobytes() for row in said}) == 6

    def test_the_history_is_that_of_the_rejectors(self):
        model = make(n_members=4).fit(X, Y, validation=(NEW, NEW_Y))
        assert model.history_.shape == (12, 6)
        assert model.best_epoch_ == model.history_.argmin(axis=0).tolist()
        assert (model.history_ == model.history_[:, :1]).all()  # all choose by the same loss
        assert model.validation_loss_ == pytest.approx(model.history_.min(axis=0).mean())

    def test_a_pickled_model_decides_alike(self):
        model = make(n_members=2, cost_range=(0.5, 4.0)).fit(X, Y)
        same(pickle.loads(pickle.dumps(model)), model, cost=2.0)

    @pytest.mark.parametrize("n_members", [1, 4])
    @pytest.mark.parametrize("costs", [ONE_COST, RANGE], ids=str)
    def test_the_rejectors_of_all_folds_choose_one_learning_rate_and_one_epoch_together(self, n_members, costs):
        model = make(n_members=n_members, **costs, epochs=40, batch_size=16).fit(X, Y)
        assert len(set(model.best_epoch_)) == len(set(model.learning_rate_)) == 1
        assert len(model.best_epoch_) == (3 if n_members == 1 else 6)
        assert 0 <= model.best_epoch_[0] < 40

    def test_progress_counts_the_regressors_and_then_the_rejectors_of_all_folds_at_once(self, monkeypatch):
        done = []

        @contextmanager
        def bar(title, total, *, show):
            done.append(total)
            yield done.append

        monkeypatch.setattr(regressor, "progress_bar", bar)
        make(epochs=4).fit(X, Y)
        assert done == [8, *range(1, 9)]


class TestCosts:
    @pytest.mark.parametrize("n_members", [1, 4])
    def test_the_validation_loss_is_what_the_decisions_of_rejectors_cost_on_their_own_fold(self, n_members):
        model = make(cv=THIRDS, n_members=n_members).fit(X, Y, validation=(NEW, NEW_Y))
        assert model.validation_loss_ == pytest.approx(loss_of_folds(model, 1.0), rel=1e-4)

    def test_in_the_validation_loss_a_row_counts_by_its_weight_in_whichever_fold(self):
        weight = 1.0 + np.arange(len(X)) % 4
        model = make(cv=UNEQUAL).fit(X, Y, sample_weight=weight, validation=(NEW, NEW_Y))
        expected = loss_of_folds(model, 1.0, UNEQUAL, weight)
        assert model.validation_loss_ == pytest.approx(expected, rel=1e-4)
        assert expected != pytest.approx(loss_of_folds(model, 1.0, UNEQUAL), rel=1e-3)

    def test_costs_per_row_are_an_input_and_are_compared_with_the_error_of_their_row(self):
        costs = np.linspace(0.5, 4, len(NEW))
        model = make(cv=THIRDS).fit(X, Y, cost=ROW_COST, validation=(NEW, NEW_Y, costs))
        assert model.serves_any_cost
        assert model.validation_loss_ == pytest.approx(loss_of_folds(model, ROW_COST), rel=1e-4)
        with pytest.raises(ValueError, match=r"fitted with one cost per row, so new rows need theirs"):
            model.decide(NEW)

    def test_a_callable_and_an_array_of_the_same_costs_agree(self):
        frame, new = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(NEW, columns=["a", "b"])
        fees, new_fees = 1 + X[:, 0] ** 2, 1 + NEW[:, 0] ** 2
        by_array = make().fit(frame, Y, cost=fees, validation=(new, NEW_Y, new_fees)).decide(new, cost=new_fees)
        by_callable = make(cost=lambda rows: 1 + rows["a"] ** 2).fit(frame, Y, validation=(new, NEW_Y)).decide(new)
        assert by_callable == by_array

    def test_a_cost_column_is_no_feature_of_the_regressors(self):
        frame, new = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(NEW, columns=["a", "b"])
        model = make(cost="fee").fit(frame.assign(fee=ROW_COST), Y)
        cheap, dear = new.assign(fee=0.3), new.assign(fee=4.0)
        np.testing.assert_array_equal(model.predict(cheap), model.predict(dear))
        assert not np.array_equal(model.decision_function(cheap), model.decision_function(dear))

    def test_a_model_of_one_cost_refuses_another(self):
        model = make(cost=2.0).fit(X, Y)
        assert model.decide(NEW, cost=2.0) == model.decide(NEW)
        with pytest.raises(ValueError, match=r"fitted for cost 2\.0 and cannot decide at cost 3\.0"):
            model.decide(NEW, cost=3.0)

    def test_a_frame_with_categories_and_gaps_is_learned(self):
        frame, y = mixed_frame()
        for costs in (ONE_COST, RANGE):
            model = make(**costs, epochs=60, n_members=2).fit(frame, y)
            decision = model.decide(frame, cost=1.0)
            assert decision.to_frame().index.equals(frame.index)
            assert decision.evaluate(y)["always_accept"] < np.var(y)


@pytest.fixture(scope="module")
def model():
    return make(cost_range=(0.5, 4.0), n_members=2).fit(X, Y)


class TestRange:
    def test_every_form_of_cost_within_the_range_is_served(self, model):
        assert model.serves_any_cost
        assert model.cost_range_ == (0.5, 4.0)
        assert not hasattr(model, "cost_")
        costs = np.linspace(0.5, 4.0, len(NEW))
        decision = model.decide(NEW, cost=costs)
        np.testing.assert_array_equal(decision.cost, costs)
        assert model.decide(NEW, cost=costs.tolist()) == decision
        assert model.decide(NEW, cost=lambda rows: costs) == decision
        for cost in (0.5, 1, 4.0):
            np.testing.assert_array_equal(model.decide(NEW, cost=cost).cost, np.full(len(NEW), float(cost)))

    def test_a_column_of_the_frame_may_hold_the_cost(self):
        frame = pd.DataFrame(X, columns=["a", "b"]).assign(fee=ROW_COST.clip(0.5, 4))
        model = make(cost_range=(0.5, 4.0)).fit(frame, Y)
        assert model.decide(frame, cost="fee") == model.decide(frame, cost=frame["fee"].to_numpy())

    @pytest.mark.parametrize("cost", [0.49, 9.0, 0.0])
    def test_a_cost_outside_is_refused_with_the_range_and_the_value(self, model, cost):
        rule = f"cost must be within 0.5 to 4.0, the range the model was fitted for, got {cost} at row 7"
        with pytest.raises(ValueError, match=f"^{re.escape(rule)}$"):
            model.decide(NEW, cost=np.where(np.arange(len(NEW)) == 7, cost, 1.0))
        with pytest.raises(ValueError, match=r"got .* at row 0"):
            model.decision_function(NEW, cost=cost)

    def test_a_decision_needs_a_cost(self, model):
        for ask in (model.decide, model.decision_function):
            with pytest.raises(
                ValueError, match=r"fitted for every cost from 0\.5 to 4\.0, so a decision needs one: pass"
            ):
                ask(NEW)
        assert len(model.predict(NEW)) == len(NEW)

    def test_a_cost_that_is_no_number_is_refused_as_everywhere(self, model):
        with pytest.raises(ValueError, match=r"cost must be finite, got nan at row 0"):
            model.decide(NEW, cost=np.nan)
        with pytest.raises(ValueError, match=r"one value for each of 40 rows, got shape \(2,\)"):
            model.decide(NEW, cost=(0.5, 4.0))

    @pytest.mark.parametrize(
        "cost_range", [(0.0, 1.0), (2.0, 2.0), (3.0, 1.0), (-1.0, 1.0), (1.0, np.inf), (np.nan, 1.0), 3.0, (1, 2, 3)]
    )
    def test_an_impossible_range_is_refused(self, cost_range):
        with pytest.raises(ValueError, match=r"^cost_range must be \(low, high\) with 0 < low < high, got "):
            make(cost_range=cost_range).fit(X, Y)

    def test_joint_training_refuses_a_range(self):
        joint = RcRRegressor(cost_range=(0.5, 4.0))
        for refuse in (joint.fit, joint.partial_fit):
            with pytest.raises(ValueError, match=r"cost_range must be None unless residuals='crossfit', got \(0\.5, 4"):
                refuse(X, Y)

    def test_a_pair_of_numbers_is_the_costs_of_two_rows(self):
        for pair in ((0.5, 4.0), [0.5, 4.0]):
            with pytest.raises(ValueError, match=r"one value for each of 80 rows, got shape \(2,\)"):
                make(cost=pair).fit(X, Y)
        assert make(epochs=2).fit(X[:2], Y[:2], cost=(0.5, 4.0)).serves_any_cost

    def test_a_cost_beside_the_range_is_refused(self):
        rule = r"^cost must be left out with cost_range; pass it to decide, got 7\.0$"
        with pytest.raises(ValueError, match=rule):
            make(cost=7.0, cost_range=(0.5, 4.0)).fit(X, Y)
        with pytest.raises(ValueError, match=rule):
            make(cost_range=(0.5, 4.0)).fit(X, Y, cost=7.0)

    def test_another_fit_may_leave_the_range_and_return_to_it(self, model):
        again = clone(model).fit(X, Y).set_params(cost_range=None, cost=2.0).fit(X, Y)
        assert again.decide(NEW) == make(n_members=2, cost=2.0).fit(X, Y).decide(NEW)
        same(again.set_params(cost=1.0, cost_range=(0.5, 4.0)).fit(X, Y), model, cost=1.0)

    def test_the_score_at_the_ends_of_the_range_is_what_the_cost_adds_and_the_output_of_the_network(self, model):
        low = outputs(model.rejector_, inputs_of(model, 0.5)) - 1
        np.testing.assert_allclose(model.decision_function(NEW, 0.5), low.clip(-1, 1).mean(axis=0))
        high = outputs(model.rejector_, inputs_of(model, 4.0)) + 1
        assert (model.decision_function(NEW, 4.0) >= high.clip(-1, 1).mean(axis=0) - 1e-12).all()

    def test_the_validation_loss_is_in_units_of_the_cost_and_averaged_over_the_range(self):
        model = make(cost_range=(0.5, 4.0), cv=THIRDS).fit(X, Y, validation=(NEW, NEW_Y))
        costs = 0.5 * 8 ** ((np.arange(8) + 0.5) / 8)
        by_cost = [loss_of_folds(model, cost) / cost for cost in costs]
        assert model.validation_loss_ == pytest.approx(np.mean(by_cost), rel=1e-4)

    def test_validation_rows_have_no_costs_of_their_own(self):
        model = make(cost_range=(0.5, 4.0)).fit(X, Y, validation=(NEW, NEW_Y))
        assert 0 < model.validation_loss_ < 2
        with pytest.raises(ValueError, match=r"validation must be a tuple \(X, y\), got a tuple of 3"):
            make(cost_range=(0.5, 4.0)).fit(X, Y, validation=(NEW, NEW_Y, np.ones(len(NEW))))

    def test_a_clone_has_the_range_too(self, model):
        assert clone(model).get_params()["cost_range"] == (0.5, 4.0)
        same(clone(model).fit(X, Y), model, cost=2.0)


class TestQuality:
    TRAIN = datasets.make_heteroscedastic(2000, random_state=0)[:2]
    NEW, _, MEAN, VARIANCE = datasets.make_heteroscedastic(4000, random_state=1)

    def risk(self, model, cost):
        """The expected RcR loss as a multiple of the Bayes risk; the mean and variance of every row are known."""
        decision = model.decide(self.NEW, cost=cost)
        error = (decision.prediction - self.MEAN) ** 2 + self.VARIANCE
        return np.where(decision.accepted, error, cost).mean() / np.minimum(self.VARIANCE, cost).mean()

    def test_it_comes_near_the_bayes_risk_and_is_not_worse_than_joint_training(self):
        joint, crossfitted = (
            self.risk(RcRRegressor(cost=1.5, **options, **LONGER).fit(*self.TRAIN), 1.5)
            for options in ({"slow_start": 40}, {"residuals": "crossfit"})
        )
        assert crossfitted < 1.25
        assert crossfitted < 1.01 * joint

    def test_one_training_for_a_range_serves_each_cost_like_a_training_for_it(self):
        costs = (0.3, 0.8, 2.0)
        settings = {**LONGER, "residuals": "crossfit", "cv": 3, "n_members": 2}
        ranged = RcRRegressor(**settings, cost_range=(0.2, 3.0)).fit(*self.TRAIN)
        alone = fit_costs(RcRRegressor(**settings), *self.TRAIN, costs=costs)
        for cost, model in zip(costs, alone, strict=True):
            assert self.risk(ranged, cost) < 1.1 * self.risk(model, cost)
        accepted = np.array([ranged.decide(self.NEW, cost=cost).accepted for cost in np.geomspace(0.2, 3.0, 20)])
        rates = accepted.mean(axis=1)
        assert 0 < rates[0] < rates[5] < rates[10] < rates[15] < rates[-1] < 1
        assert not (accepted[:-1] & ~accepted[1:]).any()  # accepted, but not at a higher cost


class OwnNetwork(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)


class TestNetworks:
    @pytest.mark.parametrize("network", ["linear", OwnNetwork])
    def test_every_kind_of_network_is_cross_fitted_and_repeats(self, network):
        parameters = {"network": network, "n_members": 2, "epochs": 20, "learning_rate": 1e-2, "cost_range": (0.5, 4.0)}
        torch.manual_seed(0)
        before = torch.get_rng_state()
        model = make(**parameters).fit(X, Y)
        assert torch.equal(before, torch.get_rng_state())
        same(model, make(**parameters).fit(X, Y), cost=1.0)
        said = outputs(model.regressor_, model.rule_.units.features(NEW))
        assert len({row.tobytes() for row in said}) == 6

    def test_a_diverged_training_is_dropped_and_counted_over_folds_and_rejectors(self):
        with pytest.warns(ConvergenceWarning, match=r"9 of 18 trainings diverged") as caught:
            model = make(learning_rate=(1e30, 1e-2), n_members=2).fit(X, Y)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        assert [entry[:2] for entry in model.diverged_] == [(member, 1e30) for member in range(9)]
        assert model.learning_rate_ == [1e-2] * 3
        same(model, make(learning_rate=1e-2, n_members=2).fit(X, Y), rtol=1e-3)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_when_all_diverge_the_old_model_stays(self):
        model = make().fit(X, Y)
        before = model.decide(NEW)
        with pytest.raises(ValueError, match=r"every training diverged"):
            model.set_params(learning_rate=1e30).fit(X, Y)
        assert model.decide(NEW) == before

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("fold", [0, 2])
    def test_a_fold_whose_every_regressor_diverges_is_an_error_and_the_old_model_stays(self, failing_fold, fold):
        model = make(n_members=2).fit(X, Y)
        before = model.decide(NEW)
        failing_fold("train_regressors", fold)
        rule = "every training diverged; try a learning_rate smaller than 0.01, or look for extreme values"
        with pytest.raises(ValueError, match=f"^{re.escape(rule)}"):
            model.fit(X, Y)
        assert model.decide(NEW) == before

    def test_a_fold_that_diverges_at_one_learning_rate_takes_another(self, failing_fold):
        alone = make(learning_rate=1e-2, cv=THIRDS).fit(X, Y, validation=(NEW, NEW_Y))
        failing_fold("train_regressors", 1, rates=[1e-1])
        with pytest.warns(ConvergenceWarning, match=r"1 of 12 trainings diverged"):
            model = make(cv=THIRDS).fit(X, Y, validation=(NEW, NEW_Y))
        assert [entry[:2] for entry in model.diverged_] == [(1, 1e-1)]
        features = model.rule_.units.features(NEW)
        np.testing.assert_allclose(
            outputs(model.regressor_.take([1]), features), outputs(alone.regressor_.take([1]), features), rtol=1e-3
        )

    def test_a_fold_whose_every_rejector_diverges_leaves_the_choice_and_the_decision_to_the_others(self, failing_fold):
        failing_fold("train_rejectors", 1)
        with pytest.warns(ConvergenceWarning, match=r"2 of 12 trainings diverged"):
            model = make(cv=THIRDS).fit(X, Y, validation=(NEW, NEW_Y))
        assert [member for member, *_ in model.diverged_] == [4, 4]  # the regressors of three folds come first
        assert len(model.regressor_) == 3
        assert len(model.rejector_) == len(model.best_epoch_) == 2
        assert len(set(model.best_epoch_)) == len(set(model.learning_rate_)) == 1
        assert np.isfinite(model.history_).all()
        assert np.isfinite(model.decision_function(NEW)).all()


class TestUnequalFolds:
    @pytest.mark.parametrize("batch_size", [1024, 8])
    @pytest.mark.parametrize("costs", [ONE_COST, RANGE], ids=str)
    def test_folds_of_very_unequal_sizes_are_learned_from(self, batch_size, costs):
        model = make(cv=UNEQUAL, batch_size=batch_size, **costs, n_members=2, epochs=60).fit(X, Y)
        assert model.diverged_ == []
        assert len(model.regressor_) == 8
        assert np.mean((model.predict(NEW) - NEW_Y) ** 2) < 0.5 * NEW_Y.var()
        same(model, make(cv=UNEQUAL, batch_size=batch_size, **costs, n_members=2, epochs=60).fit(X, Y), cost=1.0)

    def test_the_rejectors_of_a_fold_learn_from_all_other_rows_and_are_tried_on_its_own(self, learned):
        make(cv=UNEQUAL).fit(X, Y, validation=(NEW, NEW_Y))
        assert [len(own.y) for _, own in learned] == [50, 27, 2, 1]
        assert [len(table.y) for table, _ in learned] == [70, 93, 118, 119]  # with 40 validation rows

    def test_every_row_counts_alike_in_the_choice_in_however_small_a_fold(self):
        model = make(cv=UNEQUAL).fit(X, Y, validation=(NEW, NEW_Y))
        assert model.validation_loss_ == pytest.approx(loss_of_folds(model, 1.0, UNEQUAL), rel=1e-4)

    def test_the_regressors_of_a_fold_end_as_trained_on_its_rows_alone_where_they_make_one_batch(self, monkeypatch):
        calls = []

        def spy(*arguments):
            calls.append((arguments, train(*arguments)))
            return calls[-1][1]

        train = crossfit.train_regressors
        monkeypatch.setattr(crossfit, "train_regressors", spy)
        model = make(cv=UNEQUAL, n_members=2, learning_rate=1e-2).fit(X, Y, validation=(NEW, NEW_Y))
        (((tables, validation, members, *rest), _),) = calls  # all folds at once
        features = model.rule_.units.features(NEW)
        for fold, (table, chooses) in enumerate(zip(tables, validation, strict=True)):
            mine = [replace(member, table=0) for member in members if member.table == fold]
            alone = train([real_rows(table)], [chooses], mine, *rest)
            ours = outputs(model.regressor_.take([2 * fold, 2 * fold + 1]), features)
            theirs = outputs(alone.regressor.to(torch.float64), features)
            np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)

    def test_weights_equal_copies_in_folds_of_the_users_own(self):
        weight = np.arange(len(X)) % 3
        fold = np.searchsorted([50, 70], np.arange(len(X)), side="right")
        weighted = make(cv=splits_of(fold), batch_size=16).fit(X, Y, sample_weight=weight)
        copies = np.repeat(X, weight, axis=0), np.repeat(Y, weight)
        same(weighted, make(cv=splits_of(np.repeat(fold, weight)), batch_size=16).fit(*copies))


class TestParameters:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"residuals": "holdout"}, "residuals must be 'train' or 'crossfit', got 'holdout'"),
            ({"cv": 1}, "cv must be an int >= 2, a splitter or an iterable of (train, test), got 1"),
            ({"cv": 2.0}, "cv must be an int >= 2, a splitter or an iterable of (train, test), got 2.0"),
            ({"warm_start": True}, "warm_start must be False with residuals='crossfit', got True"),
            ({"slow_start": 50}, "slow_start must be left at its default with residuals='crossfit', got 50"),
            (
                {"network": "linear", "hidden": (5,)},
                "hidden must be left at its default unless network='mlp', got (5,)",
            ),
        ],
        ids=str,
    )
    def test_an_impossible_parameter_is_refused(self, parameters, message):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            make(**parameters).fit(X, Y)

    def test_folds_without_cross_fitting_warn_the_caller(self):
        with pytest.warns(UserWarning, match=r"^cv has no effect unless residuals='crossfit'$") as caught:
            make(residuals="train").fit(X, Y)
        assert caught[0].filename == __file__

    def test_partial_fit_is_refused_before_and_after_a_fit(self):
        model = make()
        assert not hasattr(model, "partial_fit")
        assert hasattr(RcRRegressor(), "partial_fit")
        with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as refused:
            model.partial_fit(X, Y)
        assert str(refused.value.__cause__) == "partial_fit needs residuals='train', got 'crossfit'"
        before = model.fit(X, Y).decide(NEW)
        assert not hasattr(model, "partial_fit")
        for go_on in (lambda: model.partial_fit(X, Y), lambda: model.set_params(warm_start=True).fit(X, Y)):
            model.set_params(residuals="train", cv=5)
            with pytest.raises(ValueError, match=r"fitted with residuals='crossfit' and cannot continue training"):
                go_on()
        assert model.decide(NEW) == before

    def test_another_fit_may_change_how_the_rejector_learns(self):
        model = make().fit(X, Y).set_params(residuals="train", cv=5).fit(X, Y)
        same(model, make(residuals="train", cv=5).fit(X, Y))
        same(model.set_params(residuals="crossfit", cv=3).fit(X, Y), make().fit(X, Y))

    def test_more_folds_than_rows_leave_one_row_out_at_a_time(self):
        model = make(cv=50, epochs=3).fit(X[:10], Y[:10])
        assert len(model.regressor_) == 10

    def test_folds_of_the_users_own_keep_groups_together(self, learned):
        # two rows of each group have the same target, so a model fitted to one of them predicts the other
        random = np.random.default_rng(0)
        group = np.arange(120) // 2
        features, y = random.normal(size=(60, 4))[group], random.normal(size=60)[group]
        features[:, 0] += 1e-6 * random.normal(size=120)
        for cv in (splits_of(group % 3), 3):
            make(cv=cv, epochs=150).fit(features, y, validation=(features, y))
        grouped, mixed = errors_left_out(learned[:3]).mean(), errors_left_out(learned[3:]).mean()
        assert grouped > 1.0
        assert mixed < 0.8 * grouped
        for table, own in learned[:3]:  # rejectors are tried on whole groups, too
            groups, own_groups = (set(part[:, 1].tolist()) for part in (table.x[:-120], own.x))
            assert len(own_groups) == 20
            assert not groups & own_groups

    def test_two_rows_are_enough_but_a_single_one_is_not(self):
        assert np.isfinite(make(epochs=3).fit(X[:2], Y[:2]).predict(X)).all()
        with pytest.raises(ValueError, match="n_samples = 1"):
            make().fit(X[:1], Y[:1])

    def test_without_validation_rows_each_fold_sets_a_share_of_its_own_aside(self, monkeypatch):
        train, seen = crossfit.train_regressors, []

        def spy(tables, validation, *rest):
            seen.extend((real_rows(table), real_rows(own)) for table, own in zip(tables, validation, strict=True))
            return train(tables, validation, *rest)

        monkeypatch.setattr(crossfit, "train_regressors", spy)
        make(validation_fraction=0.2, epochs=1).fit(X, Y)
        learning, choosing = ([set(names_of(part)) for part in parts] for parts in zip(*seen, strict=True))
        for mine, own in zip(learning, choosing, strict=True):
            assert not mine & own
            assert len(own) == round(0.2 * len(mine | own))
        assert len(set.union(*learning)) > 0.9 * len(X)  # what one fold sets aside, another learns from


BY_DESIGN = {"check_regressors_no_decision_function": "a rejecting regressor has a score of acceptance by design"}


@parametrize_with_checks(
    [RcRRegressor(epochs=40, residuals="crossfit", cv=2, learning_rate=(1e-1, 1e-2), n_members=2)],
    expected_failed_checks=lambda _: BY_DESIGN,
)
def test_it_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_rows_in_no_test_part_train_regressors_only(learned):
    order = np.argsort(X[:, 0])
    model = make(cv=TimeSeriesSplit(3)).fit(X[order], Y[order])
    in_test = {tuple(row) for row in model.rule_.units.features(X[order][20:]).astype(np.float32).tolist()}
    for table, own in learned:
        assert {*names_of(table), *names_of(own)} == in_test
    assert np.isfinite(model.decision_function(NEW)).all()


def test_a_single_test_part_is_refused():
    with pytest.raises(ValueError, match=r"^cv must be a division with at least 2 test parts, got 1$"):
        make(cv=THIRDS[:1]).fit(X, Y)
