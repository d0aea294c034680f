"""Training with Lightning: Slow-Start, the best epoch, restarts and several processes."""

import contextlib
import inspect
import math
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
from torch.utils.data import TensorDataset

import deep_runs

pytest.importorskip("lightning")

from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

from recuse import Decision, metrics
from recuse.deep.lightning import (
    GlobalBatches,
    RejectionData,
    RejectionModule,
    Run,
    SeededRows,
    check_trainer_options,
    train,
)
from recuse.deep.two_heads import TwoHeads

RANDOM = torch.Generator().manual_seed(0)
X = torch.randn(50, 6, generator=RANDOM)
Y = 2 * X[:, 0] + X[:, 1].exp() / 3 * torch.randn(50, generator=RANDOM)
COST = torch.rand(50, generator=RANDOM)
TRAIN, VALIDATION = TensorDataset(X[:36], Y[:36]), TensorDataset(X[36:], Y[36:])


def network(**options):
    torch.manual_seed(1)
    body = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2))
    return TwoHeads(body, 8, rejector_hidden=(4,), **options)


def data(**options):
    return RejectionData(TRAIN, VALIDATION, **{"batch_size": 8, "seed": 3, **options})


def run(module=None, rows=None, trainer=None, **options):
    module = module or RejectionModule(network(), cost=0.5, slow_start=2, learning_rate=1e-2)
    settings = {"epochs": 5, "seed": 1, "trainer": {"accelerator": "cpu", **(trainer or {})}, **options}
    return module, train(module, rows or data(), Run(**settings))


def plain_trainer(**options):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "log_every_n_steps": 1}
    return Trainer(
        accelerator="cpu", use_distributed_sampler=False, **{**quiet, "enable_checkpointing": False, **options}
    )


# between Lightning 2.6 and torch 2.13; and advice on the number of workers
in_plain_lightning = pytest.mark.filterwarnings("ignore:.*LeafSpec", "ignore:.*does not have many workers")


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


class Watch(Callback):
    """Records all weights, buffers and moments at the end of each epoch."""

    def __init__(self):
        self.states, self.moments = [], []

    def on_train_epoch_end(self, trainer, pl_module):
        self.states.append({name: value.clone() for name, value in pl_module.network.state_dict().items()})
        self.moments.append(len(trainer.optimizers[0].state))


class TestGlobalBatches:
    @pytest.mark.parametrize("world_size", [1, 2, 3])
    @pytest.mark.parametrize("parts", [1, 2])
    def test_processes_together_see_each_row_once_in_the_batches_of_one_process(self, world_size, parts):
        options = {"batch_size": 8, "shuffle": True, "seed": 5}
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
            batches = GlobalBatches(30, 30, shuffle=True, seed=seed)
            batches.set_epoch(epoch)
            return [row for _, row in next(iter(batches))]

        assert order(0, 1) == order(0, 1)
        assert order(0, 1) != order(0, 2)
        assert order(0, 1) != order(1, 1)

    def test_a_batch_too_small_for_the_processes_is_refused(self):
        with pytest.raises(ValueError, match=r"at least one row for each of 3 .*, got 5 rows in batches of 2$"):
            GlobalBatches(5, 2, world_size=3)


class TestSeededRows:
    def test_chance_depends_on_seed_epoch_and_row_alone(self):
        class Noisy(torch.utils.data.Dataset):
            def __len__(self):
                return 9

            def __getitem__(self, row):
                return torch.rand(1), float(row)

        rows = SeededRows(Noisy(), seed=4)
        before = torch.get_rng_state()
        together = rows[[(2, 0), (2, 1), (2, 2)]][0]
        assert torch.equal(together[1:], rows[[(2, 1), (2, 2)]][0])
        assert not torch.equal(together, rows[[(3, 0), (3, 1), (3, 2)]][0])
        assert len(set(together.flatten().tolist())) == 3
        assert torch.equal(torch.get_rng_state(), before)

    def test_workers_give_what_one_process_gives(self):
        one, several = (list(data(num_workers=n, batch_size=18).train_dataloader()) for n in (0, 2))
        assert all(torch.equal(a, b) for x, y in zip(one, several, strict=True) for a, b in zip(x, y, strict=True))


@in_plain_lightning
class TestSlowStart:
    @pytest.mark.parametrize("shared", [True, False])
    def test_the_rejector_stays_as_it_was_and_then_learns(self, shared):
        watch = Watch()
        module = RejectionModule(network(shared=shared), cost=0.5, slow_start=2, weight_decay=0.1)
        before = {name: value.clone() for name, value in module.network.state_dict().items()}
        plain_trainer(max_epochs=3, callbacks=[watch]).fit(module, datamodule=data())
        for name, start in before.items():
            first, second, joint = (torch.equal(start, state[name]) for state in watch.states)
            if name.startswith("rejector"):  # weights, and the running means of a backbone of its own
                assert first, name
                assert second, name
            else:
                assert not first, name
            assert not joint, name
        alone, together = watch.moments[1], watch.moments[2]
        assert alone == len(list(module.network.regressor_parameters()))
        assert together == len(list(module.network.parameters()))

    def test_it_is_plain_training_on_squared_error(self):
        module = RejectionModule(network(), cost=0.5, slow_start=9, learning_rate=1e-2)
        torch.manual_seed(7)
        plain_trainer(max_epochs=2).fit(module, datamodule=data())

        by_hand, rows = network(), data()
        optimizer, loader = torch.optim.Adam(by_hand.parameters(), lr=1e-2), rows.train_dataloader()
        torch.manual_seed(7)
        for epoch in range(2):
            loader.sampler.set_epoch(epoch)
            for x, y in loader:
                optimizer.zero_grad()
                nn.functional.mse_loss(by_hand.regress(x), y).backward()
                optimizer.step()
        for name, value in by_hand.state_dict().items():
            torch.testing.assert_close(module.network.state_dict()[name], value)

    def test_its_epochs_cannot_be_the_best(self):
        checkpoint = ModelCheckpoint(monitor="val/rcr_loss", save_top_k=0)
        module = RejectionModule(network(), cost=1e-6, slow_start=3)
        trainer = plain_trainer(max_epochs=3, callbacks=[checkpoint], enable_checkpointing=True)
        trainer.fit(module, datamodule=data())
        assert math.isinf(trainer.callback_metrics["val/rcr_loss"])
        assert math.isfinite(trainer.callback_metrics["val/always_accept"])
        assert math.isfinite(trainer.validate(module, datamodule=data(), verbose=False)[0]["val/rcr_loss"])


@in_plain_lightning
class TestModule:
    def test_measures_are_those_of_the_pure_functions(self):
        module = RejectionModule(network(), cost=0.5, target_mean=1.0, target_scale=3.0).eval()
        with torch.no_grad():  # some rows on either side
            module.network.rejector_head[-1].bias -= module(X)[1].median()
        rows = TensorDataset(X, Y, COST)
        measured = plain_trainer().test(module, datamodule=RejectionData(test=rows, batch_size=7), verbose=False)[0]
        with torch.inference_mode():
            h, r = (output.numpy() for output in module.eval()(X))
        expected = metrics.evaluate(Y.numpy(), Decision(h, r > 0, r, COST.numpy()))
        assert {name.removeprefix("test/"): value for name, value in measured.items()} == pytest.approx(
            expected, rel=1e-4
        )

    def test_units_do_not_matter(self):
        """A target in other units, with the cost in their square, gives the same decisions."""
        one, _ = run(RejectionModule(network(), cost=0.5, slow_start=1), epochs=3)
        scaled = [TensorDataset(part.tensors[0], 10 * part.tensors[1] + 5) for part in (TRAIN, VALIDATION)]
        module = RejectionModule(network(), cost=50.0, slow_start=1, target_mean=5.0, target_scale=10.0)
        other, _ = run(module, RejectionData(*scaled, batch_size=8, seed=3), epochs=3)
        (h, r), (h_other, r_other) = one.eval()(X), other.eval()(X)
        torch.testing.assert_close(10 * h + 5, h_other, rtol=1e-3, atol=0.03)
        torch.testing.assert_close(r, r_other, rtol=1e-3, atol=0.003)

    def test_costs_of_the_rows_take_the_place_of_the_constant(self):
        with_costs = [TensorDataset(*part.tensors, torch.full((len(part),), 0.5)) for part in (TRAIN, VALIDATION)]
        by_row, _ = run(RejectionModule(network(), cost=9.0, slow_start=1), RejectionData(*with_costs, batch_size=8))
        constant, _ = run(RejectionModule(network(), cost=0.5, slow_start=1), data(seed=0))
        assert all(torch.equal(p, q) for p, q in zip(by_row.parameters(), constant.parameters(), strict=True))

    def test_prediction_gives_predictions_and_scores(self):
        module, _ = run()
        loader = torch.utils.data.DataLoader(X, batch_size=20)
        outputs = plain_trainer().predict(module, loader)
        with torch.inference_mode():
            torch.testing.assert_close(torch.cat([h for h, _ in outputs]), module.eval()(X)[0])
        assert torch.cat([r for _, r in outputs]).shape == (50,)

    def test_a_checkpoint_brings_its_settings_back(self, tmp_path):
        module, _ = run(RejectionModule(network(), "logistic", cost=0.5, slow_start=1), folder=tmp_path)
        loaded = RejectionModule.load_from_checkpoint(tmp_path / "best.ckpt", network=network(), weights_only=True)
        assert loaded.loss.surrogate.name == "logistic"
        assert (loaded.slow_start, float(loaded.loss.cost)) == (1, 0.5)
        torch.testing.assert_close(loaded.eval()(X), module.eval()(X))

    def test_rows_that_a_loader_repeats_are_reported(self):
        shares = torch.utils.data.DistributedSampler(VALIDATION, num_replicas=3, rank=0, shuffle=False)  # 14 rows
        loader = torch.utils.data.DataLoader(VALIDATION, sampler=shares)
        with pytest.warns(UserWarning, match=r"^the measures count 1 rows twice, .* use .*RejectionData"):
            plain_trainer().validate(RejectionModule(network()), loader, verbose=False)

    def test_a_network_without_two_heads_is_refused(self):
        with pytest.raises(TypeError, match=r"^network must have a method regress\(\), as TwoHeads has, got Linear$"):
            RejectionModule(nn.Linear(2, 1))

    def test_a_batch_of_another_form_is_refused(self):
        with pytest.raises(ValueError, match=r"^a batch must be \(x, y\) or \(x, y, cost\), got 1 parts$"):
            RejectionModule(network()).validation_step([X], 0)


@in_plain_lightning
class TestSchedule:
    @pytest.mark.parametrize(
        ("schedule", "rates"), [("constant", [1, 1, 1, 1]), ("cosine", [1, 0.853553, 0.5, 0.146447])]
    )
    def test_the_learning_rate_is_a_function_of_the_epoch(self, schedule, rates):
        seen = []

        class Rates(Callback):
            def on_train_epoch_end(self, trainer, pl_module):
                seen.append(trainer.optimizers[0].param_groups[0]["lr"])

        module = RejectionModule(network(), learning_rate=0.01, schedule=schedule, slow_start=1)
        plain_trainer(max_epochs=4, callbacks=[Rates()]).fit(module, datamodule=data())
        assert seen == pytest.approx([0.01 * rate for rate in rates], rel=1e-4)

    def test_an_unknown_one_is_refused(self):
        with pytest.raises(ValueError, match=r"^schedule must be 'constant' or 'cosine', got 'linear'$"):
            RejectionModule(network(), schedule="linear")


class TestRun:
    def test_the_weights_of_the_best_epoch_are_kept(self, tmp_path):
        module, outcome = run(folder=tmp_path, epochs=6)
        losses = [epoch["val/rcr_loss"] for epoch in outcome.history]
        assert losses[:2] == [math.inf, math.inf]
        assert outcome.best_loss == min(losses) == losses[outcome.best_epoch]
        h, r = (output.detach().numpy() for output in module.eval()(X[36:]))
        assert metrics.rcr_loss(Y[36:].numpy(), h, r > 0, 0.5) == pytest.approx(outcome.best_loss, rel=1e-4)

    def test_the_folder_holds_checkpoints_and_the_history(self, tmp_path):
        _, outcome = run(folder=tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {"best.ckpt", "last.ckpt", "history.csv"}
        lines = (tmp_path / "history.csv").read_text().splitlines()
        assert len(lines) == 1 + len(outcome.history) == 6
        assert lines[0].startswith("epoch,train/loss,val/accepted_loss")

    def test_a_resumed_training_ends_like_one_that_was_never_interrupted(self, tmp_path):
        whole, outcome = run(epochs=6)
        run(folder=tmp_path, epochs=3)
        torch.manual_seed(99)
        again, resumed = run(folder=tmp_path, epochs=6)
        assert str(resumed) == str(outcome)
        for name, value in whole.state_dict().items():
            assert torch.equal(value, again.state_dict()[name]), name

    def test_accumulated_gradients_give_the_same_training(self):
        outcomes = []
        for accumulate in (1, 3):
            torch.manual_seed(1)
            plain = TwoHeads(nn.Sequential(nn.Linear(6, 8), nn.ReLU()), 8)
            module = RejectionModule(plain, cost=0.5, slow_start=1)
            outcomes.append(run(module, data(batch_size=12), {"accumulate_grad_batches": accumulate})[1])
        assert outcomes[0].best_loss == pytest.approx(outcomes[1].best_loss, rel=1e-4)

    def test_mixed_precision_trains(self):
        _, outcome = run(trainer={"precision": "bf16-mixed"})
        assert math.isfinite(outcome.best_loss)

    def test_early_stopping_waits_for_slow_start(self):
        module = RejectionModule(network(), cost=0.5, slow_start=4, learning_rate=1e-12)
        _, outcome = run(module, epochs=12, early_stopping=2)
        assert len(outcome.history) == 7  # four of Slow-Start, one that is the best, two without improvement

    def test_a_training_that_had_stopped_early_stays_so(self, tmp_path):
        def settings():
            return RejectionModule(network(), cost=0.5, slow_start=1, learning_rate=1e-12)

        first = run(settings(), epochs=9, early_stopping=2, folder=tmp_path)[1]
        again = run(settings(), epochs=9, early_stopping=2, folder=tmp_path)[1]
        assert len(first.history) == len(again.history) == 4

    @pytest.mark.parametrize("error", [None, RuntimeError, KeyboardInterrupt])
    def test_global_state_is_restored_after_training_and_after_an_interruption(self, error):
        class Disturbing(torch.utils.data.Dataset):
            """Draws from every generator and changes the number of threads, and then may fail."""

            def __len__(self):
                return len(TRAIN)

            def __getitem__(self, row):
                torch.rand(1), np.random.rand(), random.random()  # noqa: NPY002
                torch.set_num_threads(threads + 1)
                if error is not None and row == 30:
                    raise error
                return TRAIN[row]

        threads = torch.get_num_threads()
        module = RejectionModule(network(), slow_start=0)
        before = _global_state()
        interrupted = contextlib.nullcontext() if error is None else pytest.raises(error)
        with interrupted:
            run(module, RejectionData(Disturbing(), VALIDATION), {"deterministic": True}, epochs=1)
        assert _global_state() == before

    def test_a_patience_is_that_of_the_run_that_resumes(self, tmp_path):
        def settings():
            return RejectionModule(network(), cost=0.5, slow_start=1, learning_rate=1e-12)

        assert len(run(settings(), epochs=9, early_stopping=2, folder=tmp_path)[1].history) == 4
        assert len(run(settings(), epochs=9, early_stopping=4, folder=tmp_path)[1].history) == 6

    def test_a_logger_of_the_user_gets_the_measures(self, tmp_path):
        logger = CSVLogger(tmp_path, name="", version="")
        _, outcome = run(trainer={"logger": logger})
        logged = pd.read_csv(tmp_path / "metrics.csv")["val/always_accept"].dropna()
        assert logged.tolist() == pytest.approx([epoch["val/always_accept"] for epoch in outcome.history])

    def test_an_accelerator_that_the_machine_does_not_have_is_refused_before_training(self, tmp_path):
        if torch.cuda.is_available():
            pytest.skip("this machine has CUDA")
        with pytest.raises(ValueError, match=r"^accelerator must be one that this machine has, got 'cuda': use 'auto'"):
            run(trainer={"accelerator": "cuda"}, folder=tmp_path / "run")
        assert not (tmp_path / "run").exists()

    def test_every_argument_of_the_trainer_is_accepted_or_refused_with_a_reason(self):
        accepted = {"accelerator", "strategy", "devices", "num_nodes", "precision", "logger", "log_every_n_steps"}
        accepted |= {"accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm", "sync_batchnorm"}
        accepted |= {"deterministic", "benchmark", "inference_mode", "profiler", "detect_anomaly", "plugins"}
        accepted |= {"default_root_dir", "enable_autolog_hparams", "model_registry"}
        check_trainer_options(dict.fromkeys(accepted, "cpu"))
        for name in set(inspect.signature(Trainer).parameters) - accepted:
            with pytest.raises(ValueError, match=f"^trainer must not contain '{name}': .+"):
                check_trainer_options({name: 1})

    def test_a_training_that_diverges_is_an_error(self):
        module = RejectionModule(network(), cost=0.5, slow_start=0)
        torch.nn.init.constant_(module.network.regressor_head.bias, torch.nan)
        with pytest.raises(RuntimeError, match=r"finite validation loss after Slow-Start, got none in 2 epochs"):
            run(module, epochs=2)

    def test_slow_start_must_end(self):
        with pytest.raises(ValueError, match=r"^slow_start must be less than epochs, got 2 of 2 epochs$"):
            run(epochs=2)

    def test_nothing_is_printed_unless_verbose(self, capfd):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run()
        assert capfd.readouterr() == ("", "")


class TestKill:
    @pytest.mark.slow
    def test_a_run_killed_in_the_middle_of_an_epoch_ends_like_one_that_was_not(self, tmp_path):
        """The process dies by SIGKILL, between two batches of its fourth epoch."""
        code = f"import deep_runs; deep_runs.run({str(tmp_path)!r}, dies_in_epoch=3)"
        path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
        killed = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert len((tmp_path / "history.csv").read_text().splitlines()) == 1 + 3
        again, resumed = deep_runs.run(tmp_path)
        whole, undisturbed = deep_runs.run(None)
        assert str(resumed) == str(undisturbed)
        for name, value in whole.state_dict().items():
            assert torch.equal(value, again.state_dict()[name]), name


class TestProcesses:
    @pytest.mark.slow
    def test_two_processes_end_like_one_with_the_same_global_batch(self, tmp_path):
        """Rows that two cannot share evenly, in training and in validation, with a rejector of its own backbone."""

        def parts():
            torch.manual_seed(1)
            heads = TwoHeads(nn.Sequential(nn.Linear(6, 8), nn.Tanh()), 8, shared=False)
            rows = [TensorDataset(X[part], Y[part], COST[part]) for part in (slice(0, 37), slice(37, 50))]
            return RejectionModule(heads, slow_start=2, learning_rate=1e-2), RejectionData(*rows, batch_size=9, seed=2)

        one, alone = run(*parts())
        two, shared = run(*parts(), {"devices": 2, "strategy": "ddp_spawn"}, folder=tmp_path)
        assert len(alone.history) == len(shared.history) == 5
        for here, there in zip(alone.history, shared.history, strict=True):
            assert there == pytest.approx(here, rel=1e-3, nan_ok=True)
        assert shared.best_epoch == alone.best_epoch
        torch.testing.assert_close(one(X)[0], two(X)[0], rtol=1e-3, atol=1e-3)
        # each row once: thirteen of them, or the mean would be another
        assert shared.history[-1]["val/always_reject"] == pytest.approx(float(COST[37:].mean()), rel=1e-6)
