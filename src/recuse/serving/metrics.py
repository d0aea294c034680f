"""Metrics of the service for Prometheus: latency, decisions, expected losses, and drift against training."""

from __future__ import annotations

import asyncio
import collections
import logging
import os
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from recuse.decision import Decision
from recuse.model_file.table_report import CellComparison
from recuse.out_of_fold import OutOfFold
from recuse.serving.model_store import DecidedRows, LoadedModel
from recuse.serving.openapi import GUARDED, operation

_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# By name: meaning, labels beside the model, and how the values of several workers are joined.
_GAUGES: dict[str, tuple[str, tuple[str, ...], Any]] = {
    "column_drift": (
        *("Share of the recent rows with a cell that training did not have.", ("column", "problem"), "livemax"),
    ),
    "output_drift": (
        *("Kolmogorov-Smirnov distance of the recent outputs from the out-of-fold ones.", ("output",), "livemax"),
    ),
    "expected_loss": ("Quantiles of the expected loss of the recent rows.", ("quantile",), "livemostrecent"),
    "model_loaded": ("1 for the served version.", ("version",), "livemax"),
    "model_certificate": ("Number of the certificate in force, 0 for none.", (), "livemostrecent"),
}

_WINDOW = 5000  # rows that the shares, distances and quantiles are about
_PENDING = 1000  # rows that wait for `digest`; with more the oldest are left out
_SAMPLE = 200  # rows of one request

Floats = NDArray[np.float64]

_log = logging.getLogger("recuse.serving")

router = APIRouter()


@router.get("/metrics", **operation(str, *GUARDED))
async def metrics(request: Request) -> Response:
    """Return latency, decisions, expected losses and drift in the text format of Prometheus."""
    state = request.app.state
    text = await asyncio.get_running_loop().run_in_executor(state.threads, state.metrics.render)
    return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})


class ServiceMetrics:
    """The metrics of one process; with several workers they are joined when they are read.

    Attributes
    ----------
    registry : CollectorRegistry
        Other parts of the service may register metrics here.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "recuse_request_seconds",
            "Time of a request.",
            ["route", "status"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._rows = Counter("recuse_rows", "Decided rows.", ["model", "decision"], registry=self.registry)
        self._gauges = {
            name: Gauge(f"recuse_{name}", meaning, ("model", *labels), registry=self.registry, multiprocess_mode=mode)
            for name, (meaning, labels, mode) in _GAUGES.items()
        }
        self._digesting = Lock()
        self._of_route, self._of_decision = cache(self._seconds.labels), cache(self._rows.labels)
        self._known_shares: dict[str, set[tuple[str, str]]] = {}
        self._windows: dict[str, RecentRows] = {}
        self._shown: dict[str, RecentRows] = {}

    def observe(self, route: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._of_route(route, str(status)).observe(seconds)

    def add(self, loaded: LoadedModel, outcome: DecidedRows) -> None:
        """Count the decisions of a request, and note its rows."""
        accepted = int(np.count_nonzero(outcome.decision.accepted))
        for kind, count in (("accepted", accepted), ("rejected", len(outcome.decision) - accepted)):
            if count:
                self._of_decision(loaded.name, kind).inc(count)
        window = self._windows.get(loaded.name)
        if window is None or window.loaded is not loaded:
            window = self._windows[loaded.name] = RecentRows(loaded)
        window.add(outcome)

    def loaded(self, model: LoadedModel, previous: LoadedModel | None = None) -> None:
        """Note which version of a model is served."""
        if previous is not None:
            self._gauges["model_loaded"].labels(previous.name, previous.version).set(0)
        self._gauges["model_loaded"].labels(model.name, model.version).set(1)
        self._gauges["model_certificate"].labels(model.name).set(model.certificate_number or 0)

    def digest(self) -> None:
        """Bring the gauges up to date with the rows since the last call."""
        with self._digesting:  # a scrape waits for the gauges of rows that another thread has taken
            for name, window in list(self._windows.items()):
                try:
                    if window.digest() or window is not self._shown.get(name):
                        self._set_gauges(name, window)
                        self._shown[name] = window
                except Exception as error:  # metrics must not stop the service
                    _log.error("%s while computing the drift of model %s", type(error).__name__, name)

    def render(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        self.digest()
        folder = os.environ.get(_FOLDER)
        if folder is None:
            return generate_latest(self.registry)
        _forget_dead_workers(Path(folder))
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    def _set_gauges(self, name: str, window: RecentRows) -> None:
        outputs, shares = window.outputs(), window.column_shares()
        known = self._known_shares.setdefault(name, set())
        known.update(shares)
        for column, problem in known:  # 0 for what is no longer in the window
            self._gauges["column_drift"].labels(name, column, problem).set(shares.get((column, problem), 0.0))
        losses = outputs.get("expected_loss", np.zeros(0))
        if np.isfinite(losses).any():
            quantiles = np.quantile(losses[np.isfinite(losses)], _QUANTILES).tolist()
            for level, loss in zip(_QUANTILES, quantiles, strict=True):
                self._gauges["expected_loss"].labels(name, f"{level:g}").set(loss)
        for output, distance in window.distances(outputs).items():
            self._gauges["output_drift"].labels(name, output).set(distance)


def _forget_dead_workers(folder: Path) -> None:
    """Remove the gauges of workers that ended."""
    workers = {int(path.stem.rpartition("_")[2]) for path in folder.glob("gauge_live*_*.db")}
    for worker in workers:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            mark_process_dead(worker, str(folder))  # type: ignore[no-untyped-call]


class RecentRows:
    """A rolling window of the rows that one version of a model decided.

    `add` only stores a reference, because it runs with each request. `digest` does the work, every few seconds, in one
    thread at a time.

    Parameters
    ----------
    loaded : LoadedModel
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self._pending: collections.deque[DecidedRows] = collections.deque(maxlen=_PENDING)
        self._batches: collections.deque[tuple[int, collections.Counter[tuple[str, str]], dict[str, Floats]]] = (
            collections.deque()
        )

    def add(self, outcome: DecidedRows) -> None:
        """Note some decided rows without their cells, which may be large; of many rows some at equal distances."""
        count = len(outcome.decision)
        self._pending.append(outcome if count == 1 else outcome[:: -(-count // _SAMPLE)])

    def digest(self) -> bool:
        """Compare the rows since the last call with the training rows; return whether there were any."""
        noted = [self._pending.popleft() for _ in range(len(self._pending))]
        if not noted:
            return False
        recent, count = [], 0
        for outcome in reversed(noted):  # the newest first
            recent.append(outcome)
            count += len(outcome.decision)
            if count >= _PENDING:
                break
        compared = [each.comparison for each in recent if each.comparison is not None]
        problems = CellComparison.concatenate(compared).counts() if compared else {}
        outputs = [_outputs(each.decision, each.expected_loss) for each in recent]
        joined = {name: np.concatenate([each[name] for each in outputs]) for name in outputs[0]}
        self._batches.append((count, collections.Counter(problems), joined))
        while len(self._batches) > 1 and sum(batch[0] for batch in self._batches) > _WINDOW:
            self._batches.popleft()
        return True

    def column_shares(self) -> dict[tuple[str, str], float]:
        """Return the shares of rows with a cell that training did not have, by column and problem."""
        total = collections.Counter[tuple[str, str]]()
        for _, problems, _ in list(self._batches):
            total.update(problems)
        rows = sum(batch[0] for batch in list(self._batches))
        return {key: count / rows for key, count in total.items()}

    def outputs(self) -> dict[str, Floats]:
        """Return the predictions, scores and expected losses of the window."""
        batches = [outputs for _, _, outputs in list(self._batches)]
        return {name: np.concatenate([batch[name] for batch in batches]) for name in (batches[0] if batches else ())}

    def distances(self, outputs: dict[str, Floats]) -> dict[str, float]:
        """Return how far outputs are from the out-of-fold ones of training.

        The distance is that of `recuse.audit.drift`: the largest difference of the distribution functions, 0 to 1.
        """
        known = OutOfFold.of(self.loaded.model)
        training = {} if known is None else _outputs(known.decision(), known.expected_loss)
        return {name: _distance(training[name], outputs[name]) for name in training if name in outputs}


def _distance(reference: Floats, current: Floats) -> float:
    """Return the distance of Kolmogorov and Smirnov of the finite values."""
    first, second = np.sort(reference[np.isfinite(reference)]), np.sort(current[np.isfinite(current)])
    if not len(first) or not len(second):
        return 0.0
    places = np.concatenate([first, second])
    below = np.searchsorted(first, places, side="right") / len(first)
    return float(np.abs(below - np.searchsorted(second, places, side="right") / len(second)).max())


def _outputs(decision: Decision, expected_loss: Floats | None) -> dict[str, Floats]:
    outputs = {"score": decision.score, "prediction": decision.prediction}
    return outputs if expected_loss is None else {**outputs, "expected_loss": expected_loss}
