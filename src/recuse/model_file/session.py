"""Sessions of ONNX Runtime with one thread and without messages."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from numpy.typing import NDArray

from recuse.model_file.errors import ModelFileError

# Larger graphs do not reuse the memory of their results: the time to plan it grows with the square of the nodes, and
# reached 40 s. Smaller graphs decide 7% faster with it.
_MAX_PLANNED = 1000

# The register MXCSR: its place in the structure fenv_t of glibc, and its bit for results.
_MXCSR, _FLUSH_TO_ZERO = 7, 0x8000

_KNOWN = platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc"
_LIBRARY = ctypes.CDLL("libm.so.6") if _KNOWN else None
_Environment = ctypes.c_uint32 * 8


def open_session(graph: bytes, *, nodes: int = 0) -> Any:
    """Return a session of ONNX Runtime for a graph that `measure_graph` has accepted.

    Parameters
    ----------
    graph : bytes
    nodes : int, default=0
        Number of nodes of the graph.

    Returns
    -------
    onnxruntime.InferenceSession

    Raises
    ------
    ModelFileError
        If ONNX Runtime does not accept the graph.

    Examples
    --------
    >>> from recuse.model_file.graph.builder import GraphBuilder
    >>> graph = GraphBuilder()
    >>> graph.output("y", graph.input("x", "double", (-1, 2)) * 2.0)
    >>> session = open_session(graph.model().SerializeToString())
    >>> [output.name for output in session.get_outputs()]
    ['y']
    """
    from recuse.model_file.runtime import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.enable_mem_reuse = nodes <= _MAX_PLANNED
    # No messages go to standard error.
    options.log_severity_level = 4
    try:
        # Results of constants are computed here.
        with _denormal_results_as_zero():
            return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ModelFileError(
            f"ONNX Runtime does not accept the graph ({_reason(error)}): save the model again"
        ) from error


def run_session(
    session: Any, inputs: Mapping[str, NDArray[Any]], names: Sequence[str], *, flush: bool = True
) -> list[NDArray[Any]]:
    """Return some outputs of a session.

    Parameters
    ----------
    session : onnxruntime.InferenceSession
    inputs : mapping of str to ndarray
    names : sequence of str
        Names of the outputs.
    flush : bool, default=True
        Whether denormal results become zero, which takes a tenth of the time of a small graph.

    Raises
    ------
    ModelFileError
        If ONNX Runtime cannot compute the outputs.

    Examples
    --------
    >>> import numpy as np
    >>> from recuse.model_file.graph.builder import GraphBuilder
    >>> graph = GraphBuilder()
    >>> graph.output("y", graph.input("x", "double", (-1, 2)) * 2.0)
    >>> run_session(open_session(graph.model().SerializeToString()), {"x": np.array([[1.0, 2.0]])}, ["y"])
    [array([[2., 4.]])]
    """
    try:
        if not flush:
            return list(session.run(names, inputs))
        with _denormal_results_as_zero():
            return list(session.run(names, inputs))
    except Exception as error:
        raise ModelFileError(
            f"ONNX Runtime cannot compute the graph ({_reason(error)}): save the model again"
        ) from error


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__


@contextmanager
def _denormal_results_as_zero() -> Iterator[None]:
    """Replace denormal results by zero in the calling thread, and restore its mode at the end.

    Processors of the x86 family take up to 200 times as long for a product with such a number (below 2.2e-308 in double
    precision), so a graph that computes them would exceed the bound of its work. Other processors have no such penalty,
    and this has no effect on other systems than Linux on x86-64. Constants keep their values, since some models compare
    with the number next to zero; the bound counts their products.

    Examples
    --------
    >>> import numpy as np
    >>> with _denormal_results_as_zero():
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
