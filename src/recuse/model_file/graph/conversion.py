"""Registry of the functions that convert fitted models to parts of a graph."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from recuse.model_file.errors import ConversionError
from recuse.model_file.graph.builder import Value

__all__ = ["Converter", "convert", "converts"]

Converter = Callable[[Any, Value], Value]
_Function = TypeVar("_Function", bound=Converter)

# The modules with converters are imported when a model is saved.
_MODULES = (
    "recuse.model_file.graph.regressors.trees",
    "recuse.model_file.graph.networks",
    "recuse.model_file.graph.regressors.linear",
    "recuse.model_file.graph.regressors.kernels",
    "recuse.model_file.graph.regressors.preprocessing",
    "recuse.model_file.graph.regressors.composition",
)

_converters: dict[type[Any], Converter] = {}


def converts(*types: type[Any]) -> Callable[[_Function], _Function]:
    """Register a function that converts fitted models of these types, and of no subclass.

    The function receives the fitted model and its input (row, feature) of type double. It returns the prediction of a
    regressor (row, output) or the result of a transformer (row, feature).

    Examples
    --------
    >>> from recuse.model_file import converts
    >>> class Twice:
    ...     def predict(self, X):
    ...         return 2 * X[:, 0]
    >>> @converts(Twice)
    ... def convert_twice(model, x):
    ...     return 2.0 * x.columns(0, 1)
    """

    def register(function: _Function) -> _Function:
        _converters.update(dict.fromkeys(types, function))
        return function

    return register


def convert(model: Any, x: Value) -> Value:
    """Convert a fitted regressor or transformer.

    Parameters
    ----------
    model : fitted estimator
    x : Value of shape (row, feature)

    Returns
    -------
    Value of shape (row, output)

    Raises
    ------
    ConversionError
        If there is no converter for the type of the model.
    """
    for module in _MODULES:
        import_module(module)
    converter = _converters.get(type(model))
    if converter is None:
        kind = type(model)
        raise ConversionError(
            f"{kind.__module__}.{kind.__qualname__} cannot be saved in a model file: there is no converter for it. "
            "Use one of the regressors listed in the documentation of recuse.save, or register a converter with "
            "@recuse.model_file.converts"
        )
    return converter(model, x)
