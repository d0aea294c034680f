"""Pickled estimators contain the registered losses that they use."""

import pickle
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV

from recuse import AutoRejector, RcRRegressor, surrogates
from recuse.metrics import rcr_scorer
from recuse.surrogates import Surrogate
from recuse.surrogates import losses as registry
from recuse.surrogates.carried import CarriesSurrogates
from sample_rows import X, Y


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    own = registry.registered()  # by tests before this one
    known = {name: surrogate for name, surrogate in registry._REGISTRY.items() if name not in own}
    monkeypatch.setattr(registry, "_REGISTRY", known)
    monkeypatch.setattr(registry, "_RECEIVED", {})


def register(name="mine", factor=2.0):
    return surrogates.register(
        name, lambda r: (factor * (1 + r).clip(0, None), factor * (1 - r).clip(0, None)), overwrite=True
    )


class Holder(CarriesSurrogates, BaseEstimator):
    """An estimator with a surrogate, and nothing else."""

    def __init__(self, surrogate="mae"):
        self.surrogate = surrogate

    def fit(self, X=None, y=None):
        self.value_ = self.value()
        return self

    def value(self):
        return float(surrogates.get(self.surrogate)(0.0)[0])


class Elsewhere:
    """A process that has not registered anything: what the user registered here is out of reach inside the block."""

    def __enter__(self):
        self.own = {name: registry._REGISTRY.pop(name) for name in registry.registered()}
        registry._RECEIVED.clear()

    def __exit__(self, *_):
        registry._REGISTRY.update(self.own)


def test_a_surrogate_of_any_function_can_be_pickled():
    scores = np.linspace(-2, 2, 5)
    for surrogate in (
        register(),
        Surrogate("own", lambda r: (np.exp(r), np.exp(-r)), lambda r: (np.exp(r), -np.exp(-r))),
    ):
        restored = pickle.loads(pickle.dumps(surrogate))
        assert restored.name == surrogate.name
        np.testing.assert_array_equal(restored(scores), surrogate(scores))
        np.testing.assert_array_equal(restored.derivative(scores), surrogate.derivative(scores))


def test_a_copied_surrogate_is_the_surrogate():
    surrogate = register()
    assert deepcopy(surrogate) is surrogate
    assert clone(Holder(surrogate)).surrogate is surrogate


def test_a_pickled_estimator_brings_its_registered_loss_along():
    register()
    sent = pickle.dumps(Holder("mine"))
    with Elsewhere():
        with pytest.raises(ValueError, match=r"surrogate must be one of mae, .* got 'mine'"):
            surrogates.get("mine")
        arrived = pickle.loads(sent)
        assert arrived.value() == 2.0
        assert "mine" in surrogates.names()
        assert surrogates.get("mine") is surrogates.get("mine")
        assert arrived.get_params() == {"surrogate": "mine"}
        assert vars(arrived) == {"surrogate": "mine"}


def test_an_unfitted_estimator_brings_all_registered_losses_for_its_parameters_may_still_change():
    register()
    sent = pickle.dumps(Holder("mae"))
    with Elsewhere():
        assert pickle.loads(sent).set_params(surrogate="mine").value() == 2.0


def test_a_fitted_estimator_brings_its_own_loss_only():
    register()
    register("other", 3.0)
    sent = pickle.dumps(Holder("mine").fit())
    with Elsewhere():
        pickle.loads(sent)
        assert {"mine", "other"} & set(surrogates.names()) == {"mine"}


def test_a_loss_of_this_process_is_never_replaced_by_one_that_arrives():
    register(factor=2.0)
    sent = pickle.dumps(Holder("mine"))
    register(factor=5.0)
    assert pickle.loads(sent).value() == 5.0


def test_a_later_arrival_replaces_an_earlier_one_and_registering_replaces_both():
    register(factor=2.0)
    first = pickle.dumps(Holder("mine"))
    register(factor=5.0)
    second = pickle.dumps(Holder("mine"))
    with Elsewhere():
        assert pickle.loads(first).value() == 2.0
        assert pickle.loads(second).value() == 5.0
        surrogates.register("mine", lambda r: (7 + r, 7 - r))
        assert pickle.loads(first).value() == 7.0
        del registry._REGISTRY["mine"]


def test_an_estimator_passes_a_received_loss_on():
    register()
    sent = pickle.dumps(Holder("mine"))
    with Elsewhere():
        sent_on = pickle.dumps(pickle.loads(sent))
    with Elsewhere():
        assert pickle.loads(sent_on).value() == 2.0


def test_nothing_is_added_where_nothing_is_registered():
    assert "_surrogates" not in Holder("mae").__getstate__()


def test_a_loss_that_cannot_be_restored_is_an_error_only_when_it_is_used():
    registry.receive("mine", b"no pickle")
    with pytest.raises(ValueError, match="surrogate 'mine' came with a pickled estimator and cannot be restored"):
        surrogates.get("mine")


def rcr(**parameters):
    return RcRRegressor(**{"epochs": 6, "slow_start": 2, "learning_rate": 0.01, "random_state": 0, **parameters})


def test_a_grid_search_in_processes_can_use_registered_losses():
    register()
    own = GridSearchCV(rcr(surrogate="mine"), {"hidden": [(3,), (4,)]}, cv=2, scoring=rcr_scorer, n_jobs=2)
    among = GridSearchCV(rcr(), {"surrogate": ["mae", "mine"]}, cv=2, scoring=rcr_scorer, n_jobs=2, error_score="raise")
    assert own.fit(X, Y).best_estimator_.surrogate == "mine"
    assert among.fit(X, Y).best_params_["surrogate"] in ("mae", "mine")


def test_auto_rejector_fits_learners_of_registered_losses_in_processes():
    register()
    learners = {"mine": rcr(surrogate="mine"), "line": LinearRegression()}
    alone, together = (
        AutoRejector(learners=learners, risk_models=["extra_trees"], cv=2, random_state=0, n_jobs=n_jobs).fit(X, Y)
        for n_jobs in (1, 2)
    )
    assert together.decide(X) == alone.decide(X)


def test_a_saved_model_can_be_fitted_again_in_a_new_session(tmp_path):
    register()
    file = tmp_path / "model.pickle"
    file.write_bytes(pickle.dumps(rcr(surrogate="mine").fit(X, Y)))
    code = (
        f"import pickle; m = pickle.load(open({str(file)!r}, 'rb')); m.fit([[0.], [1.], [2.], [3.]], [0., 1., 0., 1.])"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
