"""The route /: the page where people decide about rows."""

from __future__ import annotations

from fastapi import APIRouter, Response

from recuse.serving.inline_page import inline_page

__all__ = ["router"]

router = APIRouter(include_in_schema=False)

_SCRIPTS = (
    *("elements.js", "rows_text.js", "cost_scale.js", "answer.js", "service.js", "one_row.js", "many_rows.js"),
    "decide.js",
)


@router.get("/")
async def page() -> Response:
    """Return the page; it has no data, and asks the service for them."""
    body, headers = inline_page("decide.html", "decide.css", *_SCRIPTS)
    return Response(body, headers=headers, media_type="text/html")
