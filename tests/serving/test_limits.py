"""Bodies with more rows or values than a request may have are refused before they take memory, in all formats."""

import asyncio
import json
import time

import httpx
import pytest

from recuse.serving import Settings, create_app
from recuse.serving.bodies import RowLimits, parse_json
from recuse.serving.messages import RequestError
from saved_estimators import TRAIN
from service_runs import records


@pytest.fixture
def serve(shared):
    return shared


JSON = {"content-type": "application/json"}
CARS = records(TRAIN.head(4))
LISTS = [list(row.values()) for row in CARS]


def matrix(rows, width):
    return {"name": "x", "shape": [rows, width], "datatype": "FP64"}


REQUESTS = {
    "predict": ("/predict", {"json": {"rows": CARS}}),
    "records": ("/invocations", {"json": {"dataframe_records": CARS}}),
    "split": ("/invocations", {"json": {"dataframe_split": {"columns": list(TRAIN), "data": LISTS}}}),
    "lists": ("/invocations", {"json": {"inputs": LISTS}}),
    "columns": ("/invocations", {"json": {"inputs": {name: [row[name] for row in CARS] for name in TRAIN}}}),
    "csv": ("/invocations", {"content": TRAIN.head(4).to_csv(index=False), "headers": {"content-type": "text/csv"}}),
    "tensors": (
        "/v2/models/cars/infer",
        {"json": {"inputs": [{"name": "weight", "shape": [4], "datatype": "FP64", "data": [1.0] * 4}]}},
    ),
    "matrix": ("/v2/models/cars/infer", {"json": {"inputs": [{**matrix(4, 7), "data": [1.0] * 28}]}}),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_rows_and_cells_are_limited_in_all_formats(serve, kind):
    path, request = REQUESTS[kind]
    for options, status in (
        ({"max_rows": 4, "max_cells": 28}, 200),
        ({"max_rows": 3}, 413),
        ({"max_cells": 27}, 413),  # of 4 rows times the 7 columns of the model, whichever are sent
    ):
        answer = serve("cars", **options).post(path, **request)
        assert answer.status_code == status, answer.text
        if status == 413:
            assert "a request may have at most " in answer.json()["error"]


def million(start, item, end, count=1_000_000):
    return start + item * count + item.rstrip(b",") + end


BODIES = {
    "rows": ("/predict", million(b'{"rows":[', b"{},", b"]}")),
    "rows with a name": ("/predict", million(b'{"rows":[', b'{"weight":1},', b"]}", 600_000)),
    "lists": ("/invocations", million(b'{"instances":[', b"[],", b"]}", 1_100_000)),
    "numbers": ("/invocations", million(b'{"instances":[[', b"1,", b"]]}", 2_500_000)),
    "names": ("/predict", b'{"row":{' + b",".join(b'"a%d":1' % place for place in range(30_000)) + b"}}"),
    "a long text": ("/predict", b'{"row":{"weight":"' + b"x\\n" * 100_000 + b'"}}'),
    "text with braces": ("/predict", b'{"row":{"weight":"' + b"{" * 200_000 + b'"}}'),
}


@pytest.mark.parametrize("kind", BODIES)
def test_bodies_of_many_values_are_refused_before_they_are_parsed(serve, kind):
    import tracemalloc

    path, body = BODIES[kind]
    client = serve("cars")
    tracemalloc.start()
    try:
        answer = client.post(path, content=body, headers=JSON)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.status_code == 413, answer.text
    assert peak < 10 * len(body) + 20_000_000  # the values would take 30 to 100 times their text


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"row":{"weight":"' + b"a" * 2_000_000 + b'"}}', 413),
        (b'{"row":{"weight":1}}' + b" " * 2_000_000 + b"}", 400),
        (b'{"row":{"weight":1}}' + b" " * 2_000_000, 200),
    ],
)
def test_a_body_is_forgotten_with_its_answer(serve, body, status):
    import gc
    import tracemalloc

    client = serve("cars")
    client.post("/predict", json={"row": CARS[0]})
    gc.collect()
    gc.disable()  # bodies are few objects, so a collection may be far away
    tracemalloc.start()
    try:
        for _ in range(10):
            assert client.post("/predict", content=body).status_code == status
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
        gc.enable()
    assert kept < 4 * len(body)  # threads may still hold the last one


def test_texts_may_have_braces_and_commas():
    body = json.dumps({"rows": [{"town": '{[,:"\\' * 40}] * 200}).encode()
    assert len(parse_json(body, limits=RowLimits(200, 1400))["rows"]) == 200
    wide = json.dumps({"row": {f"c{place}": 'a"b' for place in range(15_000)}}).encode()
    assert len(parse_json(wide, limits=RowLimits(1, 15_000))["row"]) == 15_000


@pytest.mark.parametrize(
    "text",
    [
        '{"rows": [{"town": "12:30", "weight": 1}, {"town": ":", "weight": 2, "weight": 3}]}',
        '{"rows": [{}, [1], {"weight": 2, "weight": 3}]}',
        '{"inputs": [{"parameters": {"weight": 2, "weight": 3}}]}',
        '[{"weight": 2, "weight": 3}]',
    ],
)
@pytest.mark.parametrize("size", [0, 100_000], ids=["small", "large"])
def test_a_name_that_is_twice_in_an_object_is_found_anywhere(text, size):
    with pytest.raises(RequestError, match="got 'weight' twice"):
        parse_json(text.ljust(size).encode(), limits=RowLimits(100, 1000))
    parse_json(text.replace(', "weight": 3', "").ljust(size).encode(), limits=RowLimits(100, 1000))


def test_the_default_limits_take_a_large_request_of_a_usual_table():
    limits = RowLimits(Settings({"m": "m.recuse"}).max_rows, Settings({"m": "m.recuse"}).max_cells)
    limits.check(10_000, 100)
    body = json.dumps({"rows": [{f"c{place}": 1.5 for place in range(100)}] * 10_000}).encode()
    assert len(parse_json(body, limits=limits)["rows"]) == 10_000


def test_csv_of_many_lines_or_cells_is_refused(serve):
    client = serve("cars")
    for body in (b"weight\n" + b"1\n" * 500_000, b"weight" + b"," * 1_000_001 + b"\n1"):
        answer = client.post("/invocations", content=body, headers={"content-type": "text/csv"})
        assert answer.status_code == 413, answer.text


def test_bodies_take_a_bounded_share_of_memory_together(models):
    async def run():
        settings = Settings({"cars": models / "cars.recuse"}, max_bytes=1000)
        app = create_app(settings)
        release = asyncio.Event()

        async def pieces():
            yield b'{"row": {"weight": 1}' + b" " * 900
            await release.wait()
            yield b"}"

        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client,
        ):
            waiting = [asyncio.create_task(client.post("/predict", content=pieces())) for _ in range(4)]
            body = b'{"row": {"weight": 1}}' + b" " * 900
            while (refused := await client.post("/predict", content=body)).status_code == 200:
                await asyncio.sleep(0)
            release.set()
            answered = await asyncio.gather(*waiting)
            return refused, answered, await client.post("/predict", json={"row": {"weight": 1}})

    refused, answered, after = asyncio.run(run())
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert [each.status_code for each in [*answered, after]] == [200] * 5


SCOPE = {
    "type": "http", "http_version": "1.1", "method": "POST", "path": "/predict", "raw_path": b"/predict",
    "root_path": "", "scheme": "http", "query_string": b"", "headers": [(b"host", b"service")],
    "server": ("service", 80), "client": ("127.0.0.1", 1),
}  # fmt: skip


async def send_large(app, closed):
    """Send many rows, and close the connection at once or wait; return the status and how long the work goes on."""
    body, statuses, waiting = b'{"rows":[' + b'{"weight":1},' * 79_999 + b'{"weight":1}]}', [], asyncio.Event()
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        if messages:
            return messages.pop()
        if not closed:
            await waiting.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        statuses.append(message.get("status"))

    async with app.router.lifespan_context(app):
        await app({**SCOPE, "app": app}, receive, send)
        ended = time.perf_counter()
        app.state.large.submit(bool).result()  # after the work
        return statuses, time.perf_counter() - ended


def test_work_stops_when_nobody_waits_for_it(models):
    def app(**options):
        limits = {"max_rows": 100_000, "timeout": 60.0, **options}
        return create_app(Settings({"cars": models / "cars.recuse"}, **limits))

    started = time.perf_counter()
    statuses, _ = asyncio.run(send_large(app(), closed=False))
    whole = time.perf_counter() - started
    assert statuses[0] == 200
    for closed, options, status in ((False, {"timeout": whole / 20}, [504, None]), (True, {}, [])):
        statuses, more = asyncio.run(send_large(app(**options), closed=closed))
        assert statuses == status
        assert more < whole / 2


def test_texts_of_wide_characters_are_limited_since_they_take_four_times_the_memory():
    row = ('{"row": {"weight": "' + "\N{GRINNING FACE}").encode()
    with pytest.raises(RequestError, match="emoji") as caught:
        parse_json(row + b" " * 2**22 + b'"}}')
    assert caught.value.status == 413
    assert len(parse_json(row + b'"}}')["row"]["weight"]) == 1
