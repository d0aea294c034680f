"""fit_costs: several costs and surrogates for little more than one fit, each as if it had been fitted alone."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

from recuse import RcRRegressor
from recuse.engine.stack import outputs
from recuse.estimators import fit_costs
from sample_rows import NEW, NEW_Y, X, Y

MODEL = RcRRegressor(epochs=30, slow_start=10, n_members=2, batch_size=32, random_state=0)


def test_each_equals_the_model_fitted_alone():
    fitted = fit_costs(MODEL, X, Y, [0.5, 4.0], surrogates=["mae", "logistic"])
    assert [(each.cost_, each.surrogate) for each in fitted] == [
        (cost, surrogate) for cost in (0.5, 4.0) for surrogate in ("mae", "logistic")
    ]
    features = fitted[0].rule_.units.features(NEW)
    for each in fitted:
        alone = clone(each).fit(X, Y)
        assert each.decide(NEW) == alone.decide(NEW)
        assert each.best_epoch_ == alone.best_epoch_
        np.testing.assert_array_equal(each.history_, alone.history_)
        np.testing.assert_array_equal(outputs(each.rejector_, features), outputs(alone.rejector_, features))
        assert len(pickle.dumps(each)) < 1.1 * len(pickle.dumps(alone))  # no training rows are kept


def test_the_model_given_is_not_changed():
    model = clone(MODEL)
    fit_costs(model, X, Y, [0.5])
    assert vars(model) == vars(clone(MODEL))


def test_without_a_seed_the_costs_still_share_slow_start():
    model = clone(MODEL).set_params(random_state=None, epochs=2, slow_start=1, learning_rate=1e-9)
    one, other = fit_costs(model, X, Y, [0.5, 4.0], validation=(NEW, NEW_Y))
    np.testing.assert_allclose(one.predict(X), other.predict(X), rtol=1e-5)


def test_a_target_may_be_centred_only_or_used_as_it_is():
    centred, plain = (
        fit_costs(MODEL, X, Y + 50, [4.0], validation=(NEW, NEW_Y + 50), scale_target=scale)[0].rule_.units
        for scale in ("centre", False)
    )
    assert centred.target_scale == plain.target_scale == 1.0
    assert centred.target_mean == pytest.approx(50 + Y.mean())
    assert plain.target_mean == 0.0
    with pytest.raises(ValueError, match=r"^scale_target must be True, False or 'centre', got 'center'$"):
        fit_costs(MODEL, X, Y, [4.0], scale_target="center")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_trainings_that_diverged_are_counted_as_in_a_fit_of_its_own():
    model = clone(MODEL).set_params(learning_rate=(1e30, 1e-2))
    for shared in fit_costs(model, X, Y, [4.0, 0.5]):
        assert [entry[:2] for entry in shared.diverged_] == [(0, 1e30), (1, 1e30)]


@pytest.mark.parametrize(
    ("costs", "options", "message"),
    [
        ([], {}, "costs must be one cost or more"),
        ([1.0], {"surrogates": []}, "surrogates must be one surrogate or more"),
        ([1.0, -1.0], {}, "cost must be >= 0"),
        ([1.0, (0.5, 2.0)], {}, r"costs must be numbers, got \(0.5, 2.0\)"),
    ],
)
def test_what_cannot_be_done_is_said(costs, options, message):
    with pytest.raises(ValueError, match=message):
        fit_costs(MODEL, X, Y, costs, **options)
