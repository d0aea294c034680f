"""Training with Lightning: Slow-Start, the best epoch, restarts, several processes, and global state."""

import contextlib
import inspect
import os
import random
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

pytest.importorskip("lightning")

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger

import image_runs
from image_runs import COST, IMAGES, NEW, NEW_Y, Y, make, random_layers
from recuse.images.batches import GlobalBatches
from recuse.images.training import check_trainer_options

HELD_OUT = {"validation": (NEW, NEW_Y)}


def weights(model):
    return model.network_.state_dict()


def equal(one, other):
    return all(torch.equal(value, weights(other)[name]) for name, value in weights(one).items())


class TestGlobalBatches:
    @pytest.mark.parametrize("world_size", [1, 2, 3])
    @pytest.mark.parametrize("parts", [1, 2])
    def test_processes_together_see_each_row_once_in_the_batches_of_one_process(self, world_size, parts):
        options = {"batch_size": 8, "seed": 5}
        alone = list(GlobalBatches(45, **options))
        ranks = [
            list(GlobalBatches(45, **options, parts=parts, rank=rank, world_size=world_size))
            for rank in range(world_size)
        ]
        assert len({len(batches) for batches in ranks}) == 1  # or one process would wait for another
        assert all(batch for batches in ranks for batch in batches)
        for step, batch in enumerate(alone):
            dealt = [key for batches in ranks for part in batches[step * parts : (step + 1) * parts] for key in part]
            assert sorted(dealt) == sorted(batch)
        assert sorted(row for batch in alone for _, row in batch) == list(range(45))

    def test_no_batch_is_a_remainder(self):
        assert {len(batch) for batch in GlobalBatches(33, 16)} == {11}
        assert len(GlobalBatches(33, 16)) == 3

    def test_the_order_is_a_function_of_seed_and_epoch(self):
        def order(seed, epoch):
            batches = GlobalBatches(30, 30, seed=seed)
            batches.set_epoch(epoch)
            return [row for _, row in next(iter(batches))]

        assert order(0, 1) == order(0, 1)
        assert order(0, 1) != order(0, 2)
        assert order(0, 1) != order(1, 1)

    def test_a_batch_too_small_for_the_processes_is_refused(self):
        with pytest.raises(ValueError, match=r"at least one row for each of 3 .*, got 5 rows in batches of 2$"):
            GlobalBatches(5, 2, world_size=3)


def test_slow_start_trains_the_regressor_alone_on_squared_error():
    """Until it ends, weights of the rejector and the results of the regressor do not depend on cost and surrogate."""
    frozen = make(epochs=2, slow_start=1, learning_rate=1e-9).fit(IMAGES, Y)
    short = make(epochs=2, slow_start=1).fit(IMAGES, Y)
    for name, value in weights(frozen).items():
        if name.startswith("regressor_head"):
            assert not torch.allclose(weights(short)[name], value, atol=1e-6)
    one, other = (make(cost=cost, surrogate=name, slow_start=2, epochs=4) for cost, name in ((9, "mae"), (1, "hinge")))
    columns = ["train/loss", "val/always_accept"]
    histories = [model.fit(IMAGES, Y).history_[columns].head(2) for model in (one, other)]
    assert histories[0].equals(histories[1])


def test_slow_start_leaves_the_rejector_as_it_was(tmp_path):
    with pytest.raises(RuntimeError, match="enough"):
        make(epochs=6, slow_start=3, checkpoint_dir=tmp_path, augment=_fails_after(48 * 3)).fit(IMAGES, Y)
    state = torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]
    first = weights(make(epochs=2, slow_start=0, learning_rate=1e-12).fit(IMAGES, Y))
    for name, value in first.items():
        moved = not torch.allclose(state[f"network.{name}"], value, atol=1e-6)
        assert moved == (not name.startswith("rejector")), name


def _fails_after(limit):
    seen = []

    def augment(image, random):
        seen.append(1)
        if len(seen) > limit:
            raise RuntimeError("enough")
        return image

    return augment


@pytest.mark.parametrize(("schedule", "factor"), [("constant", 1.0), ("cosine", 0.75)])
def test_the_learning_rate_is_a_function_of_the_epoch(schedule, factor, tmp_path):
    with pytest.raises(RuntimeError, match="enough"):
        make(schedule=schedule, checkpoint_dir=tmp_path, augment=_fails_after(48 * 2)).fit(IMAGES, Y)
    (optimizer,) = torch.load(tmp_path / "last.ckpt", weights_only=True)["optimizer_states"]
    assert optimizer["param_groups"][0]["lr"] == pytest.approx(0.01 * factor)  # of the second of three epochs


def test_the_folder_holds_checkpoints_and_the_history(tmp_path):
    model = make(checkpoint_dir=tmp_path).fit(IMAGES, Y)
    names = {"best.ckpt", "last.ckpt", "history.csv", "settings.json"}
    assert {path.name for path in tmp_path.iterdir()} == names
    written = pd.read_csv(tmp_path / "history.csv")
    pd.testing.assert_frame_equal(written, model.history_, check_dtype=False)
    assert list(written.columns[:2]) == ["epoch", "train/loss"]


def test_accumulated_gradients_give_the_same_training():
    one, other = (make(trainer={"accelerator": "cpu", "accumulate_grad_batches": k}).fit(IMAGES, Y) for k in (1, 3))
    assert one.validation_loss_ == pytest.approx(other.validation_loss_, rel=1e-4)


class TestEarlyStopping:
    def test_it_waits_for_slow_start(self):
        model = make(epochs=12, slow_start=4, early_stopping=2, learning_rate=1e-12).fit(IMAGES, Y)
        assert len(model.history_) == 7  # four of Slow-Start, one that is the best, two without improvement

    def test_a_training_that_had_stopped_stays_so_unless_the_patience_is_longer(self, tmp_path):
        settings = {"epochs": 9, "learning_rate": 1e-12, "checkpoint_dir": tmp_path}
        assert [len(make(early_stopping=k, **settings).fit(IMAGES, Y).history_) for k in (2, 2, 4)] == [4, 4, 6]


def _global_state():
    return (
        torch.get_rng_state().tolist(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        random.getstate(),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.benchmark,
        dict(os.environ),
        signal.getsignal(signal.SIGINT),
        warnings.filters[:],
    )


@pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
def test_global_state_is_restored_after_training_and_after_an_interruption(error):
    threads, seen = torch.get_num_threads(), []

    def disturb(image, generator):
        """Draw from every generator and change the number of threads, and then perhaps fail."""
        torch.rand(1), np.random.rand(), random.random()  # noqa: NPY002
        torch.set_num_threads(threads + 1)
        seen.append(1)
        if error is not None and len(seen) == 30:
            raise error
        return image

    before = _global_state()
    with contextlib.nullcontext() if error is None else pytest.raises(error):
        make(epochs=1, augment=disturb, trainer={"accelerator": "cpu", "deterministic": True}).fit(IMAGES, Y)
    assert _global_state() == before


def test_a_logger_of_the_user_gets_the_measures(tmp_path):
    logger = CSVLogger(tmp_path, name="", version="")
    model = make(trainer={"accelerator": "cpu", "logger": logger}).fit(IMAGES, Y)
    logged = pd.read_csv(tmp_path / "metrics.csv")["val/always_accept"].dropna()
    assert logged.tolist() == pytest.approx(model.history_["val/always_accept"].tolist())


def test_every_argument_of_the_trainer_is_accepted_or_refused():
    accepted = {"accelerator": "cpu", "strategy": "auto", "devices": 1, "num_nodes": 1, "precision": 32}
    accepted |= {"logger": False, "accumulate_grad_batches": 2, "gradient_clip_val": 1.0, "sync_batchnorm": False}
    accepted |= {"gradient_clip_algorithm": "norm", "deterministic": True, "benchmark": False, "profiler": None}
    accepted |= {"detect_anomaly": False, "plugins": None, "default_root_dir": ".", "log_every_n_steps": 3}
    check_trainer_options(accepted)
    for name in set(inspect.signature(Trainer).parameters) - set(accepted):
        with pytest.raises(ValueError, match=rf"^trainer must contain only .*, got '{name}': "):
            check_trainer_options({name: 1})


def test_a_training_that_diverges_is_an_error():
    def broken(channels):
        body, width = image_runs.tiny(channels)
        nn.init.constant_(body[2].bias, torch.nan)
        return body, width

    with pytest.raises(RuntimeError, match=r"finite validation loss after Slow-Start, got none in 3 epochs"):
        make(backbone=broken).fit(IMAGES, Y)


def test_random_layers_and_rows_depend_on_the_seed_alone():
    def fit(seed):
        return make(backbone=random_layers, random_state=seed).fit(image_runs.NoisyRows(), **HELD_OUT)

    torch.manual_seed(5)
    one = fit(1)
    torch.manual_seed(6)
    assert equal(one, fit(1))
    assert not equal(one, fit(2))


@pytest.mark.slow
def test_a_fit_killed_in_the_middle_of_an_epoch_ends_like_one_that_was_not(tmp_path):
    """The process dies by SIGKILL, between two batches of its fourth epoch."""
    code = f"import image_runs; image_runs.killed({str(tmp_path)!r}, dies_in_epoch=3)"
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    killed = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert len((tmp_path / "history.csv").read_text().splitlines()) == 1 + 3
    again, whole = image_runs.killed(tmp_path), image_runs.killed(None)
    assert again.history_.equals(whole.history_)
    assert equal(again, whole)


@pytest.mark.slow
def test_two_processes_end_like_one_with_the_same_global_batch(tmp_path):
    """Rows that two cannot share evenly, in training and in validation."""
    rows = {"cost": COST[:37], "validation": (NEW[:13], NEW_Y[:13], COST[:13])}
    one = make(batch_size=9).fit(IMAGES[:37], Y[:37], **rows)
    hardware = {"accelerator": "cpu", "devices": 2, "strategy": "ddp_spawn"}
    two = make(batch_size=9, trainer=hardware, checkpoint_dir=tmp_path).fit(IMAGES[:37], Y[:37], **rows)
    pd.testing.assert_frame_equal(one.history_, two.history_, rtol=1e-3)
    assert two.best_epoch_ == one.best_epoch_
    np.testing.assert_allclose(one.predict(NEW), two.predict(NEW), rtol=1e-3, atol=1e-3)
    # Each row counts once: with one of the thirteen twice the mean would be another.
    assert two.history_["val/always_reject"].iloc[-1] == pytest.approx(COST[:13].mean(), rel=1e-6)
