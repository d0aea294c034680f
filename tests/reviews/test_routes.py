"""The routes of the review queue: what they answer, and errors as one sentence."""

import json
import sqlite3
from contextlib import closing

import pytest

from described_answers import resolved
from recuse.serving import Settings, create_app
from review_runs import rooms

httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")


def records(n_rows, seed=1):
    table = rooms(n_rows, seed).drop(columns="price")
    return [{name: None if cell != cell else cell for name, cell in row.items()} for row in table.to_dict("records")]


@pytest.fixture
def client(model_path, tmp_path, serve):
    settings = Settings({"rooms": model_path}, queue=tmp_path / "reviews.sqlite", audit_share=1.0)
    with serve(create_app(settings)) as address, httpx.Client(base_url=address, timeout=60) as opened:
        yield opened


def take(client, reviewer="Ada"):
    answer = client.post("/reviews/lease", json={"reviewer": reviewer})
    assert answer.status_code == 200
    return answer.json()


def test_predicted_rows_can_be_leased_and_answered(client):
    decided = client.post("/predict", json={"rows": records(5)}).json()["decisions"]
    assert len({decision["review"] for decision in decided}) == 5
    item = take(client)
    decision = next(each for each in decided if each["review"] == item["id"])
    assert item["row"] in records(5)
    assert item["progress"] == {
        "waiting": 4, "held": 1, "answered": 0, "answered_by_you": 0, "skipped_by_you": 0, "saved": 0.0
    }  # fmt: skip
    answer = client.post(
        f"/reviews/{item['id']}/answer", json={"lease": item["lease"], "value": 7, "reviewer": "Ada"}
    ).json()
    assert answer["prediction"] == pytest.approx(decision["prediction"])
    assert answer["loss"] == pytest.approx((decision["prediction"] - 7) ** 2)
    assert answer["rejected"] != decision["accepted"]
    assert answer["progress"]["answered_by_you"] == 1
    (model,) = client.get("/reviews/summary").json()["models"]
    assert model["accepted"] + model["rejected"] == 5


def test_a_large_body_is_refused_before_it_is_parsed(client):
    body = b'{"reviewer": "Ada", "more": [' + b"{}," * 300_000 + b"{}]}"
    for path in ("lease", "x/answer", "x/release", "x/renew"):
        answer = client.post(f"/reviews/{path}", content=body)
        assert (answer.status_code, answer.json()) == (
            413,
            {"error": f"the body may have at most 65536 bytes, got {len(body)}"},
        )
    assert 'recuse_refused_total{reason="size"} 4.0' in client.get("/metrics").text


def test_an_id_makes_a_request_idempotent(client):
    body = {"row": records(1)[0], "ids": ["order 1"]}
    first, second = (client.post("/predict", json=body).json()["decisions"][0]["review"] for _ in range(2))
    assert first == second
    other = client.post("/predict", json={"row": records(2)[1], "ids": ["order 1"]})
    assert (other.status_code, other.json()) == (
        422,
        {"error": "an id must belong to one row, got id 'order 1' with another row than before"},
    )


def test_an_empty_queue_has_no_content(client):
    answer = client.post("/reviews/lease", json={"reviewer": "Ada", "order": "age"})
    assert (answer.status_code, answer.headers["x-skipped"]) == (204, "0")


def test_leases_are_renewed_and_released(client):
    client.post("/predict", json={"rows": records(2)})
    item = take(client)
    renewed = client.post(f"/reviews/{item['id']}/renew", json={"lease": item["lease"]}).json()
    assert renewed["expires"] >= item["expires"]
    assert client.post(f"/reviews/{item['id']}/release", json={"lease": item["lease"], "skip": True}).status_code == 204
    assert take(client)["id"] != item["id"]
    assert client.post("/reviews/lease", json={"reviewer": "Ada"}).headers["x-skipped"] == "1"
    assert take(client, "Ben")["id"] == item["id"]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("lease", [], 422, "the body must be an object with reviewer"),
        ("lease", {}, 422, "the body must have 'reviewer'"),
        ("lease", {"reviewer": 3}, 422, "reviewer must be a text, got 3"),
        ("lease", {"reviewer": " "}, 422, "reviewer must be a name of 1 to 100 characters, got ' '"),
        ("lease", {"reviewer": "Ada", "order": "size"}, 422, "order must be one of saving, age, got 'size'"),
        ("none/answer", {"lease": "x", "value": 1}, 404, "there is no review 'none'"),
        ("none/answer", {"lease": "x"}, 422, "the body must have 'value'"),
        ("none/release", {"lease": "x"}, 404, "there is no review 'none'"),
        ("none/renew", {"lease": 1}, 422, "lease must be a text, got 1"),
    ],
    ids=["list", "empty", "number", "blank", "order", "unknown", "no value", "release", "renew"],
)
def test_bad_requests_get_one_sentence(client, path, body, status, message):
    answer = client.post(f"/reviews/{path}", json=body)
    assert (answer.status_code, answer.json()) == (status, {"error": message})


def test_a_row_of_somebody_else_is_a_conflict(client):
    client.post("/predict", json={"rows": records(2)})
    mine, other = take(client), take(client, "Ben")
    answer = client.post(f"/reviews/{mine['id']}/answer", json={"lease": other["lease"], "value": 1})
    assert answer.status_code == 409
    assert "the lease was not given for review" in answer.json()["error"]
    wrong = client.post(f"/reviews/{mine['id']}/answer", json={"lease": mine["lease"], "value": "seven"})
    assert (wrong.status_code, wrong.json()["error"]) == (422, "an answer must be a finite number, got 'seven'")


def test_an_answer_is_not_stored_if_the_request_is_refused(client):
    client.post("/predict", json={"rows": records(2)})
    item = take(client)
    for wrong in ({"value": 7, "reviewer": "\ud800"}, {"value": 7, "reviewer": 3}):
        answer = client.post(f"/reviews/{item['id']}/answer", content=json.dumps({"lease": item["lease"], **wrong}))
        assert answer.status_code in (400, 422)
    assert client.get("/reviews/summary").json()["answered"] == 0


def test_the_routes_need_the_key(model_path, tmp_path, serve):
    settings = Settings({"rooms": model_path}, queue=tmp_path / "reviews.sqlite", api_key="secret")
    with serve(create_app(settings)) as address, httpx.Client(base_url=address, timeout=60) as client:
        assert client.get("/review").status_code == 200  # without rows
        assert client.get("/reviews/summary").status_code == 401
        for path in ("lease", "x/answer", "x/release", "x/renew"):
            assert (
                client.post(f"/reviews/{path}", json={"reviewer": "Ada", "lease": "x", "value": 1}).status_code == 401
            )
        assert client.get("/reviews/summary", headers={"X-API-Key": "secret"}).status_code == 200


def test_a_queue_that_cannot_be_written_is_not_acknowledged(client, tmp_path):
    with closing(sqlite3.connect(tmp_path / "reviews.sqlite")) as connection, connection:
        connection.execute("ALTER TABLE counts RENAME TO lost")
    answer = client.post("/predict", json={"row": records(1)[0]})
    assert answer.status_code == 503
    assert "the review queue cannot be used: " in answer.json()["error"]


def test_the_page_needs_no_other_host(client):
    page = client.get("/review")
    assert page.status_code == 200
    assert "{{" not in page.text
    assert "http://" not in page.text + page.headers["content-security-policy"]
    assert "https://" not in page.text


def test_the_bodies_and_all_answers_are_described(client):
    described = client.get("/openapi.json").json()
    paths = described["paths"]
    errors = {"400", "401", "403", "404", "409", "413", "415", "422", "503", "504"}
    for path, answers in {"lease": {"200", "204"}, "{review}/answer": {"200"}, "{review}/release": {"204"}}.items():
        assert set(paths[f"/reviews/{path}"]["post"]["responses"]) == answers | errors
    assert {"200", "401", "503"} < set(paths["/reviews/summary"]["get"]["responses"])
    for path, needed in {
        "lease": ["reviewer"],
        "{review}/answer": ["lease", "value"],
        "{review}/renew": ["lease"],
    }.items():
        schema = paths[f"/reviews/{path}"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert resolved(schema, described)["required"] == needed


def test_without_a_queue_there_is_no_review(model_path, serve):
    with serve(create_app(Settings({"rooms": model_path}))) as address, httpx.Client(base_url=address) as client:
        assert client.get("/review").status_code == 404
        assert client.post("/predict", json={"row": records(1)[0]}).json()["decisions"][0]["review"] is None


def test_a_file_that_is_no_queue_is_refused_at_the_start(model_path):
    with pytest.raises(ValueError, match="is not a review queue"):
        create_app(Settings({"rooms": model_path}, queue=model_path))
