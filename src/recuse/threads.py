"""Limits of one thread for small computations.

With several threads, the threads are synchronised after each layer of a network and each tree of a forest. For small
computations this takes longer than the computation, in particular on a busy machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from threading import Lock

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

# Each of these loads an OpenMP runtime of its own, possibly after the first call of `one_thread`.
_OPENMP_USERS = ("torch._C", "sklearn.utils._openmp_helpers", "lightgbm.basic")


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
    >>> from sklearn.ensemble import HistGradientBoostingRegressor
    >>> with one_thread():
    ...     model = HistGradientBoostingRegressor(max_iter=2).fit([[0.0], [1.0]] * 9, [0.0, 1.0] * 9)
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

    For matrices of some hundred rows, several threads take longer than one. The limit holds for the whole process. Any
    number of threads may enter: the last one that leaves restores the limit that the first one found.

    Examples
    --------
    >>> import numpy as np
    >>> with one_blas_thread():
    ...     product = np.eye(3) @ np.eye(3)
    """
    _BLAS.enter()
    try:
        yield
    finally:
        _BLAS.leave()


class _SharedLimit:
    """A limit of BLAS to one thread, from the first thread that enters to the last one that leaves."""

    def __init__(self) -> None:
        self._lock, self._inside, self._limit = Lock(), 0, ExitStack()

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limit.enter_context(_blas_libraries().limit(limits=1))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.close()


_BLAS = _SharedLimit()
