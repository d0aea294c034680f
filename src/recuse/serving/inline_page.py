"""Pages of the service, each with its style and scripts in one response."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files

__all__ = ["inline_page", "page_headers"]


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
    body = re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark.group(1)], _read(template))
    return body, page_headers(**parts)


def page_headers(style: str, script: str = "") -> dict[str, str]:
    """Return headers that allow one style and one script, no other page around, and no other host.

    Examples
    --------
    >>> page_headers("p { margin: 0 }")["X-Content-Type-Options"]
    'nosniff'
    """
    policy = (
        "default-src 'none'; base-uri 'none'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; "
        f"img-src data:; script-src '{_digest(script)}'; style-src '{_digest(style)}'"
    )
    return {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-cache",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def _read(name: str) -> str:
    return (files("recuse.serving") / "pages" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
