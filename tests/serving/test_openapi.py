"""The OpenAPI description: every example is answered, every answer is described."""

import json

import pytest

from described_answers import described_path, misfits, resolved
from recuse.serving.settings import Settings, models_by_name
from saved_estimators import FRAME, TRAIN


@pytest.mark.parametrize("model", ["risk", "fee", "array", "rows"])
def test_the_examples_are_answered(serve, model):
    client = serve(model)
    described = client.get("/openapi.json").json()
    version = client.app.state.models.get().version
    tried = 0
    for path, operations in described["paths"].items():
        content = operations.get("post", {}).get("requestBody", {}).get("content", {})
        url = path.replace("{name}", model).replace("{version}", version)
        for example in content.get("application/json", {}).get("examples", {}).values():
            assert not list(misfits(example["value"], content["application/json"]["schema"], described))
            answer = client.post(url, json=example["value"])
            assert answer.status_code == 200, (path, answer.text)
            tried += 1
        if "text/csv" in content:
            headers = {"content-type": "text/csv"}
            answer = client.post(url, content=content["text/csv"]["example"], headers=headers)
            assert answer.status_code == (422 if model == "rows" else 200)  # a CSV file has no place for a cost
            tried += 1
    assert tried == 8


def test_every_route_describes_its_answers(serve):
    described = serve("cars").get("/openapi.json").json()
    for path, operations in described["paths"].items():
        for operation in operations.values():
            assert operation["summary"]
            for status, answer in operation["responses"].items():
                assert answer["content"], (path, status)
                if status != "200":
                    schema = resolved(answer["content"]["application/json"]["schema"], described)
                    assert schema["required"] == ["error"], (path, status)
    assert {"/predict", "/invocations", "/models", "/metrics", "/v2/models/{name}/infer"} <= set(described["paths"])


def tensor_of(name):
    return {"name": name, "shape": [1], "datatype": "FP64", "data": [1.0]}


def answers_of_all_routes(client, name):
    """Send requests to all routes that the description has; yield the answers."""
    version = client.get(f"/v2/models/{name}").json()["versions"][0]
    for path in ("/models", "/metrics", "/ping", "/health", "/version", "/v2", "/v2/health/live", "/v2/health/ready"):
        yield client.get(path)
    for model in (f"/v2/models/{name}", f"/v2/models/{name}/versions/{version}"):
        yield from (client.get(model), client.get(f"{model}/ready"))
        yield client.post(f"{model}/infer", json={"id": "7", "inputs": [tensor_of("weight")]})
    rows = [{"weight": 2000.0}, {"weight": None}]
    yield client.post("/invocations", json={"dataframe_records": rows})
    yield client.post(f"/predict?explain=true&model={name}", json={"rows": rows})
    for action in ("renew", "release", "answer"):
        lease = client.post("/reviews/lease", json={"reviewer": "Ada"})
        body = {"lease": lease.json()["lease"], "value": 20.0}
        yield from (lease, client.post(f"/reviews/{lease.json()['id']}/{action}", json=body))
    yield client.get("/reviews/summary")


@pytest.mark.parametrize("name", ["risk", "cars"])
def test_the_answers_of_all_routes_are_as_the_description_says(serve, name, tmp_path):
    FRAME.assign(mpg=20.0).to_csv(tmp_path / "rows.csv", index=False)
    options = {"queue": tmp_path / "reviews.sqlite", "audit_share": 1.0, "training": {name: tmp_path / "rows.csv"}}
    client = serve(name, **options)
    described, seen = client.app.openapi(), set()
    for answer in answers_of_all_routes(client, name):  # the client compares each of them with the description
        assert answer.status_code in (200, 204), answer.text
        seen.add((answer.request.method, described_path(described, answer.request.url.path)))
    assert seen == {(method.upper(), path) for path, methods in described["paths"].items() for method in methods}


def test_an_answer_that_differs_from_its_description_is_found(serve):
    client = serve("risk")
    described, answer = client.app.openapi(), client.post("/predict", json={"row": {"weight": 2000.0}}).json()
    schema = described["paths"]["/predict"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert not list(misfits(answer, schema, described))
    decision = answer["decisions"][0]
    for wrong in ({"score": "high"}, {"accepted": 1}, {"problems": [{"column": "weight"}]}):
        assert list(misfits({**answer, "decisions": [{**decision, **wrong}]}, schema, described)), wrong
    assert list(misfits({"model": "risk"}, schema, described))


def test_the_list_of_routes_needs_no_other_host(serve):
    answer = serve("cars").get("/docs")
    assert "POST /predict" in answer.text
    assert "http" not in answer.text.replace("http-equiv", "")
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_models_are_described(serve):
    cars, risk, fee, array = serve("cars", "risk", "fee", "array").get("/models").json()
    assert (cars["name"], cars["estimator"], cars["cost"], cars["serves_any_cost"]) == (
        "cars",
        "RcRRegressor",
        6.0,
        False,
    )
    assert (risk["has_expected_loss"], risk["loss"], risk["training_rows"]) == (True, "squared", False)
    columns = {column["name"]: column for column in risk["columns"]}
    assert columns["town"]["levels"] == ["a", "b", "c"]
    assert columns["weight"]["low"] < columns["weight"]["high"]
    assert columns["sold"]["kind"] == "date"
    assert columns["town"]["had_missing"]
    assert "number" not in columns
    assert fee["cost"] == "fee"
    assert [column["name"] for column in array["columns"]][:2] == ["0", "1"]


def test_training_rows_are_read(serve, tmp_path):
    TRAIN.head(3).assign(mpg=20.0).to_csv(tmp_path / "cars.csv", index=False)
    client = serve("cars", training={"cars": tmp_path / "cars.csv"})
    assert client.get("/models").json()[0]["training_rows"]
    assert len(client.app.state.models.get().training) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_bytes": 0}, "max_bytes must be at least 1, got 0"),
        ({"timeout": 0}, "timeout must be > 0"),
        ({"timeout": float("nan")}, "timeout must be > 0"),
        ({"audit_share": 1.5}, "audit_share must be within 0 to 1"),
        ({"api_key": " "}, "must not be empty"),
        ({"training": {"homes": "x"}}, "need a model of their name"),
    ],
    ids=["bytes", "timeout", "NaN", "share", "key", "training"],
)
def test_wrong_settings(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        Settings({"cars": tmp_path}, **options)


def test_models_need_different_names(tmp_path):
    with pytest.raises(ValueError, match="need different names"):
        models_by_name([tmp_path / "a.recuse", tmp_path / "b" / "a.recuse"])
    with pytest.raises(ValueError, match="at least one model file"):
        Settings({})


def test_a_key_is_not_shown(tmp_path):
    assert "secret" not in json.dumps(repr(Settings({"cars": tmp_path}, api_key="secret")))


def test_the_key_is_described_if_there_is_one(serve):
    described = serve("cars", api_key="key").get("/openapi.json", headers={"X-API-Key": "key"}).json()
    assert set(described["components"]["securitySchemes"]) == {"bearer", "header"}
    assert described["security"]
    assert described["paths"]["/health"]["get"]["security"] == []
    assert "security" not in described["paths"]["/predict"]["post"]
    assert "security" not in serve("risk").get("/openapi.json").json()
