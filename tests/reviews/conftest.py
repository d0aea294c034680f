"""A small model, a queue with its rows, and the service in a thread."""

import socket
import threading
from contextlib import contextmanager

import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import Ridge

import recuse
from recuse.reviews import RecordedModel, ReviewQueue
from review_runs import rooms


@pytest.fixture(scope="session")
def model_path(tmp_path_factory):
    table = rooms(200)
    model = recuse.RiskRejector(Ridge(), ExtraTreesRegressor(10, min_samples_leaf=5), cost=3.0, random_state=0)
    path = tmp_path_factory.mktemp("model") / "rooms.recuse"
    recuse.save(model.fit(table.drop(columns="price"), table["price"]), path)
    return path


@pytest.fixture(scope="session")
def loaded(model_path):
    return RecordedModel("rooms", "0a1b", recuse.load(model_path))


@pytest.fixture
def queue(tmp_path):
    with ReviewQueue.open(tmp_path / "reviews.sqlite", audit_share=0.5) as opened:
        yield opened


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
