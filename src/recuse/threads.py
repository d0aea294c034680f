"""Limits of one thread for small computations.

With several threads, the threads are synchronised after each layer of a network and each tree of a forest. For small
computations this takes longer than the computation, in particular on a busy machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["one_blas_thread", "one_thread"]

# Each of these loads an OpenMP runtime of its own, possibly after the first call of `one_thread`.
_OPENMP_USERS = ("torch._C", "sklearn.utils._openmp_helpers", "lightgbm.basic")


_BLAS = Lock()  # held while BLAS is limited, since overlapping limits would not be restored


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit OpenMP to one thread in the calling thread, and restore the previous limit at the end.

    Torch, scikit-learn and LightGBM obey the limit. Other Python threads keep their own limits, so any number of
    threads may enter and leave at the same time.

    Notes
    -----
    Matrix products of MKL, which torch uses, follow the last ``torch.set_num_threads`` of the program where there was
    one, and OpenMP otherwise.

    Examples
    --------
    >>> import torch
    >>> before = torch.get_num_threads()
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    torch = sys.modules.get("torch")
    if torch is not None and "torch._C" in sys.modules:
        # the first torch operation of a thread sets its OpenMP limit, so it must come before the limit below
        torch.get_num_threads()
    loaded = tuple(name for name in _OPENMP_USERS if name in sys.modules)
    with _openmp_runtimes(loaded).limit(limits=1):
        yield


@lru_cache
def _openmp_runtimes(loaded: tuple[str, ...]) -> ThreadpoolController:
    """Find the OpenMP runtimes of the process once for each set of loaded modules."""
    return ThreadpoolController().select(user_api="openmp")


@lru_cache
def _blas_libraries() -> ThreadpoolController:
    """Find the BLAS libraries of the process once."""
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the matrix products of numpy and scipy to one thread, and restore the previous limit at the end.

    For matrices of some hundred rows, several threads take longer than one. The limit holds for the whole process, so
    this is for fits and not for decisions, and threads enter one after the other.

    Examples
    --------
    >>> import numpy as np
    >>> with one_blas_thread():
    ...     product = np.eye(3) @ np.eye(3)
    """
    with _BLAS, _blas_libraries().limit(limits=1):
        yield
