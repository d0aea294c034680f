"""A messy table of rooms, and a model fitted to it by the command line."""

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from recuse.cli.app import app


def rooms(n_rows, seed, *, labelled=True):
    """Rooms as text: dates, categories, codes with leading zeros, gaps, "n/a" among numbers, and an identifier."""
    random = np.random.default_rng(seed)
    area, age = random.uniform(20, 150, n_rows).round(1), random.integers(0, 80, n_rows)
    city = random.choice(["Berlin", "Hamburg", "Köln"], n_rows)
    noise = random.normal(size=n_rows) * np.where(city == "Köln", 6, 0.5)
    table = pd.DataFrame(
        {
            "id": [f"room-{seed}-{row}" for row in range(n_rows)],
            "zip": random.choice(["01067", "10115", "20095"], n_rows),
            "sold": pd.Timestamp("2023-01-01") + pd.to_timedelta(random.integers(0, 600, n_rows), unit="D"),
            "area": area.astype(str),
            "city": city,
            "age": age.astype(str),
            "lift": random.choice(["True", "False"], n_rows),
        }
    )
    table["sold"] = table["sold"].dt.strftime("%Y-%m-%d")
    table.loc[random.choice(n_rows, 8, replace=False), "age"] = ""
    table.loc[random.choice(n_rows, 4, replace=False), "area"] = "n/a"
    if labelled:
        table["price"] = (area / 10 + 5 * (city == "Berlin") - age / 20 + noise).round(2).astype(str)
        table.loc[:2, "price"] = ""
    return table


def run(*arguments, stdin=None):
    return CliRunner().invoke(app, [str(each) for each in arguments], input=stdin, env={"COLUMNS": "100"})


def succeed(*arguments, stdin=None):
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result


def json_of(*arguments):
    """The one JSON object that a command prints."""
    return json.loads(succeed(*arguments, "--json").stdout)


def error_of(*arguments, code, stdin=None):
    """The one line on standard error of a command that fails, without what follows `error: `."""
    result = run(*arguments, stdin=stdin)
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


@pytest.fixture(scope="session")
def command():
    return SimpleNamespace(run=run, succeed=succeed, json_of=json_of, error_of=error_of, rooms=rooms)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with messy.csv, new.csv, labelled.csv and the model rooms.recuse."""
    place = tmp_path_factory.mktemp("rooms")
    rooms(300, 0).to_csv(place / "messy.csv", index=False)
    rooms(60, 1).to_csv(place / "labelled.csv", index=False)
    new = rooms(30, 2, labelled=False)
    new.loc[3, "city"], new.loc[4, "area"], new.loc[5, "area"], new.loc[6, "sold"] = "Bonn", "999", "large", "soon"
    new.assign(remark="none of these").to_csv(place / "new.csv", index=False)
    succeed(
        *("fit", place / "messy.csv", "--target", "price", "--cost", 6),
        *("--method", "risk", "--preset", "fast", "-o", place / "rooms.recuse"),
    )
    return place
