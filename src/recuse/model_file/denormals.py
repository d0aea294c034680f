"""Results below the normal range become zero while a graph runs.

Processors of the x86 family take up to 200 times as long for a product with such a number (below 2.2e-308 in double
precision), so a graph that computes them would exceed the bound of its work. Other processors have no such penalty.
Constants keep their values, since some models compare with the number next to zero; the bound counts their products.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["denormal_results_as_zero"]

# The register MXCSR: its place in the structure fenv_t of glibc, and its bit for results.
_MXCSR, _FLUSH_TO_ZERO = 7, 0x8000

_KNOWN = platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"
_LIBRARY = ctypes.CDLL("libm.so.6") if _KNOWN else None
_Environment = ctypes.c_uint32 * 8


@contextmanager
def denormal_results_as_zero() -> Iterator[None]:
    """Replace denormal results by zero in the calling thread, and restore its mode at the end.

    This has no effect on other systems than Linux on x86-64.

    Examples
    --------
    >>> import numpy as np
    >>> with denormal_results_as_zero():
    ...     flushed = np.full(1, 1e-300) * 1e-10
    >>> bool((np.full(1, 1e-300) * 1e-10)[0] > 0)
    True
    """
    if _LIBRARY is None:
        yield
        return
    state = _Environment()
    _LIBRARY.fegetenv(state)
    mode = state[_MXCSR]
    state[_MXCSR] = mode | _FLUSH_TO_ZERO
    _LIBRARY.fesetenv(state)
    try:
        yield
    finally:
        state[_MXCSR] = mode
        _LIBRARY.fesetenv(state)
