"""The route /metrics, for Prometheus."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from recuse.serving.openapi import operations

__all__ = ["router"]

router = APIRouter()


@router.get("/metrics", **operations.METRICS)
async def metrics(request: Request) -> Response:
    """Return latency, decisions, expected losses and drift in the text format of Prometheus."""
    state = request.app.state
    text = await asyncio.get_running_loop().run_in_executor(state.threads, state.metrics.render)
    return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})
