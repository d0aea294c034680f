"""The route /: the page where people decide about rows."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Response

__all__ = ["inline_page", "router"]

router = APIRouter(include_in_schema=False)

_SCRIPTS = ("rows_text.js", "cost_scale.js", "answer.js", "service.js", "one_row.js", "many_rows.js", "decide.js")


@router.get("/")
async def page() -> Response:
    """Return the page; it has no data, and asks the service for them."""
    body, headers = inline_page("decide.html", "decide.css", *_SCRIPTS)
    return Response(body, headers=headers, media_type="text/html")


@cache
def inline_page(template: str, style: str, *scripts: str) -> tuple[str, dict[str, str]]:
    """Return a page with its style and scripts, and the headers that allow these only.

    Parameters
    ----------
    template, style, *scripts : str
        Files in the folder `pages`.

    Examples
    --------
    >>> body, headers = inline_page("decide.html", "decide.css", "decide.js")
    >>> headers["Content-Security-Policy"][:50]
    "default-src 'none'; base-uri 'none'; connect-src '"
    """
    parts = {"style": _read(style), "script": "\n".join(map(_read, scripts))}
    policy = (
        "default-src 'none'; base-uri 'none'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; "
        f"img-src data:; script-src '{_digest(parts['script'])}'; style-src '{_digest(parts['style'])}'"
    )
    body = re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark.group(1)], _read(template))
    return body, {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def _read(name: str) -> str:
    return (files("recuse.serving") / "pages" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
