"""Certificates of fitted estimators: what they say, when they are refused, and the model at the threshold."""

import json
import math
import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

import recuse
from recuse.decision import Decision
from recuse.guarantees import BoundWarning, CannotCertify, Certificate, certify
from sample_rows import noisy_rows

X, Y = noisy_rows(200)
FRESH, FRESH_Y = noisy_rows(1500, seed=7)
ESTIMATORS = {
    "risk": recuse.RiskRejector(cost=1.0, random_state=0),
    "auto": recuse.AutoRejector(cost=1.0, learners=["extra_trees"], cv=3, random_state=0),
    "rcr": recuse.RcRRegressor(cost=1.0, epochs=150, n_members=1, random_state=0),
    "selectivenet": recuse.SelectiveNetRegressor(cost=1.0, epochs=150, random_state=0),
}


@pytest.fixture(scope="module")
def models():
    return {name: model.fit(X, Y) for name, model in ESTIMATORS.items()}


@pytest.fixture(scope="module")
def model(models):
    return models["risk"]


@pytest.fixture(scope="module")
def certificate(model):
    return certify(model, FRESH, FRESH_Y, target=2.0, bound=60.0)


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("what", ["accepted_loss", "rcr_loss"])
def test_every_estimator_can_be_certified(models, name, what):
    result = certify(models[name], FRESH, FRESH_Y, target=5.0, bound=60.0, what=what)
    assert result.observed <= 5.0
    assert result.n_set_aside == (0 if name in ("risk", "auto") else 300)
    assert result.n_rows == 1500 - result.n_set_aside
    decision = result.model.decide(FRESH)
    np.testing.assert_array_equal(decision.accepted, models[name].decide(FRESH).score > result.threshold)


def test_the_certificate_says_what_was_found(certificate, model):
    decision = model.decide(FRESH)
    accepted = decision.score > certificate.threshold
    loss = np.minimum((decision.prediction - FRESH_Y) ** 2, 60.0)
    assert certificate.observed == pytest.approx(loss[accepted].mean())
    assert (certificate.n_accepted, certificate.coverage) == (accepted.sum(), pytest.approx(accepted.mean()))
    assert certificate.clipped_share == pytest.approx(np.mean((decision.prediction - FRESH_Y)[accepted] ** 2 > 60.0))
    assert certificate.clipped_share < certificate.tail_bound < 0.05
    assert (certificate.training_copies, certificate.cost, certificate.cost_bound) == (0, 1.0, None)
    text = str(certificate)
    for part in ("confidence 0.95", "squared loss of accepted rows is at most 2", "at most 60", "at cost 1"):
        assert part in text


def test_a_decision_of_the_model_becomes_one_at_the_certified_threshold(certificate, model):
    decision = model.decide(FRESH)
    assert certificate.model.apply(decision) == certificate.model.decide(FRESH)
    assert certificate.model.apply(decision) == decision.at_threshold(certificate.threshold)
    with pytest.raises(ValueError, match=r"^cost must be 1, which the certificate is for, got 2 at row 0$"):
        certificate.model.apply(model.decide(FRESH, cost=2.0))


def test_the_rcr_loss_counts_the_costs_of_rejected_rows(model):
    result = certify(model, FRESH, FRESH_Y, target=1.2, bound=60.0, what="rcr_loss")
    loss = np.minimum((model.predict(FRESH) - FRESH_Y) ** 2, 60.0)
    assert result.observed == pytest.approx(np.where(result.model.decide(FRESH).accepted, loss, 1.0).mean())
    assert result.cost_bound == 1.0


def test_certificates_are_values(certificate):
    values = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert Certificate.from_dict(values) == certificate
    copy = pickle.loads(pickle.dumps(certificate))
    assert copy == certificate
    np.testing.assert_array_equal(copy.model.decide(FRESH).accepted, certificate.model.decide(FRESH).accepted)
    with pytest.raises(ValueError, match="must have 'threshold' of type float, got None"):
        Certificate.from_dict({**values, "threshold": None})
    with pytest.raises(ValueError, match="do not fit together"):
        Certificate.from_dict({**values, "what": "profit"})


def test_the_same_rows_give_the_same_certificate_in_any_order_of_reading(certificate, model):
    assert certify(model, FRESH, FRESH_Y, target=2.0, bound=60.0) == certificate
    assert certify(model, FRESH[::-1], FRESH_Y[::-1], target=2.0, bound=60.0) == certificate
    assert certify(model, FRESH[:-1], FRESH_Y[:-1], 2.0, bound=60.0).data_fingerprint != certificate.data_fingerprint


def test_targets_are_aligned_by_label(certificate, model):
    frame, y = pd.DataFrame(FRESH), pd.Series(FRESH_Y).sample(frac=1, random_state=0)
    assert certify(model, frame, y, target=2.0, bound=60.0) == certificate
    assert certify(model, FRESH, pl.Series(FRESH_Y), target=2.0, bound=60.0) == certificate


class TestCosts:
    def test_a_certificate_at_another_cost_decides_at_that_cost_only(self, model):
        result = certify(model, FRESH, FRESH_Y, target=2.0, bound=60.0, cost=3.0)
        assert (result.cost, result.n_set_aside) == (3.0, 0)
        assert set(result.model.decide(FRESH[:3]).cost) == {3.0}
        with pytest.raises(ValueError, match=r"^cost must be 3, which the certificate is for, got 1 at row 0$"):
            result.model.decide(FRESH[:3], cost=1.0)

    def test_costs_of_rows_are_bounded_in_certificates_of_the_rcr_loss(self, model):
        cost = np.random.default_rng(0).uniform(0, 3, len(FRESH))
        result = certify(model, FRESH, FRESH_Y, target=2.0, bound=60.0, cost=cost, cost_bound=3.0, what="rcr_loss")
        assert (result.cost, result.cost_bound, result.n_set_aside) == (None, 3.0, 300)
        assert result.model.decide(FRESH[:2], cost=[1.0, 3.0]).cost.tolist() == [1.0, 3.0]
        with pytest.raises(ValueError, match="cost must be at most 3, the largest that the certificate covers, got 4"):
            result.model.decide(FRESH[:2], cost=[1.0, 4.0])
        with pytest.raises(ValueError, match=r"cost must be at most 2, got 2\.9.*: pass cost_bound"):
            certify(model, FRESH, FRESH_Y, target=2.0, bound=60.0, cost=cost, cost_bound=2.0, what="rcr_loss")

    def test_a_column_of_costs_is_found_by_name(self):
        frame = pd.DataFrame(X, columns=["a", "b"]).assign(fee=np.linspace(0.5, 2.0, len(X)))
        fitted = recuse.RiskRejector(cost="fee", random_state=0).fit(frame, Y)
        fresh = pd.DataFrame(FRESH, columns=["a", "b"]).assign(fee=1.0)
        result = certify(fitted, fresh, FRESH_Y, target=2.0, bound=60.0, what="rcr_loss")
        assert (result.cost, result.cost_bound, result.n_set_aside) == ("fee", 60.0, 0)
        assert "with costs of at most 60" in str(result)
        assert result.model.decide(fresh).cost.tolist() == [1.0] * len(fresh)
        assert result.model.decide(fresh, cost="fee").cost.tolist() == [1.0] * len(fresh)
        for other in (5.0, "a", np.ones(len(fresh))):
            with pytest.raises(ValueError, match="cost must be the column 'fee', which the certificate is for, got"):
                result.model.decide(fresh, cost=other)

    @pytest.mark.parametrize("what", ["accepted_loss", "rcr_loss"])
    @pytest.mark.parametrize("cost", [np.linspace(0.5, 2.0, len(FRESH)), lambda X: np.full(len(X), 2.0)])
    def test_a_certificate_for_one_cost_per_row_needs_the_costs_of_new_rows(self, model, what, cost):
        result = certify(model, FRESH, FRESH_Y, target=2.0, bound=60.0, cost=cost, what=what)
        assert (result.cost, result.cost_given) == (None, "per row")
        assert "for new rows and costs from the distribution of the calibration rows" in str(result)
        assert len(result.model.decide(FRESH, cost=cost)) == len(FRESH)
        read = Certificate.from_dict(json.loads(json.dumps(result.to_dict())), model=model)
        for each in (result, read):
            with pytest.raises(ValueError, match=r"^the certificate is for one cost per row: pass cost=\.\.\.$"):
                each.model.decide(FRESH)

    def test_the_callable_of_a_model_is_its_own_cost(self):
        def fee(X):
            return np.full(len(X), 2.0)

        fitted = recuse.RiskRejector(cost=fee, random_state=0).fit(X, Y)
        result = certify(fitted, FRESH, FRESH_Y, target=2.0, bound=60.0)
        assert (result.cost, result.cost_given) == (None, "own")
        assert set(result.model.decide(FRESH).cost) == {2.0}
        with pytest.raises(ValueError, match="cost must be that of the model, which the certificate is for, got 1"):
            result.model.decide(FRESH, cost=1.0)


def test_a_model_that_was_fitted_again_is_not_certified():
    fitted = recuse.RiskRejector(cost=1.0, random_state=0).fit(X, Y)
    certified = certify(fitted, FRESH, FRESH_Y, target=2.0, bound=60.0).model
    before = certified.decide(FRESH).accepted
    np.testing.assert_array_equal(certified.decide(FRESH).accepted, before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(certified)).decide(FRESH).accepted, before)
    fitted.fit(X[:100], Y[:100])
    with pytest.raises(ValueError, match="it was fitted again or changed, so certify it again"):
        certified.decide(FRESH)


class TestTrainingRows:
    def test_training_rows_are_refused_with_their_number(self, model):
        with pytest.raises(ValueError, match="200 of the 200 calibration rows equal training rows in all features and"):
            certify(model, X, Y, target=2.0, bound=60.0)
        mixed, truth = np.concatenate([FRESH, X[:20]]), np.concatenate([FRESH_Y, Y[:20]])
        with pytest.raises(ValueError, match="20 of the 1,520 calibration rows"):
            certify(model, mixed, truth, target=2.0, bound=60.0)
        allowed = certify(model, mixed, truth, target=2.0, bound=60.0, allow_training_rows=True)
        assert allowed.training_copies == 20

    def test_validation_rows_count_as_training_rows(self):
        fitted = recuse.RcRRegressor(cost=1.0, epochs=5, n_members=1, random_state=0)
        fitted.fit(X[:100], Y[:100], validation=(X[100:], Y[100:]))
        assert fitted.training_overlap(X, Y).copies.all()
        assert not fitted.fit(X[:100], Y[:100]).training_overlap(X[100:], Y[100:]).copies.any()


class TestRefusals:
    def test_too_few_rows_are_refused_with_what_it_would_take(self, model):
        with pytest.raises(CannotCertify, match=r"at least 89 accepted rows, even without any loss") as refusal:
            certify(model, FRESH[:60], FRESH_Y[:60], target=2.0, bound=60.0)
        assert refusal.value.n_least == 89
        assert refusal.value.n_rows_needed > 89
        assert pickle.loads(pickle.dumps(refusal.value)).n_rows_needed == refusal.value.n_rows_needed

    def test_refusals_name_the_mean_that_was_to_be_bounded(self, model):
        few = {"target": 0.7, "bound": 60.0}
        with pytest.raises(CannotCertify, match=r"^cannot certify a mean loss of accepted rows of at most 0\.7 .* is "):
            certify(model, FRESH[:60], FRESH_Y[:60], **few)
        with pytest.raises(CannotCertify, match=r"^cannot certify a RcR loss .*and the RcR loss is ") as refusal:
            certify(model, FRESH[:60], FRESH_Y[:60], **few, what="rcr_loss")
        assert re.search(r"it takes at least \d+ rows, even", str(refusal.value))

    def test_a_refusal_says_how_many_rows_of_this_kind_it_takes(self):
        """Of 60 rows, 12 are set aside for the first threshold; it takes as large a share of more rows."""
        random, given = np.random.default_rng(0), {"target": 1.0, "bound": 20.0}
        rows, y = np.column_stack([random.normal(size=4000), np.zeros(4000)]), np.full(4000, math.sqrt(0.9))
        with pytest.raises(CannotCertify) as refusal:
            certify(ByScore(), rows[:60], y[:60], **given)
        pattern = (
            r"from (\d+) calibration rows: .* first threshold (\d+) are accepted .* that is (\d+) calibration rows"
        )
        n_rows, n_accepted, least = map(int, re.search(pattern, str(refusal.value)).groups())
        assert refusal.value.n_least == math.ceil(math.log(0.05) / math.log(1 - 1 / 20)) == 59
        assert n_accepted < n_rows == 48
        assert least == math.ceil(59 * 60 / n_accepted)
        needed = refusal.value.n_rows_needed
        certify(ByScore(), rows[: int(1.1 * needed)], y[: int(1.1 * needed)], **given)
        with pytest.raises(CannotCertify):
            certify(ByScore(), rows[: int(0.7 * needed)], y[: int(0.7 * needed)], **given)

    def test_a_target_that_the_model_misses_is_refused(self, model):
        with pytest.raises(CannotCertify, match="more rows would not help") as refusal:
            certify(model, FRESH, FRESH_Y + 100, target=2.0, bound=60.0)
        assert refusal.value.n_rows_needed is None

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, r"^bound must be a finite number > 0 .* got None: without it, no number of rows bounds a mean loss$"),
            ({"bound": np.inf}, r"^bound must be a finite number > 0 .* got inf"),
            ({"bound": 1.0}, r"^target must be below 1, which no row can exceed, got 2\.0$"),
            ({"bound": 60.0, "delta": 1.5}, r"^delta must be a number between 0 and 1, got 1\.5$"),
            ({"bound": 60.0, "what": "profit"}, r"^what must be 'accepted_loss' or 'rcr_loss', got 'profit'$"),
            ({"bound": 60.0, "groups": [1, 2]}, r"^groups must have one label for each of 1500 rows, got 2$"),
            ({"bound": 60.0, "groups": [None] * 1500}, r"^groups must not be missing, got none at row 0$"),
            ({"bound": 60.0, "cost_bound": 3.0}, r"^cost_bound must be None unless what='rcr_loss', got 3\.0$"),
        ],
    )
    def test_bad_parameters_are_refused(self, model, options, message):
        with pytest.raises(ValueError, match=message):
            certify(model, FRESH, FRESH_Y, 2.0, **options)

    def test_bad_targets_are_refused(self, model):
        with pytest.raises(ValueError, match=r"^y must have one value for each of 1500 rows, got 3$"):
            certify(model, FRESH, FRESH_Y[:3], 2.0, bound=60.0)
        with pytest.raises(ValueError, match=r"^y must be finite, got nan at row 4$"):
            certify(model, FRESH, np.where(np.arange(1500) == 4, np.nan, FRESH_Y), 2.0, bound=60.0)


class ByScore:
    """A model whose rows are (score, prediction)."""

    fingerprint, cost_ = "by score", 1.0

    def decide(self, X, cost=None):
        return Decision(X[:, 1], X[:, 0] > 0, X[:, 0], 1.0)


class TestMistakesOfOthers:
    def test_the_direction_of_the_sequence_does_not_come_from_the_calibration_rows(self, model):
        """Losses that fall towards rejected rows do not turn the sequence round, where each test would pass."""
        prediction, score = model.predict(FRESH), model.decide(FRESH).score
        high = np.argsort(np.argsort(score)) / len(score)
        up, down = (certify(model, FRESH, prediction + part, target=2.0, bound=60.0) for part in (high, 1 - high))
        assert (up.n_thresholds, up.threshold) == (down.n_thresholds, down.threshold)
        with pytest.raises(CannotCertify):
            certify(model, FRESH, prediction + 3 * (high > 0.3), target=2.0, bound=60.0)

    def test_the_bound_is_never_read_off_the_rows(self):
        """A loss that is rare, but so large that the mean is above the target, is not in the calibration rows."""
        random = np.random.default_rng(0)
        X = np.column_stack([random.normal(size=500), np.zeros(500)])
        y = random.uniform(0, 1, 500)
        assert y.max() ** 2 < 1
        with pytest.raises(CannotCertify, match=r"at least 5,990 accepted rows"):
            certify(ByScore(), X, y, target=0.5, bound=1000.0)
        assert certify(ByScore(), X, y, target=0.5, bound=1.0).tail_bound > 0.005
        with pytest.warns(BoundWarning, match="is the largest loss of the calibration rows"):
            certify(ByScore(), X, y, target=0.5, bound=float(y.max() ** 2))

    def test_the_tail_bound_holds_for_all_thresholds_at_once(self, certificate):
        from recuse.guarantees.certification import tail_bound

        above = round(certificate.clipped_share * certificate.n_accepted)
        single = tail_bound(above, certificate.n_accepted, 0.05)
        assert certificate.tail_bound == tail_bound(above, certificate.n_accepted, 0.05 / certificate.n_thresholds)
        assert certificate.tail_bound > single
