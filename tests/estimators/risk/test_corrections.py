"""Expected losses of out-of-fold and of new rows agree, also with cells without information."""

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.neighbors import KNeighborsRegressor

from recuse import AutoRejector, RiskRejector, datasets, guarantees
from recuse.estimators.risk.corrections import FoldMean, HeldOut, interpolated_rows, learn_surcharge
from recuse.losses import SQUARED, Absolute
from recuse.tabular.encoder import TableEncoder

TREES = ExtraTreesRegressor(50, min_samples_leaf=5)


def test_the_gain_of_the_mean_is_the_variance_round_it_for_the_squared_error_only():
    predictions, risks = np.array([[0.0, 1.0], [2.0, 1.0]]), np.full((2, 2), 5.0)
    assert FoldMean.learn(predictions, risks, SQUARED).factor == pytest.approx(1 - 0.5 / 5)
    assert FoldMean.learn(predictions, risks, Absolute()).factor == 1.0
    assert FoldMean.learn(1e3 * predictions, risks, SQUARED).factor == 0.5  # never trusted further


def test_the_gain_is_larger_where_the_variance_is_a_larger_part_of_the_risk():
    random = np.random.default_rng(0)
    risk = np.exp(random.normal(size=2000))
    predictions = random.normal(size=(5, 2000)) * np.sqrt(0.1 * np.sqrt(risk))  # a tenth of a risk of 1
    mean = FoldMean.learn(predictions, np.tile(risk, (5, 1)), SQUARED)
    low, high = mean.factors(mean.factor * np.array([0.5, 4.0]))
    assert low == pytest.approx(1 - 0.08 / np.sqrt(0.5), abs=0.02)  # the variance of five is 4/5 of the true one
    assert high == pytest.approx(1 - 0.08 / np.sqrt(4.0), abs=0.02)
    observed = mean.factors(mean.factor * risk) @ risk / risk.sum()
    assert observed == pytest.approx(mean.factor, abs=0.01)


def test_rows_on_which_the_folds_disagree_wildly_hardly_count():
    """Interpolated rows can be combinations that do not occur."""
    random = np.random.default_rng(0)
    predictions, risks = 0.3 * random.normal(size=(5, 1000)), np.ones((5, 1000))
    clean = FoldMean.learn(predictions, risks, SQUARED).factor
    predictions[:, :50] *= 30
    assert FoldMean.learn(predictions, risks, SQUARED).factor == pytest.approx(clean, abs=0.02)


def test_a_model_fitted_to_all_rows_gains_more_than_the_mean_over_the_folds():
    predictions, risks = np.array([[0.0, 1.0], [2.0, 1.0]]), np.full((2, 2), 5.0)
    mean, all_rows = (FoldMean.learn(predictions, risks, SQUARED, refitted=refitted) for refitted in (False, True))
    assert 0.75 < all_rows.factor < mean.factor
    assert (all_rows.factors(np.array([1.0, 9.0])) < mean.factors(np.array([1.0, 9.0]))).all()


@pytest.mark.parametrize("loss", [SQUARED, Absolute()])
def test_without_disagreement_there_is_no_gain(loss):
    mean = FoldMean.learn(np.ones((3, 40)), np.random.default_rng(0).uniform(1, 2, size=(3, 40)), loss, refitted=True)
    assert mean.factor == 1.0
    np.testing.assert_array_equal(mean.factors(np.array([0.0, 1.0, 9.0])), 1.0)


def test_out_of_fold_risks_are_mapped_to_the_distribution_of_the_mean_and_keep_their_order():
    random = np.random.default_rng(0)
    true = np.exp(random.normal(size=4000))
    by_fold = true * np.exp(0.8 * random.normal(size=(5, 4000)))
    mean = FoldMean.learn(np.zeros((5, 4000)), by_fold, SQUARED)
    mapped = mean.out_of_fold(by_fold[0])
    for share in (0.1, 0.2, 0.4, 0.8):
        threshold = np.quantile(mapped, 1 - share)
        assert np.mean(mean.factor * by_fold.mean(axis=0) > threshold) == pytest.approx(share, abs=0.02)
    assert np.mean(by_fold.mean(axis=0) > np.quantile(by_fold[0], 0.2)) > 0.85  # without the mapping
    assert (np.diff(mapped[np.argsort(by_fold[0])]) >= 0).all()


def test_interpolated_rows_are_new_but_have_the_values_of_training_rows():
    features = np.random.default_rng(0).normal(size=(300, 4))
    rows = interpolated_rows(features, [slice(0, 1), slice(1, 3), slice(3, 4)], np.random.RandomState(0))
    assert not (rows[:, None] == features[None]).all(axis=2).any(axis=1).all()
    for column in range(4):
        assert np.isin(rows[:, column], features[:, column]).all()
    pairs = {tuple(pair) for pair in features[:, 1:3]}
    assert all(tuple(pair) in pairs for pair in rows[:, 1:3])  # features of one column stay together


def test_a_column_costs_what_blanking_it_costs():
    random = np.random.default_rng(0)
    X = random.normal(size=(2000, 3))
    y = 3 * X[:, 0] + X[:, 1]
    encoder = TableEncoder().fit(X)
    features = encoder.transform(X)

    def predict(rows):
        return 3 * rows[:, 0] * X[:, 0].std() + rows[:, 1] * X[:, 1].std()

    surcharge = learn_surcharge(encoder, [HeldOut(features, y, predict)], SQUARED, np.random.RandomState(0))
    np.testing.assert_allclose(surcharge, [9, 1, 0], rtol=0.25, atol=1e-6)
    np.testing.assert_allclose(np.array([[0.0, 0.5, 1.0], [1.0, 1.0, 1.0]]) @ surcharge, [0.5, 10], rtol=0.25)


def test_redundant_columns_cost_together_what_they_are_worth_together():
    """Each of two copies can be blanked without harm if the model averages them; both cannot."""
    x = np.random.default_rng(0).normal(size=(2000, 1))
    X = np.column_stack([x, x])
    encoder = TableEncoder().fit(X)
    part = HeldOut(encoder.transform(X), x[:, 0], lambda rows: rows.mean(axis=1) * x.std())
    surcharge = learn_surcharge(encoder, [part], SQUARED, np.random.RandomState(0))
    assert surcharge.sum() == pytest.approx(1, rel=0.2)


def test_wide_tables_are_blanked_as_a_whole():
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 3000))
    encoder = TableEncoder().fit(X)
    part = HeldOut(encoder.transform(X), X[:, 0], lambda rows: rows[:, 0])
    surcharge = learn_surcharge(encoder, [part], SQUARED, np.random.RandomState(0))
    assert surcharge.sum() > 0.3


def test_thresholds_of_out_of_fold_scores_reject_the_requested_share():
    X, y, _, _ = datasets.make_heteroscedastic(1500, random_state=0)
    new = datasets.make_heteroscedastic(5000, random_state=1)[0]
    for model in (
        RiskRejector(RandomForestRegressor(30), random_state=0),
        AutoRejector(learners={"nearest": KNeighborsRegressor(5)}, risk_models={"trees": TREES}, random_state=0),
    ):
        fitted = model.fit(X, y)
        scores = fitted.decision_function(new)
        for share in (0.1, 0.2, 0.4):
            threshold = guarantees.by_budget(fitted.out_of_fold_["score"], share)
            assert np.mean(scores <= threshold) == pytest.approx(share, abs=0.04)


def test_out_of_fold_scores_count_cells_that_the_fold_had_not_seen():
    """A category with a single row is new to the models that predict it."""
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"kind": random.choice(list("abc"), 200), "x": random.normal(size=200)})
    frame.loc[7, "kind"] = "rare"
    y = frame["kind"].map({"a": -5.0, "b": 0.0, "c": 5.0, "rare": 9.0}) + 0.1 * random.normal(size=200)
    table = RiskRejector(RandomForestRegressor(30), TREES, random_state=0).fit(frame, y).out_of_fold_
    assert table.loc[7, "expected_loss"] > 5 * table["expected_loss"].median()
