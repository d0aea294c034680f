"""Certificates of rows that are no independent draws, and of many attempts with the same rows."""

import json
import os
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import recuse
from certificate_runs import runs
from recuse.decision import Decision
from recuse.guarantees import CannotCertify, certify
from sample_rows import noisy_rows

X, Y = noisy_rows(200)
FRESH, FRESH_Y = noisy_rows(1500, seed=7)
GIVEN = {"target": 3.0, "bound": 60.0}
FILE = "certification-attempts.json"


def fitted(seed=0, rows=(X, Y)):
    return recuse.RiskRejector(Ridge(), Ridge(), cost=1.0, random_state=seed).fit(*rows)


@pytest.fixture(scope="module")
def model():
    return fitted()


@pytest.fixture
def served(model, tmp_path):
    recuse.save(model, tmp_path / "model.recuse")
    return recuse.load(tmp_path / "model.recuse")


class Foreign:
    """A model without hashes of its training rows."""

    fingerprint, cost_ = "foreign", 1.0

    def decide(self, X, cost=None):
        return Decision(np.zeros(len(X)), np.ones(len(X), bool), X[:, 0], 1.0)


class TestRepeats:
    @pytest.mark.parametrize("shuffled", [False, True])
    def test_sixty_rows_given_ten_times_are_refused(self, model, served, shuffled):
        rows = np.repeat(np.arange(60), 10)
        if shuffled:
            rows = np.random.default_rng(0).permutation(rows)
        for each in (model, served):
            message = r"540 of the 600 calibration rows repeat another .* drop the copies, or pass groups="
            with pytest.raises(ValueError, match=message):
                certify(each, FRESH[rows], FRESH_Y[rows], **GIVEN)

    def test_one_changed_column_does_not_hide_repeats(self, model):
        rows = np.repeat(np.arange(60), 10)
        copies = FRESH[rows]
        copies[:, 1] += np.random.default_rng(0).normal(size=600) / 100
        with pytest.raises(ValueError, match=r"540 of the 600 calibration rows repeat .* in half of the features and"):
            certify(model, copies, FRESH_Y[rows], **GIVEN)

    def test_repeated_measurements_need_groups(self, model):
        rows = np.repeat(np.arange(150), 4)
        noise = np.random.default_rng(0).normal(size=600) / 10
        with pytest.raises(ValueError, match=r"450 of the 600 .* in all features, .* pass groups= with one label"):
            certify(model, FRESH[rows], FRESH_Y[rows] + noise, **GIVEN)
        result = certify(model, FRESH[rows], FRESH_Y[rows] + noise, groups=rows, target=8.0, bound=60.0)
        assert (result.n_groups, result.n_rows, result.repeats) == (150, 600, 0)
        assert "groups drawn at random, with equal weight of all groups (150 were tested)" in str(result)

    def test_groups_do_not_hide_repeats_across_groups(self, model):
        rows = np.repeat(np.arange(60), 10)
        with pytest.raises(ValueError, match="540 of the 600 calibration rows repeat another"):
            certify(model, FRESH[rows], FRESH_Y[rows], groups=np.arange(600), **GIVEN)

    def test_a_few_repeats_are_plausible_and_stated(self, model):
        rows = np.append(np.arange(1500), [3, 4])
        result = certify(model, FRESH[rows], FRESH_Y[rows], **GIVEN)
        assert result.repeats == 2
        assert "0 calibration rows equal a training row, and 2 calibration rows repeat another" in str(result)

    def test_models_without_hashes_refuse_repeats_of_continuous_rows_only(self):
        random = np.random.default_rng(0)
        rows, truth = random.normal(size=(60, 2)), random.uniform(size=60)
        with pytest.raises(ValueError, match=r"540 of the 600 calibration rows repeat another .* drop the copies, or"):
            certify(Foreign(), np.repeat(rows, 10, axis=0), np.repeat(truth, 10), target=0.9, bound=2.0)
        rows, truth = random.integers(0, 4, (600, 2)).astype(float), random.integers(0, 2, 600) / 2.0
        result = certify(Foreign(), rows, truth, target=0.9, bound=2.0)
        assert result.repeats > 500
        assert "Whether calibration rows equal training rows could not be checked" in str(result)

    @pytest.mark.parametrize("name", recuse.datasets.names())
    def test_splits_of_embedded_tables_pass(self, name):
        table = recuse.datasets.load(name)
        frame, y = pd.DataFrame(table.X), np.asarray(table.y)
        for seed, share in enumerate((0.2, 0.4, 0.6)):
            order = np.random.default_rng(seed).permutation(len(y))
            train, fresh = np.split(order, [int(share * len(y))])
            model = recuse.RiskRejector(Ridge(), Ridge(), cost=1.0, cv=2, random_state=0)
            model.fit(frame.iloc[train], y[train])
            scale = float(np.ptp(y)) ** 2
            given = {"target": 0.9 * scale, "bound": scale, "allow_training_rows": True}
            result = certify(model, frame.iloc[fresh], y[fresh], **given)
            assert result.repeats <= 25

    def test_small_discrete_tables_pass(self):
        for seed in range(5):
            random = np.random.default_rng(seed)
            levels = random.integers(2, 6, 3)
            rows, target = random.integers(0, levels, (1200, 3)).astype(float), random.integers(0, 4, 1200) / 2
            model = fitted(rows=(rows[:400], target[:400]))
            result = certify(model, rows[400:], target[400:], target=3.0, bound=9.0, allow_training_rows=True)
            assert result.repeats > 300


class TestGroups:
    ROWS = np.repeat(np.arange(500), 3)

    def test_labels_and_orders_do_not_matter(self, model):
        result = certify(model, FRESH, FRESH_Y, groups=self.ROWS, **GIVEN)
        order = np.random.default_rng(0).permutation(1500)
        labels = np.array([f"patient {499 - row}" for row in self.ROWS])
        assert certify(model, FRESH[order], FRESH_Y[order], groups=labels[order], **GIVEN) == result
        assert result.n_groups == 500

    def test_labels_are_aligned_by_index(self, model):
        labels = pd.Series(self.ROWS).sample(frac=1, random_state=0)
        result = certify(model, pd.DataFrame(FRESH), FRESH_Y, groups=labels, **GIVEN)
        assert result == certify(model, FRESH, FRESH_Y, groups=self.ROWS, **GIVEN)

    @pytest.mark.parametrize("what", ["accepted_loss", "rcr_loss"])
    def test_the_mean_has_equal_weight_of_groups(self, model, what):
        sizes = np.random.default_rng(0).integers(1, 6, 1500).cumsum()
        groups = np.searchsorted(sizes, np.arange(1500), side="right")
        result = certify(model, FRESH, FRESH_Y, groups=groups, what=what, **GIVEN)
        accepted = result.model.decide(FRESH).accepted
        weight = 1 / np.bincount(groups)[groups]
        loss = np.minimum((model.predict(FRESH) - FRESH_Y) ** 2, 60.0)
        rows = accepted if what == "accepted_loss" else slice(None)
        counted = np.where(accepted, loss, 1.0)
        assert result.observed == pytest.approx(np.average(counted[rows], weights=weight[rows]))

    def test_groups_of_one_row_are_rows(self, model):
        one, two = (certify(model, FRESH, FRESH_Y, groups=groups, **GIVEN) for groups in (None, np.arange(1500)))
        assert (one.threshold, one.observed) == (two.threshold, pytest.approx(two.observed))

    def test_a_refusal_counts_groups(self, model):
        with pytest.raises(CannotCertify, match=r"in 20 groups: .* it takes at least 59 groups with accepted rows"):
            certify(model, FRESH, FRESH_Y, groups=np.arange(1500) % 20, **GIVEN)


def attempts_of(path):
    return json.loads(path.read_text())["attempts"]


class TestAttempts:
    def test_the_same_question_is_one_attempt(self, served, tmp_path):
        first = certify(served, FRESH, FRESH_Y, **GIVEN)
        assert (first.attempt, first.level) == (1, pytest.approx(0.045))
        assert "this was attempt 1 with these rows, tested at level 0.045; the promises of all" in str(first)
        order = np.random.default_rng(0).permutation(1500)
        assert certify(served, FRESH[order], FRESH_Y[order], **GIVEN) == first
        assert len(attempts_of(tmp_path / FILE)) == 1

    def test_other_questions_with_the_rows_have_smaller_levels(self, served, tmp_path):
        given = {"bound": 60.0}
        levels = [0.05 * 0.9, 0.05 * 0.05, 0.05 * 0.1 / 6]
        for target, level in zip((3.0, 4.0, 5.0), levels, strict=True):
            assert certify(served, FRESH, FRESH_Y, target, **given).level == pytest.approx(level)
        assert certify(served, FRESH, FRESH_Y, 4.0, **given).attempt == 2
        with pytest.raises(CannotCertify, match=r"in attempt 4 with these rows, tested at level 0\.000417"):
            certify(served, FRESH, FRESH_Y, 0.3, **given)
        assert [each["result"] for each in attempts_of(tmp_path / FILE)] == [*["certified"] * 3, "refused"]

    def test_some_of_the_rows_or_changed_features_are_the_same_rows(self, served):
        certify(served, FRESH, FRESH_Y, **GIVEN)
        assert certify(served, FRESH[:1400], FRESH_Y[:1400], **GIVEN).attempt == 2
        assert certify(served, FRESH[700:], FRESH_Y[700:], **GIVEN).attempt == 3
        assert certify(served, FRESH + 0.001, FRESH_Y, **GIVEN).attempt == 4

    def test_other_rows_are_other_attempts(self, served):
        certify(served, FRESH[:700], FRESH_Y[:700], **GIVEN)
        assert certify(served, FRESH[700:], FRESH_Y[700:], **GIVEN).attempt == 1
        assert certify(served, *noisy_rows(800, seed=9), **GIVEN).attempt == 1

    def test_models_in_one_folder_share_the_count(self, served, tmp_path):
        certify(served, FRESH, FRESH_Y, **GIVEN)
        recuse.save(fitted(rows=(X[:150, :1], Y[:150])), tmp_path / "other.recuse")
        other = pickle.loads(pickle.dumps(recuse.load(tmp_path / "other.recuse")))
        assert certify(other, FRESH[:, :1], FRESH_Y, target=10.0, bound=60.0).attempt == 2

    def test_estimators_in_memory_count_in_a_file_that_is_given(self, model, tmp_path):
        for number in (1, 2):
            result = certify(model, FRESH, FRESH_Y, 3.0 + number, bound=60.0, attempts=tmp_path / "mine.json")
            assert result.attempt == number

    def test_estimators_in_memory_share_the_count_of_their_process(self):
        rows = noisy_rows(1500, seed=77)
        first, second = (fitted(rows=noisy_rows(300, seed=seed)) for seed in (5, 6))
        one, two = certify(first, *rows, **GIVEN), certify(second, *rows, **GIVEN)
        assert (one.attempt, one.level) == (1, 0.05)
        assert (two.attempt, two.level) == (2, 0.05)
        assert "this was attempt 2 with these rows, tested at level 0.05; the promises of all" in str(two)
        assert str(two).endswith("attempts with them so far hold together with confidence 0.9.")
        assert certify(first, *rows, **GIVEN) == one

    def test_targets_of_few_values_tell_sets_of_rows_apart_together(self):
        X, y = noisy_rows(1500, seed=78)
        given = {"target": 20.0, "bound": 200.0}
        for number, columns in enumerate(([0], [1]), start=1):  # models that have no column in common
            known, target = noisy_rows(300, seed=5)
            model = fitted(rows=(known[:, columns], np.round(target)))
            assert certify(model, X[:, columns], np.round(y), **given).attempt == number

    def test_rows_that_are_refused_are_no_attempt(self, served, tmp_path):
        with pytest.raises(ValueError, match="equal training rows"):
            certify(served, X, Y, **GIVEN)
        with pytest.raises(ValueError, match="bound must be a finite number"):
            certify(served, FRESH, FRESH_Y, 3.0)
        assert certify(served, FRESH, FRESH_Y, **GIVEN).attempt == 1

    def test_the_file_has_no_cells(self, served, tmp_path):
        certify(served, FRESH, FRESH_Y, **GIVEN)
        text = (tmp_path / FILE).read_text()
        assert len(text) < 10_000
        for number in (FRESH_Y[0], FRESH[0, 0]):
            assert f"{abs(number):.5f}" not in text
        assert sorted(path.name for path in tmp_path.iterdir()) == [FILE, "model.recuse"]

    @pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
    def test_a_file_that_cannot_be_written_is_an_error(self, served, tmp_path):
        (tmp_path / FILE).mkdir()
        with pytest.raises(OSError, match=r"attempts to certify are counted in .* which cannot be written"):
            certify(served, FRESH, FRESH_Y, **GIVEN)

    @pytest.mark.parametrize("content", ["", "[]", '{"format": 1}', '{"format": 1, "key": "00", "rows": 3}', "\0" * 50])
    def test_a_damaged_file_is_an_error(self, served, tmp_path, content):
        (tmp_path / FILE).write_text(content)
        with pytest.raises(ValueError, match=r"must be a file of attempts to certify, and cannot be read as one"):
            certify(served, FRESH, FRESH_Y, **GIVEN)
        assert (tmp_path / FILE).read_text() == content


def test_misuse_seldom_ends_in_a_false_certificate(tmp_path, monkeypatch):
    monkeypatch.setattr(runs, "TRIES", 6)
    false = {kind: int(runs.misuse(kind, 2, tmp_path).sum()) for kind in runs.MISUSES}
    assert sum(false.values()) <= 1, false
