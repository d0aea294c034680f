"""StackedMLPRegressor: a plain regressor that depends on its rows, weights and seed, and on nothing else."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from recuse import RcRRegressor
from recuse.estimators import StackedMLPRegressor


def make(**parameters):
    return StackedMLPRegressor(**{"epochs": 30, "random_state": 0, **parameters})


def wavy_rows(n_rows=80, seed=0):
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, size=(n_rows, 2))
    return X, 3 * np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * random.normal(size=n_rows)


X, Y = wavy_rows()
NEW, NEW_Y = wavy_rows(40, seed=1)


class TestNumbers:
    def test_the_same_random_state_gives_the_same_numbers_and_another_others(self):
        np.testing.assert_array_equal(make().fit(X, Y).predict(NEW), make().fit(X, Y).predict(NEW))
        assert not np.allclose(make().fit(X, Y).predict(NEW), make(random_state=1).fit(X, Y).predict(NEW))

    def test_the_order_of_the_rows_does_not_matter(self):
        order = np.random.default_rng(2).permutation(len(Y))
        one, other = make(batch_size=16).fit(X, Y), make(batch_size=16).fit(X[order], Y[order])
        np.testing.assert_array_equal(one.predict(NEW), other.predict(NEW))

    def test_a_whole_weight_equals_so_many_copies_and_zero_equals_none(self):
        weight = np.arange(len(Y)) % 3
        one = make().fit(X, Y, sample_weight=weight)
        other = make().fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
        np.testing.assert_array_equal(one.predict(NEW), other.predict(NEW))

    def test_the_units_of_the_target_do_not_matter(self):
        one, other = make().fit(X, Y), make().fit(X, 100 * Y + 7)
        np.testing.assert_allclose(other.predict(NEW), 100 * one.predict(NEW) + 7, rtol=1e-3, atol=0.1)
        assert other.validation_loss_ == pytest.approx(1e4 * one.validation_loss_, rel=1e-2)

    def test_a_pickled_model_gives_the_same_predictions(self):
        model = make().fit(X, Y)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(NEW), model.predict(NEW))


class TestLearning:
    def test_it_learns_what_a_line_cannot(self):
        X, y = wavy_rows(400)
        mlp, line = make(epochs=200).fit(X, y), make(epochs=200, hidden=()).fit(X, y)
        assert line.score(NEW, NEW_Y) < 0.6 < 0.9 < mlp.score(NEW, NEW_Y)

    def test_outliers_are_members_that_are_left_out_and_the_others_stay_as_they_are(self):
        whole = make(n_members=8, learning_rate=0.1).fit(X, Y, validation=(NEW, NEW_Y))
        model = make(n_members=8, learning_rate=0.1, drop_outliers=True).fit(X, Y, validation=(NEW, NEW_Y))
        members = whole.predict_members(NEW)
        loss = ((members - NEW_Y) ** 2).mean(axis=1)
        kept = loss - np.median(loss) <= np.median(loss) - loss.min()
        assert 1 <= kept.sum() < 8
        np.testing.assert_array_equal(model.predict_members(NEW), members[kept])

    def test_the_prediction_is_the_mean_of_the_members(self):
        model = make(n_members=3).fit(X, Y)
        members = model.predict_members(NEW)
        assert members.shape == (3, len(NEW))
        assert members.std(axis=0).min() > 0
        np.testing.assert_array_equal(members.mean(axis=0), model.predict(NEW))

    def test_validation_chooses_learning_rate_and_epoch(self):
        model = make(learning_rate=(1e-6, 1e-2)).fit(X, Y, validation=(NEW, NEW_Y))
        assert model.learning_rate_ == [1e-2]
        assert 0 <= model.best_epoch_[0] < 30
        assert model.validation_loss_ == pytest.approx(np.mean((model.predict(NEW) - NEW_Y) ** 2), rel=1e-3)

    def test_it_is_the_slow_start_of_the_joint_method_that_never_ends(self):
        alone = make(learning_rate=1e-2).fit(X, Y, validation=(NEW, NEW_Y))
        joint = RcRRegressor(cost=1e9, epochs=30, slow_start=15, learning_rate=1e-2, random_state=0)
        joint.fit(X, Y, validation=(NEW, NEW_Y))
        assert np.corrcoef(alone.predict(NEW), joint.predict(NEW))[0, 1] > 0.95

    def test_a_frame_with_categories_and_gaps_is_learned(self):
        frame = pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.where(X[:, 0] > 0, "up", "down"))
        frame.loc[::7, "a"] = np.nan
        assert make(epochs=100).fit(frame, Y).score(frame, Y) > 0.7


class TestErrors:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"epochs": 0}, r"^epochs must be an int >= 1, got 0$"),
            ({"hidden": (20, 0)}, r"^hidden must be a tuple of ints >= 1, got \(20, 0\)$"),
            ({"learning_rate": ()}, r"^learning_rate must be > 0 and finite, got \(\)$"),
            ({"validation_fraction": 1.0}, r"^validation_fraction must be between 0 and 1, got 1\.0$"),
            ({"n_members": 1.5}, r"^n_members must be an int >= 1, got 1\.5$"),
        ],
    )
    def test_a_parameter_out_of_range_is_refused_by_fit(self, parameters, message):
        model = make(**parameters)
        with pytest.raises(ValueError, match=message):
            model.fit(X, Y)
        with pytest.raises(NotFittedError):
            model.predict(X)

    @pytest.mark.parametrize(
        ("validation", "message"),
        [
            ((X,), r"^validation must be a tuple \(X, y\), got a tuple of 1$"),
            (X, r"^validation must be a tuple \(X, y\), got ndarray$"),
            ((X, Y[:3]), r"^in validation: Found input variables with inconsistent"),
        ],
    )
    def test_bad_validation_rows_are_refused_and_nothing_is_lost(self, validation, message):
        model = make().fit(X, Y)
        before = model.predict(NEW)
        with pytest.raises(ValueError, match=message):
            model.fit(X, Y, validation=validation)
        np.testing.assert_array_equal(model.predict(NEW), before)

    def test_a_constant_target_is_refused(self):
        with pytest.raises(ValueError, match=r"^y must not be constant, got 2\.0 in all 80 rows$"):
            make().fit(X, np.full(len(X), 2.0))

    def test_trainings_that_diverge_are_dropped_and_reported(self):
        with pytest.warns(ConvergenceWarning, match=r"^1 of 2 trainings diverged and were dropped") as seen:
            model = make(learning_rate=(1e30, 1e-2)).fit(X, Y)
        assert seen[0].filename == __file__
        assert model.learning_rate_ == [1e-2]
        assert model.diverged_[0][:2] == (0, 1e30)
