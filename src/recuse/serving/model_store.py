"""The models of the service, loaded from their files and again when these are replaced."""

from __future__ import annotations

import logging
import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.decision import Decision
from recuse.guarantees.certificate import Certificate
from recuse.model_file.served import ServedModel, load_with_digest
from recuse.model_file.table_report import CellComparison
from recuse.tabular.schema import TableSchema

_VERSION_DIGITS = 12

_log = logging.getLogger("recuse.serving")


@dataclass(frozen=True)
class DecidedRows:
    """What a model says about some rows.

    Attributes
    ----------
    decision : Decision
    expected_loss : ndarray of shape (n_rows,) or None
        None if the estimator has no expected loss.
    comparison : CellComparison or None
        What is unlike the training rows; None for images.
    """

    decision: Decision
    expected_loss: NDArray[np.float64] | None
    comparison: CellComparison | None

    def __getitem__(self, rows: slice) -> DecidedRows:
        """Return some of the rows."""
        expected = None if self.expected_loss is None else self.expected_loss[rows]
        return DecidedRows(self.decision[rows], expected, None if self.comparison is None else self.comparison[rows])

    @classmethod
    def concatenate(cls, blocks: Sequence[DecidedRows]) -> DecidedRows:
        """Put the outcomes of blocks of rows together."""
        losses = [block.expected_loss for block in blocks if block.expected_loss is not None]
        compared = [block.comparison for block in blocks if block.comparison is not None]
        return cls(
            Decision.concatenate([block.decision for block in blocks]),
            np.concatenate(losses) if losses else None,
            CellComparison.concatenate(compared) if compared else None,
        )


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
    certificate_number : int or None
        Number of the certificate, from 1, at whose threshold the model decides.

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
    certificate_number: int | None = None

    @property
    def certificate(self) -> Certificate | None:
        """The certificate in force."""
        number = self.certificate_number
        return None if number is None else self.model.certificates[number - 1]

    @property
    def target(self) -> str | None:
        """The name of the target, if the file has it."""
        names = self.model.info()["targets"]["names"]
        return names[0] if names else None

    @property
    def has_expected_loss(self) -> bool:
        """Whether the model expects a loss for each row."""
        return "expected_loss" in self.model.result_types

    @property
    def reads_rows(self) -> bool:
        """Whether the model reads rows of tables, which a review queue can hold; others read images."""
        return isinstance(self.model.schema, TableSchema)

    @classmethod
    def read(
        cls, name: str, path: Path, training: pd.DataFrame | None = None, certificate: int | None = None
    ) -> LoadedModel:
        """Load a model file; raise a ValueError or an OSError if it cannot be used, or lacks the certificate."""
        model, digest = load_with_digest(path)
        count = len(model.certificates)
        if certificate is not None and not 1 <= certificate <= count:
            raise ValueError(
                f"the file of model {name!r} must have certificate {certificate}, it has {count} certificates"
            )
        loaded = cls(name, digest[:_VERSION_DIGITS], model, training, certificate_number=certificate)
        loaded._warm_up()
        return loaded

    def decide(self, table: Any, cost: Any = None) -> DecidedRows:
        """Decide about rows, by the certificate in force if there is one, and compare them with the training rows."""
        number = self.certificate_number
        certified = None if number is None else self.model.certified(number - 1)
        cost = cost if certified is None else certified.model_cost(cost)
        reading = self.model.read(table, warn=False)
        decision, expected = self.model.decide_reading(reading, cost)
        return DecidedRows(decision if certified is None else certified.apply(decision), expected, reading.comparison)

    def check_same_promise(self, other: LoadedModel) -> None:
        """Raise a ValueError if another file has another promise under the number of the certificate in force."""
        promises = [
            f"{each.what} <= {each.target:g} at delta {each.delta:g}"
            for each in (self.certificate, other.certificate)
            if each is not None
        ]
        if len(set(promises)) > 1:
            raise ValueError(
                f"certificate {self.certificate_number} of model {self.name!r} must promise {promises[0]} as before, "
                f"the new file has {promises[1]}"
            )

    @cached_property
    def column_names(self) -> dict[str, str | int]:
        """Names of the columns of the table, with the column of the cost, by their text in JSON; empty for images."""
        if not isinstance(self.model.schema, TableSchema):
            return {}
        names = [column.name for column in self.model.schema.columns]
        costs = [self.model.cost_, None if self.certificate is None else self.certificate.cost]
        return {str(name): name for name in (*names, *(cost for cost in costs if isinstance(cost, str)))}

    def _warm_up(self) -> None:
        """Decide once about an empty row, so that no request waits for imports and first allocations."""
        if isinstance(self.model.schema, TableSchema):
            row = pd.DataFrame({column.name: [None] for column in self.model.schema.columns})
            with suppress(ValueError):  # the model may need a cost, or refuse missing values
                self.decide(row)


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
    certificates : mapping of str to int, optional
        Number of the certificate, from 1, at whose threshold a model is served, by name of the model. A file without
        it, or with another promise of this number, is not used.
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
        certificates: Mapping[str, int] | None = None,
        on_change: Callable[[LoadedModel, LoadedModel | None], None] | None = None,
    ) -> None:
        self._paths = dict(paths)
        self._training, self._certificates = dict(training or {}), dict(certificates or {})
        self._on_change = on_change or (lambda new, old: None)
        self._signatures = {name: _signature(path) for name, path in self._paths.items()}
        self._failures: dict[str, str] = {}  # by name of the model, while its file cannot be read
        self._loaded: dict[str, LoadedModel] = {}
        for name in self._paths:
            self._replace(name)
        self.default = next(iter(self._paths))

    @property
    def names(self) -> list[str]:
        """The names of the models."""
        return list(self._paths)

    def get(self, name: str | None = None) -> LoadedModel:
        """Return the current version of a model, by default of the first; raise a KeyError for unknown names."""
        return self._loaded[self.default if name is None else name]

    def reload(self) -> list[str]:
        """Load the files that were replaced; return the names of the models with a new version."""
        return [name for name in self._paths if self._reload(name)]

    def _reload(self, name: str) -> bool:
        """Load a file that was replaced; return whether its content is new.

        Trouble is reported once. A file that cannot be opened, as with too many open files, is tried again.
        """
        signature, old, failure = _signature(self._paths[name]), self._loaded[name], ""
        if signature == self._signatures[name]:
            self._failures.pop(name, None)
            return False
        try:
            if signature is None:
                _log.warning("the file of model %s is gone, version %s stays", name, old.version)
            else:
                self._replace(name)
        except Exception as error:  # whatever a foreign file leads to, the old version must stay
            failure = str(error) if isinstance(error, OSError) else ""
            if not failure or failure != self._failures.get(name):
                _log.error("model %s was not replaced, version %s stays: %s", name, old.version, error)
        self._failures[name] = failure
        if not failure:
            self._signatures[name] = signature
        return self._loaded[name] is not old

    def _replace(self, name: str) -> None:
        """Load the file of a model, unless its content is that of the version in use."""
        new = LoadedModel.read(name, self._paths[name], self._training.get(name), self._certificates.get(name))
        old = self._loaded.get(name)
        if old is not None and new.version == old.version:
            return
        if old is not None:
            old.check_same_promise(new)
        self._loaded[name] = new
        self._on_change(new, old)
        if old is not None:
            _log.warning("model %s was replaced: version %s after %s", name, new.version, old.version)
        _warn_of_certificates(new)


def _warn_of_certificates(loaded: LoadedModel) -> None:
    """Say that a model with certificates is served without one; of several processes, the first says so."""
    count = len(loaded.model.certificates)
    if count and loaded.certificate_number is None and multiprocessing.parent_process() is None:
        has = "a certificate, which does" if count == 1 else f"{count} certificates, which do"
        _log.warning(
            "model %s has %s not hold at the threshold that it is served at: --certificate [MODEL=]N serves it at a "
            "certified one",
            loaded.name,
            has,
        )


def _signature(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file is replaced or written; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns
