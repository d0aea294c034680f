"""Check of the attributes of a tree ensemble."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from recuse.model_file.graph.operators.signatures import DOUBLE, Attributes

__all__ = ["check_trees", "tree_depth"]

_MAX_DEPTH = 512  # ONNX Runtime builds trees by recursion, which a chain of many nodes would bring to a crash
_MAX_TREES = 50_000  # ONNX Runtime takes about 0.07 ms for each, however small
_MAX_TREE_NODES = 2_000_000  # ONNX Runtime takes about 300 bytes for each node and each leaf


def check_trees(attrs: Attributes, *, width: int, targets: int, dtype: str) -> None:
    """Check that every branch leads to a later node or a leaf, so that every walk ends."""
    split, weight = np.asarray(attrs["nodes_splits"]), np.asarray(attrs["leaf_weights"])
    names = ("nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs")
    feature, true, false, true_leaf, false_leaf = (np.asarray(attrs[name], dtype=np.int64) for name in names)
    mode, roots = np.asarray(attrs["nodes_modes"]), np.asarray(attrs["tree_roots"], dtype=np.int64)
    target = np.asarray(attrs["leaf_targetids"], dtype=np.int64)
    nodes, leaves = len(feature), len(target)
    expected = np.float64 if dtype == DOUBLE else np.float32
    if any(each.ndim != 1 for each in (split, weight, mode)) or nodes > _MAX_TREE_NODES or leaves > _MAX_TREE_NODES:
        raise ValueError(f"a tree ensemble must have at most {_MAX_TREE_NODES} nodes and leaves on one axis")
    if len(roots) > _MAX_TREES:
        raise ValueError(f"a tree ensemble must have at most {_MAX_TREES} trees, got {len(roots)}")
    lengths = {len(each) for each in (split, true, false, true_leaf, false_leaf, mode)}
    if lengths != {nodes} or nodes == 0 or leaves == 0 or weight.shape != (leaves,) or len(roots) == 0:
        raise ValueError("the arrays of a tree ensemble must have one value for each node and each leaf")
    if split.dtype != expected or weight.dtype != expected or mode.dtype != np.uint8 or mode.any():
        raise ValueError("a tree ensemble must compare with <= in the type of its input")
    _check_between("features", feature, 0, width)
    _check_between("targets", target, 0, targets)
    _check_between("roots", roots, 0, nodes)
    for branch, leaf in ((true, true_leaf), (false, false_leaf)):
        _check_between("flags of leaves", leaf, 0, 2)
        _check_between("leaves", branch[leaf == 1], 0, leaves)
        inner = np.flatnonzero(leaf == 0)
        _check_between("nodes", branch[inner], 0, nodes)
        if np.any(branch[inner] <= inner):
            raise ValueError("the nodes of a tree must lead to later nodes")
    inner_children = np.concatenate([true[true_leaf == 0], false[false_leaf == 0], roots])
    if np.bincount(inner_children, minlength=nodes).max() > 1:
        raise ValueError("the nodes of a tree must have one parent each")
    _check_depth(roots, [(true, true_leaf == 0), (false, false_leaf == 0)])


def tree_depth(attrs: Attributes) -> int:
    """Return the number of nodes on the longest way through a tree of an ensemble that `check_trees` accepted."""
    sides = (("nodes_truenodeids", "nodes_trueleafs"), ("nodes_falsenodeids", "nodes_falseleafs"))
    branches = [(np.asarray(attrs[child], dtype=np.int64), np.asarray(attrs[leaf]) == 0) for child, leaf in sides]
    return _check_depth(np.asarray(attrs["tree_roots"], dtype=np.int64), branches)


def _check_depth(roots: NDArray[np.int64], branches: Sequence[tuple[NDArray[np.int64], NDArray[np.bool_]]]) -> int:
    """Return the depth; raise an error if it is too large."""
    level = roots
    for depth in range(1, _MAX_DEPTH + 1):
        level = np.concatenate([child[level][inner[level]] for child, inner in branches])
        if not len(level):
            return depth
    raise ValueError(f"a tree must have a depth of at most {_MAX_DEPTH}")


def _check_between(name: str, values: NDArray[np.int64], low: int, high: int) -> None:
    if len(values) and not (low <= values.min() and values.max() < high):
        raise ValueError(f"{name} of a tree ensemble must be between {low} and {high - 1}")
