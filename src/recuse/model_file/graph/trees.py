"""Converters of decision trees and their ensembles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value
from recuse.model_file.graph.conversion import convert, converts
from recuse.model_file.graph.operators import DOUBLE, FLOAT

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LEQ, _SUM, _NO_TRANSFORM = 0, 1, 0


@dataclass(frozen=True)
class Tree:
    """A binary tree whose first node is the root; a row goes left where its feature <= threshold.

    Attributes
    ----------
    feature, left, right : ndarray of shape (node,)
        Any value at leaves.
    threshold, value : ndarray of shape (node,)
    leaf : ndarray of shape (node,)
    """

    feature: Integers
    threshold: Floats
    left: Integers
    right: Integers
    value: Floats
    leaf: NDArray[np.bool_]


def tree_ensemble(x: Value, trees: Sequence[Tree]) -> Value:
    """Return the sums (row, 1) of the leaves that each row reaches.

    Examples
    --------
    >>> from recuse.model_file.graph.builder import GraphBuilder
    >>> x = GraphBuilder().input("x", "double", (-1, 1))
    >>> zero = np.zeros(3, np.int64)
    >>> value, leaf = np.array([0.0, -1.0, 1.0]), np.array([False, True, True])
    >>> step = Tree(zero, zero.astype(float), zero + 1, zero + 2, value, leaf)
    >>> tree_ensemble(x, [step]).shape
    (-1, 1)
    """
    sizes = np.array([len(tree.leaf) for tree in trees])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    trees = [_parents_first(tree) for tree in trees]
    leaf = np.concatenate([tree.leaf for tree in trees])
    inner = ~leaf
    offset = np.repeat(starts, sizes)[inner]
    # number of each node among the inner nodes, or of each leaf among the leaves
    number = np.where(leaf, np.cumsum(leaf), np.cumsum(inner)) - 1
    left = np.concatenate([tree.left for tree in trees])[inner] + offset
    right = np.concatenate([tree.right for tree in trees])[inner] + offset
    # ONNX has no tree without a split: both branches of an extra node lead to the only leaf
    single = starts[leaf[starts]]
    extra = np.zeros(len(single), np.int64)
    roots = number[starts]
    roots[leaf[starts]] = inner.sum() + np.arange(len(single))
    feature = np.concatenate([tree.feature for tree in trees])[inner]
    threshold = np.concatenate([tree.threshold for tree in trees])[inner]
    true = np.concatenate([number[left], number[single]])
    false = np.concatenate([number[right], number[single]])
    return x.graph.node(
        "TreeEnsemble",
        x,
        aggregate_function=_SUM,
        post_transform=_NO_TRANSFORM,
        n_targets=1,
        tree_roots=roots.astype(np.int64),
        nodes_featureids=np.concatenate([feature, extra]).astype(np.int64),
        nodes_splits=np.concatenate([threshold, extra.astype(np.float64)]).astype(np.float64),
        nodes_modes=np.full(len(true), _LEQ, np.uint8),
        nodes_truenodeids=true.astype(np.int64),
        nodes_falsenodeids=false.astype(np.int64),
        nodes_trueleafs=np.concatenate([leaf[left], extra + 1]).astype(np.int64),
        nodes_falseleafs=np.concatenate([leaf[right], extra + 1]).astype(np.int64),
        leaf_targetids=np.zeros(leaf.sum(), np.int64),
        leaf_weights=np.concatenate([tree.value for tree in trees])[leaf].astype(np.float64),
    )


def _parents_first(tree: Tree) -> Tree:
    """Number the nodes by depth if a node comes after one of its children."""
    inner = np.flatnonzero(~tree.leaf)
    if np.all(tree.left[inner] > inner) and np.all(tree.right[inner] > inner):
        return tree
    levels = [np.zeros(1, np.int64)]
    while len(levels[-1]):
        parents = levels[-1][~tree.leaf[levels[-1]]]
        levels.append(np.concatenate([tree.left[parents], tree.right[parents]]))
    order = np.concatenate(levels)
    place = np.zeros(len(tree.leaf), np.int64)
    place[order] = np.arange(len(order))
    left, right = (place[np.where(tree.leaf, 0, child)] for child in (tree.left, tree.right))
    return Tree(
        tree.feature[order],
        tree.threshold[order],
        left[order],
        right[order],
        tree.value[order],
        tree.leaf[order],
    )


def single_precision(x: Value) -> Value:
    """Round to float32, as the trees of scikit-learn do."""
    return x.cast(FLOAT).cast(DOUBLE)


def _rounded_down(threshold: Floats) -> Floats:
    """Return the largest float32 that is not above each threshold, which no float32 input can tell from it."""
    with np.errstate(over="ignore"):
        near = threshold.astype(np.float32)
    return np.where(near > threshold, np.nextafter(near, np.float32(-np.inf)), near).astype(np.float64)


def _members(models: Sequence[Any], factor: float, features: Sequence[Integers] | None = None) -> list[Tree]:
    """Return the trees of fitted decision trees; `features` are the columns that each of them sees."""
    trees = []
    for place, model in enumerate(models):
        fitted = model.tree_
        leaf = fitted.children_left < 0
        feature = np.where(leaf, 0, fitted.feature).astype(np.int64)
        if features is not None:
            feature = features[place][feature]
        threshold, value = _rounded_down(fitted.threshold), fitted.value[:, 0, 0] * factor
        trees.append(Tree(feature, threshold, fitted.children_left, fitted.children_right, value, leaf))
    return trees


@converts(DecisionTreeRegressor, ExtraTreeRegressor)
def _tree(model: Any, x: Value) -> Value:
    return tree_ensemble(single_precision(x), _members([model], 1.0))


@converts(RandomForestRegressor, ExtraTreesRegressor)
def _forest(model: Any, x: Value) -> Value:
    return tree_ensemble(single_precision(x), _members(model.estimators_, 1 / len(model.estimators_)))


@converts(GradientBoostingRegressor)
def _gradient_boosting(model: Any, x: Value) -> Value:
    x = single_precision(x)
    total = tree_ensemble(x, _members(model.estimators_[:, 0], model.learning_rate))
    return total if isinstance(model.init_, str) else total + convert(model.init_, x)


@converts(HistGradientBoostingRegressor)
def _hist_gradient_boosting(model: Any, x: Value) -> Value:
    if model.is_categorical_ is not None:
        raise ConversionError(
            f"HistGradientBoostingRegressor(categorical_features={model.categorical_features!r}) cannot be saved in a "
            "model file: encode the categories as numbers and use categorical_features=None"
        )
    trees = [_histogram_tree(predictor.nodes) for stage in model._predictors for predictor in stage]
    total = tree_ensemble(x, trees) + float(model._baseline_prediction.item())
    match model.loss:
        case "squared_error" | "absolute_error" | "quantile":
            return total
        case "gamma" | "poisson":
            return total.unary("Exp")
    raise ConversionError(
        f"HistGradientBoostingRegressor(loss={model.loss!r}) cannot be saved in a model file: use loss='squared_error'"
    )


def _histogram_tree(nodes: Any) -> Tree:
    return Tree(
        nodes["feature_idx"].astype(np.int64),
        nodes["num_threshold"],
        nodes["left"].astype(np.int64),
        nodes["right"].astype(np.int64),
        nodes["value"],
        nodes["is_leaf"].astype(np.bool_),
    )


@converts(BaggingRegressor)
def _bagging(model: Any, x: Value) -> Value:
    members, features = model.estimators_, [np.asarray(each, np.int64) for each in model.estimators_features_]
    if all(type(member) in (DecisionTreeRegressor, ExtraTreeRegressor) for member in members):
        return tree_ensemble(single_precision(x), _members(members, 1 / len(members), features))
    total = convert(members[0], x.take(features[0], 1))
    for member, chosen in zip(members[1:], features[1:], strict=True):
        total = total + convert(member, x.take(chosen, 1))
    return total / len(members)
