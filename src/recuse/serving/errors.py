"""Errors that the service answers with one sentence."""

from __future__ import annotations

import json
import reprlib
from typing import Any

from fastapi import Response

__all__ = ["DEFAULT_HEADERS", "RequestError", "error_response", "shown"]

# Every answer has these headers: it is not to be stored, nor its type to be guessed.
DEFAULT_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


class RequestError(Exception):
    """A request that cannot be answered.

    Parameters
    ----------
    status : int
        Status code of the answer.
    sentence : str
    headers : dict of str to str, optional
        Headers of the answer.
    reason : str, optional
        Label under which the limits of the service count and log the refusal; None for mistakes in the content.
    """

    def __init__(
        self, status: int, sentence: str, headers: dict[str, str] | None = None, *, reason: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers, self.reason = status, sentence, headers, reason


def error_response(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """Return the answer `{"error": sentence}`.

    Examples
    --------
    >>> error_response(404, "there is no such model").body
    b'{"error": "there is no such model"}'
    """
    body = json.dumps({"error": " ".join(sentence.split())})
    return Response(body, status, headers, media_type="application/json")


def shown(value: Any) -> str:
    """Return the beginning of a value for an error, without a text of all of it, which can take long.

    Examples
    --------
    >>> shown([1, 2]), shown("x" * 1000)[-4:], shown(list(range(100)))
    ('[1, 2]', "...'", '[0, 1, 2, 3, 4, 5, ...]')
    """
    return _SHORT.repr(value)[:_MOST_SHOWN]


_MOST_SHOWN = 80
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = _MOST_SHOWN
