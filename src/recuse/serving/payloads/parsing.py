"""Bodies of requests as text and as values of JSON."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

from recuse.serving.errors import RequestError

__all__ = ["decode_text", "parse_json"]

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(body: bytes, *, nan_is_missing: bool = False) -> Any:
    """Parse JSON without infinite numbers; NaN, which some clients write, is an error or a missing value.

    Examples
    --------
    >>> parse_json(b'{"row": {"weight": 3000}}')
    {'row': {'weight': 3000}}
    """
    text = decode_text(body)
    try:
        parsed = (_LENIENT if nan_is_missing else _STRICT).decode(text)
    except RecursionError as error:
        raise RequestError(400, "the body must be JSON: nested too deeply") from error
    except json.JSONDecodeError as error:
        raise RequestError(400, f"the body must be JSON: {error!s:.200}") from error
    except ValueError as error:  # of int, whose message is about Python
        most = sys.get_int_max_str_digits()
        raise RequestError(400, f"the body must be JSON: a whole number has more than {most} digits") from error
    if _SURROGATE.search(body):
        _check_text(parsed)
    return parsed


def decode_text(body: bytes) -> str:
    """Return the text of a body in UTF-8, with or without a byte order mark."""
    try:
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        found = f"{error.object[error.start]:#04x} at position {error.start}"
        raise RequestError(400, f"the body must be text in UTF-8, got the byte {found}") from error


def _check_text(parsed: Any) -> None:
    """Raise a RequestError for a text with half of a surrogate pair, which UTF-8 cannot hold."""
    try:
        json.dumps(parsed, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        found = rf"\u{ord(error.object[error.start]):04x}"
        raise RequestError(400, f"texts must be Unicode, got half of a surrogate pair, {found}") from error


def _no_constant(constant: str) -> Any:
    raise RequestError(400, f"the body must be JSON: {constant} is not a number of JSON, use null for a missing value")


def _missing(constant: str) -> Any:
    return None if constant == "NaN" else _no_constant(constant)


_STRICT = json.JSONDecoder(parse_constant=_no_constant)  # made once: that takes longer than to parse a row
_LENIENT = json.JSONDecoder(parse_constant=_missing)
