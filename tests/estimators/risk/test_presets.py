"""Published methods as presets of RiskRejector, and the kernel average."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.neighbors import KNeighborsRegressor

from recuse import RiskRejector, datasets, metrics
from recuse.estimators import KernelAverage, StackedMLPRegressor, knn_plug, mlp_plug, no_rejection

X, Y, _, _ = datasets.make_heteroscedastic(300, random_state=0)
NEW, NEW_Y, _, _ = datasets.make_heteroscedastic(1000, random_state=1)
SHORT = {"random_state": 0, "regressor__epochs": 60}
PRESETS = {
    "knn_plug": knn_plug(),
    "mlp_plug": mlp_plug(**SHORT, risk__epochs=60),
    "no_rejection": no_rejection(**SHORT),
}


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS.keys())
def test_a_preset_beats_accepting_all_and_rejecting_all(preset):
    X, y, _, _ = datasets.make_heteroscedastic(2000, random_state=2)
    model = clone(preset).set_params(cost=1.5).fit(X, y)
    assert isinstance(model, RiskRejector)
    measures = model.decide(NEW).evaluate(NEW_Y)
    assert measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"])


def test_knn_plug_is_two_nearest_neighbour_regressions_on_the_same_rows():
    model = knn_plug(cost=0.7).fit(X, Y)
    features, new = model.rule_.encoder.transform(X), model.rule_.encoder.transform(NEW)
    h = KNeighborsRegressor(10).fit(features, Y)
    risk = KNeighborsRegressor(10).fit(features, (h.predict(features) - Y) ** 2)
    np.testing.assert_allclose(model.predict(NEW), h.predict(new))
    np.testing.assert_allclose(model.expected_loss(NEW), risk.predict(new))
    np.testing.assert_array_equal(model.decide(NEW).accepted, risk.predict(new) < 0.7)


def test_mlp_plug_is_two_networks_of_the_papers_shape_on_the_same_rows():
    model = mlp_plug(**SHORT, risk__epochs=60).fit(X, Y)
    assert len(model.regressors_) == 1
    for network in (*model.regressors_, *model.risks_):
        assert isinstance(network, StackedMLPRegressor)
        assert tuple(network.hidden) == (20, 30, 10)
        assert network.n_features_in_ == X.shape[1]
    assert (model.residuals, model.scale_) == ("train", 1.0)


def test_no_rejection_averages_the_loss_of_rows_its_network_has_not_seen():
    model = no_rejection(**SHORT, holdout=0.3).fit(X, Y)
    assert len(model.risks_[0].targets_) == 90
    losses = (model.predict(X) - Y) ** 2
    assert all(np.isclose(losses, loss).any() for loss in model.risks_[0].targets_)


def test_parameters_reach_the_estimator_and_its_parts():
    model = knn_plug(cost=3.0, residuals="crossfit", regressor__n_neighbors=4, risk__n_neighbors=20)
    assert (model.cost, model.residuals, model.regressor.n_neighbors, model.risk.n_neighbors) == (
        3.0,
        "crossfit",
        4,
        20,
    )
    with pytest.raises(ValueError, match="Invalid parameter 'price'"):
        knn_plug(price=3.0)


class TestKernelAverage:
    def test_it_is_the_weighted_mean_of_nadaraya_and_watson(self):
        model = KernelAverage(width=0.7).fit(X, Y)
        features, new = model.encoder_.transform(X), model.encoder_.transform(NEW[:5])
        weight = np.exp(-((new[:, None] - features) ** 2).sum(axis=2) / (2 * 0.7**2))
        np.testing.assert_allclose(model.predict(NEW[:5]), weight @ Y / weight.sum(axis=1))

    def test_the_width_chosen_is_about_the_best_on_fresh_rows(self):
        chosen = KernelAverage(random_state=0).fit(X, Y)
        loss = {
            width: np.mean(metrics.squared_error(NEW_Y, KernelAverage(width=width).fit(X, Y).predict(NEW)))
            for width in chosen.width_ * 2.0 ** np.arange(-3, 4)
        }
        assert loss[chosen.width_] < 1.05 * min(loss.values())

    def test_a_wide_kernel_gives_the_mean_and_a_narrow_one_the_nearest_row(self):
        np.testing.assert_allclose(KernelAverage(width=1e6).fit(X, Y).predict(NEW), Y.mean(), rtol=1e-6)
        model = KernelAverage(width=1e-6).fit(X, Y)
        nearest = KNeighborsRegressor(1).fit(model.encoder_.transform(X), Y)
        np.testing.assert_allclose(model.predict(NEW), nearest.predict(model.encoder_.transform(NEW)))

    def test_far_from_everything_the_nearest_row_decides(self):
        model = KernelAverage(width=0.1).fit([[0.0], [1.0]], [3.0, 5.0])
        np.testing.assert_allclose(model.predict([[-1e4], [1e4]]), [3.0, 5.0])

    def test_blocks_of_rows_change_nothing(self, monkeypatch):
        whole = KernelAverage(random_state=0).fit(X, Y)
        monkeypatch.setattr("recuse.estimators.risk.presets._CELLS", 1000)
        parts = KernelAverage(random_state=0).fit(X, Y)
        assert parts.width_ == whole.width_
        np.testing.assert_allclose(parts.predict(NEW), whole.predict(NEW))

    @pytest.mark.parametrize("width", [0.0, -1.0, "wide", np.inf])
    def test_a_width_that_is_none_is_refused(self, width):
        with pytest.raises(ValueError, match=r"^width must be None or a finite number > 0, got "):
            KernelAverage(width=width).fit(X, Y)
