"""Who may ask for what: pages of other sites, host names, keys by role, reviewers, and the rate of requests."""

import logging

import pytest
from typer.testing import CliRunner

from recuse.cli import app
from recuse.serving.access import Key, Role, host_is_allowed, read_keys
from saved_estimators import TRAIN
from service_runs import records, running

ROW = records(TRAIN.head(1))[0]
KEYS = """
[score]
shop = "key of the shop, 1"
[review]
anna = "key of anna, 123456"
ben = "key of ben, 1234567"
[metrics]
prometheus = "key of prometheus, 1"
[admin]
ops = "key of operators, 1"
"""


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys.toml"
    path.write_text(KEYS)
    return read_keys(path)


def header(keys_text):
    return {"X-API-Key": keys_text}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),  # no browser
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),  # another port or subdomain, which may belong to somebody else
        ({"origin": "http://testserver"}, 200),  # plain HTTP off loopback: browsers send no Sec-Fetch headers
        ({"origin": "https://testserver:443"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://testserver:8001"}, 403),
        ({"origin": "http://testserver.evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://[bad"}, 403),
    ],
)
def test_pages_of_other_sites_may_not_send_requests(serve, headers, status):
    client = serve("cars")
    assert client.post("/predict", json={"row": ROW}, headers=headers).status_code == status
    assert client.get("/models", headers=headers).status_code == 200  # they cannot read the answer


def test_a_name_that_another_site_points_at_the_service_is_refused(serve):
    client = serve("cars", allowed_hosts=("queue.example.org", "*.intern.example"))
    for host in (
        "127.0.0.1:8000",
        "[::1]:8000",
        "10.0.0.7",
        "localhost",
        "QUEUE.example.org.:80",
        "a.b.intern.example",
    ):
        assert client.get("/models", headers={"host": host}).status_code == 200, host
    for host in (
        "evil.example",
        "queue.example.org.evil.example",
        "intern.example",
        "",
        "127.0.0.1.evil.example",
        "[x",
    ):
        answer = client.get("/models", headers={"host": host})
        assert (answer.status_code, "must name this service" in answer.json()["error"]) == (403, True), host
        assert client.get("/review", headers={"host": host}).status_code in (403, 404)
    assert client.get("/health", headers={"host": "probe.example"}).status_code == 200


def test_every_name_can_be_allowed():
    assert host_is_allowed("any.example", ("*",))
    assert not host_is_allowed("any.example", ("other.example",))


def test_keys_allow_what_their_role_needs(serve, tmp_path, keys):
    client = serve("risk", keys=keys, queue=tmp_path / "reviews.sqlite")
    lease = {"reviewer": "eve"}
    routes = {
        "score": lambda key: client.post("/predict", json={"row": {"weight": 2000.0}}, headers=header(key)),
        "mlflow": lambda key: client.post("/invocations", json={"inputs": {"weight": [2000.0]}}, headers=header(key)),
        "review": lambda key: client.post("/reviews/lease", json=lease, headers=header(key)),
        "metrics": lambda key: client.get("/metrics", headers=header(key)),
        "summary": lambda key: client.get("/reviews/summary", headers=header(key)),
        "models": lambda key: client.get("/models", headers=header(key)),
    }
    allowed = {
        "key of the shop, 1": {"score", "mlflow", "models"},
        "key of anna, 123456": {"review", "models"},
        "key of prometheus, 1": {"metrics", "summary", "models"},
        "key of operators, 1": set(routes),
        "key of nobody, 12345": set(),
    }
    for key, names in allowed.items():
        statuses = {name: ask(key).status_code for name, ask in routes.items()}
        assert {name for name, status in statuses.items() if status in (200, 204)} == names, statuses
        assert set(statuses.values()) <= {200, 204, 403 if names else 401}


def test_a_reviewer_with_a_key_answers_under_the_name_of_the_key(serve, tmp_path, keys):
    client = serve("risk", keys=keys, queue=tmp_path / "reviews.sqlite", audit_share=1.0)
    rows = [{"weight": 2000.0 + place} for place in range(2)]
    client.post("/predict", json={"rows": rows}, headers=header("key of the shop, 1"))
    first = client.post("/reviews/lease", json={"reviewer": "ben"}, headers=header("key of anna, 123456")).json()
    assert first["reviewer"] == "anna"
    second = client.post("/reviews/lease", json={}, headers=header("key of ben, 1234567")).json()
    assert second["reviewer"] == "ben"
    for item, reviewer in ((first, "key of anna, 123456"), (second, "key of ben, 1234567")):
        body = {"lease": item["lease"], "value": 20.0, "reviewer": "somebody"}
        outcome = client.post(f"/reviews/{item['id']}/answer", json=body, headers=header(reviewer)).json()
        assert outcome["progress"]["answered_by_you"] == 1
    assert client.post("/reviews/lease", json={}, headers=header("key of operators, 1")).status_code == 422


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[score]\nshop = 'short'", "at least 16 characters"),
        ("[buyer]\nshop = 'a key that is long enough'", "may have the tables [score], [review], [metrics], [admin]"),
        ("score = 'a key that is long enough'", "must be a table of names and keys"),
        ("[score]\nshop = 'a key that is long enough'\n[admin]\nops = 'a key that is long enough'", "got one twice"),
        ("[score]\nshop = a key that is secret", "must be TOML in UTF-8"),
        ("", "must have at least one key"),
    ],
)
def test_a_wrong_file_of_keys_gets_one_sentence_without_a_key(tmp_path, text, words):
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"keys\.toml") as caught:
        read_keys(path)
    assert words in str(caught.value)
    assert "key that is" not in str(caught.value)


def test_a_key_is_neither_shown_nor_kept_as_text():
    assert "sesame" not in repr(Key.of("shop", Role.SCORE, "open sesame"))


def test_too_many_requests_per_second_get_429(serve, keys):
    client = serve("cars", rate_limit=2.0, keys=keys)
    ask = lambda key: client.get("/models", headers=header(key)).status_code  # noqa: E731
    found = [ask("key of the shop, 1") for _ in range(40)]
    assert found[:4] == [200] * 4  # two seconds at once
    assert 429 in found
    assert ask("key of operators, 1") == 200  # the others are not slowed down
    wrong = [ask(f"no key {number}") for number in range(40)]
    assert wrong[0] == 401
    assert 429 in wrong
    assert (
        "429"
        in client.get("/openapi.json", headers=header("key of anna, 123456")).json()["paths"]["/models"]["get"][
            "responses"
        ]
    )
    limited = client.get("/models", headers=header("wrong"))
    assert int(limited.headers["retry-after"]) >= 1
    assert client.get("/health").status_code == 200


def test_refusals_are_counted_and_logged_without_secrets(serve, caplog):
    client = serve("cars", api_key="right key")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            client.get("/models", headers=header("secret of a user"))
        client.post("/predict", json={"row": ROW}, headers={"sec-fetch-site": "cross-site", **header("right key")})
    counts = client.get("/metrics", headers=header("right key")).text
    assert 'recuse_refused_total{reason="key"} 3.0' in counts
    assert 'recuse_refused_total{reason="site"} 1.0' in counts
    assert caplog.text.count("refused a request with 401 (key)") == 1  # the others within ten seconds are counted
    assert "secret of a user" not in caplog.text


def test_answers_are_neither_stored_nor_guessed_about(serve):
    client = serve("cars", api_key="right key")
    answers = [
        client.post("/predict", json={"row": ROW}, headers=header("right key")),
        client.get("/models"),  # without a key
        client.get("/nothing", headers=header("right key")),
        client.get("/metrics", headers=header("right key")),
        client.get("/health"),
        client.get("/"),
    ]
    for answer in answers:
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"], answer.url
        assert answer.headers.get_list("cache-control") in (["no-store"], ["no-cache"]), answer.url
    assert answers[0].headers["cache-control"] == "no-store"


def test_no_answer_leads_to_the_host_that_the_request_names(serve):
    answer = serve("cars").post(
        "/predict/", json={"row": ROW}, headers={"host": "evil.example"}, follow_redirects=False
    )
    assert answer.status_code == 404
    assert "location" not in answer.headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "server.example.org"])
def test_an_address_that_others_can_reach_needs_a_key(models, host):
    result = CliRunner(env={"RECUSE_API_KEY": None}).invoke(app, ["serve", str(models / "cars.recuse"), "--host", host])
    assert result.exit_code == 2
    assert "--insecure" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        (["--host", "0.0.0.0", "--insecure"], {"RECUSE_API_KEY": None}),
        (["--host", "0.0.0.0"], {"RECUSE_API_KEY": "a key for everything"}),
        (["--host", "127.0.0.2"], {"RECUSE_API_KEY": None}),
        (["--host", "::1"], {"RECUSE_API_KEY": None}),
    ],
)
def test_an_address_is_taken_where_others_need_a_key_or_may_do_without(tmp_path, options, environment):
    result = CliRunner(env=environment).invoke(app, ["serve", str(tmp_path / "none.recuse"), *options])
    assert result.exit_code == 1
    assert "none.recuse" in result.stderr  # the next thing that is looked at


def test_the_command_takes_keys_names_and_limits(models, tmp_path):
    (tmp_path / "keys.toml").write_text(KEYS)
    options = ["--keys", tmp_path / "keys.toml", "--allowed-hosts", "queue.example.org", "--rate-limit", "2"]
    limits = ["--max-rows", "2", "--max-cells", "14"]  # two rows of seven columns
    shop, ops = header("key of the shop, 1"), header("key of operators, 1")
    with running(models / "cars.recuse", *options, *limits) as (_, client):
        assert client.get("/models").status_code == 401
        assert client.get("/metrics", headers=shop).status_code == 403
        assert client.get("/metrics", headers=ops).status_code == 200
        for host, status in (("queue.example.org", 200), ("evil.example", 403)):
            assert client.post("/predict", json={"row": ROW}, headers={**shop, "host": host}).status_code == status
        assert client.post("/predict", json={"rows": [ROW] * 3}, headers=ops).status_code == 413
        statuses = [client.get("/models", headers=shop).status_code for _ in range(400)]
    assert 429 in statuses
