"""The pages of the service: / for decisions and /docs for the list of routes, each in one response."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Request, Response

router = APIRouter(include_in_schema=False)

_SCRIPTS = (
    *("elements.js", "rows_text.js", "cost_scale.js", "answer.js", "service.js", "one_row.js", "many_rows.js"),
    "decide.js",
)


@router.get("/")
async def page() -> Response:
    """Return the page; it has no data, and asks the service for them."""
    return inline_page("decide.html", "decide.css", *_SCRIPTS)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """List the routes with their examples."""
    described = request.app.openapi()
    sections = [
        _section(method.upper(), path, operation)
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    ]
    info, style = described["info"], _read("docs.css")
    parts = {"title": f"{info['title']} {info['version']}", "description": info.get("description", "")}
    parts = {name: escape(text) for name, text in parts.items()} | {"style": style, "sections": "".join(sections)}
    return Response(_filled("docs.html", parts), headers=page_headers(style), media_type="text/html")


def _section(method: str, path: str, operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples = "".join(
        f"<p>{escape(name)}</p><pre>{escape(json.dumps(example['value'], indent=1))}</pre>"
        for name, example in content.get("examples", {}).items()
    )
    return f"<h2><code>{method} {escape(path)}</code></h2><p>{escape(operation.get('summary', ''))}</p>{examples}"


@cache
def inline_page(template: str, style: str, *scripts: str) -> Response:
    """Return a page with its style and scripts, and with headers that allow these only.

    Parameters
    ----------
    template, style, *scripts : str
        Files in the folder `pages`.

    Examples
    --------
    >>> inline_page("decide.html", "decide.css", "decide.js").headers["Content-Security-Policy"][:50]
    "default-src 'none'; base-uri 'none'; connect-src '"
    """
    parts = {"style": _read(style), "script": "\n".join(map(_read, scripts))}
    return Response(_filled(template, parts), headers=page_headers(**parts), media_type="text/html")


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


def _filled(template: str, parts: dict[str, str]) -> str:
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark.group(1)], _read(template))


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
