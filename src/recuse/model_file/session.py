"""Sessions of ONNX Runtime with one thread and without messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from numpy.typing import NDArray

from recuse.model_file.denormals import denormal_results_as_zero
from recuse.model_file.errors import ModelFileError

__all__ = ["open_session", "run_session"]

# Larger graphs do not reuse the memory of their results: the time to plan it grows with the square of the nodes, and
# reached 40 s. Smaller graphs decide 7% faster with it.
_MAX_PLANNED = 1000


def open_session(graph: bytes, *, nodes: int = 0) -> Any:
    """Return a session of ONNX Runtime for a graph that `check_graph` has accepted.

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
    options.log_severity_level = 4  # no messages to stderr
    try:
        with denormal_results_as_zero():  # results of constants are computed here
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
        with denormal_results_as_zero() if flush else nullcontext():
            return list(session.run(names, inputs))
    except Exception as error:
        raise ModelFileError(
            f"ONNX Runtime cannot compute the graph ({_reason(error)}): save the model again"
        ) from error


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
