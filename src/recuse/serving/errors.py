"""Errors that the service answers with one sentence."""

from __future__ import annotations

import json

from fastapi import Response

__all__ = ["RequestError", "error_response"]


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
