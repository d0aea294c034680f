"""Context managers that seed a training and restore the process's global state after it."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np
import torch
from lightning.fabric.utilities.warnings import PossibleUserWarning

__all__ = ["seed_all", "seeded", "training_environment"]

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"  # Lightning sets it for deterministic training


@contextmanager
def training_environment(seed: int, *, verbose: bool = False) -> Iterator[None]:
    """Seed a training, and restore global state after it, also after an error or an interruption.

    Restored are the random generators of torch, numpy and Python, torch's number of threads and determinism flags,
    the levels of Lightning's loggers, the warning filters, and the handler of SIGINT.

    Parameters
    ----------
    seed : int
    verbose : bool, default=False
        Keep Lightning's messages.

    Examples
    --------
    >>> before = torch.get_rng_state(), torch.get_num_threads()
    >>> with training_environment(seed=1):
    ...     torch.set_num_threads(before[1] + 1)
    ...     noise = torch.rand(1)
    >>> torch.equal(torch.get_rng_state(), before[0]), torch.get_num_threads() == before[1]
    (True, True)
    """
    with ExitStack() as stack:
        stack.enter_context(_keyboard_interrupt())
        stack.enter_context(_quiet(verbose))
        stack.enter_context(_torch_settings())
        stack.enter_context(_accelerator_generators())
        stack.enter_context(seeded(seed))
        yield


@contextmanager
def seeded(*key: int) -> Iterator[None]:
    """Seed the CPU generators of torch, numpy and Python by `key` in the block, and restore them after it.

    Examples
    --------
    >>> with seeded(3, 1):
    ...     one = torch.rand(1), np.random.rand(), random.random()
    >>> with seeded(3, 1):
    ...     one == (torch.rand(1), np.random.rand(), random.random())
    True
    """
    # numpy's legacy global generator is the one that image transforms use
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        seed_all(*key)
        yield
    finally:
        torch.set_rng_state(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        random.setstate(before[2])


def seed_all(*key: int) -> int:
    """Seed the generators of torch (on the CPU), numpy and Python by these numbers; return the seed."""
    seed = int(np.random.SeedSequence(key).generate_state(1)[0])
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    random.seed(seed)
    return seed


@contextmanager
def _accelerator_generators() -> Iterator[None]:
    # reading CUDA's states would initialise CUDA, which strategies that fork do not allow
    cuda = torch.cuda.get_rng_state_all() if _cuda_is_initialised() else None
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    try:
        yield
    finally:
        if cuda is not None:
            torch.cuda.set_rng_state_all(cuda)
        elif _cuda_is_initialised():
            torch.cuda.manual_seed_all(torch.initial_seed())  # the state that torch gives a new CUDA generator
        if mps is not None:
            torch.mps.set_rng_state(mps)


def _cuda_is_initialised() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


@contextmanager
def _torch_settings() -> Iterator[None]:
    """Restore what Lightning sets for several processes, and for Trainer(deterministic=..., benchmark=...)."""
    threads = torch.get_num_threads()
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark = torch.backends.cudnn.benchmark
    workspace = os.environ.get(_WORKSPACE)
    try:
        yield
    finally:
        if workspace is None:
            os.environ.pop(_WORKSPACE, None)
        else:
            os.environ[_WORKSPACE] = workspace
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        torch.backends.cudnn.benchmark = benchmark


@contextmanager
def _quiet(verbose: bool) -> Iterator[None]:
    """Suppress Lightning's advice about settings that are chosen here, and its messages unless `verbose`."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    before = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PossibleUserWarning)
        warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)  # Lightning 2.6 with torch 2.13
        try:
            for logger in [] if verbose else loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)


@contextmanager
def _keyboard_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C, where Lightning exits the interpreter and ignores the next SIGINT."""
    main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as exit:
        if isinstance(exit.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from exit
        raise
    finally:
        if main:
            signal.signal(signal.SIGINT, before)
