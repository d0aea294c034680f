"""Models in MLflow: a flavour round the model file, without pickles."""

from recuse.mlflow.flavor import DecisionFunction, load_model, log_model, save_model
from recuse.model_file.served import load

__all__ = ["load_model", "log_model", "save_model"]


def _load_pyfunc(path: str) -> DecisionFunction:
    """Load a model file for `mlflow.pyfunc`, which finds this function by its name."""
    return DecisionFunction(load(path))
