"""The FastAPI application: its models, its routes and its answers to errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from recuse._version import __version__
from recuse.reviews import ReviewQueue
from recuse.reviews.database import prepare
from recuse.serving import metrics, pages, predict, protocols, reviews
from recuse.serving.bodies import RowLimits
from recuse.serving.guard import Guard, Refusals
from recuse.serving.metrics import ServiceMetrics
from recuse.serving.model_store import ModelStore
from recuse.serving.openapi import describe
from recuse.serving.settings import Settings

_DESCRIPTION = (
    "Regression with cost-based rejection: each row gets a prediction, and whether to use it or ask a person."
)
_DIGEST_SECONDS = 1.0


class _Service(FastAPI):
    """An application whose guard stands before FastAPI's own middleware, which takes a tenth of a request."""

    guard: Guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope["app"] = self
            await self.guard(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """Return the description of the routes."""
        if self.openapi_schema is None:
            self.openapi_schema = describe(self)
        return self.openapi_schema

    def add_middleware(self, *_: Any, **__: Any) -> None:
        """Refuse middleware: requests such as those for /predict would pass by it."""
        raise TypeError("the application takes no middleware of its own: wrap the application in it")

    def build_middleware_stack(self) -> ASGIApp:
        """Return the router alone: the guard answers its errors."""
        return AsyncExitStackMiddleware(self.router)


def create_app(settings: Settings) -> FastAPI:
    """Create the application that serves some model files.

    Parameters
    ----------
    settings : Settings

    Returns
    -------
    FastAPI
        `app.state` has `settings`, `models` (a ModelStore), `metrics` (ServiceMetrics), `refusals` (Refusals), and
        while the application runs `queue` (a ReviewQueue or None) and `threads`.

    Raises
    ------
    ModelFileError, OSError, ValueError
        If a model file or a table of training rows cannot be used.

    Examples
    --------
    >>> import tempfile
    >>> import recuse
    >>> from sklearn.linear_model import Ridge
    >>> X, y, _, _ = recuse.datasets.make_heteroscedastic(200, random_state=0)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "m.recuse")
    >>> recuse.save(recuse.RiskRejector(Ridge(), Ridge(), random_state=0).fit(X, y), path)
    >>> app = create_app(Settings({"m": path}, max_rows=100))
    >>> app.state.models.names
    ['m']
    >>> folder.cleanup()
    """
    training = {name: _read_training(path) for name, path in settings.training.items()}
    app = _Service(
        title="recuse",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,  # they would load scripts from another host
        redoc_url=None,
        redirect_slashes=False,  # the address would be that of the header Host, which anybody can choose
    )
    app.state.settings = settings
    app.state.metrics = ServiceMetrics()
    app.state.limits = RowLimits(settings.max_rows, settings.max_cells)
    app.state.models = ModelStore(settings.models, training, settings.certificates, app.state.metrics.loaded)
    for name in training:
        predict.check_training_rows(app.state.models.get(name))
    app.state.queue = app.state.queue_state = None  # opened when the application starts
    for routes in (pages, predict, protocols, metrics):
        app.include_router(routes.router)
    if settings.queue is not None:
        prepare(settings.queue)  # raises an error if it is something else
        app.include_router(reviews.router)
    app.state.refusals = Refusals(app.state.metrics.registry)
    app.guard = Guard(
        partial(FastAPI.__call__, app),
        settings=settings,
        observe=app.state.metrics.observe,
        refusals=app.state.refusals,
        direct={("POST", "/predict"): predict.predict},
    )
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[dict[str, Any]]:
    """Open what the application holds while it runs, and close it at the end; the server gets the refusals."""
    state = app.state
    state.threads = ThreadPoolExecutor(state.settings.threads, thread_name_prefix="decide")
    state.large = ThreadPoolExecutor(1, thread_name_prefix="decide-large")
    if state.settings.queue is not None:
        state.queue = ReviewQueue.open(state.settings.queue, audit_share=state.settings.audit_share)
        state.queue_state = reviews.QueueState(state.queue)
    repeated = [asyncio.create_task(_repeat(_DIGEST_SECONDS, state.metrics.digest, state.threads))]
    if state.settings.reload_seconds > 0:
        repeated.append(asyncio.create_task(_repeat(state.settings.reload_seconds, state.models.reload)))
    try:
        yield {"refusals": state.refusals}
    finally:
        for task in repeated:
            task.cancel()
        await asyncio.gather(*repeated, return_exceptions=True)
        state.threads.shutdown()
        state.large.shutdown()
        if state.queue is not None:
            state.queue.close()


async def _repeat(seconds: float, work: Callable[[], Any], threads: ThreadPoolExecutor | None = None) -> None:
    """Do work again and again, in a thread; this much time is between two times."""
    while True:
        await asyncio.sleep(seconds)
        await asyncio.get_running_loop().run_in_executor(threads, work)


def _read_training(path: Path) -> Any:
    """Read a table of training rows; of a large one, as many rows at random as are compared with a new row."""
    from recuse.files.tables import read_table
    from recuse.inspection.explanations import training_sample

    return training_sample(read_table(str(path)))
