"""Saving of fitted estimators as model files, and of certificates in them."""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from recuse._version import __version__
from recuse.costs import is_constant
from recuse.model_file.container import (
    GRAPH,
    OUT_OF_FOLD,
    TRAINING_HASHES,
    TRAINING_REPEATED,
    pack_array,
    read_container,
    write_container,
)
from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.conversion import Emitted, build_decision
from recuse.model_file.schema import ImageSchema
from recuse.model_file.served import load

if TYPE_CHECKING:
    from recuse.guarantees.certificate import Certificate

_LIBRARIES = ("numpy", "onnx", "scikit-learn")


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a fitted estimator as a model file.

    The file has the decision as an ONNX graph, a description of the columns, hashes of the training rows and, where
    the estimator has them, its leaderboard and its out-of-fold results. It has no code and no pickle. `recuse.load`
    reads it, without torch and scikit-learn.

    Parameters
    ----------
    model : fitted estimator
        `RcRRegressor`, `RiskRejector`, `AutoRejector`, `SelectiveNetRegressor`, `DeferralRegressor` or
        `RcRImageRegressor`. Subestimators must be regressors of scikit-learn with a converter: linear models, trees,
        forests, boosting, nearest neighbours, support vectors, kernel ridge, multilayer perceptrons, and pipelines,
        votes and stacks of these. For other classes, see `recuse.model_file.converts`.
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
    training, arrays = _training(model)
    header = {**_header(model, emitted), "has_cost_input": "cost" in graph.inputs, "training": training}
    write_container(path, header, {GRAPH: graph.model().SerializeToString(), **arrays})


def _header(model: Any, emitted: Emitted) -> dict[str, Any]:
    images = isinstance(emitted.schema, ImageSchema)
    return {
        "recuse": __version__,
        "libraries": {name: version(name) for name in (*_LIBRARIES, *(("torch",) if images else ()))},
        "estimator": type(model).__name__,
        "schema": {"kind": "image" if images else "table", **asdict(emitted.schema)},
        "targets": {"count": 1, "names": None if model.target_name_ is None else [model.target_name_]},
        "cost": _cost(model) if not emitted.experts else {"kind": "experts", "serves_any_cost": False},
        "loss": _loss(model),
        "score_unit": model.score_unit,
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


def _training(model: Any) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return what the header says about the training of an estimator, and its arrays."""
    values: dict[str, Any] = {"fingerprint": model.fingerprint, "rows": None, "leaderboard": None, "out_of_fold": None}
    arrays: dict[str, bytes] = {}
    if hasattr(model, "leaderboard_"):
        table = model.leaderboard_
        values["leaderboard"] = {name: _plain(table[name].tolist()) for name in table.columns}
    if hasattr(model, "out_of_fold_"):
        values["out_of_fold"] = [str(name) for name in model.out_of_fold_.columns]
        arrays[OUT_OF_FOLD] = pack_array(OUT_OF_FOLD, model.out_of_fold_.to_numpy().T)
    rows = model.training_rows_
    if rows is not None:
        values.update(rows=rows.count, singles=asdict(rows.singles))
        arrays[TRAINING_HASHES] = pack_array(TRAINING_HASHES, rows.hashes)
        arrays[TRAINING_REPEATED] = pack_array(TRAINING_REPEATED, rows.repeated)
    return values, arrays


def _plain(column: list[Any]) -> list[Any]:
    """Return a column as JSON has it, with None for numbers that are not known."""
    return [None if isinstance(value, float) and not math.isfinite(value) else value for value in column]


def add_certificate(
    path: str | os.PathLike[str], certificate: Certificate, output: str | os.PathLike[str] | None = None
) -> int:
    """Write a certificate into a model file.

    The model decides as before; `ServedModel.certified` decides at the certified threshold.

    Parameters
    ----------
    path : path-like
        A file of the model that the certificate is about.
    certificate : Certificate
    output : path-like, optional
        The file to write; by default, `path` is replaced. It is replaced as a whole or, if an error occurs, not at all.

    Returns
    -------
    int
        The number of the certificate in the file, counted from 0.

    Raises
    ------
    ValueError
        If the certificate is about another model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import recuse
    >>> from recuse.guarantees import certify
    >>> X, y, _, _ = recuse.datasets.make_heteroscedastic(3000, random_state=0)
    >>> model = recuse.RcRRegressor(cost=1.0, epochs=50, random_state=0).fit(X[:1000], y[:1000])
    >>> certificate = certify(model, X[1000:], y[1000:], target=1.0, bound=50.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.recuse"
    ...     recuse.save(model, path)
    ...     number = add_certificate(path, certificate)
    ...     served = recuse.load(path)
    >>> served.certified(number).threshold == certificate.threshold
    True
    """
    model = load(path)
    if certificate.model_fingerprint != model.fingerprint:
        raise ValueError(
            f"the certificate is about a model with fingerprint {certificate.model_fingerprint[:12]}, but {path} has "
            f"{model.fingerprint[:12]}: certify the model of this file"
        )
    header, entries, _ = read_container(path)
    header["certificates"] = [*header["certificates"], certificate.to_dict()]
    write_container(path if output is None else output, header, entries)
    return len(header["certificates"]) - 1
