"""DeferralRegressor: forms of experts, decisions, errors, and the loss compared with the Bayes risk."""

import pickle

import numpy as np
import pandas as pd
import polars
import pytest
from sklearn.base import clone
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import TimeSeriesSplit

from recuse import AutoRejector, DeferralRegressor, RiskRejector
from recuse.datasets import make_heteroscedastic
from recuse.estimators import Expert

TREES = ExtraTreesRegressor(20, min_samples_leaf=5)
DAY, NIGHT = 0.3, 0.1  # fees


def variances(X):
    """Variances of two experts around the target."""
    x1, x2, x3, x4 = X.T[:4]
    return 0.15 * np.exp(2 * np.tanh(x2 + x3)), 0.3 * np.exp(2 * np.tanh(x4 - x1))


def answers(X, y, seed):
    random = np.random.RandomState(seed)
    return [y + np.sqrt(each) * random.normal(size=len(y)) for each in variances(X)]


def rows(n=400, seed=0):
    X, y, *_ = make_heteroscedastic(n, random_state=seed)
    return X, y, *answers(X, y, seed + 1)


def table(n=300, seed=0):
    """Rows with categories, gaps, and columns of experts."""
    X, y, day, night = rows(n, seed)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(8)], index=[f"row{k}" for k in range(n)])
    frame["site"] = np.where(X[:, 0] > 0, "north", "south")
    frame.loc[frame.index[::7], "x5"] = np.nan
    frame["day"], frame["night"] = day, night
    frame.loc[frame.index[::3], "day"] = np.nan
    frame["price"] = np.where(X[:, 1] > 0, 0.2, 0.4)
    return frame, pd.Series(y, index=frame.index)


def quick(experts, **parameters):
    return DeferralRegressor(experts, TREES, TREES, random_state=0, cv=3, **parameters)


def bayes_ratio(model, n_new=6_000):
    """Total loss of a fitted model divided by the Bayes risk of the best assignment."""
    X, y, _, variance = make_heteroscedastic(n_new, random_state=10_000)
    day, night = variances(X)
    bayes = np.minimum(variance, np.minimum(day + DAY, night + NIGHT)).mean()
    given = dict(zip(("day", "night"), answers(X, y, 5), strict=True))
    return model.decide(X).evaluate(y, given).loc["total", "total"] / bayes


class TestExperts:
    def test_recorded_arrays_have_no_predictions_at_decision_time(self):
        X, y, day, night = rows()
        decision = quick({"day": (day, DAY), "night": (night, NIGHT)}).fit(X, y).decide(X[:50])
        assert decision.names == ("model", "day", "night")
        assert np.isnan(decision.predictions[:, 1:]).all()
        assert np.isfinite(decision.predictions[:, 0]).all()
        np.testing.assert_array_equal(np.isnan(decision.prediction), decision.takes != "model")
        costs = decision.expected_loss + decision.fees
        np.testing.assert_array_equal(decision.action, costs.argmin(axis=1))

    def test_models_and_callables_predict_new_rows(self):
        X, y, *_ = rows()
        other = LinearRegression().fit(*rows(seed=9)[:2])
        model = quick({"line": (other, 0.0), "zero": (lambda rows: np.zeros(len(rows)), 0.0)}).fit(X, y)
        decision = model.decide(X[:20])
        np.testing.assert_allclose(decision.predictions[:, 1], other.predict(X[:20]))
        assert not decision.predictions[:, 2].any()
        assert decision.evaluate(y[:20])["estimated"].sum() == 0

    @pytest.mark.parametrize("capacity", [None, 0.3])
    def test_a_callable_takes_no_rows_for_which_it_has_no_answer(self, capacity):
        X, y, *_ = rows()

        def partly(X):
            return np.where(X[:, 0] > np.median(X[:, 0]), X[:, 0], np.nan)

        experts = {"rule": (partly, 0.0, capacity), "night": (y, 0.5, capacity)}
        model = quick(experts).fit(X, y)
        silent = np.isnan(partly(X))
        assert model.out_of_fold_["expected_loss_rule"].isna().to_numpy()[silent].all()
        decision = model.decide(X, fees={"night": 1e9})
        assert not (decision.takes[silent] == "rule").any()
        assert np.isinf(decision.expected_loss[silent, 1]).all()
        measures = decision.evaluate(y)
        assert np.isfinite(measures["total"].iloc[3:]).all()
        own, rule = (decision.predictions[:, k] - y for k in (0, 1))
        assert measures.loc["always rule", "loss"] == pytest.approx(np.mean(np.where(silent, own, rule) ** 2))

    @pytest.mark.parametrize("name", ["total", "oracle", "always night"])
    def test_names_of_the_lines_of_evaluate_are_refused(self, name):
        X, y, *_ = rows(50)
        with pytest.raises(ValueError, match=f"other than 'total', 'oracle' and 'always .*, got '{name}'"):
            quick({name: (y, 1.0)}).fit(X, y)

    def test_columns_are_no_features_and_may_be_absent_later(self):
        frame, y = table()
        model = quick({"day": ("day", "price"), "night": Expert("night", NIGHT)}).fit(frame, y)
        assert set(model.feature_names_in_) == {*(f"x{k}" for k in range(8)), "site"}
        decision = model.decide(frame)
        assert decision.index.equals(frame.index)
        np.testing.assert_array_equal(decision.predictions[:, 2], frame["night"])
        np.testing.assert_array_equal(decision.fees[:, 1], frame["price"])
        later = model.decide(frame.drop(columns=["day", "night"]))
        np.testing.assert_array_equal(later.action, decision.action)
        assert np.isnan(later.predictions[:, 1:]).all()
        assert model.predict(frame.drop(columns=["day", "night", "price"])).shape == (len(frame),)

    def test_an_unseen_category_costs_the_model(self):
        frame, y = table()
        model = quick({"night": ("night", NIGHT)}).fit(frame, y)
        before, after = model.decide(frame), model.decide(frame.assign(site="west", x0=100.0))
        assert after.expected_loss[:, 0].mean() > before.expected_loss[:, 0].mean()
        assert (after.action == 1).mean() > (before.action == 1).mean()

    def test_a_series_is_matched_by_label(self):
        frame, y = table()
        plain = frame.drop(columns=["day", "night", "price"])
        one = quick({"night": (frame["night"].to_numpy(), frame["price"].to_numpy())}).fit(plain, y)
        two = quick({"night": (frame["night"][::-1], frame["price"][::-1])}).fit(plain, y[::-1])
        fees = {"night": 0.2}
        assert one.decide(plain, fees).to_frame().equals(two.decide(plain, fees).to_frame())

    def test_tables_of_other_libraries(self):
        frame, y = table()
        model = quick({"day": ("day", "price"), "night": ("night", NIGHT)})
        one = model.fit(frame, y).decide(frame)
        two = model.fit(polars.from_pandas(frame), y.to_numpy()).decide(polars.from_pandas(frame))
        np.testing.assert_array_equal(one.action, two.action)
        assert two.index is None

    def test_losses_are_learned_from_the_rows_an_expert_has_seen(self):
        X, y, _, night = rows(600)
        night[X[:, 0] > 0] += 5.0  # wrong there, and asked there only in part
        night[np.random.RandomState(0).uniform(size=600) < 0.6] = np.nan
        expected = quick({"night": (night, NIGHT)}).fit(X, y).decide(X).expected_loss[:, 1]
        assert expected[X[:, 0] > 0.2].mean() > 15
        assert expected[X[:, 0] < -0.2].mean() < 5

    def test_rows_of_weight_zero_do_not_count(self):
        X, y, _, night = rows()
        wrong = np.concatenate([night, night + 100])
        twice, weight = np.concatenate([X, X]), np.repeat([1.0, 0.0], len(X))
        model = quick({"night": (wrong, NIGHT)}).fit(twice, np.concatenate([y, y + 50]), sample_weight=weight)
        assert model.decide(X).expected_loss.max() < 50
        assert model.out_of_fold_["expected_loss_night"].isna().sum() == len(X)


class TestDecide:
    @pytest.mark.parametrize(("capacity", "most"), [(7, 7), (0.1, 15), (0, 0), (0.0, 0)])
    def test_capacities_are_kept(self, capacity, most):
        X, y, day, night = rows()
        model = quick({"day": (day, 0.0, capacity), "night": (night, 0.0)}).fit(X, y)
        assert (model.decide(X[:150]).action == 1).sum() == most
        assert (model.decide(X[:150], capacities={"day": None}).action == 1).sum() > most
        assert (model.decide(X[:150], capacities={"night": 1}).action == 2).sum() == 1

    def test_other_fees_change_the_decision(self):
        X, y, day, night = rows()
        model = quick({"day": (day, DAY), "night": (night, NIGHT)}).fit(X, y)
        assert not (model.decide(X, fees={"day": 1e6}).action == 1).any()
        assert (model.decide(X, fees={"day": np.zeros(len(X))}).action == 1).any()

    def test_a_fee_per_row_is_needed_again(self):
        X, y, _, night = rows()
        model = quick({"night": (night, np.full(len(X), 0.2))}).fit(X, y)
        with pytest.raises(ValueError, match=r"new rows need theirs: pass fees=\{'night': \.\.\.\}"):
            model.decide(X)


class TestConventions:
    def test_clone_pickle_and_random_state(self):
        frame, y = table()
        experts = {"day": ("day", "price"), "line": (DummyRegressor().fit(frame, y), 1.0, 0.2)}
        model = quick(experts)
        one = model.fit(frame, y).decide(frame).to_frame()
        assert clone(model).fit(frame, y).decide(frame).to_frame().equals(one)
        assert pickle.loads(pickle.dumps(model)).decide(frame).to_frame().equals(one)
        other = clone(model).set_params(random_state=1).fit(frame, y)
        assert not other.decide(frame).to_frame().equals(one)

    def test_a_rejecting_estimator_is_used_with_its_settings(self):
        X, y, _, night = rows()
        own = RiskRejector(TREES, TREES, cv=2)
        model = DeferralRegressor({"night": (night, NIGHT)}, own, TREES, random_state=0).fit(X, y)
        assert len(model.model_.regressors_) == 2
        auto = AutoRejector(learners=["extra_trees"], risk_models=["extra_trees"], cv=2)
        model = DeferralRegressor({"night": (night, NIGHT)}, auto, TREES, random_state=0).fit(X, y)
        assert isinstance(model.model_, AutoRejector)
        assert len(model.decide(X)) == len(X)

    def test_folds_of_the_user_and_other_losses(self):
        X, y, _, night = rows()
        half = np.arange(200), np.arange(200, 400)
        splits = iter([half, half[::-1]])
        model = DeferralRegressor({"night": (night, 0.3)}, TREES, TREES, cv=splits, loss="absolute", random_state=0)
        decision = model.fit(X, y).decide(X)
        assert decision.loss.name == "absolute"
        assert model.out_of_fold_.notna().all().all()

    def test_an_expert_who_came_late(self):
        X, y, _, night = rows()
        night[:250] = np.nan
        model = quick({"night": (night, NIGHT)}).set_params(cv=TimeSeriesSplit(4))
        assert np.isfinite(model.fit(X, y).decide(X).expected_loss).all()
        assert model.out_of_fold_["expected_loss_model"].notna().sum() == 320

    def test_a_perfect_expert_costs_its_fee(self):
        X, y, *_ = rows()
        decision = quick({"perfect": (y, 0.5)}).fit(X, y).decide(X)
        assert not decision.expected_loss[:, 1].any()
        np.testing.assert_array_equal(decision.action == 1, decision.expected_loss[:, 0] > 0.5)

    def test_a_failed_fit_leaves_the_estimator_as_it_was(self):
        X, y, _, night = rows()
        model = quick({"night": (night, NIGHT)}).fit(X, y)
        before = model.decide(X).to_frame()
        with pytest.raises(ValueError, match="one value for each of 100 rows"):
            model.fit(X[:100], y[:100])
        assert model.decide(X).to_frame().equals(before)


def short(X):
    return np.zeros(3)


class TestErrors:
    @pytest.mark.parametrize(
        ("experts", "message"),
        [
            (None, "experts must be a mapping with at least one expert, got None"),
            ({}, r"experts must be a mapping with at least one expert, got \{\}"),
            ({"model": ("night", 0.1)}, "the name of an expert must be other than 'model'"),
            ({3: ("night", 0.1)}, "the name of an expert must be a text that is not empty, got 3"),
            ({"night": "night"}, r"experts\['night'\] must be an Expert, or a tuple .* got 'night'"),
            ({"night": (None, 1.0)}, "the source of 'night' must be a fitted model, .* got None"),
            ({"night": (LinearRegression, 1.0)}, "the source of 'night' must be a fitted model"),
            ({"a": ("night", 1.0), "b": ("night", 2.0)}, "must be used once, got .*'night' more than once"),
            ({"a": ("night", "price"), "b": ("price", 2.0)}, "must be used once, got .*'price' more than once"),
            ({"night": ("evening", 1.0)}, "the source of 'night' must be a column of X, got 'evening' for columns"),
            ({"night": ("night", "cost")}, "the fee of 'night' must be a column of X, got 'cost'"),
            ({"night": (np.zeros(5), 1.0)}, r"the predictions of 'night' must .* each of 300 rows, got shape \(5,\)"),
            ({"night": (short, 1.0)}, r"the predictions of 'night' must .* each of 300 rows, got shape \(3,\)"),
            ({"night": (np.full(300, np.inf), 1.0)}, "the predictions of 'night' must be finite or NaN, got inf"),
            ({"night": (np.full(300, np.nan), 1.0)}, "expert 'night' must have predictions of at least 10 rows, got 0"),
            ({"night": ("night", -1.0)}, "the fee of 'night' must be >= 0, got -1.0"),
            ({"night": ("night", np.full(300, -2.0))}, "the fee of 'night' must be >= 0, got -2.0"),
            ({"night": ("night", short)}, r"the fee of 'night' must .* each of 300 rows, got shape \(3,\)"),
            ({"night": ("night", 1.0, -1)}, "the capacity of 'night' must be None, an int >= 0 .* got -1"),
            ({"night": ("night", 1.0, 1.5)}, "the capacity of 'night' must be None, an int >= 0 .* got 1.5"),
            ({"night": ("night", 1.0, True)}, "the capacity of 'night' must be None, an int >= 0 .* got True"),
        ],
    )
    def test_wrong_experts_are_named(self, experts, message):
        frame, y = table()
        with pytest.raises(ValueError, match=message):
            quick(experts).fit(frame, y)

    def test_a_named_column_needs_a_table_with_unique_columns(self):
        frame, y = table()
        with pytest.raises(ValueError, match="so X must be a DataFrame, got ndarray"):
            quick({"night": ("night", 0.1)}).fit(frame.select_dtypes("number").to_numpy(), y)
        with pytest.raises(ValueError, match="column names must be unique, got 'night' more than once"):
            quick({"night": ("night", 0.1)}).fit(pd.concat([frame, frame[["night"]]], axis=1), y)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"regressor": RiskRejector(TREES), "loss": "absolute"}, "loss must be that of RiskRejector, 'squared'"),
            (
                {"regressor": RiskRejector(TREES, TREES, rescale=False)},
                "regressor must be an estimator with out-of-fold",
            ),
        ],
    )
    def test_wrong_parameters(self, parameters, message):
        X, y, _, night = rows()
        with pytest.raises(ValueError, match=message):
            quick({"night": (night, 0.1)}).set_params(**parameters).fit(X, y)

    def test_wrong_names_in_decide(self):
        X, y, _, night = rows()
        model = quick({"night": (night, 0.1)}).fit(X, y)
        with pytest.raises(ValueError, match=r"fees must be a mapping with names among \['night'\], got 'day'"):
            model.decide(X, fees={"day": 1.0})
        with pytest.raises(ValueError, match="capacities must be a mapping with names among"):
            model.decide(X, capacities={"day": 1.0})
        with pytest.raises(ValueError, match="the capacity of 'night' must be"):
            model.decide(X, capacities={"night": 2.0})


@pytest.mark.slow
def test_the_total_loss_is_near_the_bayes_risk():
    X, y, day, night = rows(3000)
    experts = {"day": (day, DAY), "night": (night, NIGHT)}
    assert bayes_ratio(DeferralRegressor(experts, cv=3, random_state=0).fit(X, y)) < 1.09
