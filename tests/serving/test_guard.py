"""Requests beyond the limits are refused; logs have no row content."""

import asyncio
import json
import logging
import threading

import httpx
import pytest

from recuse.serving import Settings, create_app
from recuse.serving.guard import OPEN_PATHS


def test_the_api_key_is_needed_for_all_but_pages_and_health(serve):
    client = serve("cars", api_key="secret key")
    for path in ("/models", "/metrics", "/openapi.json", "/docs", "/v2", "/version"):
        answer = client.get(path)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get(path, headers={"X-API-Key": "secret key"}).status_code == 200
    assert client.post("/predict", json={"row": {"weight": 3000}}).status_code == 401
    for headers in ({"Authorization": "Bearer secret key"}, {"authorization": "bearer secret key"}):
        assert client.post("/predict", json={"row": {"weight": 3000}}, headers=headers).status_code == 200
    for wrong in ("Bearer secret", "Bearer", "Basic secret key", "secret key"):
        assert (
            client.post("/predict", json={"row": {"weight": 3000}}, headers={"Authorization": wrong}).status_code == 401
        )
    assert client.get("/models", headers={"X-API-Key": "ä".encode()}).status_code == 401
    for path in OPEN_PATHS - {"/", "/review"}:
        assert client.get(path).status_code == 200


def test_a_key_may_have_any_characters(serve):
    client = serve("cars", api_key="schlüssel")
    assert client.get("/models", headers={"X-API-Key": "schlüssel".encode()}).status_code == 200
    assert client.get("/models", headers={"X-API-Key": "schlussel"}).status_code == 401


def test_the_size_of_a_body_is_limited_with_and_without_its_length(serve):
    client, body = serve("cars", max_bytes=1000), json.dumps({"row": {"weight": 3000}}).encode() + b" " * 1000
    assert client.post("/predict", content=body).status_code == 413

    def pieces():
        yield from (body[start : start + 100] for start in range(0, len(body), 100))

    for path in ("/predict", "/invocations", "/v2/models/cars/infer"):
        answer = client.post(path, content=pieces())
        assert (answer.status_code, answer.json()) == (
            413,
            {"error": "the body of a request may have at most 1000 bytes"},
        )
    assert 'recuse_refused_total{reason="size"} 4.0' in client.get("/metrics").text


def test_a_body_may_have_sixteen_mebibytes_unless_the_settings_say_otherwise(serve):
    client, row = serve("cars"), json.dumps({"row": {"weight": 3000}}).encode()
    assert client.post("/predict", content=row.ljust(16 * 2**20)).status_code == 200
    answer = client.post("/predict", content=row.ljust(16 * 2**20 + 1))
    assert (answer.status_code, answer.json()) == (
        413,
        {"error": f"the body of a request may have at most {16 * 2**20} bytes"},
    )


def test_the_number_of_rows_is_limited(serve):
    client = serve("cars", max_rows=3)
    assert client.post("/predict", json={"rows": [{"weight": 1}] * 3}).status_code == 200
    answer = client.post("/predict", json={"rows": [{"weight": 1}] * 4})
    assert (answer.status_code, answer.json()) == (413, {"error": "a request may have at most 3 rows, got 4"})


def test_pages_of_other_sites_may_not_write(serve):
    client = serve("cars")
    for site, status in (("cross-site", 403), ("same-origin", 200), ("none", 200)):
        assert (
            client.post("/predict", json={"row": {"weight": 3000}}, headers={"sec-fetch-site": site}).status_code
            == status
        )
    assert client.get("/models", headers={"sec-fetch-site": "cross-site"}).status_code == 200


@pytest.mark.parametrize("length", ["\u00b2", "9" * 5000], ids=["superscript", "digits"])
def test_an_odd_length_is_refused(serve, length):
    answer = serve("cars").post("/predict", content=b"{}", headers={"content-length": length.encode("latin-1")})
    assert answer.status_code == 413


def test_head_answers_as_get(serve):
    client = serve("cars", api_key="key")
    assert [client.head(path).status_code for path in ("/", "/health", "/v2/health/ready")] == [200] * 3
    assert client.head("/models").status_code == 401
    assert client.head("/models", headers={"X-API-Key": "key"}).status_code == 200


def test_compressed_bodies_are_refused(serve):
    assert serve("cars").post("/predict", content=b"", headers={"content-encoding": "gzip"}).status_code == 415


def test_large_requests_are_decided_in_threads(serve):
    client, rows = serve("risk"), [{"weight": 2000 + place} for place in range(400)]
    many = client.post("/predict", json={"rows": rows}).json()["decisions"]
    few = client.post("/predict", json={"rows": rows[:2]}).json()["decisions"]
    assert len(many) == 400
    assert many[1]["prediction"] == pytest.approx(few[1]["prediction"])


def asgi(models, **options):
    app = create_app(Settings({"cars": models / "cars.recuse"}, **options))
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")
    return app, client


def slow_body(release):
    async def pieces():
        yield b'{"row": '
        await release.wait()
        yield b'{"weight": 3000}}'

    return pieces()


def test_a_slow_request_ends_with_504(models):
    async def run():
        app, client = asgi(models, timeout=0.2)
        async with app.router.lifespan_context(app), client:
            return await client.post("/predict", content=slow_body(asyncio.Event()))

    answer = asyncio.run(run())
    assert answer.status_code == 504
    assert "longer than 0.2 seconds" in answer.json()["error"]


def test_too_many_requests_at_once_get_503_and_health_stays(models):
    async def run():
        app, client = asgi(models, max_requests=2)
        release = asyncio.Event()
        async with app.router.lifespan_context(app), client:
            waiting = [asyncio.create_task(client.post("/predict", content=slow_body(release))) for _ in range(2)]
            while (refused := await client.get("/models")).status_code == 200:
                await asyncio.sleep(0)
            health = await client.get("/health")
            release.set()
            return refused, health, await asyncio.gather(*waiting), await client.get("/models")

    refused, health, answered, after = asyncio.run(run())
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert health.status_code == 200
    assert [each.status_code for each in answered] == [200, 200]
    assert after.status_code == 200


def test_a_failure_is_logged_without_row_content(serve, monkeypatch, caplog):
    client = serve("cars")
    loaded = client.app.state.models.get()

    def fail(table, **options):
        raise RuntimeError(f"cannot read {table}")

    monkeypatch.setattr(loaded.model, "read", fail)
    with caplog.at_level(logging.DEBUG):
        answer = client.post("/predict", json={"row": {"weight": 3141592}})
    assert answer.status_code == 500
    assert "3141592" not in answer.text + caplog.text
    assert "RuntimeError while answering /predict" in caplog.text
    assert "in fail" in caplog.text


def test_text_among_numbers_is_neither_logged_nor_warned_of(serve, caplog, recwarn):
    with caplog.at_level(logging.DEBUG):
        answer = serve("cars").post("/predict", json={"rows": [{"weight": "secret"}, {"weight": 1}]})
    assert answer.status_code == 200
    assert "secret" not in caplog.text
    assert not [each for each in recwarn if "secret" in str(each.message)]


def test_unknown_routes_and_methods_get_one_sentence(serve):
    client = serve("cars")
    assert client.get("/nothing").json() == {"error": "Not Found: see /docs"}
    answer = client.get("/predict")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert set(answer.json()) == {"error"}


def test_middleware_that_some_requests_would_pass_by_is_refused(models):
    app = create_app(Settings({"cars": models / "cars.recuse"}))
    with pytest.raises(TypeError, match="wrap the application in it"):

        @app.middleware("http")
        async def check(request, call_next):
            return await call_next(request)


def test_a_model_that_is_asked_by_many_threads(serve):
    client, found = serve("risk"), []

    def ask(place):
        found.append(client.post("/predict", json={"row": {"weight": 2000.0 + place}}).status_code)

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 8
