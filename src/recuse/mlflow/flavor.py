"""Logging, saving and loading of models in the format of MLflow, and their decisions there."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from recuse._version import __version__
from recuse.dataframes import is_frame
from recuse.extras import import_extra
from recuse.mlflow.signature import example_rows, signature_of, summary_of
from recuse.model_file.served import ServedModel, load
from recuse.tabular.schema import TableSchema

FLAVOR_NAME = "recuse"

_FILE = "model.recuse"
_LIBRARIES = ("numpy", "onnxruntime", "pandas")


def log_model(model: Any, name: str, **options: Any) -> Any:
    """Log a model to MLflow.

    Parameters
    ----------
    model : fitted estimator or path-like
        An estimator that `recuse.save` supports, or the path of a model file.
    name : str
        Name of the logged model.
    **options
        `registered_model_name`, `tags`, `params`, `metadata` and `step` as in `mlflow.pyfunc.log_model`, and the
        options of `save_model`.

    Returns
    -------
    mlflow.models.model.ModelInfo
        `model_uri` is the address for `load_model` and for `mlflow.pyfunc.load_model`.

    Examples
    --------
    ::

        info = recuse.mlflow.log_model("cars.recuse", name="cars")
        mlflow.pyfunc.load_model(info.model_uri).predict(cars, params={"cost": 9.0})
    """
    models = import_extra("mlflow.models", "mlflow")
    flavor = sys.modules[__name__]
    return models.Model.log(
        artifact_path=None, name=name, flavor=flavor, flavor_name=FLAVOR_NAME, model=model, **options
    )


def save_model(
    model: Any,
    path: str | os.PathLike[str],
    *,
    mlflow_model: Any = None,
    signature: Any = None,
    input_example: Any = None,
    pip_requirements: list[str] | None = None,
    extra_pip_requirements: list[str] | None = None,
) -> None:
    """Save a model as a folder in the format of MLflow.

    Parameters
    ----------
    model : fitted estimator or path-like
        An estimator that `recuse.save` supports, or the path of a model file.
    path : path-like
        The new folder. It has the description of MLflow, the requirements and the model file.
    mlflow_model : mlflow.models.Model, optional
        The description to extend.
    signature : mlflow.models.ModelSignature, optional
        By default the columns of the model, the columns of its decisions, and the parameters `cost` and `costs`.
    input_example : DataFrame or ndarray, optional
        By default one row in the middle of the training ranges, unless `signature` is given.
    pip_requirements, extra_pip_requirements : list of str, optional
        As in `mlflow.pyfunc.save_model`; by default this version of recuse and the libraries that run the model.

    Examples
    --------
    ::

        recuse.mlflow.save_model("cars.recuse", "cars")
    """
    pyfunc, models = import_extra("mlflow.pyfunc", "mlflow"), import_extra("mlflow.models", "mlflow")
    description = models.Model() if mlflow_model is None else mlflow_model
    with tempfile.TemporaryDirectory() as folder:
        file = _model_file(model, Path(folder) / _FILE)
        served = load(file)
        description.add_flavor(FLAVOR_NAME, data=f"data/{_FILE}", recuse_version=__version__)
        description.metadata = {**(description.metadata or {}), "recuse": summary_of(served)}
        pyfunc.save_model(
            os.fspath(path),
            loader_module="recuse.mlflow",
            data_path=os.fspath(file),
            mlflow_model=description,
            signature=signature_of(served) if signature is None else signature,
            input_example=example_rows(served) if signature is None and input_example is None else input_example,
            pip_requirements=_requirements() if pip_requirements is None else pip_requirements,
            extra_pip_requirements=extra_pip_requirements,
        )


def load_model(model_uri: str) -> ServedModel:
    """Load the model of a folder or of an address of MLflow.

    Parameters
    ----------
    model_uri : str
        Such as "models:/cars/1", "runs:/ID/cars" or a path.

    Returns
    -------
    ServedModel

    Examples
    --------
    ::

        recuse.mlflow.load_model("models:/cars/1").decide(cars)
    """
    artifacts, models = import_extra("mlflow.artifacts", "mlflow"), import_extra("mlflow.models", "mlflow")
    folder = artifacts.download_artifacts(artifact_uri=os.fspath(model_uri))
    flavors = models.Model.load(folder).flavors
    if FLAVOR_NAME not in flavors:
        raise ValueError(f"{model_uri} must be logged by recuse.mlflow, got a model of {', '.join(sorted(flavors))}")
    return load(Path(folder) / flavors[FLAVOR_NAME]["data"])


def _model_file(model: Any, path: Path) -> Path:
    """Write an estimator, or copy a file, to the path."""
    if isinstance(model, str | os.PathLike):
        shutil.copyfile(model, path)
    else:
        from recuse.model_file.saving import save

        save(model, path)
    return path


def _requirements() -> list[str]:
    return [f"recuse=={__version__}", *(f"{library}=={version(library)}" for library in _LIBRARIES)]


class DecisionFunction:
    """A model as MLflow calls it.

    Parameters
    ----------
    model : ServedModel
    """

    def __init__(self, model: ServedModel) -> None:
        self._model = model
        names = model.schema.names if isinstance(model.schema, TableSchema) else []
        self._names = {str(name): name for name in names}  # those of MLflow are text

    def predict(self, rows: Any, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Return the columns of `Decision.to_frame`, and `expected_loss` where the model has one."""
        table = rows.rename(columns=self._names) if is_frame(rows) else rows
        decision, expected = self._model.decide_reading(self._model.read(table), _cost(params or {}))
        frame = decision.to_frame()
        return frame if expected is None else frame.assign(expected_loss=expected)


def _cost(params: Mapping[str, Any]) -> Any:
    """Return the cost in the parameters of a request; MLflow passes None and [] for those that were not given."""
    cost, costs = params.get("cost"), params.get("costs")
    if cost is not None and costs:
        raise ValueError("pass cost, a number, or costs, one value per row, not both")
    return costs or cost
