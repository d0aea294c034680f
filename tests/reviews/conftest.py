"""A small model, a queue with its rows, and the service in a thread."""

import asyncio
import socket
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge

import recuse
from recuse.reviews import ReviewQueue


def rooms(n_rows, seed=0):
    """Rooms with numbers, a category and gaps; rooms in Köln are hard to predict."""
    random = np.random.default_rng(seed)
    area, city = random.uniform(20, 150, n_rows).round(1), random.choice(["Berlin", "Hamburg", "Köln"], n_rows)
    age = random.integers(0, 80, n_rows).astype(float)
    price = area / 10 + 5 * (city == "Berlin") + random.normal(size=n_rows) * np.where(city == "Köln", 4, 0.5)
    age[::9] = np.nan
    return pd.DataFrame({"area": area, "city": city, "age": age, "price": price.round(2)})


@pytest.fixture(scope="session")
def model_path(tmp_path_factory):
    table = rooms(200)
    model = recuse.RiskRejector(Ridge(), ExtraTreesRegressor(10, min_samples_leaf=5), cost=3.0, random_state=0)
    path = tmp_path_factory.mktemp("model") / "rooms.recuse"
    recuse.save(model.fit(table.drop(columns="price"), table["price"]), path)
    return path


@pytest.fixture(scope="session")
def loaded(model_path):
    return SimpleNamespace(name="rooms", version="0a1b", model=recuse.load(model_path))


@pytest.fixture
def queue(tmp_path):
    with ReviewQueue.open(tmp_path / "reviews.sqlite", audit_share=0.5) as opened:
        yield opened


@pytest.fixture(scope="session")
def record(loaded):
    """Record some rows; return the ids of their reviews, and the table."""

    def recorded(queue, n_rows=40, seed=1, ids=None, model=loaded):
        table = rooms(n_rows, seed)
        decision, expected = model.model.decide(table), model.model.expected_loss(table)
        return asyncio.run(queue.record(model, table.drop(columns="price"), decision, expected, ids)), table

    return recorded


@pytest.fixture(scope="session")
def serve():
    """Run an application on a free port in a thread."""
    import uvicorn

    @contextmanager
    def running(app):
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=2))
        with socket.create_server(("127.0.0.1", 0)) as bound:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
            thread.start()
            while not server.started:
                thread.join(0.02)
                assert thread.is_alive()
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
            server.should_exit = True
            thread.join()

    return running
