"""RcRRegressorCV: rejectors trained on errors of rows left out, for one cost or for all costs of a range."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import TimeSeriesSplit

from recuse import RcRRegressor, RcRRegressorCV, datasets
from recuse.engine.stack import outputs
from sample_rows import NEW, NEW_Y, ROW_COST, X, Y, mixed_frame

SMALL = {
    "epochs": 12,
    "surrogate": "mae",
    "batch_size": 1024,
    "cv": 3,
    "learning_rate": (1e-1, 1e-2),
    "n_members": 1,
    "random_state": 0,
}
ONE_COST, RANGE = {"cost": 1.0}, {"cost_range": (0.5, 4.0)}
LONGER = {
    "epochs": 120,
    "batch_size": 1024,
    "surrogate": "mae",
    "learning_rate": 1e-2,
    "n_members": 1,
    "random_state": 0,
}


def make(**parameters):
    return RcRRegressorCV(**{**SMALL, **parameters})


def same(one, other, rows=NEW, rtol=0.0, cost=None):
    np.testing.assert_allclose(one.predict(rows), other.predict(rows), rtol=rtol)
    scores = (model.decision_function(rows, cost) for model in (one, other))
    np.testing.assert_allclose(*scores, rtol=rtol)


def pure_noise(n_rows=200):
    random = np.random.default_rng(0)
    return random.normal(size=(n_rows, 5)), random.normal(size=n_rows)


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
    def test_below_the_variance_of_noise_nearly_all_is_rejected(self):
        X, y = pure_noise(300)
        new = np.random.default_rng(1).normal(size=(500, 5))
        model = make(cost=0.4, epochs=60, n_members=2).fit(X, y)
        assert model.decide(new).rejection_rate > 0.9

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
        models = RcRRegressor(cost=1.5, slow_start=40, **LONGER), RcRRegressorCV(cost=1.5, **LONGER)
        joint, crossfitted = (self.risk(model.fit(*self.TRAIN), 1.5) for model in models)
        assert crossfitted < 1.25
        assert crossfitted < 1.01 * joint

    def test_one_training_for_a_range_serves_each_cost_like_a_training_for_it(self):
        costs = (0.3, 2.0)
        settings = {**LONGER, "cv": 2}
        ranged = RcRRegressorCV(**settings, cost_range=(0.2, 3.0)).fit(*self.TRAIN)
        alone = [RcRRegressorCV(cost, **settings).fit(*self.TRAIN) for cost in costs]
        for cost, model in zip(costs, alone, strict=True):
            assert self.risk(ranged, cost) < 1.1 * self.risk(model, cost)
        accepted = np.array([ranged.decide(self.NEW, cost=cost).accepted for cost in np.geomspace(0.2, 3.0, 20)])
        rates = accepted.mean(axis=1)
        assert 0 < rates[0] < rates[5] < rates[10] < rates[15] < rates[-1] < 1
        assert not (accepted[:-1] & ~accepted[1:]).any()  # accepted, but not at a higher cost


class TestDivergence:
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


class TestUnequalFolds:
    @pytest.mark.parametrize("batch_size", [1024, 8])
    @pytest.mark.parametrize("costs", [ONE_COST, RANGE], ids=str)
    def test_folds_of_very_unequal_sizes_are_learned_from(self, batch_size, costs):
        model = make(cv=UNEQUAL, batch_size=batch_size, **costs, n_members=2, epochs=25).fit(X, Y)
        assert model.diverged_ == []
        assert len(model.regressor_) == 8
        assert np.mean((model.predict(NEW) - NEW_Y) ** 2) < 0.5 * NEW_Y.var()
        same(model, make(cv=UNEQUAL, batch_size=batch_size, **costs, n_members=2, epochs=25).fit(X, Y), cost=1.0)

    def test_every_row_counts_alike_in_the_choice_in_however_small_a_fold(self):
        model = make(cv=UNEQUAL).fit(X, Y, validation=(NEW, NEW_Y))
        assert model.validation_loss_ == pytest.approx(loss_of_folds(model, 1.0, UNEQUAL), rel=1e-4)

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
            ({"cv": 1}, "cv must be an int >= 2, a splitter or an iterable of (train, test), got 1"),
            ({"cv": 2.0}, "cv must be an int >= 2, a splitter or an iterable of (train, test), got 2.0"),
        ],
        ids=str,
    )
    def test_an_impossible_parameter_is_refused(self, parameters, message):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            make(**parameters).fit(X, Y)

    def test_more_folds_than_rows_leave_one_row_out_at_a_time(self):
        model = make(cv=50, epochs=3).fit(X[:10], Y[:10])
        assert len(model.regressor_) == 10

    def test_two_rows_are_enough_but_a_single_one_is_not(self):
        assert np.isfinite(make(epochs=3).fit(X[:2], Y[:2]).predict(X)).all()
        with pytest.raises(ValueError, match="n_samples = 1"):
            make().fit(X[:1], Y[:1])


def test_rows_in_no_test_part_train_regressors_only():
    order = np.argsort(X[:, 0])
    rows, target, costs = X[order], Y[order], ROW_COST[order]

    def score(first, last):
        """Score new rows, with the costs of some training rows in the reverse order."""
        changed = costs.copy()
        changed[first:last] = changed[first:last][::-1]
        return make(cv=TimeSeriesSplit(3)).fit(rows, target, cost=changed).decision_function(NEW, cost=1.0)

    np.testing.assert_allclose(score(0, 20), score(0, 0))  # the first 20 rows are in no test part
    assert not np.allclose(score(60, 80), score(0, 0))


def test_a_single_test_part_is_refused():
    with pytest.raises(ValueError, match=r"^cv must be a division with at least 2 test parts, got 1$"):
        make(cv=THIRDS[:1]).fit(X, Y)
