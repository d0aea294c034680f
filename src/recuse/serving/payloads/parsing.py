"""Bodies of requests as text and as values of JSON."""

from __future__ import annotations

import gc
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np

from recuse.serving.errors import RequestError, shown
from recuse.serving.payloads.limits import RowLimits

__all__ = ["decode_text", "parse_json"]

_MOST_DIGITS = 400
_MOST_WIDE = 2**22  # bytes of a text with characters beyond U+FFFF: one of them makes all take four bytes of memory
_FOUR_BYTES = 0xF0  # first byte of such a character in UTF-8
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse_json(body: bytes, *, nan_is_missing: bool = False, limits: RowLimits | None = None) -> Any:
    """Parse JSON with different names in each object; NaN, which some clients write, is an error or a missing value.

    With `limits`, a body that has too many values or objects is refused before it takes much memory.

    Examples
    --------
    >>> parse_json(b'{"row": {"weight": 3000}}')
    {'row': {'weight': 3000}}
    """
    decoder = _LENIENT if nan_is_missing else _STRICT
    large = limits is not None and len(body) > limits.objects  # a smaller one cannot have that many
    if limits is not None and large:
        limits.check_json(body)
        decoder = _decoder(decoder.parse_constant, _ObjectCount(limits), _bounded_int)
    try:
        with _no_collections() if large else nullcontext():
            parsed = decoder.decode(decode_text(body))
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
    if len(body) > _MOST_WIDE and np.frombuffer(body, np.uint8).max() >= _FOUR_BYTES:
        raise RequestError(413, f"a body with characters such as emoji may have at most {_MOST_WIDE} bytes")
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


def _different(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise a RequestError if it has a name twice, since a parser would keep only one value."""
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        twice = ""
        for name, _ in pairs:
            twice = name if name in seen else twice
            seen.add(name)
        raise RequestError(400, f"the body must be JSON with different names in each object, got {shown(twice)} twice")
    return made


class _ObjectCount:
    """Makes objects of JSON, and stops the parser when there are too many."""

    def __init__(self, limits: RowLimits) -> None:
        self._limits, self._left = limits, limits.objects

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0:
            most = self._limits
            raise RequestError(
                413, f"a request may have at most {most.rows} rows, got more than {most.objects} objects"
            )
        return _different(pairs)


def _bounded_int(digits: str) -> int:
    """Return a whole number; a long one takes long to convert, and is too large for every column."""
    if len(digits) > _MOST_DIGITS:
        raise RequestError(422, "numbers must be below 1.8e308 in size, got a larger one")
    return int(digits)


@contextmanager
def _no_collections() -> Iterator[None]:
    """Keep Python from looking for garbage among the values that are made, which takes longer than to make them."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _decoder(parse_constant: Any, make_object: Any, parse_int: Any = None) -> json.JSONDecoder:
    return json.JSONDecoder(parse_constant=parse_constant, object_pairs_hook=make_object, parse_int=parse_int)


_STRICT = _decoder(_no_constant, _different)  # made once: that takes longer than to parse a row
_LENIENT = _decoder(_missing, _different)
