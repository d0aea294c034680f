"""fit_costs: several costs for little more than one fit, each as if it had been fitted alone."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone

from recuse import RcRRegressor
from recuse.estimators import fit_costs
from recuse.estimators.rcr import crossfit, joint

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(-2, 2, size=(120, 2))
Y = 3 * X[:, 0] + np.exp(X[:, 1]) / 2 * RANDOM.normal(size=120)
MODEL = RcRRegressor(residuals="crossfit", epochs=30, cv=2, n_members=2, random_state=0)


def test_each_equals_the_model_fitted_alone():
    for cost, model in zip((0.5, 4.0), fit_costs(MODEL, X, Y, [0.5, 4.0]), strict=True):
        alone = RcRRegressor(cost, residuals="crossfit", epochs=30, cv=2, n_members=2, random_state=0).fit(X, Y)
        assert model.decide(X) == alone.decide(X)
        assert model.cost_ == cost


def test_joint_trainings_at_all_costs_and_with_all_surrogates_equal_those_alone_bit_by_bit():
    model = RcRRegressor(epochs=40, slow_start=10, n_members=2, batch_size=32, random_state=0)
    fitted = fit_costs(model, X, Y, [0.5, 4.0], surrogates=["mae", "logistic"])
    assert [(each.cost_, each.surrogate) for each in fitted] == [
        (cost, surrogate) for cost in (0.5, 4.0) for surrogate in ("mae", "logistic")
    ]
    for each in fitted:
        alone = clone(each).fit(X, Y)
        assert each.decide(X) == alone.decide(X)
        assert each.best_epoch_ == alone.best_epoch_
        np.testing.assert_array_equal(each.history_, alone.history_)
        for one, other in ((each.regressor_, alone.regressor_), (each.rejector_, alone.rejector_)):
            assert torch.equal(one.parameters, other.parameters)


def test_joint_trainings_share_one_stack(monkeypatch):
    sizes = []

    def watched(tables, validation, members, *rest):
        sizes.append(len(members))
        return train(tables, validation, members, *rest)

    train = joint.train_pairs
    monkeypatch.setattr(joint, "train_pairs", watched)
    fit_costs(RcRRegressor(epochs=4, n_members=2), X, Y, [0.5, 1.0, 2.0])
    assert sizes == [3 * 2 * 2]  # costs, members, learning rates


def test_the_model_given_is_not_changed():
    model = clone(MODEL)
    fit_costs(model, X, Y, [0.5])
    assert vars(model) == vars(clone(MODEL))


def test_without_a_seed_the_costs_still_share():
    one, other = fit_costs(MODEL.set_params(random_state=None), X, Y, [0.5, 4.0])
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    MODEL.set_params(random_state=0)


def test_the_regressors_of_all_folds_are_trained_once_and_the_rejectors_once_for_each_cost(monkeypatch):
    trained = []

    def watched(stage, train):
        return lambda *arguments: trained.append(stage) or train(*arguments)

    for stage in ("train_regressors", "train_rejectors"):
        monkeypatch.setattr(crossfit, stage, watched(stage, getattr(crossfit, stage)))
    fit_costs(MODEL, X, Y, [0.5, 1.0, 4.0])
    assert trained == ["train_regressors", *["train_rejectors"] * 3]


def test_unequal_folds_of_the_users_own_are_shared_too():
    fold = np.searchsorted([70, 110], np.arange(len(X)), side="right")
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    model = clone(MODEL).set_params(cv=folds, batch_size=16)
    for cost, shared in zip((0.5, 4.0), fit_costs(model, X, Y, [0.5, 4.0]), strict=True):
        alone = clone(model).set_params(cost=cost).fit(X, Y)
        assert shared.decide(X) == alone.decide(X)
        assert shared.best_epoch_ == alone.best_epoch_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_trainings_that_diverged_are_counted_as_in_a_fit_of_its_own():
    model = clone(MODEL).set_params(learning_rate=(1e30, 1e-2))
    alone = clone(model).set_params(cost=4.0).fit(X, Y)
    assert len(alone.diverged_) == 6  # a regressor of two members and a rejector in each fold
    for shared in fit_costs(model, X, Y, [4.0, 0.5]):
        assert [entry[:2] for entry in shared.diverged_] == [entry[:2] for entry in alone.diverged_]


def test_no_training_rows_are_kept():
    (model,) = fit_costs(MODEL, X, Y, [0.5])
    assert len(pickle.dumps(model)) == pytest.approx(len(pickle.dumps(MODEL.set_params(cost=0.5).fit(X, Y))), rel=0.02)
    MODEL.set_params(cost=1.0)


@pytest.mark.parametrize(
    ("model", "costs", "message"),
    [
        (MODEL, [], "costs must be one cost or more"),
        (MODEL, [1.0, -1.0], "cost must be >= 0"),
        (MODEL, [1.0, (0.5, 2.0)], r"costs must be numbers, got \(0.5, 2.0\)"),
        (clone(MODEL).set_params(cost_range=(0.5, 2.0)), [1.0], "cost_range must be None, since each cost is fitted"),
    ],
)
def test_what_cannot_be_done_is_said(model, costs, message):
    with pytest.raises(ValueError, match=message):
        fit_costs(model, X, Y, costs)
