"""How the rows of a request are read: by which model, within which limits, and what happens to unknown columns."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from recuse.phrases import short
from recuse.serving.errors import RequestError, shown
from recuse.serving.model_store import LoadedModel
from recuse.serving.parsing import RowLimits
from recuse.tabular.schema import TableSchema

__all__ = ["RowReading", "check_lenient"]

_SHOWN = 5  # names in an error
_MOST_CHARACTERS = 60  # of a name in an error


@dataclass(frozen=True)
class RowReading:
    """How the rows of one request are read.

    Attributes
    ----------
    loaded : LoadedModel
    limits : RowLimits
    lenient : bool
        Whether unknown columns are ignored, and rows without any known column are rows of missing values.
    """

    loaded: LoadedModel
    limits: RowLimits
    lenient: bool = False

    @property
    def schema(self) -> TableSchema:
        """The columns of the model; raises a RequestError if it reads images."""
        schema = self.loaded.model.schema
        if not isinstance(schema, TableSchema):
            raise RequestError(
                422, f"model {self.loaded.name!r} reads images, not rows: send them as a tensor to /v2/models"
            )
        return schema

    def check_size(self, rows: int, columns: int = 0) -> None:
        """Raise a RequestError for too many rows or cells of the table that the model reads, or of the request."""
        self.limits.check(rows, max(columns, len(self.loaded.column_names)))

    def check_names(self, given: Collection[str], place: str = "") -> None:
        """Raise a RequestError for unknown columns, and if no column is known, unless the request is lenient."""
        known = self.loaded.column_names
        unknown = [name for name in given if name not in known]
        if self.lenient or (given and not unknown):
            return
        if not unknown:
            raise RequestError(422, f"a row must have a column of the model, {_names(known)}, got none{place}")
        raise RequestError(422, f"{_unknown(unknown, known)}{place}; lenient=true ignores unknown columns")


def _unknown(unknown: Sequence[str], known: Iterable[str]) -> str:
    """Name unknown columns and the known ones that they are like."""
    several = "s" if len(unknown) > 1 else ""
    named = f"unknown column{several} {short([_shown(name) for name in unknown], _SHOWN)}"
    by_lower = {name.lower(): name for name in known}
    near: dict[str, None] = {}
    for name in unknown[:_SHOWN]:
        matches = get_close_matches(name[:_MOST_CHARACTERS].lower(), by_lower, n=1)
        near.update(dict.fromkeys(repr(by_lower[match]) for match in matches))
    if near:
        return f"{named}: did you mean {' and '.join(near)}?"
    return f"{named}: the model has {_names(by_lower.values())}"


def _names(known: Iterable[str]) -> str:
    return short([_shown(name) for name in known], _SHOWN)


def _shown(name: str) -> str:
    return repr(name) if len(name) <= _MOST_CHARACTERS else f"{name[:_MOST_CHARACTERS]!r}..."


def check_lenient(value: Any) -> bool:
    """Return whether a request is lenient.

    Examples
    --------
    >>> check_lenient(True), check_lenient("false")
    (True, False)
    """
    known = {"true": True, "false": False}
    if isinstance(value, bool) or (isinstance(value, str) and value in known):
        return value is True or value == "true"
    raise RequestError(422, f"lenient must be true or false, got {shown(value)}")
