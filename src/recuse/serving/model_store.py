"""The models of the service, loaded from their files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recuse.model_file.schema import TableSchema
from recuse.model_file.served import ServedModel, load_with_digest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LoadedModel", "ModelStore"]

_VERSION_DIGITS = 12


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """One version of a model; a request is answered by one of them as a whole.

    Attributes
    ----------
    name : str
    version : str
        The first 12 hexadecimal digits of the SHA-256 of the file.
    model : ServedModel
    training : DataFrame or None
        Training rows, if the service has them.
    column_names : dict of str to (str or int)
        Names of the columns of the table, with the column of the cost, by their text in JSON; empty for images.
    """

    name: str
    version: str
    model: ServedModel = field(repr=False)
    training: pd.DataFrame | None = field(default=None, repr=False)
    column_names: Mapping[str, str | int] = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, name: str, path: Path, training: pd.DataFrame | None = None) -> LoadedModel:
        """Load a model file; raise a ModelFileError or an OSError if it cannot be used."""
        model, digest = load_with_digest(path)
        return cls(name, digest[:_VERSION_DIGITS], model, training, _column_names(model))


class ModelStore:
    """The models that are served, by name.

    Parameters
    ----------
    paths : mapping of str to Path
        The first model is the default.
    training : mapping of str to DataFrame, optional
        Training rows by name of the model.
    """

    def __init__(self, paths: Mapping[str, Path], training: Mapping[str, Any] | None = None) -> None:
        self._paths = dict(paths)
        self._training = dict(training or {})
        self._loaded = {name: self._read(name) for name in self._paths}
        self.default = next(iter(self._paths))

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return list(self._paths)

    def get(self, name: str | None = None) -> LoadedModel:
        """Return the current version of a model, by default of the first; raise a KeyError for unknown names."""
        return self._loaded[self.default if name is None else name]

    def _read(self, name: str) -> LoadedModel:
        return LoadedModel.read(name, self._paths[name], self._training.get(name))


def _column_names(model: ServedModel) -> dict[str, str | int]:
    if not isinstance(model.schema, TableSchema):
        return {}
    cost = [model.cost_] if isinstance(model.cost_, str) else []
    return {str(name): name for name in (*(column.name for column in model.schema.columns), *cost)}
