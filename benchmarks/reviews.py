"""The review queue: crashes, two reviewers in browsers, coverage of the estimates, and learning from the answers.

OMP_NUM_THREADS=1 python benchmarks/reviews.py kill        # kill -9 of the service at twenty random moments
OMP_NUM_THREADS=1 python benchmarks/reviews.py browsers    # two Chromium browsers answer 200 rows
OMP_NUM_THREADS=1 python benchmarks/reviews.py month       # 200 simulated months with audits
OMP_NUM_THREADS=1 python benchmarks/reviews.py learning    # refitting with answers, by weights
OMP_NUM_THREADS=1 python benchmarks/reviews.py latency     # time that recording adds to a request
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor

import recuse
from recuse.datasets import make_heteroscedastic
from recuse.reviews import ReviewQueue, leases
from recuse.reviews.learning import answered_rows, capped, effective_rows

Floats = NDArray[np.float64]

COST = 2.0
AUDIT_SHARE = 0.02
DAYS, ROWS_A_DAY = 30, 400


@dataclass(frozen=True)
class Loaded:
    """A model with the name and the version that the service would give it."""

    name: str
    version: str
    model: Any


def heavy_tailed(n_rows: int, random: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw rows of `make_heteroscedastic` whose noise has Student's t distribution with five degrees of freedom."""
    X, _, mean, variance = make_heteroscedastic(n_rows, random_state=random)
    noise = random.standard_t(5, n_rows) * np.sqrt(3 / 5)  # variance 1
    return X, mean + np.sqrt(variance) * noise


def fitted(folder: Path, n_rows: int, seed: int) -> tuple[Loaded, Floats, Floats]:
    """Fit and save a model; return it as a service has it, and its training rows."""
    X, y = heavy_tailed(n_rows, np.random.default_rng(seed))
    path = folder / f"model-{seed}.recuse"
    model = recuse.RiskRejector(
        HistGradientBoostingRegressor(max_iter=60),
        ExtraTreesRegressor(40, min_samples_leaf=5),
        cost=COST,
        random_state=seed,
    )
    recuse.save(model.fit(X, y), path)
    return Loaded("model", str(seed), recuse.load(path)), X, y


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a folder in memory if there is one: simulated answers need not survive a crash."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None)


def answer_all(queue: ReviewQueue, truth: dict[str, float]) -> None:
    """Answer every row of a queue, in one transaction, which saves most of the time."""
    with queue._transaction() as connection:
        while (lease := leases.give(connection, "simulated", "saving", 600.0, skipped=False)) is not None:
            leases.answer(connection, lease.id, lease.token, truth[lease.id])


def served_month(queue: ReviewQueue, loaded: Loaded, random: np.random.Generator, *, answer: bool) -> dict[str, float]:
    """Decide about the rows of a month, answer what was sent to review, and return the true means."""
    losses, accepted, truth = [], [], {}
    for _ in range(DAYS):
        X, y = heavy_tailed(ROWS_A_DAY, random)
        decision = loaded.model.decide(X)
        expected = decision.cost - decision.score  # the score is the loss saved by accepting
        ids = queue.record(loaded, X, decision, expected).result()
        truth |= {review: value for review, value in zip(ids, y, strict=True) if review is not None}
        losses.append((decision.prediction - y) ** 2)
        accepted.append(decision.accepted)
    if answer:
        answer_all(queue, truth)
    loss, accepts = np.concatenate(losses), np.concatenate(accepted)
    return {
        "accepted_loss": loss[accepts].mean(),
        "rejected_loss": loss[~accepts].mean(),
        "rcr_loss": np.where(accepts, loss, COST).mean(),
        "false_acceptance_rate": accepts[loss >= COST].mean(),
        "false_rejection_rate": (~accepts)[loss < COST].mean(),
    }


def month(arguments: argparse.Namespace) -> None:
    """Print how often the intervals of a month hold the means over all rows of that month, and their expectations."""
    with scratch() as name:
        folder = Path(name)
        loaded, _, _ = fitted(folder, 1000, seed=0)
        X, y = heavy_tailed(300_000, np.random.default_rng(1))
        decision = loaded.model.decide(X)
        expected_loss = float(((decision.prediction - y) ** 2)[decision.accepted].mean())
        held: dict[str, list[bool]] = {}
        audits, lengths = [], []
        for run in range(arguments.runs):
            path = folder / f"{run}.sqlite"
            with ReviewQueue.open(path, audit_share=AUDIT_SHARE) as queue:
                means = served_month(queue, loaded, np.random.default_rng(10_000 + run), answer=True)
                (model,) = queue.summary()["models"]
            for measure, mean in {**means, "accepted_loss, expectation": expected_loss}.items():
                found = model["estimates"][measure.partition(",")[0]]
                held.setdefault(measure, []).append(found["low"] - 1e-12 <= mean <= found["high"] + 1e-12)
            audits.append(model["audits"]["answered"])
            found = model["estimates"]["accepted_loss"]
            lengths.append((found["high"] - found["low"]) / expected_loss)
    rate, share = model["rejected"] / (model["accepted"] + model["rejected"]), np.mean(audits)
    print(f"{arguments.runs} months of {DAYS} x {ROWS_A_DAY} rows, {rate:.0%} rejected, {share:.0f} audits on average")
    print(f"length of the interval of the accepted loss / accepted loss: {np.mean(lengths):.2f}")
    print("\n| measure | interval holds the mean of the month |\n| --- | ---: |")
    for measure, flags in held.items():
        print(f"| {measure} | {np.mean(flags):.1%} |")


def learning(arguments: argparse.Namespace) -> None:
    """Print the RcR loss on new rows of models that were fitted again, by how the answers were weighted."""
    table: dict[str, list[float]] = {}
    effective: dict[str, list[float]] = {}
    for seed in range(arguments.runs):
        with scratch() as name:
            folder = Path(name)
            loaded, X, y = fitted(folder, arguments.rows, seed)
            path = folder / "reviews.sqlite"
            with ReviewQueue.open(path, audit_share=AUDIT_SHARE) as queue:
                served_month(queue, loaded, np.random.default_rng(1000 + seed), answer=True)
            found = answered_rows(path)
        answered = found.rows.to_numpy(dtype=float)
        ones = np.ones(len(y))
        both = np.vstack([X, answered]), np.concatenate([y, found.answers])
        only = found.rejected
        variants = {
            "without reviews": (X, y, ones),
            "rejected rows only, weight 1": (
                np.vstack([X, answered[only]]),
                np.concatenate([y, found.answers[only]]),
                np.ones(len(y) + int(only.sum())),
            ),
            "weight 1": (*both, np.ones(len(both[1]))),
            "1 / probability": (*both, np.concatenate([ones, found.weight])),
            "1 / probability, capped (default)": (*both, np.concatenate([ones, capped(found.weight, ones)])),
        }
        X_new, y_new = heavy_tailed(50_000, np.random.default_rng(2000 + seed))
        for name, (rows, target, weight) in variants.items():
            model = _learner(arguments.method, seed).fit(rows, target, sample_weight=weight)
            decision = model.decide(X_new)
            table.setdefault(name, []).append(decision.evaluate(y_new)["rcr_loss"])
            effective.setdefault(name, []).append(effective_rows(weight))
    base = np.array(table["without reviews"])
    print(f"{arguments.runs} months, {arguments.rows} training rows, {arguments.method}, RcR loss on 50,000 new rows\n")
    print("| answers | RcR loss | against without reviews | effective rows |\n| --- | ---: | ---: | ---: |")
    for name, losses in table.items():
        change = np.array(losses) / base - 1
        error = change.std(ddof=1) / np.sqrt(len(change)) if len(change) > 1 else float("nan")
        print(
            f"| {name} | {np.mean(losses):.4f} | {change.mean():+.1%} +- {error:.1%} | {np.mean(effective[name]):.0f} |"
        )


def _learner(method: str, seed: int) -> Any:
    from sklearn.linear_model import Ridge

    if method == "linear":
        return recuse.RiskRejector(Ridge(), Ridge(), cost=COST, random_state=seed)
    if method == "auto":
        return recuse.AutoRejector(
            cost=COST, random_state=seed, learners=["boosting", "extra_trees"], risk_models=["extra_trees"], cv=3
        )
    return recuse.RiskRejector(cost=COST, random_state=seed)


class Service:
    """`recuse serve` as a group of processes of its own.

    Parameters
    ----------
    model, queue : Path
    workers : int
    """

    def __init__(self, model: Path, queue: Path, workers: int = 1) -> None:
        command = [sys.executable, "-m", "recuse.cli", "serve", str(model), "--queue", str(queue), "--port", "0"]
        command += ["--audit-share", str(AUDIT_SHARE), "--workers", str(workers)]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[-1]
        for _ in range(600):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{self.address}/models", timeout=5):
                return
            time.sleep(0.1)
        raise RuntimeError("the service did not start")

    def connection(self) -> http.client.HTTPConnection:
        """Return a connection that is kept for many requests."""
        return http.client.HTTPConnection(self.address.removeprefix("http://"), timeout=30)

    def kill(self) -> None:
        """Kill all processes of the service, without a chance to clean up."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def post(connection: http.client.HTTPConnection, path: str, body: Any) -> tuple[int, Any]:
    """Send JSON; return the status and the content of the answer."""
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    return answer.status, json.loads(content) if content else None


@dataclass
class Acknowledged:
    """What the service acknowledged to its clients."""

    rows: dict[str, tuple[list[float], str | None]] = field(default_factory=dict)
    leases: list[str] = field(default_factory=list)
    answers: dict[str, float] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)


def send_rows(
    service: Service, known: Acknowledged, seed: int, retries: list[str], rows: dict[str, list[float]]
) -> None:
    """Send single rows until the service is gone; first those that were not acknowledged before."""
    random, connection = np.random.default_rng(seed), service.connection()
    number = 0
    with contextlib.suppress(OSError, http.client.HTTPException):
        while True:
            key = retries.pop() if retries else f"{seed}-{number}"
            number += 1
            row = rows.setdefault(key, random.uniform(-1, 1, 8).tolist())
            known.sent.add(key)
            body = {"row": {str(place): cell for place, cell in enumerate(row)}, "ids": [key]}
            status, content = post(connection, "/predict", body)
            if status != 200:
                known.failed.append(f"{status} {content}")
                return
            known.rows[key] = row, content["decisions"][0]["review"]


def review_rows(service: Service, known: Acknowledged, seed: int) -> None:
    """Lease and answer rows until the service is gone."""
    random, connection = np.random.default_rng(seed), service.connection()
    with contextlib.suppress(OSError, http.client.HTTPException):
        while True:
            status, item = post(connection, "/reviews/lease", {"reviewer": f"reviewer {seed}"})
            if status == 204:
                time.sleep(0.01)
                continue
            known.leases.append(item["id"])
            value = random.normal()
            status, content = post(
                connection, f"/reviews/{item['id']}/answer", {"lease": item["lease"], "value": value}
            )
            if status != 200:
                known.failed.append(f"{status} {content}")
                return
            known.answers[item["id"]] = value


def kill(arguments: argparse.Namespace) -> None:
    """Print what is lost or given out twice when the service is killed under load."""
    known, random = Acknowledged(), np.random.default_rng(arguments.seed)
    rows: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fitted(folder, 1000, seed=0)
        path = folder / "reviews.sqlite"
        for run in range(arguments.runs):
            service = Service(folder / "model-0.recuse", path, arguments.workers)
            retries = [key for key in known.sent if key not in known.rows]
            post(service.connection(), "/predict", {"row": dict.fromkeys(map(str, range(8)), 0.1)})  # imports pandas
            clients = [
                *(Thread(target=send_rows, args=(service, known, 100 * run + n, retries, rows)) for n in range(8)),
                *(Thread(target=review_rows, args=(service, known, 100 * run + 50 + n)) for n in range(2)),
            ]
            for client in clients:
                client.start()
            time.sleep(random.uniform(0.1, 4.0))
            service.kill()
            for client in clients:
                client.join()
        _print_losses(path, known, warm=arguments.runs)


def _print_losses(path: Path, known: Acknowledged, warm: int) -> None:
    """Compare the queue with what was acknowledged; `warm` rows without an id were sent before the load."""
    ReviewQueue.open(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        (health,) = connection.execute("PRAGMA integrity_check").fetchone()
        reviews = {row[0]: row[1:] for row in connection.execute("SELECT id, row, answer FROM reviews")}
        callers = dict(connection.execute("SELECT id, review FROM callers"))
        (counted,) = connection.execute("SELECT SUM(accepted + rejected) FROM counts").fetchone()
    lost = [key for key, (_, review) in known.rows.items() if review is not None and review not in reviews]
    changed = [
        key
        for key, (row, review) in known.rows.items()
        if callers.get(key, "none") != review
        or (review is not None and list(json.loads(reviews[review][0]).values()) != row)
    ]
    answers = [review for review, value in known.answers.items() if reviews[review][1] != value]
    to_review = sum(review is not None for _, review in known.rows.values())
    in_queue = [review for review in callers.values() if review is not None]
    print(f"{len(known.rows):,} rows acknowledged, {to_review:,} of them to review")
    print(f"{len(known.leases):,} leases and {len(known.answers):,} answers acknowledged; integrity check: {health}")
    print("\n| what | number |\n| --- | ---: |")
    print(f"| acknowledged rows that are lost | {len(lost)} |")
    print(f"| acknowledged rows with other content or another review | {len(changed)} |")
    print(f"| rows that are in the queue twice | {len(in_queue) - len(set(in_queue))} |")
    print(f"| rows in the queue without an id, more than {warm} | {max(0, len(reviews) - len(in_queue) - warm)} |")
    print(f"| rows in the counters, less rows recorded | {counted - warm - len(callers)} |")
    print(f"| acknowledged answers that are lost | {len(answers)} |")
    print(f"| rows given out twice | {len(known.leases) - len(set(known.leases))} |")
    print(f"| requests that failed while the service ran | {len(known.failed)} |")
    for sentence in known.failed[:3]:
        print(sentence)


def browsers(arguments: argparse.Namespace) -> None:
    """Print how two reviewers in two Chromium browsers answer rows at the same time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loaded, _, _ = fitted(folder, 1000, seed=0)
        path = folder / "reviews.sqlite"
        X, _ = heavy_tailed(20 * arguments.runs, np.random.default_rng(5))
        decision = loaded.model.decide(X)
        chosen = np.flatnonzero(~decision.accepted)[: arguments.runs]
        with ReviewQueue.open(path) as queue:
            queue.record(loaded, X[chosen], decision[chosen], loaded.model.expected_loss(X[chosen])).result()
        service = Service(folder / "model-0.recuse", path)
        seen: dict[str, list[str]] = {"Ada": [], "Ben": []}
        try:
            threads = [Thread(target=_answer_in_browser, args=(service.address, name, seen[name])) for name in seen]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            service.kill()
        with ReviewQueue.open(path) as queue:
            answered = {name: queue.progress(name).answered_by_you for name in seen}
            waiting = queue.progress().waiting
    print(f"{len(chosen)} rows, {waiting} left; shown and answered: ", end="")
    print(", ".join(f"{name} {len(seen[name])} and {answered[name]}" for name in seen))
    print(f"rows shown to both: {len(set(seen['Ada']) & set(seen['Ben']))}")


def _answer_in_browser(address: str, reviewer: str, seen: list[str]) -> None:
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu"):
        options.add_argument(argument)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        wait = WebDriverWait(driver, 60, 0.02)
        driver.get(f"{address}/review")
        driver.find_element(By.ID, "name").send_keys(reviewer, Keys.ENTER)
        last = None
        current = "return state.busy ? null : state.item ? state.item.id : $('empty').hidden ? null : 'empty'"
        while True:
            item = wait.until(lambda _, last=last: (found := driver.execute_script(current)) != last and found)
            if item == "empty":
                return
            seen.append(item)
            driver.switch_to.active_element.send_keys("1.5", Keys.ENTER)
            last = item
    finally:
        driver.quit()


def latency(arguments: argparse.Namespace) -> None:
    """Print the time of `record` for single rows, one after the other and for 32 callers at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        loaded, X, _ = fitted(folder, 1000, seed=0)
        decision, expected = loaded.model.decide(X), loaded.model.expected_loss(X)
        with ReviewQueue.open(folder / "reviews.sqlite", audit_share=AUDIT_SHARE) as queue:

            async def one(place: int) -> float:
                row = slice(place, place + 1)
                start = time.perf_counter()
                await asyncio.wrap_future(queue.record(loaded, X[row], decision[place], expected[row]))
                return time.perf_counter() - start

            async def caller(first: int) -> list[float]:
                return [await one((first + place) % len(X)) for place in range(arguments.runs)]

            async def all_callers(count: int) -> list[float]:
                return [each for times in await asyncio.gather(*map(caller, range(count))) for each in times]

            print("| callers | p50, ms | p99, ms | rows/s |\n| ---: | ---: | ---: | ---: |")
            for count in (1, 32):
                start = time.perf_counter()
                times = asyncio.run(all_callers(count))
                rate = len(times) / (time.perf_counter() - start)
                middle, most = 1e3 * np.quantile(times, [0.5, 0.99])
                print(f"| {count} | {middle:.2f} | {most:.2f} | {rate:,.0f} |")


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for command, runs in ((kill, 20), (browsers, 200), (month, 200), (learning, 10), (latency, 500)):
        sub = commands.add_parser(command.__name__, help=command.__doc__)
        sub.add_argument("--runs", type=int, default=runs)
        sub.set_defaults(run=command)
        if command is kill:
            sub.add_argument("--workers", type=int, default=1)
            sub.add_argument("--seed", type=int, default=0)
        if command is learning:
            sub.add_argument("--rows", type=int, default=500, help="training rows")
            sub.add_argument("--method", choices=("risk", "auto", "linear"), default="risk")
    arguments = parser.parse_args()
    start = time.perf_counter()
    arguments.run(arguments)
    print(f"\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
