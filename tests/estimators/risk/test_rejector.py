"""RiskRejector: risks from out-of-fold residuals, and decisions at any cost with one fit."""

import pickle
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from joblib import parallel_config
from scipy.stats import spearmanr
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

from recuse import RiskRejector, datasets, metrics, theory
from recuse.estimators import StackedMLPRegressor

TREES = ExtraTreesRegressor(20, min_samples_leaf=5)


def make(*parts, **parameters):
    """A model of small parts, where the test does not say which."""
    regressor, risk = (*parts, *(Ridge(), TREES)[len(parts) :])
    return RiskRejector(regressor, risk, **{"random_state": 0, **parameters})


def noisy_rows(n_rows=120, seed=0):
    """Rows whose noise grows with the second feature: some deserve a rejection at cost 1."""
    random = np.random.default_rng(seed)
    X = random.uniform(-2, 2, size=(n_rows, 2))
    return X, 3 * X[:, 0] + np.exp(X[:, 1]) / 2 * random.normal(size=n_rows)


X, Y = noisy_rows()
NEW, NEW_Y = noisy_rows(60, seed=1)
FRAME = pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.where(X[:, 0] > 0, "up", "down"))
FRAME.loc[::7, "a"] = np.nan
FEE = 1 + X[:, 0] ** 2


def same(one, other, rows=NEW, rtol=1e-12):
    np.testing.assert_allclose(one.predict(rows), other.predict(rows), rtol=rtol)
    np.testing.assert_allclose(one.expected_loss(rows), other.expected_loss(rows), rtol=rtol)


def differ(one, other, rows=NEW):
    return not np.allclose(one.expected_loss(rows), other.expected_loss(rows), rtol=1e-6)


@pytest.fixture(scope="module")
def known():
    """Rows of known mean and variance, and the default model of them."""
    X, y, _, _ = datasets.make_heteroscedastic(4000, random_state=0)
    return RiskRejector(random_state=0).fit(X, y), datasets.make_heteroscedastic(4000, random_state=1)


class TestHonesty:
    def test_the_default_model_comes_near_the_bayes_risk(self, known):
        model, (X, _, mean, variance) = known
        error = variance + (model.predict(X) - mean) ** 2  # expected, so that no noise of the targets is measured
        for cost in np.quantile(variance, [0.25, 0.5, 0.75]):
            loss = np.where(model.decide(X, cost=cost).accepted, error, cost).mean()
            assert loss < 1.15 * theory.bayes_risk(variance, cost)

    def test_the_expected_loss_orders_the_rows_as_their_variance_does(self, known):
        model, (X, _, _, variance) = known
        assert spearmanr(model.expected_loss(X), variance).statistic > 0.9

    def test_the_expected_loss_is_right_on_average_on_fresh_rows(self, known):
        model, (X, _, mean, variance) = known
        true = variance + (model.predict(X) - mean) ** 2
        assert model.expected_loss(X).mean() == pytest.approx(true.mean(), rel=0.1)

    @pytest.mark.parametrize(
        ("regressor", "tolerance"),
        [(DecisionTreeRegressor(), 0.2), (RandomForestRegressor(30, max_features=0.5), 0.1)],
    )
    def test_residuals_of_training_rows_are_too_small_and_the_others_are_not(self, regressor, tolerance):
        X, y, _, _ = datasets.make_heteroscedastic(2000, random_state=0)
        new, _, mean, variance = datasets.make_heteroscedastic(4000, random_state=1)

        def ratio(residuals):
            model = make(regressor, residuals=residuals).fit(X, y)
            return model.expected_loss(new).mean() / np.mean((model.predict(new) - mean) ** 2 + variance)

        assert ratio("train") < 0.4
        assert ratio("holdout") == pytest.approx(1, abs=0.12)
        assert ratio("crossfit") == pytest.approx(1, abs=tolerance)

    def test_the_mean_of_the_folds_is_better_by_the_variance_round_it(self):
        """Krogh and Vedelsby: left alone, the risk of one fold's regressor would be too much for their mean."""
        X, y, _, _ = datasets.make_heteroscedastic(2000, random_state=0)
        new, new_y, _, _ = datasets.make_heteroscedastic(8000, random_state=1)
        model = make(DecisionTreeRegressor(min_samples_leaf=3)).fit(X, y)
        said = np.array([part.predict(model.rule_.encoder.transform(new)) for part in model.regressors_])
        np.testing.assert_allclose(said.mean(axis=0), model.predict(new))
        one = np.mean((said - new_y) ** 2)
        mean = np.mean((said.mean(axis=0) - new_y) ** 2)
        assert one - mean == pytest.approx(said.var(axis=0).mean())
        assert abs(model.expected_loss(new).mean() / mean - 1) < 0.1 < one / mean - 1

    def test_the_scale_puts_a_risk_model_right_that_is_wrong_on_average(self):
        class TwiceTooLarge(LinearRegression):
            def predict(self, X):
                return 2 * super().predict(X)

        model = make(Ridge(), TwiceTooLarge()).fit(X, Y)
        plain = make(Ridge(), LinearRegression()).fit(X, Y)
        assert model.scale_ == pytest.approx(plain.scale_ / 2)
        same(model, plain)
        assert make(Ridge(), TwiceTooLarge(), rescale=False).fit(X, Y).scale_ == 1.0

    def test_the_expected_loss_is_never_negative(self):
        assert make(Ridge(), LinearRegression(), unseen="keep").fit(X, Y).expected_loss(4 * NEW).min() >= 0.0

    def test_the_risk_model_sees_the_disagreement_of_members_that_have_not_seen_the_row(self):
        network = StackedMLPRegressor(epochs=10, n_members=2)
        assert make(network).fit(X, Y).risks_[0].n_features_in_ == 4
        assert make().fit(X, Y).risks_[0].n_features_in_ == 3
        assert make(network, sees_prediction=False).fit(X, Y).risks_[0].n_features_in_ == 2

    def test_a_regressor_without_error_is_always_accepted(self):
        decision = make(LinearRegression(), residuals="train").fit(X, 2.0 * X[:, 0]).decide(NEW, cost=1e-6)
        assert decision.accepted.all()


class TestCosts:
    def test_one_fitted_model_decides_at_any_cost_in_any_form(self):
        frame = FRAME.assign(fee=FEE)
        model = make(cost=2.0).fit(frame, Y)
        assert model.serves_any_cost
        risk = model.expected_loss(frame)
        for cost, rows in ((None, 2.0), (0.5, 0.5), (FEE, FEE), ("fee", FEE), (lambda rows: rows["fee"] * 2, 2 * FEE)):
            decision = model.decide(frame, cost=cost)
            np.testing.assert_array_equal(decision.accepted, risk < rows)
            np.testing.assert_allclose(decision.score, rows - risk)
            np.testing.assert_array_equal(decision.cost, np.broadcast_to(rows, len(frame)))

    def test_a_higher_cost_accepts_every_row_that_a_lower_one_does(self):
        model = make().fit(X, Y)
        accepted = [model.decide(NEW, cost=cost).accepted for cost in (0.0, 0.3, 1.0, 3.0, 1e6)]
        assert not accepted[0].any()
        assert accepted[-1].all()
        assert all((more | ~less).all() for less, more in pairwise(accepted))

    def test_nothing_learned_depends_on_the_cost(self):
        plain = make().fit(X, Y)
        same(make(cost=7.0).fit(X, Y), plain, rtol=0)
        same(make().fit(X, Y, cost=FEE), plain, rtol=0)
        model = make(cost="fee").fit(FRAME.assign(fee=FEE), Y)
        np.testing.assert_array_equal(model.predict(FRAME.assign(fee=0.1)), make().fit(FRAME, Y).predict(FRAME))

    def test_costs_per_row_must_be_given_for_new_rows(self):
        model = make().fit(X, Y, cost=FEE)
        with pytest.raises(
            ValueError, match=r"^RiskRejector was fitted with one cost per row, so new rows need theirs"
        ):
            model.decide(NEW)
        assert len(model.decide(NEW, cost=1.0)) == len(NEW)

    @pytest.mark.parametrize("cost", [-1.0, np.nan, FEE[:5], "price", None])
    def test_a_bad_cost_is_refused_though_nothing_learned_depends_on_it(self, cost):
        with pytest.raises(ValueError, match=r"^cost"):
            make(cost=cost).fit(FRAME, Y)


class TestNumbers:
    def test_the_same_random_state_gives_the_same_numbers_and_another_others(self):
        forest = RandomForestRegressor(10)
        same(make(forest).fit(X, Y), make(forest).fit(X, Y), rtol=0)
        assert differ(make(forest).fit(X, Y), make(forest, random_state=1).fit(X, Y))

    def test_the_results_do_not_depend_on_the_number_of_jobs(self):
        forest = RandomForestRegressor(10)
        with parallel_config(backend="threading"):  # starting processes takes longer than all that is tested
            several = make(forest, n_jobs=2).fit(X, Y)
        same(several, make(forest).fit(X, Y), rtol=0)

    def test_a_random_state_of_the_users_own_is_kept(self):
        model = make(make_pipeline(StandardScaler(), RandomForestRegressor(5, random_state=7))).fit(X, Y)
        assert {part[-1].random_state for part in model.regressors_} == {7}
        states = {part.random_state for part in make(RandomForestRegressor(5)).fit(X, Y).regressors_}
        assert len(states) == 5

    @pytest.mark.parametrize("residuals", ["train", "holdout", "crossfit"])
    def test_neither_the_order_of_rows_nor_copies_instead_of_weights_matter(self, residuals):
        random = np.random.default_rng(4)
        weight, order = random.integers(0, 4, len(Y)), random.permutation(len(Y))
        model = make(residuals=residuals).fit(X, Y, sample_weight=weight)
        same(make(residuals=residuals).fit(X[order], Y[order], sample_weight=weight[order]), model, rtol=0)
        copied = make(residuals=residuals).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
        same(copied, model, rtol=0)

    @pytest.mark.parametrize("regressor", [KNeighborsRegressor(3), make_pipeline(StandardScaler(), Ridge())])
    def test_a_part_that_takes_no_weights_gets_copies(self, regressor):
        weight = 1 + np.arange(len(Y)) % 3
        model = make(regressor, residuals="train").fit(X, Y, sample_weight=weight)
        features = model.rule_.encoder.transform(X)
        by_hand = clone(regressor).fit(np.repeat(features, weight, axis=0), np.repeat(Y, weight))
        np.testing.assert_allclose(model.predict(X), by_hand.predict(features))
        with pytest.raises(ValueError, match=r"takes no sample_weight, so weights must be whole numbers .*, got 1\.5$"):
            make(regressor).fit(X, Y, sample_weight=np.where(weight == 2, 1.5, 1.0))

    def test_a_pickled_model_gives_the_same_decisions(self):
        model = make().fit(X, Y)
        same(pickle.loads(pickle.dumps(model)), model, rtol=0)

    def test_it_is_chosen_by_rcr_loss_like_any_other(self):
        assert cross_val_score(make(), X, Y, scoring=metrics.rcr_scorer, cv=3).max() < 0


class TestFolds:
    def test_every_form_of_folds_is_served_and_one_regressor_kept_for_each(self):
        for cv, count in ((3, 3), (KFold(4), 4), (list(KFold(2).split(X)), 2), (LeaveOneOut(), len(X))):
            model = make(Ridge(), LinearRegression(), cv=cv).fit(X, Y)
            assert len(model.regressors_) == count
            np.testing.assert_allclose(
                model.predict(NEW),
                np.mean([part.predict(model.rule_.encoder.transform(NEW)) for part in model.regressors_], axis=0),
            )

    def test_explicit_folds_are_those_of_the_rows_as_given(self):
        seen = []

        class Watching(Ridge):
            def fit(self, X, y, sample_weight=None):
                seen.append(sorted(y))
                return super().fit(X, y, sample_weight)

        groups = np.arange(len(Y)) % 3
        splits = list(GroupKFold(3).split(X, Y, groups))
        make(Watching(), cv=splits).fit(X, Y)
        assert seen == [sorted(Y[train]) for train, _ in splits]

    def test_there_are_no_more_folds_than_rows(self):
        model = make().fit(X[:3], Y[:3])
        assert len(model.regressors_) == 3
        assert np.isfinite(model.decide(NEW).score).all()

    @pytest.mark.parametrize("residuals", ["train", "holdout", "crossfit"])
    def test_two_rows_are_enough(self, residuals):
        assert np.isfinite(make(residuals=residuals).fit(X[:2], Y[:2]).decide(NEW).score).all()

    def test_test_parts_that_overlap_or_have_no_training_rows_are_refused(self):
        everything = np.arange(len(Y))
        with pytest.raises(ValueError, match=r"^cv must put every row into at most one test part, got a row in 2"):
            make(cv=[(everything[:9], everything[9:]), (everything[:9], everything[9:])]).fit(X, Y)
        with pytest.raises(ValueError, match=r"^cv must be a division with rows to fit to in every split, got 'none"):
            make(cv=[(everything[:0], everything)]).fit(X, Y)

    def test_holdout_keeps_the_rows_of_the_residuals_from_the_regressor(self):
        sizes = []

        class Counting(Ridge):
            def fit(self, X, y, sample_weight=None):
                sizes.append(len(y))
                return super().fit(X, y, sample_weight)

        make(Counting(), Counting(), residuals="holdout", holdout=0.4, rescale=False).fit(X, Y)
        assert sizes == [72, 48]


class TestPrefit:
    def test_the_given_regressor_is_used_as_it_is(self):
        regressor = HistGradientBoostingRegressor(categorical_features="from_dtype").fit(FRAME[["a", "b"]], Y)
        frame = pd.DataFrame(NEW, columns=["a", "b"])
        model = make(regressor, prefit=True).fit(frame, NEW_Y)
        assert model.regressors_ == [regressor]
        np.testing.assert_array_equal(model.predict(frame), regressor.predict(frame))
        assert model.decide(frame).evaluate(NEW_Y)["rcr_loss"] > 0

    def test_it_sees_the_rows_as_given_and_no_cost_column(self):
        frame = pd.DataFrame(X * 100).assign(fee=FEE).rename(columns=str)
        regressor = Ridge().fit(frame[["0", "1"]], Y)
        model = make(regressor, prefit=True, cost="fee").fit(frame, Y)
        np.testing.assert_array_equal(model.predict(frame), regressor.predict(frame[["0", "1"]]))

    def test_a_regressor_that_is_not_fitted_is_refused_by_name(self):
        with pytest.raises(
            NotFittedError, match=r"^prefit=True needs a fitted regressor, got Ridge that is not: fit it"
        ):
            make(Ridge(), prefit=True).fit(X, Y)
        with pytest.raises(ValueError, match=r"^regressor must be given with prefit=True, got None$"):
            RiskRejector(prefit=True).fit(X, Y)

    def test_a_frozen_regressor_survives_cloning(self):
        model = make(FrozenEstimator(Ridge().fit(X, Y)), prefit=True)
        same(clone(model).fit(NEW, NEW_Y), model.fit(NEW, NEW_Y), rtol=0)


class TestInput:
    def test_a_frame_with_categories_and_gaps_is_decided_with_its_labels(self):
        frame = FRAME.set_axis([f"car {i}" for i in range(len(FRAME))])
        decision = RiskRejector(random_state=0).fit(frame, Y).decide(frame)
        assert decision.to_frame().index.equals(frame.index)
        assert decision.evaluate(Y)["always_accept"] < np.var(Y)

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"residuals": "none"}, r"^residuals must be one of \('train', 'holdout', 'crossfit'\), got 'none'$"),
            ({"cv": 1}, r"^cv must be an int >= 2, a splitter or an iterable of \(train, test\), got 1$"),
            ({"cv": "five"}, r"^cv must be .*, got 'five'$"),
            ({"holdout": 1.0}, r"^holdout must be between 0 and 1, got 1\.0$"),
            ({"regressor": "ridge"}, r"^regressor must be an estimator with fit, predict and get_params, got 'ridge'$"),
            ({"risk": Ridge}, r"^risk must be an estimator with fit, predict and get_params, got <class"),
        ],
    )
    def test_a_parameter_out_of_range_is_refused_by_fit(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            RiskRejector(**parameters).fit(X, Y)

    def test_bad_rows_are_refused_and_nothing_is_lost(self):
        model = make().fit(X, Y)
        before, attributes = model.decide(NEW), dict(vars(model))
        for bad, message in (
            ((X, Y[:7]), "inconsistent"),
            ((X[:1], Y[:1]), "at least 2 rows"),
            ((X, Y * 0), "constant"),
        ):
            with pytest.raises(ValueError, match=message):
                model.fit(*bad)
        with pytest.raises(ValueError, match="X has 1 features"):
            model.decide(NEW[:, :1])
        assert model.decide(NEW) == before
        assert vars(model) == attributes

    def test_a_table_of_nothing_but_costs_is_refused(self):
        with pytest.raises(ValueError, match=r"^X must have at least one row and one column, got 0 in shape"):
            make(cost="fee").fit(FRAME.assign(fee=FEE)[["fee"]], Y)

    def test_a_part_that_fails_leaves_the_model_as_it_was(self):
        class Failing(RegressorMixin, BaseEstimator):
            def fit(self, X, y):
                raise RuntimeError("no more")

            def predict(self, X):
                return np.zeros(len(X))

        model = make().fit(X, Y)
        before = model.decide(NEW)
        with pytest.raises(RuntimeError, match="no more"):
            model.set_params(risk=Failing()).fit(X, Y)
        assert model.decide(NEW) == before

    def test_a_regressor_of_two_targets_is_refused(self):
        regressor = Ridge().fit(X, np.column_stack([Y, Y]))
        with pytest.raises(
            ValueError, match=r"^Ridge must predict one value for each of 120 rows, got shape \(120, 2\)$"
        ):
            make(regressor, prefit=True).fit(X, Y)

    def test_an_unfitted_model_raises_not_fitted_error(self):
        for ask in ("predict", "expected_loss", "decision_function", "decide"):
            with pytest.raises(NotFittedError):
                getattr(make(), ask)(X)
