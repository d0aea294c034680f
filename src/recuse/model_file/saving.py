"""Saving of fitted estimators as model files."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any

from sklearn.utils.validation import check_is_fitted

from recuse._version import __version__
from recuse.costs import is_constant
from recuse.model_file.container import GRAPH, write_container
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.conversion import Emitted, build_decision
from recuse.model_file.schema import schema_to_dict
from recuse.model_file.training import pack_training

__all__ = ["save"]

_LIBRARIES = ("numpy", "onnx", "scikit-learn", "torch")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted estimator as a model file.

    The file has the decision as an ONNX graph, a description of the columns, hashes of the training rows and, where
    the estimator has them, its leaderboard and its out-of-fold results. It has no code and no pickle. `recuse.load`
    reads it, without torch and scikit-learn.

    Parameters
    ----------
    model : fitted estimator
        `RcRRegressor`, `RiskRejector`, `AutoRejector`, `SelectiveNetRegressor`, `DeferralRegressor` or
        `RcRImageRegressor`. Subestimators
        must be regressors of scikit-learn with a converter: linear models, trees, forests, boosting, nearest
        neighbours, support vectors, kernel ridge, Gaussian processes, multilayer perceptrons, and pipelines, votes and
        stacks of these. For other classes, see `recuse.model_file.converts`.
    path : path-like
        Usually with the ending ".recuse". An existing file is replaced as a whole or, if an error occurs, not at all.

    Raises
    ------
    ConversionError
        If a part of the estimator cannot be saved. The error names it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import recuse
    >>> (X, y), _, (X_test, _) = recuse.datasets.split(recuse.datasets.load("auto_mpg"), repeat=0)
    >>> model = recuse.RcRRegressor(cost=6.0, epochs=50, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     recuse.save(model, Path(folder) / "cars.recuse")
    ...     served = recuse.load(Path(folder) / "cars.recuse")
    >>> bool((served.decide(X_test).accepted == model.decide(X_test).accepted).all())
    True
    """
    check_is_fitted(model)
    graph, emitted = build_decision(model)
    training, arrays = pack_training(model)
    header = {**_header(model, emitted), "has_cost_input": "cost" in graph.inputs, "training": training}
    write_container(path, header, {GRAPH: graph.model().SerializeToString(), **arrays})


def _header(model: Any, emitted: Emitted) -> dict[str, Any]:
    return {
        "recuse": __version__,
        "libraries": {name: version(name) for name in _LIBRARIES},
        "estimator": type(model).__name__,
        "schema": schema_to_dict(emitted.schema),
        "targets": {"count": 1, "names": None if model.target_name_ is None else [model.target_name_]},
        "cost": _cost(model) if not emitted.experts else {"kind": "experts", "serves_any_cost": False},
        "loss": _loss(model),
        "score_unit": model._score_unit,
        "threshold": 0.0,
        "has_expected_loss": emitted.expected_loss is not None,
        "prediction_cost": emitted.prediction_cost,
        "certificates": [],
        **({"experts": emitted.experts} if emitted.experts else {}),
    }


def _cost(model: Any) -> dict[str, Any]:
    """Return the cost that the model was fitted for, as far as it can be stored."""
    stored: dict[str, Any] = {"serves_any_cost": bool(model.serves_any_cost), "range": None, "value": None}
    if model.cost_range_ is not None:
        return {**stored, "kind": "range", "range": list(model.cost_range_)}
    cost = model.cost_
    if isinstance(cost, str):
        return {**stored, "kind": "column", "value": cost}
    if is_constant(cost):
        return {**stored, "kind": "number", "value": float(cost)}
    return {**stored, "kind": "callable" if callable(cost) else "rows"}


def _loss(model: Any) -> str:
    from recuse import losses

    try:
        known = losses.get(model.loss_.name) == model.loss_
    except ValueError:
        known = False
    if not known:
        raise ConversionError(f"the loss {model.loss_!r} cannot be saved in a model file: use one of {losses.names()}")
    return str(model.loss_.name)
