"""The page /docs: a list of the routes that needs no other host."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from recuse.serving.inline_page import page_headers

__all__ = ["router"]

router = APIRouter()

_STYLE = (
    ":root{color-scheme:light dark}body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;"
    "padding:0 1rem}code,pre{font-family:ui-monospace,monospace;font-size:.9em}pre{overflow-x:auto;padding:.5rem;"
    "border:1px solid #8886;border-radius:6px}h2{font-size:1.1rem;margin:1.5rem 0 0}p{margin:.25rem 0}"
)


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> HTMLResponse:
    """List the routes with their examples."""
    described = request.app.openapi()
    sections = [
        _section(method.upper(), path, operation)
        for path, operations in described["paths"].items()
        for method, operation in operations.items()
    ]
    title = f"{described['info']['title']} {described['info']['version']}"
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>"
        f"<p>{escape(described['info'].get('description', ''))}</p>"
        f'<p>The schemas of all bodies and answers are in <a href="openapi.json">openapi.json</a>.</p>'
        f"{''.join(sections)}</html>",
        headers=page_headers(_STYLE),
    )


def _section(method: str, path: str, operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    examples = "".join(
        f"<p>{escape(name)}</p><pre>{escape(json.dumps(example['value'], indent=1))}</pre>"
        for name, example in content.get("examples", {}).items()
    )
    return f"<h2><code>{method} {escape(path)}</code></h2><p>{escape(operation.get('summary', ''))}</p>{examples}"
