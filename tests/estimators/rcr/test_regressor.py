"""RcRRegressor: what it learns depends on the rows, their weights, the costs and the seed, and on nothing else."""

import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from recuse import RcRRegressor, surrogates
from recuse.engine.stack import outputs
from sample_rows import NEW, NEW_Y, ROW_COST, X, Y, differ, mixed_frame, noisy_rows, same

SMALL = {"epochs": 30, "slow_start": 10, "n_members": 1, "random_state": 0}


def make(**parameters):
    return RcRRegressor(**{**SMALL, **parameters})


class TestNumbers:
    def test_the_same_random_state_gives_the_same_numbers(self):
        same(make().fit(X, Y), make().fit(X, Y), rtol=0)
        same(make(batch_size=16).fit(X, Y), make(batch_size=16).fit(X, Y), rtol=0)
        same(
            make(random_state=np.random.RandomState(5)).fit(X, Y), make(random_state=np.random.RandomState(5)).fit(X, Y)
        )

    def test_another_random_state_gives_other_numbers(self):
        assert differ(make().fit(X, Y), make(random_state=1).fit(X, Y))

    def test_a_second_fit_starts_afresh(self):
        same(make().fit(NEW, NEW_Y).fit(X, Y), make().fit(X, Y), rtol=0)

    @settings(max_examples=5, deadline=None)
    @given(st.permutations(range(len(X))))
    def test_the_order_of_the_rows_does_not_matter(self, order):
        model = make(epochs=10, slow_start=4, batch_size=16)
        same(model.fit(X[order], Y[order]), make(epochs=10, slow_start=4, batch_size=16).fit(X, Y), rtol=0)

    def test_the_order_of_the_rows_of_a_frame_does_not_matter(self):
        frame, y = mixed_frame()
        order = np.random.default_rng(3).permutation(len(y))
        same(make().fit(frame.iloc[order], y[order]), make().fit(frame, y), rows=mixed_frame(20)[0], rtol=0)

    @settings(max_examples=5, deadline=None)
    @given(st.lists(st.integers(0, 3), min_size=len(X), max_size=len(X)).filter(lambda w: np.count_nonzero(w) > 10))
    def test_a_whole_weight_equals_so_many_copies_and_zero_equals_none(self, weight):
        weight = np.array(weight)
        model = make(epochs=10, slow_start=4)
        copied = make(epochs=10, slow_start=4).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
        same(model.fit(X, Y, sample_weight=weight), copied, rtol=0)

    def test_copies_of_rows_in_a_frame_equal_weights(self):
        frame, y = mixed_frame()
        weight = (np.arange(len(y)) + 1) % 3
        copied = make().fit(frame.loc[np.repeat(frame.index, weight)], np.repeat(y, weight))
        same(make().fit(frame, y, sample_weight=weight), copied, rows=frame, rtol=0)

    def test_the_scale_of_the_weights_does_not_matter(self):
        weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
        same(make().fit(X, Y, sample_weight=weight), make().fit(X, Y, sample_weight=4 * weight), rtol=0)
        same(make().fit(X, Y, sample_weight=np.full(len(X), 7.0)), make().fit(X, Y))

    def test_weights_make_a_difference(self):
        assert differ(make().fit(X, Y, sample_weight=np.where(Y > 0, 1.0, 0.1)), make().fit(X, Y))

    def test_the_units_of_the_target_do_not_matter(self):
        one, other = make(cost=1.0).fit(X, Y), make(cost=16.0).fit(X, 4 * Y + 8)
        np.testing.assert_allclose(other.predict(NEW), 4 * one.predict(NEW) + 8, rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(one.decide(NEW).accepted, other.decide(NEW).accepted)
        assert other.validation_loss_ == pytest.approx(16 * one.validation_loss_, rel=1e-3)

    @settings(max_examples=10, deadline=None)
    @given(st.lists(st.integers(0, len(NEW) - 1), min_size=1))
    def test_the_result_of_a_row_does_not_depend_on_the_other_rows(self, rows):
        model = self.fitted()
        np.testing.assert_allclose(model.predict(NEW[rows]), model.predict(NEW)[rows], rtol=1e-9)
        part, whole = model.decide(NEW[rows]), model.decide(NEW)[rows]
        np.testing.assert_allclose(part.score, whole.score, rtol=1e-9)
        np.testing.assert_array_equal(part.accepted, whole.accepted)

    _fitted = None

    def fitted(self):
        if TestNumbers._fitted is None:
            TestNumbers._fitted = make(n_members=2).fit(X, Y)
        return TestNumbers._fitted


class TestLearning:
    def test_it_beats_accepting_all_and_rejecting_all_where_the_noise_varies(self):
        X, y = noisy_rows(400)
        test, y_test = noisy_rows(400, seed=9)
        measures = make(cost=2.0, epochs=150, slow_start=50).fit(X, y).decide(test).evaluate(y_test)
        assert measures["rcr_loss"] < 0.9 * min(measures["always_accept"], measures["always_reject"])
        assert measures["accepted_loss"] < measures["rejected_loss"]

    def test_a_frame_with_categories_and_gaps_is_learned_and_decided_with_its_labels(self):
        frame, y = mixed_frame()
        frame.index = [f"car {i}" for i in range(len(frame))]
        model = make(epochs=100).fit(frame, pd.Series(y, index=frame.index))
        decision = model.decide(frame)
        assert decision.to_frame().index.equals(frame.index)
        assert np.isfinite(decision.prediction).all()
        assert decision.evaluate(y)["always_accept"] < np.var(y)
        assert list(model.feature_names_in_) == ["a", "b", "kind"]

    def test_predict_and_decide_agree(self):
        model = make(cost=2.0, epochs=100).fit(X, Y)
        decision = model.decide(NEW)
        np.testing.assert_array_equal(decision.prediction, model.predict(NEW))
        np.testing.assert_array_equal(decision.score, model.decision_function(NEW))
        np.testing.assert_array_equal(decision.accepted, decision.score > 0)
        np.testing.assert_array_equal(decision.cost, np.full(len(NEW), 2.0))
        assert 0 < decision.rejection_rate < 1

    def test_a_free_rejection_rejects_and_a_dear_one_accepts_everything(self):
        assert make(cost=0.0).fit(X, Y).decide(NEW).rejection_rate == 1.0
        assert make(cost=1e6).fit(X, Y).decide(NEW).rejection_rate == 0.0

    @pytest.mark.parametrize("surrogate", surrogates.names()[:5])
    def test_every_surrogate_learns(self, surrogate):
        X, y = noisy_rows(300)
        measures = make(surrogate=surrogate, cost=2.0, epochs=150).fit(X, y).decide(X).evaluate(y)
        assert measures["rcr_loss"] < 0.9 * min(measures["always_accept"], measures["always_reject"])

    def test_arrays_and_frames_of_the_same_numbers_give_the_same_model(self):
        frame = pd.DataFrame(X, columns=["a", "b"])
        new = pd.DataFrame(NEW, columns=["a", "b"])
        np.testing.assert_array_equal(make().fit(frame, Y).predict(new), make().fit(X, Y).predict(NEW))

    def test_a_model_of_named_columns_answers_an_array_with_scikit_learns_warning(self):
        model = make().fit(pd.DataFrame(X, columns=["a", "b"]), Y)
        with pytest.warns(UserWarning, match="X does not have valid feature names"):
            prediction = model.predict(NEW)
        np.testing.assert_array_equal(prediction, model.predict(pd.DataFrame(NEW, columns=["a", "b"])))

    def test_a_model_of_an_array_answers_named_columns_with_scikit_learns_warning(self):
        model = make().fit(X, Y)
        with pytest.warns(UserWarning, match="fitted without feature names"):
            prediction = model.predict(pd.DataFrame(NEW, columns=["a", "b"]))
        np.testing.assert_array_equal(prediction, model.predict(NEW))


class TestCosts:
    def test_a_model_of_one_cost_accepts_that_cost_and_refuses_another(self):
        model = make(cost=2.0).fit(X, Y)
        assert model.decide(NEW, cost=2.0) == model.decide(NEW)
        assert model.decide(NEW, cost=np.full(len(NEW), 2.0)) == model.decide(NEW)
        assert not model.serves_any_cost
        with pytest.raises(
            ValueError, match=r"^RcRRegressor was fitted for cost 2\.0 and cannot decide at cost 3\.0: fit"
        ):
            model.decide(NEW, cost=3.0)
        with pytest.raises(ValueError, match=r"cannot decide at cost 5\.0"):
            model.decision_function(NEW, cost=np.where(np.arange(len(NEW)) == 7, 5.0, 2.0))

    def test_a_model_of_costs_per_row_needs_those_of_new_rows_and_serves_any(self):
        model = make().fit(X, Y, cost=ROW_COST)
        assert model.serves_any_cost
        with pytest.raises(ValueError, match=r"fitted with one cost per row, so new rows need theirs: pass cost="):
            model.decide(NEW)
        costs = np.linspace(0.5, 4, len(NEW))
        np.testing.assert_array_equal(model.decide(NEW, cost=costs).cost, costs)
        np.testing.assert_array_equal(model.decide(NEW, cost=3.0).cost, np.full(len(NEW), 3.0))
        np.testing.assert_array_equal(model.predict(NEW), model.decide(NEW, cost=3.0).prediction)

    def test_a_higher_cost_accepts_more(self):
        X, y = noisy_rows(300)
        cost = np.random.default_rng(0).uniform(0.1, 8, len(y))
        model = make(epochs=200, slow_start=60).fit(X, y, cost=cost)
        shares = [1 - model.decide(NEW, cost=c).rejection_rate for c in (0.1, 0.5, 2.0, 8.0)]
        assert shares == sorted(shares)
        assert shares[0] < shares[-1]

    def test_a_callable_a_column_and_an_array_of_the_same_costs_give_the_same_model(self):
        frame, new = pd.DataFrame(X, columns=["a", "b"]), pd.DataFrame(NEW, columns=["a", "b"])
        fees, new_fees = 1 + X[:, 0] ** 2, 1 + NEW[:, 0] ** 2
        by_array = make().fit(frame, Y, cost=fees, validation=(new, NEW_Y, new_fees)).decide(new, cost=new_fees)
        by_callable = make(cost=lambda rows: 1 + rows["a"] ** 2).fit(frame, Y, validation=(new, NEW_Y)).decide(new)
        with_fee = new.assign(fee=new_fees)
        by_column = make(cost="fee").fit(frame.assign(fee=fees), Y, validation=(with_fee, NEW_Y)).decide(with_fee)
        assert by_callable == by_array
        pd.testing.assert_frame_equal(by_column.to_frame(), by_array.to_frame(), rtol=1e-3)

    def test_a_cost_column_is_no_feature_of_the_regressor(self):
        frame = pd.DataFrame(X, columns=["a", "b"])
        model = make(cost="fee").fit(frame.assign(fee=ROW_COST), Y)
        new = pd.DataFrame(NEW, columns=["a", "b"])
        cheap, dear = new.assign(fee=0.3), new.assign(fee=4.0)
        np.testing.assert_array_equal(model.predict(cheap), model.predict(dear))
        assert not np.array_equal(model.decision_function(cheap), model.decision_function(dear))

    def test_a_callable_cost_receives_checked_rows_and_is_called_once_per_decision(self):
        seen = []

        def fee(rows):
            seen.append(type(rows))
            return 1.0 + np.abs(rows[:, 0])

        model = make(cost=fee, epochs=4).fit(X.tolist(), Y.tolist())
        seen.clear()
        np.testing.assert_array_equal(model.decide(NEW.tolist()).cost, 1.0 + np.abs(NEW[:, 0]))
        assert seen == [np.ndarray]

    def test_the_cost_in_fit_takes_the_place_of_the_parameter(self):
        model = make(cost=7.0).fit(X, Y, cost=2.0)
        same(model, make(cost=2.0).fit(X, Y), rtol=0)
        assert (model.cost, model.cost_) == (7.0, 2.0)
        same(model.fit(X, Y), make(cost=7.0).fit(X, Y), rtol=0)

    def test_costs_of_zero_for_some_rows_are_allowed(self):
        cost = np.where(X[:, 0] > 0, 0.0, 1.0)
        assert np.isfinite(make().fit(X, Y, cost=cost).decide(X, cost=cost).score).all()


class TestEnsembles:
    def test_the_prediction_is_the_mean_and_the_score_the_mean_clipped_score_of_the_members(self):
        model = make(n_members=3).fit(X, Y)
        assert len(model.regressor_) == len(model.learning_rate_) == len(model.best_epoch_) == 3
        features = model.rule_.units.features(NEW)
        members = [outputs(model.regressor_.take([i]), features)[0] for i in range(3)]
        assert not np.allclose(members[0], members[1])
        np.testing.assert_allclose(model.predict(NEW), model.rule_.units.prediction(np.mean(members, axis=0)))
        scores = [outputs(model.rejector_.take([i]), features)[0].clip(-1, 1) for i in range(3)]
        np.testing.assert_allclose(model.decision_function(NEW), np.mean(scores, axis=0))

    def test_the_first_members_are_those_of_a_smaller_ensemble(self):
        small, large = (make(n_members=count).fit(X, Y, validation=(NEW, NEW_Y)) for count in (1, 3))
        features = small.rule_.units.features(NEW)
        first = outputs(large.regressor_.take([0]), features)
        np.testing.assert_array_equal(outputs(small.regressor_, features), first)

    def test_the_chosen_learning_rate_has_the_lowest_validation_loss(self):
        rates = (1e-1, 1e-2, 1e-4)
        alone = {rate: make(learning_rate=rate).fit(X, Y).validation_loss_ for rate in rates}
        model = make(learning_rate=rates).fit(X, Y)
        assert model.learning_rate_ == [min(alone, key=alone.get)]
        assert model.validation_loss_ == pytest.approx(min(alone.values()))

    @pytest.mark.parametrize("rates", [0.01, [0.01], (0.01,), np.array([0.01]), np.float64(0.01)])
    def test_a_learning_rate_may_come_in_any_form(self, rates):
        model = make(learning_rate=rates, epochs=4).fit(X, Y)
        assert model.learning_rate_ == [0.01]
        assert type(model.learning_rate_[0]) is float


class TestNetworks:
    def test_a_linear_network_gives_linear_predictions_and_scores(self):
        model = make(network="linear").fit(X, Y)
        for answer in (model.predict, model.decision_function):
            middle = answer((NEW[:20] + NEW[20:]) / 2)
            np.testing.assert_allclose(middle, (answer(NEW[:20]) + answer(NEW[20:])) / 2, atol=1e-9)

    def test_an_mlp_is_not_linear_and_its_widths_can_be_chosen(self):
        model = make(hidden=(6,), epochs=100).fit(X, Y)
        middle = model.predict((NEW[:20] + NEW[20:]) / 2)
        assert not np.allclose(middle, (model.predict(NEW[:20]) + model.predict(NEW[20:])) / 2, atol=1e-3)
        assert model.regressor_.hidden == (6,)


class TestValidation:
    def test_given_validation_rows_choose_and_all_the_others_train(self):
        model = make().fit(X, Y, validation=(NEW, NEW_Y))
        assert model.validation_loss_ == pytest.approx(model.decide(NEW).evaluate(NEW_Y)["rcr_loss"], rel=1e-4)
        assert differ(model, make().fit(X, Y))

    def test_lists_and_frames_serve_as_validation_rows_too(self):
        model = make().fit(X, Y, validation=[NEW.tolist(), NEW_Y.tolist()])
        same(model, make().fit(X, Y, validation=(NEW, NEW_Y)), rtol=0)

    def test_costs_per_row_ask_for_those_of_the_validation_rows(self):
        with pytest.raises(
            ValueError, match=r"cost has one value per row, so validation needs its own: pass \(X, y, cost"
        ):
            make().fit(X, Y, cost=ROW_COST, validation=(NEW, NEW_Y))
        costs = np.linspace(1, 2, len(NEW))
        model = make().fit(X, Y, cost=ROW_COST, validation=(NEW, NEW_Y, costs))
        measured = model.decide(NEW, cost=costs).evaluate(NEW_Y)["rcr_loss"]
        assert model.validation_loss_ == pytest.approx(measured, rel=1e-4)

    def test_a_callable_cost_serves_the_validation_rows(self):
        model = make(cost=lambda rows: 1 + np.abs(rows[:, 0])).fit(X, Y, validation=(NEW, NEW_Y))
        assert model.validation_loss_ == pytest.approx(model.decide(NEW).evaluate(NEW_Y)["rcr_loss"], rel=1e-4)

    def test_the_share_held_out_can_be_chosen(self):
        assert differ(make(validation_fraction=0.5).fit(X, Y), make(validation_fraction=0.1).fit(X, Y))

    def test_the_history_holds_the_validation_loss_and_its_lowest_is_the_best_epoch(self):
        model = make(n_members=2).fit(X, Y)
        assert model.history_.shape == (20, 2)
        assert all(10 <= epoch < 30 for epoch in model.best_epoch_)
        for member, epoch in enumerate(model.best_epoch_):
            assert model.history_[:, member].argmin() == epoch - 10
        assert model.validation_loss_ == pytest.approx(model.history_.min(axis=0).mean())

    def test_a_long_slow_start_is_cut_to_half_of_the_epochs(self):
        same(make(slow_start=500).fit(X, Y), make(slow_start=15).fit(X, Y), rtol=0)


class TestDivergence:
    def test_a_diverged_training_is_dropped_with_a_warning_and_the_survivor_is_as_if_alone(self):
        with pytest.warns(ConvergenceWarning, match=r"1 of 2 trainings diverged and were dropped"):
            model = make(learning_rate=(1e30, 1e-2)).fit(X, Y)
        alone = make(learning_rate=1e-2).fit(X, Y)
        same(model, alone)
        assert model.learning_rate_ == [1e-2]
        assert [entry[:2] for entry in model.diverged_] == [(0, 1e30)]
        assert model.best_epoch_ == alone.best_epoch_
        assert alone.diverged_ == []

    def test_an_ensemble_reports_every_diverged_training_by_member(self):
        with pytest.warns(ConvergenceWarning, match=r"2 of 4 trainings"):
            model = make(learning_rate=(1e30, 1e-2), n_members=2).fit(X, Y)
        assert [entry[:2] for entry in model.diverged_] == [(0, 1e30), (1, 1e30)]
        same(model, make(learning_rate=1e-2, n_members=2).fit(X, Y))

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_when_all_diverge_the_error_suggests_settings_and_the_old_model_stays(self):
        model = make().fit(X, Y)
        before = model.decide(NEW)
        with pytest.raises(ValueError, match=r"every training diverged; try a learning_rate smaller than 1e\+25"):
            model.set_params(learning_rate=(1e30, 1e25)).fit(X, Y)
        assert model.decide(NEW) == before
        assert model.diverged_ == []


class TestSurrogates:
    def test_a_function_of_the_users_own_trains_like_the_built_in_loss_that_it_equals(self):
        own = make(surrogate=lambda score: ((score + 1) ** 2, (score - 1) ** 2)).fit(X, Y)
        same(own, make(surrogate="square").fit(X, Y), rtol=1e-2, atol=1e-2)
        assert differ(own, make(surrogate="mae").fit(X, Y))

    def test_an_unknown_surrogate_is_refused_with_the_known_names(self):
        with pytest.raises(ValueError, match=r"surrogate must be one of mae, hinge.*got 'cosine'"):
            make(surrogate="cosine").fit(X, Y)


class TestProgress:
    def test_verbose_shows_progress_on_standard_error_and_changes_no_number(self, capsys, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws its bar for terminals
        shown = make(verbose=True).fit(X, Y)
        captured = capsys.readouterr()
        assert "training" in captured.err
        assert captured.out == ""
        same(shown, make().fit(X, Y), rtol=0)
        assert capsys.readouterr().err == ""

    @pytest.mark.parametrize("calls", [0, 5])
    def test_an_interrupted_fit_leaves_the_model_as_it_was(self, calls):
        model = make(cost=2.0).fit(X, Y)
        before, attributes = model.decide(NEW), dict(vars(model))
        model.set_params(surrogate=Interrupting(calls))
        with pytest.raises(KeyboardInterrupt):
            model.fit(np.column_stack([X, X]), Y, cost=9.0)
        assert model.decide(NEW) == before
        assert {**vars(model), "surrogate": "mae"} == attributes

    def test_an_interrupted_first_fit_leaves_the_model_unfitted(self):
        model = make(surrogate=Interrupting(5))
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
        with pytest.raises(NotFittedError, match="not fitted yet"):
            model.predict(X)
        same(model.set_params(surrogate="mae").fit(X, Y), make().fit(X, Y), rtol=0)


class Interrupting:
    """A surrogate that stands for a user who presses Ctrl-C after some of its calls."""

    def __init__(self, calls):
        self.calls = calls

    def __call__(self, score):
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt
        return (score + 1) ** 2, (score - 1) ** 2


class TestParameters:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"epochs": 0}, "epochs must be an int >= 1, got 0"),
            ({"epochs": 2.5}, "epochs must be an int >= 1, got 2.5"),
            ({"batch_size": -1}, "batch_size must be an int >= 1, got -1"),
            ({"n_members": True}, "n_members must be an int >= 1, got True"),
            ({"slow_start": "soon"}, "slow_start must be an int >= 0, got 'soon'"),
            ({"slow_start": -2}, "slow_start must be an int >= 0, got -2"),
            ({"validation_fraction": 1.0}, "validation_fraction must be between 0 and 1, got 1.0"),
            ({"validation_fraction": 0}, "validation_fraction must be between 0 and 1, got 0"),
            ({"learning_rate": 0.0}, "learning_rate must be > 0 and finite, got 0.0"),
            ({"learning_rate": (0.1, float("nan"))}, "learning_rate must be > 0 and finite, got (0.1, nan)"),
            ({"learning_rate": ()}, "learning_rate must be > 0 and finite, got ()"),
            ({"learning_rate": "fast"}, "learning_rate must be > 0 and finite, got 'fast'"),
            ({"network": "cnn"}, "network must be 'mlp' or 'linear', got 'cnn'"),
            (
                {"network": "linear", "hidden": (5,)},
                "hidden must be left at its default unless network='mlp', got (5,)",
            ),
            ({"hidden": (5, 0)}, "hidden must be a tuple of ints >= 1, got (5, 0)"),
            ({"hidden": 20}, "hidden must be a tuple of ints >= 1, got 20"),
        ],
        ids=str,
    )
    def test_an_impossible_parameter_is_refused_by_fit_with_the_rule_and_the_value(self, parameters, message):
        model = make(**parameters)
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            model.fit(X, Y)

    @pytest.mark.parametrize("ask", [lambda m: m.predict(X), lambda m: m.decide(X), lambda m: m.serves_any_cost])
    def test_an_unfitted_model_raises_not_fitted_error(self, ask):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ask(make())


class TestProtocols:
    """Seeds of the members, which published protocols need."""

    def test_seeds_of_the_members_may_be_given(self):
        both = make(n_members=2, random_state=[3, 5]).fit(X, Y, validation=(NEW, NEW_Y))
        alone = make(n_members=1, random_state=(3,)).fit(X, Y, validation=(NEW, NEW_Y))
        features = both.rule_.units.features(NEW)
        np.testing.assert_array_equal(outputs(both.regressor_, features)[0], outputs(alone.regressor_, features)[0])
        same(both, make(n_members=2, random_state=np.array([3, 5])).fit(X, Y, validation=(NEW, NEW_Y)), rtol=0)
        assert differ(both, make(n_members=2, random_state=[3, 6]).fit(X, Y, validation=(NEW, NEW_Y)))

    @pytest.mark.parametrize("seeds", [[1], [1, 2, 3], [1, -1], [1, 2**32], [1, 0.5]])
    def test_other_than_one_seed_for_each_member_is_refused(self, seeds):
        rule = r"^random_state must be an int, a RandomState, None or 2 ints >= 0, one for each member, got \["
        with pytest.raises(ValueError, match=rule):
            make(n_members=2, random_state=seeds).fit(X, Y)
