"""How many functions, in how many files, a command, a decision and a fit pass: the numbers may only fall."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import recuse
from recuse import RiskRejector

TRACED = """
import json, sys
from pathlib import Path
import recuse
root, found, counts = str(Path(recuse.__file__).parent), set(), {}

def note(frame, event, argument):
    code = frame.f_code
    is_function = code.co_flags & 1 and not code.co_name.startswith("<")  # and not the body of a class
    if event == "call" and code.co_filename.startswith(root) and is_function:
        found.add((code.co_filename[len(root) + 1:], code.co_qualname))
        counts[code.co_qualname] = counts.get(code.co_qualname, 0) + 1

%s
sys.setprofile(note)
try:
    work()
except SystemExit as end:
    assert not end.code, end
sys.setprofile(None)
print("\\n" + json.dumps([sorted(found), counts]))
"""

PREDICT = """
sys.argv = ["recuse", "predict", "m.recuse", "one.parquet", "-o", "out.parquet"]

def work():
    from recuse.cli import app
    app(prog_name="recuse")
"""
DECIDE = """
import pandas as pd
served, rows = recuse.load("m.recuse"), pd.read_parquet("one.parquet")

def work():
    served.decide(rows)

work()  # what is imported and made once
"""
FIT = """
import numpy as np, pandas as pd
from sklearn.linear_model import Ridge
table = pd.read_parquet("train.parquet")

def work():
    recuse.RiskRejector(Ridge(), random_state=0).fit(table.drop(columns="y"), table["y"])

work()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("trace"), np.random.default_rng(0)
    table = pd.DataFrame({"size": random.normal(size=200), "city": random.choice(["Bonn", "Ulm"], 200)})
    table["sold"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(random.integers(0, 400, 200), unit="D")
    y = 3 * table["size"] + random.normal(size=200) * np.exp(table["size"])
    table.assign(y=y).to_parquet(folder / "train.parquet")
    table[:1].to_parquet(folder / "one.parquet")
    recuse.save(RiskRejector(Ridge(), cost=1.0, random_state=0).fit(table, y), folder / "m.recuse")
    return folder


def traced(folder, work):
    """Return the files and names of the functions that run at least once, and how often each name runs."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TRACED % work], cwd=folder, capture_output=True, text=True, check=True
    )
    found, counts = json.loads(result.stdout.splitlines()[-1])
    return {tuple(each) for each in found}, counts


@pytest.mark.parametrize(
    ("work", "functions", "files"),
    [(PREDICT, 238, 35), (DECIDE, 28, 6), (FIT, 181, 24)],
    ids=["predict", "decide", "fit"],
)
def test_the_way_of_a_row(folder, work, functions, files):
    found, _ = traced(folder, work)
    assert len(found) <= functions
    assert len({file for file, _ in found}) <= files


def test_the_kind_of_each_column_is_found_once_in_a_fit(folder):
    _, counts = traced(folder, FIT)
    assert counts["kind_of"] == 3
