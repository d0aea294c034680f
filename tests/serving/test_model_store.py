"""A replaced model file is served as a whole; one that cannot be loaded changes nothing."""

import hashlib
import logging
import shutil
import time

import pytest

from recuse.model_file import ModelFileError
from recuse.serving import Settings, create_app
from recuse.serving.model_store import ModelStore
from saved_estimators import TRAIN
from service_runs import TestClient, wait_until


@pytest.fixture
def path(models, tmp_path):
    shutil.copy(models / "cars.recuse", tmp_path / "cars.recuse")
    return tmp_path / "cars.recuse"


def replace(path, other):
    new = path.with_suffix(".new")
    shutil.copy(other, new)
    new.replace(path)


def version(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def test_the_version_is_that_of_the_file(path, models):
    store = ModelStore({"cars": path, "risk": models / "risk.recuse"})
    assert store.get().version == store.get("cars").version == version(path)
    assert store.names == ["cars", "risk"]
    with pytest.raises(KeyError):
        store.get("homes")


def test_a_replaced_file_is_loaded_and_the_old_model_goes_on(path, models):
    changes = []
    store = ModelStore({"cars": path}, on_change=lambda new, old: changes.append((new, old)))
    old = store.get()
    before = old.model.decide(TRAIN.head(3)).prediction
    assert store.reload() == []
    replace(path, models / "cars_again.recuse")
    assert store.reload() == ["cars"]
    assert store.get().version == version(models / "cars_again.recuse")
    assert changes == [(old, None), (store.get(), old)]
    assert (old.model.decide(TRAIN.head(3)).prediction == before).all()
    assert (store.get().model.decide(TRAIN.head(3)).prediction != before).any()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda path: path.write_bytes(path.read_bytes()[:-10]), id="cut off"),
        pytest.param(lambda path: path.write_bytes(b"text"), id="foreign"),
        pytest.param(lambda path: path.write_bytes(b""), id="empty"),
    ],
)
def test_a_damaged_file_is_reported_once_and_the_old_model_stays(path, models, damage, caplog):
    store = ModelStore({"cars": path})
    old = store.get()
    damage(path)
    with caplog.at_level(logging.ERROR):
        assert store.reload() == store.reload() == []
    assert store.get() is old
    assert caplog.text.count("was not replaced") == 1
    replace(path, models / "cars_again.recuse")
    assert store.reload() == ["cars"]


def test_a_file_that_cannot_be_opened_for_now_is_tried_again(path, models, caplog):
    resource = pytest.importorskip("resource")
    store = ModelStore({"cars": path})
    old = store.get()
    replace(path, models / "cars_again.recuse")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))  # too many open files
    try:
        assert store.reload() == store.reload() == []
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert store.get() is old
    assert caplog.text.count("was not replaced") == 1
    assert store.reload() == ["cars"]
    assert store.reload() == []


def test_a_removed_file_is_reported_once_and_the_model_stays(path, models, caplog):
    store = ModelStore({"cars": path})
    old = store.get()
    path.unlink()
    assert store.reload() == store.reload() == []
    assert store.get() is old
    assert caplog.messages == [f"the file of model cars is gone, version {old.version} stays"]
    replace(path, models / "cars_again.recuse")
    assert store.reload() == ["cars"]


def test_the_same_content_is_the_same_version(path, models):
    store = ModelStore({"cars": path})
    old = store.get()
    replace(path, models / "cars.recuse")
    assert store.reload() == []
    assert store.get() is old


def test_a_file_that_cannot_be_loaded_at_the_start_is_an_error(tmp_path):
    (tmp_path / "x.recuse").write_text("text")
    with pytest.raises(ModelFileError, match="is not a model file"):
        ModelStore({"x": tmp_path / "x.recuse"})


def test_a_running_service_looks_at_the_files(path, models):
    app = create_app(Settings({"cars": path}, reload_seconds=0.01))
    with TestClient(app):
        replace(path, models / "cars_again.recuse")
        wait_until(lambda: app.state.models.get().version == version(models / "cars_again.recuse"))
    with TestClient(create_app(Settings({"cars": path}, reload_seconds=0))) as client:
        before = client.get("/models").json()
        replace(path, models / "cars.recuse")
        time.sleep(0.1)
        assert client.get("/models").json() == before
