"""SelectiveNetRegressor: decisions at a requested coverage or at a cost."""

import pickle
import re

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from recuse import SelectiveNetRegressor, datasets, metrics
from recuse.engine.stack import outputs

SMALL = {"epochs": 40, "learning_rate": 1e-2, "random_state": 0}


def make(**parameters):
    return SelectiveNetRegressor(**{**SMALL, **parameters})


X, Y = datasets.make_heteroscedastic(200, n_features=5, random_state=0)[:2]
NEW, NEW_Y = datasets.make_heteroscedastic(100, n_features=5, random_state=1)[:2]
ROW_COST = np.random.default_rng(2).uniform(0.2, 5, size=len(X))


@pytest.fixture(scope="module")
def by_cost():
    """One model for every cost."""
    return make(coverage=None, epochs=80).fit(X, Y, validation=(NEW, NEW_Y))


def mixed_frame(rows=X):
    """The same rows with a category and gaps."""
    frame = pd.DataFrame(rows.copy(), columns=list("abcde"))
    frame["kind"] = np.where(rows[:, 0] > 0, "up", "down")
    frame.loc[::7, "a"] = np.nan
    frame.loc[3::9, "kind"] = None
    return frame


def same(one, other, rows=NEW, **options):
    np.testing.assert_allclose(one.predict(rows), other.predict(rows), **{"rtol": 1e-12, **options})
    np.testing.assert_allclose(one.decision_function(rows), other.decision_function(rows), **{"rtol": 1e-12, **options})


def differ(one, other, rows=NEW):
    return not np.allclose(one.predict(rows), other.predict(rows), rtol=1e-6)


class TestCoverage:
    @pytest.mark.parametrize("coverage", [0.05, 0.3, 0.7, 0.95, 1.0, 1])
    def test_the_coverage_of_the_validation_rows_is_the_requested_one(self, coverage):
        model = make(coverage=coverage, n_members=2).fit(X, Y, validation=(NEW, NEW_Y))
        accepted = 1 - model.decide(NEW).rejection_rate
        assert abs(accepted - coverage) <= 1 / len(NEW)
        assert model.validation_coverage_ == pytest.approx(accepted)
        assert model.coverage_ == coverage

    def test_the_coverage_of_new_rows_is_near_the_requested_one(self):
        model = make(coverage=0.6).fit(X, Y)
        test = datasets.make_heteroscedastic(2000, n_features=5, random_state=7)[0]
        assert model.decide(test).rejection_rate == pytest.approx(0.4, abs=0.15)  # set by 50 rows

    def test_the_targets_of_the_validation_rows_have_no_effect(self):
        one = make().fit(X, Y, validation=(NEW, NEW_Y))
        other = make().fit(X, Y, validation=(NEW, NEW_Y[::-1].copy()))
        same(one, other, rtol=0)

    def test_where_all_validation_rows_are_accepted_every_row_is_however_strange(self):
        model = make(coverage=0.999, unseen="keep").fit(X, Y)
        model.network_.views(model.network_.parameters)[-4][:] *= -10  # the selection of strange rows rounds to 0
        strange = np.concatenate([1e6 * NEW, -1e6 * NEW])
        assert model.decide(strange).score.min() < 1e-9
        assert model.decide(strange).rejection_rate == 0.0

    def test_a_number_far_outside_the_training_range_is_rejected(self):
        model = make(coverage=0.999).fit(X, Y)
        assert model.decide(NEW).rejection_rate < 0.1
        assert model.decide(1e6 * NEW).rejection_rate == 1.0

    def test_weighted_validation_rows_count_by_their_weight(self):
        copies = np.where(np.arange(len(NEW)) < 50, 5, 1)
        model = make(coverage=0.5).fit(X, Y, validation=(np.repeat(NEW, copies, axis=0), np.repeat(NEW_Y, copies)))
        accepted = model.decide(NEW).accepted
        assert abs(np.average(accepted, weights=copies) - 0.5) <= 5 / copies.sum()

    def test_rows_of_equal_score_are_accepted_together(self):
        alike = np.tile(NEW[:1], (30, 1))
        model = make(coverage=0.5).fit(X, Y, validation=(alike, NEW_Y[:30]))
        assert model.validation_coverage_ == 1.0
        assert model.decide(alike).rejection_rate == 0.0

    def test_the_accepted_loss_falls_with_the_coverage(self):
        X, y, _, variance = datasets.make_heteroscedastic(800, random_state=3)
        test = slice(500, None)
        loss, noise = [], []
        for coverage in (1.0, 0.6, 0.2):
            model = make(coverage=coverage, n_members=3).fit(X[:500], y[:500])
            decision = model.decide(X[test])
            loss.append(decision.evaluate(y[test])["accepted_loss"])
            noise.append(variance[test][decision.accepted].mean())
        assert loss[0] > 1.2 * loss[1] > 1.2**2 * loss[2]
        assert noise[0] > 1.2 * noise[1] > 1.2**2 * noise[2]

    def test_another_cost_is_carried_along_and_changes_no_acceptance(self):
        model = make(cost=2.0).fit(X, Y)
        usual, dear = model.decide(NEW), model.decide(NEW, cost=50.0)
        np.testing.assert_array_equal(usual.cost, np.full(len(NEW), 2.0))
        np.testing.assert_array_equal(dear.cost, np.full(len(NEW), 50.0))
        np.testing.assert_array_equal(usual.accepted, dear.accepted)
        np.testing.assert_array_equal(usual.score, dear.score)
        assert model.serves_any_cost
        same(model, make(cost=9.0).fit(X, Y), rtol=0)

    def test_predict_and_decide_agree(self):
        model = make().fit(X, Y)
        decision = model.decide(NEW)
        np.testing.assert_array_equal(decision.prediction, model.predict(NEW))
        np.testing.assert_array_equal(decision.score, model.decision_function(NEW))
        np.testing.assert_array_equal(decision.accepted, decision.score > 0)

    def test_the_score_is_the_mean_selection_less_the_threshold(self):
        model = make(n_members=3).fit(X, Y)
        prediction, selection, _ = outputs(model.network_, model.rule_.units.features(NEW)).reshape(3, 3, -1)
        np.testing.assert_allclose(model.decision_function(NEW), selection.mean(axis=0) - model.threshold_)
        np.testing.assert_allclose(model.predict(NEW), model.rule_.units.prediction(prediction.mean(axis=0)))


class TestCost:
    def test_every_cost_is_served_by_nearly_the_lowest_validation_loss(self, by_cost):
        """Not exactly: rows that are accepted at a lower cost are accepted too."""
        features = by_cost.rule_.units.features(NEW)
        heads = outputs(by_cost.network_, features).reshape(3, 10, -1)
        prediction, selection = by_cost.rule_.units.prediction(heads[0]), heads[1]
        for cost in (0.05, 0.3, 1.0, 4.0):
            ways = [(p, s > t) for p, s in zip(prediction, selection, strict=True) for t in (-1.0, *s)]
            lowest = min(metrics.rcr_loss(NEW_Y, p, accepted, cost) for p, accepted in ways)
            assert by_cost.decide(NEW, cost=cost).evaluate(NEW_Y)["rcr_loss"] == pytest.approx(lowest, rel=0.05)

    def test_a_row_that_is_accepted_at_one_cost_is_accepted_at_every_higher_one(self, by_cost):
        costs = [0.0, *np.geomspace(1e-3, 1e3, 40)]
        accepted = np.array([by_cost.decide(NEW, cost=cost).accepted for cost in costs])
        assert (accepted[1:] >= accepted[:-1]).all()
        assert not accepted[0].any()

    def test_a_higher_cost_accepts_more(self, by_cost):
        shares = [1 - by_cost.decide(NEW, cost=cost).rejection_rate for cost in (0.0, 0.1, 0.5, 2.0, 1e6)]
        assert shares == sorted(shares)
        assert (shares[0], shares[-1]) == (0.0, 1.0)

    def test_it_beats_accepting_all_and_rejecting_all_where_the_noise_varies(self, by_cost):
        test, y = datasets.make_heteroscedastic(1000, n_features=5, random_state=5)[:2]
        measures = by_cost.decide(test, cost=0.8).evaluate(y)
        assert measures["rcr_loss"] < 0.95 * min(measures["always_accept"], measures["always_reject"])

    def test_the_default_cost_is_that_of_fit_also_in_predict(self, by_cost):
        decision = by_cost.decide(NEW)
        assert decision == by_cost.decide(NEW, cost=1.0)
        np.testing.assert_array_equal(decision.prediction, by_cost.predict(NEW))
        assert by_cost.validation_loss_ == pytest.approx(decision.evaluate(NEW_Y)["rcr_loss"])
        assert by_cost.validation_coverage_ == pytest.approx(1 - decision.rejection_rate)
        assert by_cost.coverage_ in [tenth / 10 for tenth in range(1, 11)]

    def test_each_row_is_served_by_its_own_cost(self, by_cost):
        costs = np.where(np.arange(len(NEW)) % 2, 0.2, 3.0)
        mixed = by_cost.decide(NEW, cost=costs)
        for cost in (0.2, 3.0):
            rows = costs == cost
            np.testing.assert_allclose(mixed.score[rows], by_cost.decide(NEW, cost=cost).score[rows], rtol=1e-9)
            np.testing.assert_allclose(
                mixed.prediction[rows], by_cost.decide(NEW, cost=cost).prediction[rows], rtol=1e-9
            )

    def test_costs_per_row_ask_for_those_of_new_and_validation_rows(self):
        model = make(coverage=None, epochs=5).fit(X, Y, cost=ROW_COST)
        with pytest.raises(ValueError, match=r"fitted with one cost per row, so new rows need theirs"):
            model.decide(NEW)
        assert np.isfinite(model.predict(NEW)).all()
        assert len(model.decide(NEW, cost=2.0)) == len(NEW)
        with pytest.raises(ValueError, match=r"cost has one value per row, so validation needs its own"):
            model.fit(X, Y, cost=ROW_COST, validation=(NEW, NEW_Y))

    def test_a_cost_column_is_no_feature(self):
        frame, new = mixed_frame().assign(fee=ROW_COST), mixed_frame(NEW).assign(fee=1.0)
        model = make(cost="fee", epochs=5).fit(frame, Y)
        np.testing.assert_array_equal(model.predict(new), model.predict(new.assign(fee=9.0)))
        np.testing.assert_array_equal(model.decide(new).cost, np.ones(len(new)))

    def test_a_callable_cost_is_called_with_new_rows(self):
        model = make(coverage=None, epochs=5, cost=lambda rows: np.exp(rows[:, 0])).fit(X, Y)
        np.testing.assert_array_equal(model.decide(NEW).cost, np.exp(NEW[:, 0]))

    def test_the_networks_are_those_of_their_coverages_alone(self, by_cost):
        alone = make(coverage=0.4, epochs=80).fit(X, Y, validation=(NEW, NEW_Y))
        features = alone.rule_.units.features(NEW)
        in_grid = outputs(by_cost.network_.take([3]), features)
        np.testing.assert_allclose(in_grid, outputs(alone.network_, features), rtol=1e-4, atol=1e-5)


class TestNumbers:
    def test_the_same_random_state_gives_the_same_numbers_and_another_gives_others(self):
        same(make(batch_size=64).fit(X, Y), make(batch_size=64).fit(X, Y), rtol=0)
        assert differ(make().fit(X, Y), make(random_state=1).fit(X, Y))

    def test_the_order_of_the_rows_does_not_matter(self):
        order = np.random.default_rng(3).permutation(len(Y))
        same(make(batch_size=64).fit(X[order], Y[order]), make(batch_size=64).fit(X, Y), rtol=0)

    def test_a_whole_weight_equals_so_many_copies_and_zero_equals_none(self):
        weight = np.arange(len(Y)) % 4
        copied = make().fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
        same(make().fit(X, Y, sample_weight=weight), copied, rtol=0)

    def test_weights_make_a_difference(self):
        assert differ(make().fit(X, Y, sample_weight=np.where(Y > 0, 1.0, 0.1)), make().fit(X, Y))

    def test_the_units_of_the_target_do_not_matter(self):
        one, other = make().fit(X, Y), make().fit(X, 4 * Y + 8)
        np.testing.assert_allclose(other.predict(NEW), 4 * one.predict(NEW) + 8, rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(one.decide(NEW).accepted, other.decide(NEW).accepted)

    def test_target_scaling_can_be_left_out(self):
        assert differ(make(scale_target=False).fit(X, 4 * Y + 8), make().fit(X, 4 * Y + 8))

    def test_the_result_of_a_row_does_not_depend_on_the_other_rows(self):
        model, rows = make().fit(X, Y), [5, 3, 3, 60]
        np.testing.assert_allclose(model.predict(NEW[rows]), model.predict(NEW)[rows], rtol=1e-9)
        np.testing.assert_allclose(model.decide(NEW[rows]).score, model.decide(NEW).score[rows], rtol=1e-9)

    def test_the_first_members_are_those_of_a_smaller_ensemble(self):
        small = make(n_members=1).fit(X, Y, validation=(NEW, NEW_Y))
        large = make(n_members=3).fit(X, Y, validation=(NEW, NEW_Y))
        features = small.rule_.units.features(NEW)
        first = outputs(large.network_.take([0]), features)
        np.testing.assert_allclose(outputs(small.network_, features), first, rtol=1e-4, atol=1e-5)

    def test_a_linear_body_gives_linear_predictions(self):
        model = make(hidden=()).fit(X, Y)
        middle = model.predict((NEW[:50] + NEW[50:]) / 2)
        np.testing.assert_allclose(middle, (model.predict(NEW[:50]) + model.predict(NEW[50:])) / 2, atol=1e-9)

    def test_the_history_holds_the_training_loss_of_every_member(self):
        model = make(n_members=2).fit(X, Y)
        assert model.history_.shape == (40, 2)
        assert (model.history_[-1] < model.history_[0]).all()


class TestConventions:
    def test_a_frame_with_categories_and_gaps_is_learned_and_decided_with_its_labels(self):
        frame = mixed_frame()
        frame.index = [f"car {i}" for i in range(len(frame))]
        model = make().fit(frame, pd.Series(Y, index=frame.index))
        assert model.decide(frame).to_frame().index.equals(frame.index)
        assert model.decide(frame).evaluate(Y)["always_accept"] < np.var(Y)
        assert list(model.feature_names_in_) == ["a", "b", "c", "d", "e", "kind"]

    def test_a_clone_and_a_pickle_give_the_same_model(self, by_cost):
        same(pickle.loads(pickle.dumps(by_cost)), by_cost, rtol=0)
        model = make(n_members=2).fit(X, Y)
        same(clone(model).fit(X, Y), model, rtol=0)
        assert pickle.loads(pickle.dumps(model)).decide(NEW) == model.decide(NEW)

    def test_a_failed_fit_leaves_the_model_as_it_was(self):
        model = make().fit(X, Y)
        before = model.decide(NEW)
        with pytest.raises(ValueError, match="Input y contains NaN"):
            model.fit(X, np.where(Y > 2, np.nan, Y))
        assert model.decide(NEW) == before

    def test_verbose_shows_progress_and_changes_no_number(self, capsys, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich draws its bar for terminals
        shown = make(verbose=True).fit(X, Y)
        assert "training" in capsys.readouterr().err
        same(shown, make().fit(X, Y), rtol=0)

    @pytest.mark.parametrize("ask", [lambda m: m.predict(X), lambda m: m.decide(X), lambda m: m.serves_any_cost])
    def test_an_unfitted_model_raises_not_fitted_error(self, ask):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            ask(make())


class TestBadInput:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"coverage": 0.0}, "coverage must be None or a number > 0 and <= 1, got 0.0"),
            ({"coverage": 1.2}, "coverage must be None or a number > 0 and <= 1, got 1.2"),
            ({"coverage": "most"}, "coverage must be None or a number > 0 and <= 1, got 'most'"),
            ({"coverage": np.nan}, "coverage must be None or a number > 0 and <= 1, got nan"),
            ({"epochs": 0}, "epochs must be an int >= 1, got 0"),
            ({"batch_size": 1}, "batch_size must be an int >= 2, got 1"),
            ({"n_members": 0}, "n_members must be an int >= 1, got 0"),
            ({"hidden": 64}, "hidden must be a tuple of ints >= 1, got 64"),
            ({"selection_hidden": 0}, "selection_hidden must be an int >= 1, got 0"),
            ({"learning_rate": (0.1, 0.01)}, "learning_rate must be a number > 0 and finite, got (0.1, 0.01)"),
            ({"learning_rate": -1.0}, "learning_rate must be > 0 and finite, got -1.0"),
            ({"weight_decay": -1e-4}, "weight_decay must be a number >= 0 and finite, got -0.0001"),
            ({"lam": np.inf}, "lam must be a number >= 0 and finite, got inf"),
            ({"alpha": 0.0}, "alpha must be > 0 and <= 1, got 0.0"),
            ({"alpha": 1.5}, "alpha must be > 0 and <= 1, got 1.5"),
            ({"validation_fraction": 1.0}, "validation_fraction must be between 0 and 1, got 1.0"),
        ],
        ids=str,
    )
    def test_an_impossible_parameter_is_refused_by_fit_with_the_rule_and_the_value(self, parameters, message):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            make(**parameters).fit(X, Y)

    def test_no_penalty_and_no_decay_are_allowed(self):
        assert np.isfinite(make(lam=0, weight_decay=0, alpha=1, epochs=3).fit(X, Y).predict(NEW)).all()

    def test_too_few_rows_to_train_on_and_to_calibrate_by_are_refused(self):
        with pytest.raises(ValueError, match=r"at least 2 distinct rows besides .*, got n_samples = 1 and 1$"):
            make().fit(X[:2], Y[:2])
        assert len(make(epochs=2).fit(X[:3], Y[:3]).predict(NEW)) == len(NEW)

    @pytest.mark.parametrize(
        ("validation", "message"),
        [
            ((NEW,), r"^validation must be a tuple \(X, y\) or \(X, y, cost\), got a tuple of 1$"),
            ((NEW[:, :1], NEW_Y), r"^in validation: X has 1 features, but SelectiveNetRegressor is expecting 5"),
            ((NEW, NEW_Y, -1.0), r"^in validation: cost must be >= 0, got -1\.0 at row 0$"),
        ],
        ids=["one part", "columns", "cost"],
    )
    def test_bad_validation_rows_are_refused(self, validation, message):
        with pytest.raises(ValueError, match=message):
            make().fit(X, Y, validation=validation)

    @pytest.mark.parametrize("cost", [-1.0, np.nan, [1.0, 2.0]])
    def test_a_bad_cost_is_refused_in_fit_and_in_decide(self, cost, by_cost):
        with pytest.raises(ValueError, match=r"^cost must"):
            make().fit(X, Y, cost=cost)
        with pytest.raises(ValueError, match=r"^cost must"):
            by_cost.decide(NEW, cost=cost)

    def test_when_all_diverge_the_error_suggests_settings(self):
        with pytest.raises(ValueError, match=r"every training diverged; try a learning_rate smaller than"):
            make(learning_rate=1e30).fit(X, Y)

    def test_a_diverged_member_is_dropped_with_a_warning(self, monkeypatch):
        import recuse.estimators.selectivenet.regressor as module

        original = module.train_selective

        def one_breaks(*arguments):
            trained = original(*arguments)
            trained.diverged[1] = 7
            return trained

        expected = make().fit(X, Y, validation=(NEW, NEW_Y))
        monkeypatch.setattr(module, "train_selective", one_breaks)
        with pytest.warns(ConvergenceWarning, match=r"1 of 2 trainings diverged and were dropped"):
            model = make(n_members=2).fit(X, Y, validation=(NEW, NEW_Y))
        assert model.diverged_ == [(0.7, 1, 7)]
        same(model, expected, rtol=1e-4, atol=1e-5)
