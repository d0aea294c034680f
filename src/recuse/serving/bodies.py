"""Bodies of requests as JSON values, and rows of JSON as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request

from recuse.serving.errors import RequestError
from recuse.serving.model_store import LoadedModel

__all__ = ["json_body", "table_of_records"]


async def json_body(request: Request) -> Any:
    """Return the body of a request as strict JSON; raise a RequestError if it is not."""
    return parse_json(await request.body())


def parse_json(body: bytes) -> Any:
    """Parse strict JSON, without NaN and infinity.

    Examples
    --------
    >>> parse_json(b'{"row": {"weight": 3000}}')
    {'row': {'weight': 3000}}
    """
    try:
        return json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise RequestError(400, f"the body must be JSON: {reason}") from error


def _no_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a number of JSON, use null for a missing value")


def table_of_records(loaded: LoadedModel, records: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows of JSON as a table with the columns of the model; absent columns are missing values.

    One row stays a mapping, which needs no DataFrame.
    """
    names = loaded.column_names
    if not names:
        raise RequestError(422, f"model {loaded.name!r} reads images, not rows: send them to /v2/models")
    if len(records) == 1:
        row = records[0]
        return {name: row.get(text) for text, name in names.items()}
    import pandas as pd

    return pd.DataFrame({name: [row.get(text) for row in records] for text, name in names.items()})
