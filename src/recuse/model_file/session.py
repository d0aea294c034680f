"""Sessions of ONNX Runtime with one thread and without messages."""

from __future__ import annotations

from typing import Any

from recuse.model_file.errors import ModelFileError

__all__ = ["open_session"]


def open_session(graph: bytes) -> Any:
    """Return a session of ONNX Runtime for a graph that `check_graph` has accepted.

    Parameters
    ----------
    graph : bytes

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
    >>> open_session(graph.model().SerializeToString()).run(None, {"x": [[1.0, 2.0]]})
    [array([[2., 4.]])]
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_mem_pattern = False
    options.log_severity_level = 4  # no messages to stderr
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__
        raise ModelFileError(f"ONNX Runtime does not accept the graph ({reason}): save the model again") from error
