"""The models of the service, loaded from their files and again when these are replaced."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from recuse.model_file.schema import TableSchema
from recuse.model_file.served import ServedModel, load_with_digest

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LoadedModel", "ModelStore"]

_VERSION_DIGITS = 12

_log = logging.getLogger("recuse.serving")

Signature = tuple[int, int, int]


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

    Examples
    --------
    >>> import tempfile
    >>> import recuse
    >>> from sklearn.linear_model import Ridge
    >>> X, y, _, _ = recuse.datasets.make_heteroscedastic(200, random_state=0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "m.recuse")
    >>> recuse.save(recuse.RiskRejector(Ridge(), Ridge(), random_state=0).fit(X, y), path)
    >>> loaded = LoadedModel.read("m", path)
    >>> loaded.name, len(loaded.version), loaded.reads_rows
    ('m', 12, True)
    >>> folder.cleanup()
    """

    name: str
    version: str
    model: ServedModel = field(repr=False)
    training: pd.DataFrame | None = field(default=None, repr=False)
    column_names: Mapping[str, str | int] = field(default_factory=dict, repr=False)

    @property
    def reads_rows(self) -> bool:
        """Whether the model reads rows of tables, which a review queue can hold; others read images."""
        return isinstance(self.model.schema, TableSchema)

    @classmethod
    def read(cls, name: str, path: Path, training: pd.DataFrame | None = None) -> LoadedModel:
        """Load a model file; raise a ModelFileError or an OSError if it cannot be used."""
        model, digest = load_with_digest(path)
        _warm_up(model)
        return cls(name, digest[:_VERSION_DIGITS], model, training, _column_names(model))


class ModelStore:
    """The models that are served, by name.

    A request gets one `LoadedModel` and keeps it. A replaced file is loaded by a thread and then takes the place of the
    old version at once; a file that cannot be loaded is reported in the log, and the old version stays.

    Parameters
    ----------
    paths : mapping of str to Path
        The first model is the default.
    training : mapping of str to DataFrame, optional
        Training rows by name of the model.
    on_change : callable, optional
        Is called with the new version of a model, and with the old one if there is one.

    Examples
    --------
    >>> import tempfile
    >>> import recuse
    >>> from sklearn.linear_model import Ridge
    >>> X, y, _, _ = recuse.datasets.make_heteroscedastic(200, random_state=0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "m.recuse")
    >>> recuse.save(recuse.RiskRejector(Ridge(), Ridge(), random_state=0).fit(X, y), path)
    >>> store = ModelStore({"m": path})
    >>> store.names, store.get() is store.get("m")
    (['m'], True)
    >>> folder.cleanup()
    """

    def __init__(
        self,
        paths: Mapping[str, Path],
        training: Mapping[str, Any] | None = None,
        on_change: Callable[[LoadedModel, LoadedModel | None], None] | None = None,
    ) -> None:
        self._paths = dict(paths)
        self._training = dict(training or {})
        self._on_change = on_change or (lambda new, old: None)
        self._signatures = {name: _signature(path) for name, path in self._paths.items()}
        self._loaded: dict[str, LoadedModel] = {}
        for name in self._paths:
            self._replace(name)
        self.default = next(iter(self._paths))
        self._stopped = Event()
        self._watching: Thread | None = None

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return list(self._paths)

    def get(self, name: str | None = None) -> LoadedModel:
        """Return the current version of a model, by default of the first; raise a KeyError for unknown names."""
        return self._loaded[self.default if name is None else name]

    def watch(self, seconds: float) -> None:
        """Look at the files again and again, in a thread, until `stop`; never if `seconds` is 0."""
        if seconds > 0:
            self._stopped.clear()
            self._watching = Thread(target=self._watch, args=(seconds,), name="reload", daemon=True)
            self._watching.start()

    def stop(self) -> None:
        """Stop looking at the files."""
        self._stopped.set()
        if self._watching is not None:
            self._watching.join()

    def reload(self) -> list[str]:
        """Load the files that were replaced; return the names of the models with a new version."""
        return [name for name in self._paths if self._reload(name)]

    def _watch(self, seconds: float) -> None:
        while not self._stopped.wait(seconds):
            self.reload()

    def _reload(self, name: str) -> bool:
        signature = _signature(self._paths[name])
        if signature == self._signatures[name]:
            return False
        self._signatures[name] = signature  # a damaged or deleted file is reported once
        if signature is None:
            _log.warning("the file of model %s is gone, version %s stays", name, self._loaded[name].version)
            return False
        try:
            return self._replace(name)
        except Exception as error:  # whatever a foreign file leads to, the old version must stay
            old = self._loaded[name].version
            _log.error("model %s was not replaced, version %s stays: %s", name, old, error)
            return False

    def _replace(self, name: str) -> bool:
        """Load the file of a model; return whether its content is new."""
        new, old = LoadedModel.read(name, self._paths[name], self._training.get(name)), self._loaded.get(name)
        if old is not None and new.version == old.version:
            return False
        self._loaded[name] = new
        self._on_change(new, old)
        if old is not None:
            _log.warning("model %s was replaced: version %s after %s", name, new.version, old.version)
        return True


def _signature(path: Path) -> Signature | None:
    """Return what changes when a file is replaced or written; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _warm_up(model: ServedModel) -> None:
    """Decide once about an empty row, so that no request waits for imports and first allocations."""
    import pandas as pd

    if isinstance(model.schema, TableSchema):
        row = pd.DataFrame({column.name: [None] for column in model.schema.columns})
        with suppress(ValueError):  # the model may need a cost, or refuse missing values
            model.decide_with_expected_loss(row, warn=False)


def _column_names(model: ServedModel) -> dict[str, str | int]:
    if not isinstance(model.schema, TableSchema):
        return {}
    cost = [model.cost_] if isinstance(model.cost_, str) else []
    return {str(name): name for name in (*(column.name for column in model.schema.columns), *cost)}
