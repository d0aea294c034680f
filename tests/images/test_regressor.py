"""RcRImageRegressor: forms of input, restarts, threads and errors."""

import pickle
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nn
from torch.utils.data import Dataset, TensorDataset

pytest.importorskip("lightning")

from image_runs import COST, IMAGES, NEW, NEW_Y, Y, make, noisy_images, tiny
from recuse import surrogates
from recuse.images import RcRImageRegressor, small_cnn
from recuse.surrogates import losses as registry


def same(one, other):
    np.testing.assert_allclose(one.predict(NEW), other.predict(NEW), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(one.decision_function(NEW), other.decision_function(NEW), rtol=1e-4, atol=1e-5)


class Rows(Dataset):
    """A Dataset of rows without further attributes."""

    def __init__(self, *columns):
        self.columns = columns

    def __len__(self):
        return len(self.columns[0])

    def __getitem__(self, row):
        return tuple(column[row] for column in self.columns)


class TestLearning:
    def test_it_rejects_where_the_target_is_noisy(self):
        images, y = noisy_images(400, seed=3)
        model = make(cost=1.0, epochs=30, slow_start=10, batch_size=32).fit(images, y)
        measures = model.evaluate(NEW, NEW_Y)
        assert measures["rcr_loss"] < 0.8 * min(measures["always_accept"], measures["always_reject"])
        doubtful = NEW[:, 1].mean(axis=(1, 2)) > 40 + 175 / 2
        assert np.mean(model.decide(NEW).accepted == ~doubtful) > 0.85

    def test_the_built_in_backbone_learns(self):
        model = make(backbone=None, epochs=6).fit(IMAGES, Y)
        history = model.history_["val/always_accept"]
        assert history.iloc[-1] < history.iloc[0]

    def test_validation_chooses_the_epoch(self):
        model = make(cost=1.0, epochs=8, slow_start=3).fit((IMAGES, Y), validation=(NEW, NEW_Y))
        losses = model.history_["val/rcr_loss"]
        assert np.isinf(losses[:3]).all()
        assert model.best_epoch_ == losses.argmin()
        assert model.evaluate((NEW, NEW_Y))["rcr_loss"] == pytest.approx(model.validation_loss_, rel=1e-4)
        assert model.validation_loss_ == losses.min()

    def test_it_knows_the_shape_of_the_training_images(self):
        model = make(epochs=1, augment=lambda image, random: image[:, 1:, :6]).fit(IMAGES[:, :, :, :6], Y)
        assert model.image_shape_ == (2, 8, 6)
        assert model.n_channels_ == 2

    def test_units_of_the_target_do_not_matter(self):
        one, other = make(cost=1.0).fit(IMAGES, Y), make(cost=100.0).fit(IMAGES, 10 * Y + 7)
        np.testing.assert_allclose(other.predict(NEW), 10 * one.predict(NEW) + 7, rtol=1e-3, atol=0.05)
        assert other.validation_loss_ == pytest.approx(100 * one.validation_loss_, rel=1e-2)

    def test_slow_start_takes_at_most_half_of_the_epochs(self):
        assert np.isinf(make(epochs=4, slow_start=40).fit(IMAGES, Y).history_["val/rcr_loss"]).sum() == 2


class TestForms:
    def test_all_forms_of_the_same_rows_give_the_same_model(self):
        model = make().fit(IMAGES, Y)
        floats = IMAGES.astype(np.float32) / 127.5 - 1
        for data in ((IMAGES, Y), (torch.from_numpy(floats), torch.from_numpy(Y)), Rows(IMAGES, Y)):
            same(make().fit(data), model)
        same(make(num_workers=1).fit(IMAGES, Y[:, None]), model)

    def test_new_rows_may_come_from_a_dataset_too(self):
        model = make().fit(IMAGES, Y)
        np.testing.assert_array_equal(model.predict(Rows(NEW, NEW_Y)), model.predict(NEW))
        assert model.evaluate(Rows(NEW, NEW_Y)) == pytest.approx(model.evaluate(NEW, NEW_Y), nan_ok=True)

    def test_a_dataset_with_an_attribute_y_is_not_read_for_its_targets(self):
        class WithTargets(Rows):
            def __init__(self, *columns):
                super().__init__(*columns)
                self.y, self.reads = columns[1], 0

            def __getitem__(self, row):
                self.reads += 1
                return super().__getitem__(row)

        rows, held_out = WithTargets(IMAGES, Y), WithTargets(NEW, NEW_Y)
        make(epochs=2).fit(rows, validation=held_out)
        assert rows.reads <= 2 * len(rows) + 2

    def test_a_decision_agrees_with_its_parts(self):
        model = make(cost=2.0).fit(IMAGES, Y)
        decision = model.decide(NEW)
        np.testing.assert_array_equal(decision.prediction, model.predict(NEW))
        np.testing.assert_array_equal(decision.score, model.decision_function(NEW))
        np.testing.assert_array_equal(decision.accepted, decision.score > 0)
        assert (decision.cost == 2).all()
        assert decision.evaluate(NEW_Y) == pytest.approx(model.evaluate(NEW, NEW_Y), nan_ok=True)

    def test_backbones_come_in_several_forms(self):
        for backbone in (partial(small_cnn, norm="group"), lambda channels: tiny(channels)):
            assert make(backbone=backbone, epochs=2).fit(IMAGES, Y).predict(NEW).shape == (40,)


class TestCosts:
    def test_costs_of_the_rows_are_seen_by_the_rejector(self):
        model = make(epochs=20, slow_start=5).fit(IMAGES, Y, cost=COST, validation=(NEW, NEW_Y, np.full(40, 1.0)))
        cheap, dear = model.decide(NEW, cost=0.2), model.decide(NEW, cost=5.0)
        assert cheap.rejection_rate > dear.rejection_rate
        np.testing.assert_array_equal(cheap.prediction, dear.prediction)
        assert model.serves_any_cost
        with pytest.raises(ValueError, match=r"new rows need theirs: pass cost="):
            model.decide(NEW)

    def test_costs_may_come_with_the_rows(self):
        model = make().fit(IMAGES, Y, cost=COST)
        for data in ((IMAGES, Y, COST), Rows(IMAGES, Y, COST)):
            other = make().fit(data)
            np.testing.assert_allclose(other.decide(NEW, 1.0).score, model.decide(NEW, 1.0).score, rtol=1e-4)
            assert other.serves_any_cost

    def test_a_callable_gets_the_images(self):
        model = make(cost=lambda images: np.asarray(images)[:, 0].mean(axis=(1, 2)) / 100).fit(IMAGES, Y)
        np.testing.assert_allclose(model.decide(NEW).cost, NEW[:, 0].mean(axis=(1, 2)) / 100)

    def test_a_constant_cost_serves_no_other(self):
        with pytest.raises(ValueError, match=r"was fitted for cost 1\.0 and cannot decide at cost 2\.0"):
            make().fit(IMAGES, Y).decide(NEW, cost=2.0)

    def test_costs_of_training_rows_are_none_of_validation_rows(self):
        with pytest.raises(ValueError, match=r"^in validation: cost is missing"):
            make().fit(IMAGES, Y, cost=COST, validation=(NEW, NEW_Y))


class TestRestarts:
    def test_the_same_random_state_gives_the_same_model_and_another_another(self):
        same(make().fit(IMAGES, Y), make().fit(IMAGES, Y))
        assert not np.allclose(make().fit(IMAGES, Y).predict(NEW), make(random_state=1).fit(IMAGES, Y).predict(NEW))

    @pytest.mark.parametrize("schedule", ["constant", "cosine"])
    def test_an_interrupted_fit_resumes(self, schedule, tmp_path):
        class Interrupted(Exception):
            pass

        def stop_at(limit):
            seen = []

            def flip(image, random):
                seen.append(1)
                if len(seen) > limit:
                    raise Interrupted
                return image.flip(-1) if random.random() < 0.5 else image

            return flip

        whole = make(augment=stop_at(10**6), schedule=schedule).fit(IMAGES, Y)
        model = make(augment=stop_at(48 * 2 + 20), schedule=schedule, checkpoint_dir=tmp_path)
        with pytest.raises(Interrupted):
            model.fit(IMAGES, Y)
        with pytest.raises(NotFittedError):
            model.predict(NEW)
        rest = stop_at(48 * 2)  # no epoch twice
        again = make(augment=rest, schedule=schedule, checkpoint_dir=tmp_path).fit(IMAGES, Y)
        np.testing.assert_array_equal(again.predict(NEW), whole.predict(NEW))
        np.testing.assert_array_equal(again.decision_function(NEW), whole.decision_function(NEW))
        assert again.history_.equals(whole.history_)

    def test_a_finished_run_is_not_repeated(self, tmp_path):
        def untouched(image, random):
            raise AssertionError("an image was read again")

        model = make(checkpoint_dir=tmp_path).fit(IMAGES, Y)
        same(make(checkpoint_dir=tmp_path, augment=untouched).fit(IMAGES, Y), model)

    def test_a_folder_belongs_to_its_settings(self, tmp_path):
        make(checkpoint_dir=tmp_path).fit(IMAGES, Y)
        half = {"accelerator": "cpu", "precision": "bf16-mixed"}
        changed = (({"learning_rate": 0.1}, "learning_rate 0.01"), ({"random_state": 1}, "seed"))
        for parameters, name in (*changed, ({"trainer": half}, "precision None")):
            with pytest.raises(ValueError, match=rf"^checkpoint_dir must hold a run of the same settings, got {name}"):
                make(checkpoint_dir=tmp_path, **parameters).fit(IMAGES, Y)
        with pytest.raises(ValueError, match=r"got targets \d+ in .* choose another folder, or delete this one"):
            make(checkpoint_dir=tmp_path).fit(IMAGES, Y + 1)

    def test_a_run_without_a_random_state_keeps_the_one_it_drew(self, tmp_path):
        held_out = {"validation": (NEW, NEW_Y)}
        one = make(random_state=None, checkpoint_dir=tmp_path, epochs=4, slow_start=1).fit(IMAGES, Y, **held_out)
        other = make(random_state=None, checkpoint_dir=tmp_path, epochs=6, slow_start=1).fit(IMAGES, Y, **held_out)
        assert other.history_.head(4).equals(one.history_)
        assert len(other.history_) == 6

    def test_the_keyboard_still_interrupts(self):
        def interrupt(image, random):
            raise KeyboardInterrupt

        before = signal.getsignal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            make(augment=interrupt).fit(IMAGES, Y)
        assert signal.getsignal(signal.SIGINT) is before


class TestAugmentation:
    def test_it_depends_on_seed_epoch_and_row_alone_and_spares_validation(self):
        drawn = {}

        def note(image, random):
            drawn.setdefault(image.numpy().tobytes(), []).append(random.random())
            return image

        make(augment=note, epochs=3).fit(IMAGES, Y, validation=(NEW, NEW_Y))
        first, drawn = drawn, {}
        make(augment=note, epochs=3, batch_size=7).fit(IMAGES, Y, validation=(NEW, NEW_Y))
        assert first == drawn
        assert len(first) == len(Y)
        assert all(len(set(draws)) == 3 for draws in first.values())

    def test_the_epoch_of_a_dataset_is_set(self):
        epochs = []

        class WithEpoch(Rows):
            def set_epoch(self, epoch):
                epochs.append(epoch)

        make(epochs=3).fit(
            WithEpoch(IMAGES, Y), validation=TensorDataset(torch.from_numpy(NEW), torch.from_numpy(NEW_Y))
        )
        assert sorted(set(epochs)) == [0, 1, 2]


class TestValue:
    """A fitted model is a value."""

    def test_threads_get_the_bits_that_one_thread_gets(self):
        model = make(backbone=small_cnn).fit(IMAGES, Y, cost=COST)
        parts = [NEW[row : row + 5] for row in range(0, 40, 5)]
        serial = [model.decide(part, 1.0) for part in parts]

        def ask(thread):
            return [(call % 8, model.decide(parts[call % 8], 1.0)) for call in range(thread, thread + 50)]

        with ThreadPoolExecutor(8) as pool:
            for part, decision in (answer for answers in pool.map(ask, range(8)) for answer in answers):
                assert (decision.prediction == serial[part].prediction).all()
                assert (decision.score == serial[part].score).all()

    def test_predictions_change_nothing_in_the_model(self):
        model = make(backbone=small_cnn).fit(IMAGES, Y)
        network, before = model.network_, pickle.dumps(model)
        model.predict(NEW), model.decision_function(NEW), model.decide(NEW), model.evaluate(NEW, NEW_Y)
        assert model.network_ is network
        assert not any(part.training for part in network.modules())
        assert pickle.dumps(model) == before

    def test_the_network_stays_on_its_device(self):
        model = make().fit(IMAGES, Y)
        assert {parameter.device for parameter in model.network_.parameters()} == {model.device_}

    def test_a_model_trained_on_a_device_that_is_missing_here_runs_on_the_cpu(self):
        if torch.cuda.is_available():
            pytest.skip("this machine has CUDA")
        model = make().fit(IMAGES, Y)
        state = {**model.__getstate__(), "device_": torch.device("cuda", 1)}  # as it was pickled elsewhere
        loaded = RcRImageRegressor()
        loaded.__setstate__(state)
        assert loaded.device_ == torch.device("cpu")
        np.testing.assert_array_equal(loaded.predict(NEW), model.predict(NEW))

    def test_results_are_double_precision_arrays_of_single_precision_numbers(self):
        decision = make().fit(IMAGES, Y).decide(NEW)
        assert decision.prediction.dtype == decision.score.dtype == np.float64
        np.testing.assert_array_equal(decision.score, decision.score.astype(np.float32))

    def test_any_precision_of_training_predicts_in_single_precision(self):
        model = make(trainer={"accelerator": "cpu", "precision": "bf16-true"}).fit(IMAGES, Y)
        assert {parameter.dtype for parameter in model.network_.parameters()} == {torch.float32}
        assert np.isfinite(model.predict(NEW)).all()

    def test_a_missing_accelerator_is_one_error_before_training(self, tmp_path):
        if torch.cuda.is_available():
            pytest.skip("this machine has CUDA")
        model = make(trainer={"accelerator": "cuda"}, checkpoint_dir=tmp_path / "run")
        with pytest.raises(ValueError, match=r"^trainer must contain valid arguments .*CUDAAccelerator"):
            model.fit(IMAGES, Y)
        assert not (tmp_path / "run").exists()


class TestObject:
    def test_it_pickles_and_clones(self):
        model = make().fit(IMAGES, Y)
        same(pickle.loads(pickle.dumps(model)), model)
        assert clone(model).get_params() == model.get_params()

    def test_a_registered_surrogate_accompanies_the_pickle(self, monkeypatch):
        monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
        surrogates.register("image_hinge", surrogates.get("hinge"), overwrite=True)
        state = make(surrogate="image_hinge", epochs=2).fit(IMAGES, Y).__getstate__()
        assert list(state["_surrogates"]) == ["image_hinge"]

    def test_half_precision_and_accumulation_train(self):
        trainer = {"accelerator": "cpu", "precision": "bf16-mixed", "accumulate_grad_batches": 2}
        model = make(trainer=trainer, early_stopping=1).fit(IMAGES, Y)
        assert np.isfinite(model.predict(NEW)).all()

    def test_nothing_is_printed_unless_verbose(self, capfd):
        make().fit(IMAGES, Y)
        assert capfd.readouterr() == ("", "")

    def test_progress_is_shown_if_verbose(self, capfd):
        make(verbose=True, epochs=2).fit(IMAGES, Y)
        assert "Epoch 1" in capfd.readouterr().out


class TestErrors:
    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"epochs": 0}, r"^epochs must be an int >= 1, got 0$"),
            ({"slow_start": -1}, r"^slow_start must be an int >= 0, got -1$"),
            ({"learning_rate": 0.0}, r"^learning_rate must be > 0 and finite, got 0\.0$"),
            ({"validation_fraction": 1.0}, r"^validation_fraction must be between 0 and 1, got 1\.0$"),
            ({"backbone": "vgg"}, r"^backbone must be None, 'resnet50' or a callable .*, got 'vgg'$"),
            ({"early_stopping": 0}, r"^early_stopping must be an int >= 1 or None, got 0$"),
            ({"cost": -1.0}, r"^cost must be >= 0, got -1\.0 at row 0$"),
            ({"cost": "price"}, r"names a column, so X must be a DataFrame"),
            ({"trainer": {"devices": 2}, "random_state": None}, r"^random_state must be an int if several processes"),
            ({"trainer": {"devices": 2}}, r"^checkpoint_dir must be a folder that all processes share, got None$"),
            ({"trainer": {"max_epochs": 9}}, r"^trainer must contain only accel.*, got 'max_epochs': .* as epochs"),
            ({"trainer": {"precison": 16}}, r"^trainer must contain only .* precision, .*, got 'precison'"),
            (
                {"trainer": {"precision": "17"}},
                r"^trainer must contain valid arguments of Lightning's Trainer, got .*17",
            ),
            ({"trainer": {"accelerator": "gpus"}}, r"^trainer must contain valid arguments .*'gpus'"),
        ],
    )
    def test_a_parameter_out_of_range_is_refused_by_fit(self, parameters, message):
        model = make(**parameters)
        with pytest.raises(ValueError, match=message):
            model.fit(IMAGES, Y)
        with pytest.raises(NotFittedError):
            model.predict(IMAGES)

    @pytest.mark.parametrize(
        ("data", "message"),
        [
            ((IMAGES[:, 0], Y), r"^images must have shape \(n, channel, height, width\), got \(60, 8, 8\)$"),
            ((IMAGES.astype(int), Y), r"^images must be uint8 \(0 to 255\) or floats, got torch\.int64$"),
            (
                (np.where(np.arange(60)[:, None, None, None] == 7, np.nan, IMAGES), Y),
                r"^images must be finite, .* in row 7$",
            ),
            ((IMAGES, Y[:3]), r"^y must have one value for each of 60 images, got shape \(3,\)$"),
            ((IMAGES, np.append(Y[1:], np.nan)), r"^y must be finite, got nan at row 59$"),
            ((IMAGES, np.ones(60)), r"^y must not be constant, got 1\.0 in all 48 rows$"),
            ((IMAGES,), r"^data must be \(images, y\) or \(images, y, cost\), got a tuple of 1$"),
            (IMAGES, r"^images need their targets: pass \(images, y\), got y=None$"),
            ((IMAGES[:1], Y[:1]), r"^training needs training rows and validation rows, got 1 in all$"),
            (Rows(IMAGES), r"^a Dataset must return \(image, target\) or \(image, target, cost\), got a tuple of 1$"),
            (Rows([], []), r"^a Dataset of images must have at least one row, got Rows$"),
        ],
    )
    def test_bad_rows_are_refused(self, data, message):
        with pytest.raises(ValueError, match=message):
            make().fit(data)

    def test_bad_validation_rows_are_refused_and_nothing_is_lost(self):
        model = make().fit(IMAGES, Y)
        before = model.predict(NEW)
        with pytest.raises(ValueError, match=r"^in validation: y must have one value for each of 40 images"):
            model.fit(IMAGES, Y, validation=(NEW, Y))
        np.testing.assert_array_equal(model.predict(NEW), before)

    def test_other_channels_than_in_fit_are_refused(self):
        with pytest.raises(ValueError, match=r"^images must have 2 channels, as in fit, got 1$"):
            make().fit(IMAGES, Y).predict(NEW[:, :1])

    def test_a_backbone_of_unknown_size_is_refused(self):
        with pytest.raises(TypeError, match=r"^backbone must return \(module, number of features\), .* got Flatten$"):
            make(backbone=lambda _: nn.Flatten()).fit(IMAGES, Y)


@pytest.mark.slow
def test_resnet50_takes_steps_and_resumes_from_its_checkpoint(tmp_path):
    pytest.importorskip("monai")
    images = np.random.default_rng(0).integers(0, 256, size=(3, 3, 32, 32), dtype=np.uint8)
    rows = {"validation": (images[2:], np.array([2.0]))}
    settings = {"backbone": "resnet50", "slow_start": 0, "batch_size": 2, "checkpoint_dir": tmp_path}
    one = make(epochs=1, **settings).fit(images[:2], np.array([1.0, 3.0]), **rows)
    two = make(epochs=2, **settings).fit(images[:2], np.array([1.0, 3.0]), **rows)
    assert two.history_.head(1).equals(one.history_)
    assert len(two.history_) == 2
    assert two.network_.features == 2048
    assert np.isfinite(two.predict(images[:1])).all()
