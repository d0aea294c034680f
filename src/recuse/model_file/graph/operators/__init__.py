"""The subset of ONNX operators that model files may use, with their rules for types and shapes.

The builder of graphs and the check of loaded graphs use the same rules. So a graph that was built here passes the
check, and a graph that passes the check has tensors of a known size for each row.
"""

from recuse.model_file.graph.operators.rules import OPERATORS, infer
from recuse.model_file.graph.operators.signatures import (
    BOOL,
    DOUBLE,
    FLOAT,
    INT64,
    IR_VERSION,
    MAX_RANK,
    ML_DOMAIN,
    ML_OPSET,
    OPSET,
    ROWS,
    STRING,
    UINT8,
    Rule,
    Signature,
)

__all__ = [
    "BOOL",
    "DOUBLE",
    "FLOAT",
    "INT64",
    "IR_VERSION",
    "MAX_RANK",
    "ML_DOMAIN",
    "ML_OPSET",
    "OPERATORS",
    "OPSET",
    "ROWS",
    "STRING",
    "UINT8",
    "Rule",
    "Signature",
    "infer",
]
