"""Parts of an interrupted run are used only by a run that would write the same bytes."""

import dataclasses
import inspect
import os
import shutil

import pytest

import recuse
from recuse.guarantees import certify
from recuse.model_file import add_certificate
from recuse.scoring import score_files
from recuse.scoring.plan import ModelSource, ScoringPlan
from recuse.scoring.working_folder import run_facts
from scoring_runs import numbers, stopped

SAME = {"keep": ["word"], "encoding": "latin-1"}
# options that change the output, with another value for each
CHANGES = {
    "cost": {"cost": "fee"},
    "certificate": {"certificate": 1},
    "keep": {"keep": ["word", "x1"]},
    "keep_all": {"keep": [], "keep_all": True},
    "encoding": {"encoding": "cp850"},
    "spreadsheet_safe": {"spreadsheet_safe": True},
}
FILES = {"model", "source", "output"}
NO_CHANGE = {"jobs", "scheduler", "progress"}


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A model that decides at any cost, with a certificate, saved."""
    rows, more = numbers(60, seed=1), numbers(1500, seed=2)
    fitted = recuse.estimators.knn_plug(cost=1.0, random_state=0).fit(rows, rows["x0"])
    path = tmp_path_factory.mktemp("certified") / "m.recuse"
    recuse.save(fitted, path)
    add_certificate(path, certify(fitted, more, more["x0"], target=8.0, bound=20.0))
    return path


@pytest.fixture
def source(tmp_path):
    """Rows with a word that two encodings read differently."""
    frame = numbers(2500).assign(fee=2.0, word="Köln")
    frame.to_csv(tmp_path / "in.csv", index=False, encoding="latin-1")
    return tmp_path / "in.csv"


@pytest.fixture
def output(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "out.csv"


def test_every_option_is_tested():
    assert {*CHANGES, *FILES, *NO_CHANGE} == set(inspect.signature(score_files).parameters)


@pytest.mark.parametrize("name", CHANGES)
def test_a_run_with_another_option_starts_anew(certified, source, output, small_parts, name):
    stopped(certified, source, output, **SAME)
    assert score_files(certified, source, output, **SAME | CHANGES[name]).resumed_rows == 0
    score_files(certified, source, output.with_name("new.csv"), **SAME | CHANGES[name])
    assert output.read_bytes() == output.with_name("new.csv").read_bytes()


@pytest.mark.parametrize("options", [{}, {"jobs": 2}, {"progress": True}])
def test_a_run_with_the_same_options_continues(certified, source, output, small_parts, options):
    stopped(certified, source, output, **SAME)
    assert score_files(certified, source, output, **SAME, **options).resumed_rows > 0


def changed_in_the_middle(source):
    """Change a word of a file, and set its size and time back."""
    status, data = source.stat(), bytearray(source.read_bytes())
    data[len(data) // 2 :] = bytes(data[len(data) // 2 :]).replace("Köln".encode("latin-1"), b"Bonn", 1)
    source.write_bytes(data)
    os.utime(source, ns=(status.st_atime_ns, status.st_mtime_ns))


def another_model(model):
    recuse.save(recuse.estimators.knn_plug(cost=1.0, random_state=1).fit(numbers(70), range(70)), model)


def test_a_run_with_other_files_starts_anew(certified, source, output, small_parts, tmp_path):
    model = shutil.copy(certified, tmp_path / "m.recuse")
    for change, path in ((changed_in_the_middle, source), (another_model, model)):
        stopped(model, source, output, **SAME)
        change(path)
        assert score_files(model, source, output, **SAME).resumed_rows == 0


def test_a_run_with_another_version_of_a_library_starts_anew(
    certified, source, output, small_parts, tmp_path, monkeypatch
):
    stopped(certified, source, output, **SAME)
    (tmp_path / "pandas-99.dist-info").mkdir()
    (tmp_path / "pandas-99.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: pandas\nVersion: 99\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert score_files(certified, source, output, **SAME).resumed_rows == 0


def test_all_fields_of_a_plan_describe_it():
    plan = ScoringPlan(ModelSource("ab"), 1.0)
    for field in dataclasses.fields(ScoringPlan):
        other = dataclasses.replace(plan, **{field.name: ModelSource("cd")})
        assert run_facts(other, [{}], [1], folder=False) != run_facts(plan, [{}], [1], folder=False)
