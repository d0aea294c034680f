"""Recording of decided rows: which ones go to review, with which probability; counts of the others; rows as JSON."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse.dataframes import to_pandas
from recuse.decision import Decision
from recuse.reviews.results import ReviewConflict
from recuse.tabular.schema import TableSchema

if TYPE_CHECKING:
    from recuse.model_file.served import ServedModel

_RECENT = 64  # rejected rows whose priorities audited rows are given
_MOST_CHARACTERS = 200  # an id of a caller has at most as many


@dataclass(frozen=True)
class RecordedModel:
    """A model whose decisions are recorded.

    Attributes
    ----------
    name, version : str
        Names under which the rows are kept.
    model : ServedModel

    Examples
    --------
    >>> RecordedModel("cars", "1", model=None).name
    'cars'
    """

    name: str
    version: str
    model: ServedModel


def drawn(count: int, share: float) -> NDArray[np.bool_]:
    """Draw each of `count` rows with a probability, by the random numbers of the operating system.

    A caller can neither predict nor influence them, and processes of a service have no state in common.
    """
    if share <= 0:
        return np.zeros(count, np.bool_)
    numbers = np.frombuffer(os.urandom(8 * count), np.uint64) >> np.uint64(11)
    return np.asarray(numbers * 2.0**-53 < share)


@dataclass(frozen=True)
class Recording:
    """The decided rows of one request, as a job of the writer: call it with a connection, inside a transaction.

    Attributes
    ----------
    model : RecordedModel
    decision : Decision
    expected_loss : ndarray of shape (n_rows,) or None
    share : float
        Probability of an accepted row to be sent to review.
    ids : list of str or None
        Ids of the caller. A row with a known id is not recorded again.
    chosen : ndarray of bool, shape (n_rows,)
        Rows for review: those that are rejected, and accepted ones that were drawn.
    rows : dict of int to dict
        Cells by place of the row, of rows for review and of rows with an id.
    digests : dict of int to bytes
        Digests of the rows with an id.
    """

    model: RecordedModel
    decision: Decision
    expected_loss: NDArray[np.float64] | None
    share: float
    ids: list[str | None]
    chosen: NDArray[np.bool_]
    rows: dict[int, dict[str, Any]]
    digests: dict[int, bytes]

    @classmethod
    def of(
        cls,
        model: RecordedModel,
        table: Any,
        decision: Decision,
        expected_loss: NDArray[np.float64] | None,
        given: Sequence[str | None] | None,
        share: float,
    ) -> Recording:
        """Draw accepted rows and convert what is to be stored, outside of the writer's thread."""
        count = len(decision)
        ids: list[str | None] = [None] * count if given is None else list(given)
        if len(ids) != count:
            raise ValueError(f"ids must have one text for each of {count} rows, got {len(ids)}")
        for each in ids:
            if each is not None and not is_name(each, _MOST_CHARACTERS):
                raise ValueError(f"an id must be a text of 1 to {_MOST_CHARACTERS} characters, got {each!r:.80}")
        chosen = ~decision.accepted | drawn(count, share)
        _check_numbers(decision, expected_loss, chosen)
        columns = {} if given is None and not chosen.any() else _columns_of(table, model.model)
        rows = {
            place: {name: _plain_cell(cells[place]) for name, cells in columns.items()}
            for place in range(count)
            if chosen[place] or ids[place] is not None
        }
        digests = {place: _digest_of(rows[place]) for place in rows if ids[place]}
        return cls(model, decision, expected_loss, share, ids, chosen, rows, digests)

    def __call__(self, connection: sqlite3.Connection) -> list[str | None]:
        """Write the rows; return the id of the review of each row, or None."""
        known, now = self._known(connection), time.time()
        model = _model_number(connection, self.model)
        found: list[str | None] = []
        counts = [0, 0]
        for place, caller in enumerate(self.ids):
            if caller is not None and caller in known:
                found.append(known[caller])
                continue
            counts[int(not self.decision.accepted[place])] += 1
            review = self._insert(connection, model, place, now) if self.chosen[place] else None
            found.append(review)
            if caller is not None:
                key = (self.model.name, caller, self.digests[place], review, now)
                connection.execute("INSERT INTO callers VALUES (?, ?, ?, ?, ?)", key)
                known[caller] = review  # an id may occur twice in one request
        if any(counts):
            _count(connection, (model, datetime.fromtimestamp(now, UTC).date().isoformat(), self.share), counts)
        return found

    def _known(self, connection: sqlite3.Connection) -> dict[str, str | None]:
        """Return the reviews of ids that were recorded before; raise an error if one had another row."""
        known: dict[str, str | None] = {}
        digests: dict[str, bytes] = {}
        for place, digest in self.digests.items():
            caller = self.ids[place]
            assert caller is not None
            key = (self.model.name, caller)
            stored = connection.execute("SELECT digest, review FROM callers WHERE model_name = ? AND id = ?", key)
            if (row := stored.fetchone()) is not None:
                known[caller] = row["review"]
                digests[caller] = row["digest"]
            if digests.setdefault(caller, digest) != digest:
                raise ReviewConflict(
                    f"an id must belong to one row, got id {caller!r:.80} with another row than before"
                )
        return known

    def _insert(self, connection: sqlite3.Connection, model: int, place: int, now: float) -> str:
        decision, review = self.decision, secrets.token_hex(9)
        loss = None if self.expected_loss is None else float(self.expected_loss[place])
        rejected, cost = not decision.accepted[place], float(decision.cost[place])
        # what the rejection saves
        saving = -float(decision.score[place]) if loss is None else loss - cost
        values = (
            *(review, model, now, json.dumps(self.rows[place], allow_nan=False, separators=(",", ":"))),
            *(float(decision.prediction[place]), cost, float(decision.score[place]), loss, bool(rejected)),
            *(1.0 if rejected else self.share, saving if rejected else _priority_of_audit(connection)),
        )
        connection.execute(
            "INSERT INTO reviews (id, model, recorded, row, prediction, cost, score, expected_loss, rejected, "
            "probability, priority) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
        return review


def _check_numbers(decision: Decision, expected: NDArray[np.float64] | None, chosen: NDArray[np.bool_]) -> None:
    """Raise a ValueError for a row to review whose numbers allow neither a loss nor an order."""
    unusable = {"prediction": ~np.isfinite(decision.prediction), "score": np.isnan(decision.score)}
    if expected is not None:
        unusable["expected loss"] = np.isnan(expected)
    for name, cells in unusable.items():
        if (wrong := chosen & cells).any():
            raise ValueError(f"a row for review must have a finite {name}, row {int(np.argmax(wrong))} has none")


def _count(connection: sqlite3.Connection, key: tuple[Any, ...], counts: list[int]) -> None:
    connection.execute(
        "INSERT INTO counts VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE "
        "SET accepted = accepted + excluded.accepted, rejected = rejected + excluded.rejected",
        (*key, *counts),
    )


def _priority_of_audit(connection: sqlite3.Connection) -> float:
    """Return the priority of one of the last rejected rows, drawn at random.

    If audited rows were given out by their own expected saving, the answers so far would not be a random sample.
    """
    recent = "SELECT priority FROM reviews WHERE rejected ORDER BY number DESC LIMIT ?"
    found = [priority for (priority,) in connection.execute(recent, (_RECENT,))]
    return float(secrets.choice(found)) if found else 0.0


def _model_number(connection: sqlite3.Connection, model: RecordedModel) -> int:
    key = (model.name, model.version)
    row = connection.execute("SELECT number FROM models WHERE name = ? AND version = ?", key).fetchone()
    if row is not None:
        return int(row["number"])
    served = model.model
    targets = served.info()["targets"]["names"]
    cursor = connection.execute(
        "INSERT INTO models (name, version, loss, target) VALUES (?, ?, ?, ?)",
        (*key, served.loss_.name, targets[0] if targets else None),
    )
    assert cursor.lastrowid is not None
    return cursor.lastrowid


def _columns_of(table: Any, model: ServedModel) -> dict[str, Any]:
    """Return the cells of a table by column; one row may be a mapping of names to cells."""
    if isinstance(table, Mapping):
        return {
            str(name): cells if isinstance(cells, Sequence | np.ndarray) and not isinstance(cells, str) else [cells]
            for name, cells in table.items()
        }
    if hasattr(frame := to_pandas(table), "columns"):
        return {str(name): frame.iloc[:, place].to_numpy() for place, name in enumerate(frame.columns)}
    cells = np.asarray(table)
    if cells.ndim != 2 or not isinstance(model.schema, TableSchema):
        raise ValueError(f"the review queue holds rows of tables, got an array of shape {cells.shape}")
    return {str(column.name): values for column, values in zip(model.schema.columns, cells.T, strict=True)}


def _plain_cell(cell: Any) -> str | int | float | bool | None:
    """Return a cell as JSON can hold it; missing values become None, other objects text.

    Examples
    --------
    >>> import datetime
    >>> _plain_cell(float("nan")), _plain_cell(np.int64(3)), _plain_cell(datetime.date(2024, 5, 1))
    (None, 3, '2024-05-01')
    """
    if isinstance(cell, np.datetime64):
        return None if np.isnat(cell) else str(cell)
    value = cell.item() if isinstance(cell, np.generic) else cell
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int | bool):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)


def _digest_of(row: Mapping[str, Any]) -> bytes:
    """Return a digest of a row; neither the order of its columns nor the type of equal numbers matters.

    Examples
    --------
    >>> _digest_of({"a": 3, "b": "x"}) == _digest_of({"b": "x", "a": 3.0})
    True
    """
    same = {name: int(cell) if isinstance(cell, float) and cell.is_integer() else cell for name, cell in row.items()}
    return hashlib.sha256(json.dumps(same, sort_keys=True, allow_nan=False).encode()).digest()[:16]


def is_name(value: Any, most: int) -> bool:
    """Whether a value is a text of 1 to `most` characters that SQLite can store.

    Examples
    --------
    >>> is_name("order 17", 200), is_name("", 200)
    (True, False)
    """
    if not isinstance(value, str) or not 0 < len(value) <= most:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in value)
