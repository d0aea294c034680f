"""A model is served at the threshold of a certificate of its file, and everything says which one is in force."""

import logging
import shutil

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

import recuse
from described_answers import DescribedClient
from recuse.cli import app
from recuse.guarantees import certify
from recuse.model_file import add_certificate
from recuse.serving import Settings, create_app
from service_runs import running

X, Y, _, _ = recuse.datasets.make_heteroscedastic(1500, n_features=5, random_state=0)
NEW, _, _, _ = recuse.datasets.make_heteroscedastic(300, n_features=5, random_state=9)
BODY = {"rows": [{str(place): float(cell) for place, cell in enumerate(row)} for row in NEW]}


def fitted(seed):
    return recuse.RiskRejector(Ridge(), cost=1.0, cv=3, random_state=seed).fit(X[:300], Y[:300])


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Return a model file with two certificates."""
    path, model = tmp_path_factory.mktemp("models") / "cars.recuse", fitted(0)
    recuse.save(model, path)
    for target in (1.0, 0.8):
        add_certificate(path, certify(model, X[300:], Y[300:], target=target, bound=30.0))
    return path


@pytest.fixture
def path(file, tmp_path):
    return shutil.copy(file, tmp_path / "cars.recuse")


@pytest.fixture
def start():
    clients = []

    def started(path, number=None, **options):
        certificates = {} if number is None else {"cars": number}
        client = DescribedClient(create_app(Settings({"cars": path}, certificates=certificates, **options)))
        clients.append(client.__enter__())
        return client

    yield started
    for client in clients:
        client.__exit__(None, None, None)


@pytest.mark.parametrize("number", [1, 2])
def test_rows_are_decided_at_the_certified_threshold(path, start, number):
    client, served = start(path, number), recuse.load(path)
    answer = client.post("/predict", json=BODY).json()
    expected, plain = served.certified(number - 1).decide(NEW), served.decide(NEW)
    decided = [each["accepted"] for each in answer["decisions"]]
    assert decided == expected.accepted.tolist() != plain.accepted.tolist()
    assert answer["certificate"] == number
    np.testing.assert_allclose([each["expected_loss"] for each in answer["decisions"]], served.expected_loss(NEW))
    for each in answer["decisions"]:
        sign = 1 if each["accepted"] else -1
        assert each["expected_saving"] == pytest.approx(sign * (each["cost"] - each["expected_loss"]))
    one = client.post("/predict", json={"row": BODY["rows"][0]}).json()["decisions"][0]
    assert one["accepted"] == decided[0]
    explained = client.post("/predict?explain=true", json={"row": BODY["rows"][0]}).json()
    assert explained["certificate"] == number
    assert explained["decisions"][0]["accepted"] == decided[0]
    invoked = client.post("/invocations", json={"inputs": NEW.tolist()}).json()
    assert [each["accepted"] for each in invoked["predictions"]] == decided
    assert invoked["certificate"] == number
    tensor = {"name": "x", "shape": list(NEW.shape), "datatype": "FP64", "data": NEW.ravel().tolist()}
    inferred = client.post("/v2/models/cars/infer", json={"inputs": [tensor]}).json()
    assert inferred["parameters"] == {"certificate": number}
    assert inferred["outputs"][1]["data"] == decided


def test_many_rows_are_decided_as_one_by_one(path, start):
    client, served = start(path, 2, max_rows=5000), recuse.load(path)
    rows = np.tile(NEW, (10, 1))
    answer = client.post("/invocations", json={"inputs": rows.tolist()}).json()["predictions"]
    assert [each["accepted"] for each in answer] == served.certified(1).decide(rows).accepted.tolist()


def test_another_cost_than_that_of_the_certificate_is_refused(path, start):
    client = start(path, 1)
    assert client.post("/predict", json={**BODY, "cost": 1.0}).status_code == 200
    answer = client.post("/predict", json={**BODY, "cost": 2.0})
    assert answer.status_code == 422
    assert "which the certificate is for" in answer.json()["error"]


def test_models_list_their_certificates(path, start):
    known = recuse.load(path).certificates
    for number in (None, 2):
        (model,) = start(path, number).get("/models").json()
        assert model["certificate"] == number
        assert model["serves_any_cost"] == (number is None)
        assert [each["number"] for each in model["certificates"]] == [1, 2]
        for described, certificate in zip(model["certificates"], known, strict=True):
            assert described["statement"] == str(certificate)
            for name in ("what", "target", "delta", "threshold"):
                assert described[name] == getattr(certificate, name)


def test_metrics_and_the_review_queue_say_which_certificate_is_in_force(path, start, tmp_path):
    client = start(path, 2, queue=tmp_path / "reviews.sqlite", audit_share=1.0)
    version = client.post("/predict", json={"row": BODY["rows"][0]}).json()["version"]
    assert 'recuse_model_certificate{model="cars"} 2.0' in client.get("/metrics").text
    lease = client.post("/reviews/lease", json={"reviewer": "Ada"}).json()
    assert lease["version"] == f"{version}-certificate-2"
    assert 'recuse_model_certificate{model="cars"} 0.0' in start(path).get("/metrics").text


def test_a_model_that_is_served_without_its_certificates_is_reported_once(path, start, caplog):
    client = start(path)
    client.post("/predict", json=BODY)
    (message,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
    assert message.startswith("model cars has 2 certificates, which do not hold at the threshold")
    caplog.clear()
    start(path, 1)
    assert not caplog.records


def replace(path, model, *targets):
    new = path.with_name("new.recuse")
    recuse.save(model, new)
    for target in targets:
        add_certificate(new, certify(model, X[300:], Y[300:], target=target, bound=30.0))
    new.replace(path)


def test_a_new_file_needs_the_certificate_in_force(path, start, caplog):
    client = start(path, 2, reload_seconds=0)
    store = client.app.state.models
    old, other = store.get(), fitted(1)
    for targets, words in (
        [(), "must have certificate 2, it has 0"],
        [(1.0, 0.9), "must promise accepted_loss <= 0.8"],
    ):
        replace(path, other, *targets)
        assert store.reload() == store.reload() == []
        assert words in caplog.messages[-1]
        assert "was not replaced" in caplog.messages[-1]
    assert len(caplog.messages) == 2
    assert client.post("/predict", json=BODY).json()["version"] == old.version
    replace(path, other, 1.0, 0.8)
    assert store.reload() == ["cars"]


def test_a_wrong_number_ends_with_one_sentence(path, tmp_path):
    for given, code, words in (
        (["3"], 1, "must have certificate 3, it has 2 certificates"),
        (["0"], 1, "must have certificate 0"),
        (["first"], 2, "must be a number from 1, as in [MODEL=]N, got 'first'"),
        (["homes=1"], 1, "certificates need a model of their name"),
        (["1", "cars=2"], 2, "--certificate must be given once for each model, got 'cars' twice"),
    ):
        options = [text for number in given for text in ("--certificate", number)]
        result = CliRunner().invoke(app, ["serve", str(path), *options])
        assert result.exit_code == code, result.output
        assert words in result.stderr
        assert result.stderr.count("\n") == 1


def test_the_command_serves_a_certificate_of_each_model(path, models, tmp_path):
    shutil.copy(path, tmp_path / "vans.recuse")
    plain = models / "cars_again.recuse"
    options = ["--certificate", "1", "--certificate", "vans=2"]
    with running(path, plain, tmp_path / "vans.recuse", *options) as (_, client):
        served = {model["name"]: model["certificate"] for model in client.get("/models").json()}
    assert served == {"cars": 1, "cars_again": None, "vans": 2}


def test_the_command_warns_once_of_certificates_that_are_not_in_force(path):
    with running(path, "--workers", 2) as (server, _):
        server.terminate()
        log = server.communicate(timeout=60)[1]
    assert log.count("model cars has 2 certificates, which do not hold at the threshold that it is served at") == 1
