"""The FastAPI application: its models, its routes and its answers to errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response

from recuse._version import __version__
from recuse.reviews.database import prepare
from recuse.serving.errors import RequestError, error_response
from recuse.serving.model_store import ModelStore
from recuse.serving.settings import Settings

__all__ = ["create_app"]


def create_app(settings: Settings) -> FastAPI:
    """Create the application that serves some model files.

    Parameters
    ----------
    settings : Settings

    Returns
    -------
    FastAPI
        `app.state` has `settings`, `models` (a ModelStore), `queue` (a ReviewQueue or None) and `threads`.

    Raises
    ------
    ModelFileError, OSError, ValueError
        If a model file, a table of training rows or the queue cannot be used.
    """
    training = {name: _read_training(path) for name, path in settings.training.items()}
    app = FastAPI(title="recuse", version=__version__, lifespan=_lifespan, docs_url=None, redoc_url=None)
    app.state.settings = settings
    app.state.models = ModelStore(settings.models, training)
    app.state.queue = None  # opened when the application starts
    if settings.queue is not None:
        prepare(settings.queue)  # raises an error if it is something else
    for router in _routers(settings):
        app.include_router(router)
    app.add_exception_handler(RequestError, _answer_error)
    return app


def _routers(settings: Settings) -> list[APIRouter]:
    """Return the routes of all protocols and pages."""
    from recuse.serving.routes import models, predict

    routers = [predict.router, models.router]
    if settings.queue is not None:
        from recuse.serving.routes import reviews

        routers.append(reviews.router)
    # from recuse.serving.routes import page: routers.append(page.router)
    return [*routers]


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open what the application holds while it runs, and close it at the end."""
    state = app.state
    state.threads = ThreadPoolExecutor(state.settings.threads, thread_name_prefix="decide")
    if state.settings.queue is not None:
        from recuse.reviews import ReviewQueue

        state.queue = ReviewQueue.open(state.settings.queue, audit_share=state.settings.audit_share)
    try:
        yield
    finally:
        state.threads.shutdown()
        if state.queue is not None:
            state.queue.close()


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestError)
    return error_response(error.status, error.sentence, error.headers)


def _read_training(path: Path) -> Any:
    from recuse.files.tables import read_table

    return read_table(str(path))
