import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from recuse import RcRRegressor, datasets
from recuse.bench import spec
from recuse.bench.cells import BenchOptions, finished, list_cells, measures
from recuse.bench.rcr import AcceptAll, RcR

COLUMNS = ["dataset", "model", "surrogate", "cost", "metric", "mean", "std", "repeats", "paper_mean", "paper_std"]


def read(path):
    table = pd.read_csv(path)
    return table.set_index([name for name in ("dataset", "model", "surrogate", "cost", "metric") if name in table])


@pytest.fixture(scope="module")
def whole(small, tmp_path_factory):
    """The folder that one process writes without interruption."""
    output = tmp_path_factory.mktemp("whole")
    subprocess.run(command(small, output, "--jobs", "1"), check=True, capture_output=True)
    return output


def command(small, output, *options):
    start = [sys.executable, "-m", "recuse.cli", "bench", "paper", "--tables", "mlp", "--paper", str(small)]
    return [*start, "-o", str(output), *options]


def test_everything_is_written(whole):
    table = pd.read_csv(whole / "mlp.csv")
    assert list(table.columns) == COLUMNS
    assert len(table) == 2 * 4 * 7  # surrogates, cells, measures
    figures = {"losses_against_cost_mlp", "losses_against_training_share", "accepted_loss_against_rejection"}
    names = {path.name for path in whole.iterdir()}
    assert {
        "README.md",
        "environment.json",
        "mlp.tex",
        "training_share.csv",
        *(f"{name}.png" for name in figures),
    } <= names
    page = (whole / "README.md").read_text()
    for part in ("## Protocol", "## Glossary", "### mlp", "hidden layers of 8\n", "| auto_mpg | 4, 6 |"):
        assert part in page
    assert all(f"![{name}]({name}.png)" in page for name in figures)


def test_printed_numbers_stand_beside_ours_and_the_gap_is_in_standard_errors(whole):
    table = read(whole / "mlp.csv")
    row = table.loc[("auto_mpg", "mlp", "mae", 4.0, "rcrloss")]
    assert (row["paper_mean"], row["paper_std"], row["repeats"]) == (3.5, 0.4, 2)
    gap = (row["mean"] - 3.5) / np.hypot(row["std"], 0.4) * np.sqrt(2)
    line = next(
        line for line in (whole / "README.md").read_text().splitlines() if line.startswith("| auto_mpg | mae | 4")
    )
    ours = f"{row['mean']:.2f} ({row['std']:.2f}) / 3.50 (0.40) {gap:+.1f}"
    assert f"| {ours} |" in line or f"| **{ours}** |" in line
    assert "| mlp | 1 of 2 (-1, +0) | - | 0 of 1 (-0, +1) |" in (whole / "README.md").read_text()


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_with_the_same_bytes(small, whole, bench, tmp_path):
    for stored, jobs in ((1, "1"), (8, "2")):
        process = subprocess.Popen(
            command(small, tmp_path, "--no-figures", "--jobs", jobs),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while process.poll() is None and len(list((tmp_path / "cells").glob("*.npz"))) < stored:
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    bench(f"paper --tables mlp --no-figures -o {tmp_path}")
    for name in ("mlp.csv", "mlp.tex"):
        assert (tmp_path / name).read_bytes() == (whole / name).read_bytes()


def test_only_missing_or_damaged_cells_are_computed_again(small, whole, bench, tmp_path):
    bench(f"paper --tables mlp --reuse {whole} --no-figures -o {tmp_path / 'new'}")
    assert list((tmp_path / "new" / "cells").iterdir()) == []
    before = {path: path.stat().st_mtime_ns for path in (whole / "cells").iterdir()}
    gone, damaged, *_ = sorted(before)
    gone.unlink()
    damaged.write_bytes(damaged.read_bytes()[:100])
    table = (whole / "mlp.csv").read_bytes()
    bench(f"paper --tables mlp --no-figures -o {whole}")
    assert {path for path, old in before.items() if path.stat().st_mtime_ns != old} == {gone, damaged}
    assert (whole / "mlp.csv").read_bytes() == table
    bench(f"paper --tables mlp --datasets housing --costs 9 --fresh --no-figures -o {whole}")
    fresh = {path.name for path, old in before.items() if path.stat().st_mtime_ns != old} - {gone.name, damaged.name}
    assert len(fresh - {gone.name}) >= 4
    assert all(name.startswith("housing") for name in fresh)


def test_a_change_of_settings_or_code_never_gives_old_numbers(paper, tmp_path):
    class Other(RcR):
        """The same numbers by other code."""

    options, costs = BenchOptions(repeats=1, progress=False), {"auto_mpg": (4.0,)}
    longer = replace(paper, protocol=replace(paper.protocol, epochs=7))
    more = replace(paper, protocol=replace(paper.protocol, repeats=9))
    files = [
        list_cells(which, [method], costs, options)[0].file
        for which, method in (
            (paper, RcR()),
            (longer, RcR()),
            (paper, Other()),
            (paper, RcR("mlp", "hinge")),
            (more, RcR()),
        )
    ]
    assert len(set(files)) == 4
    assert files[0] == files[4]  # more splits do not change the first


def test_the_comparison_is_at_the_printed_rejection_rates(paper, bench, mine, tmp_path):
    bench(f"paper --tables comparison --repeats 1 --methods-from {mine} --no-figures -o {tmp_path}")
    table = read(tmp_path / "comparison.csv")
    assert list(dict.fromkeys(table.index.get_level_values("model"))) == ["rcr_mae", "mlp_plug", "auto", "mean"]
    rates = table.xs("rej", level="metric")["mean"].droplevel(["dataset", "surrogate", "cost"])
    assert rates["auto"] == pytest.approx(37, abs=1)  # of the test rows: the lowest rate of the cell
    assert rates["mlp_plug"] == pytest.approx(40, abs=20)  # of the validation rows
    assert "Of 1 cells, its accepted" in (tmp_path / "README.md").read_text()


def test_a_cell_is_a_fit_of_the_public_estimator_whatever_else_is_trained(paper, tmp_path):
    train, validation, (X, y) = datasets.split(datasets.load("auto_mpg"), 1)
    model = RcRRegressor(
        6.0,
        "logistic",
        hidden=(8,),
        epochs=6,
        slow_start=2,
        batch_size=256,
        learning_rate=(1e-1, 1e-2),
        n_members=1,
        random_state=[1],
        unseen="keep",
    ).fit(*train, validation=validation)
    methods = [RcR("mlp", "mae"), RcR("mlp", "logistic"), AcceptAll()]
    results = finished(list_cells(paper, methods, paper.costs, BenchOptions(progress=False)), tmp_path, BenchOptions())
    found = measures(results).set_index(["method", "dataset", "repeat", "cost"])["rcrloss"]
    assert found["rcr_logistic", "auto_mpg", 1, 6.0] == model.decide(X).evaluate(y)["rcr_loss"]
    assert found["always_accept", "auto_mpg", 1, 6.0] != found["always_accept", "auto_mpg", 0, 6.0]


def test_a_share_of_the_rows_trains_another_model(whole):
    shares = pd.read_csv(whole / "training_share.csv").query("metric == 'rcrloss'")
    assert shares["share"].tolist() == [0.5, 1.0]
    assert shares["mean"].nunique() == 2


def test_own_data_need_a_file_a_target_and_costs(small, bench, tmp_path):
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"x": random.normal(size=60), "kind": random.choice(["a", "b"], 60)})
    frame.assign(loss=frame["x"] * 2 + (frame["kind"] == "a")).to_csv(tmp_path / "mine.csv", index=False)
    protocol = small.read_text().partition("[protocol]")[2].partition("[costs]")[0]
    data = '[data.own]\npath = "mine.csv"\ntarget = "loss"\n[costs]\nown = [0.5]\n'
    text = f'name = "mine"\n[protocol]{protocol}{data}'
    (tmp_path / "p.toml").write_text(text)
    output = bench(
        f"methods --methods knn_plug,no_rejection --repeats 1 --paper {tmp_path / 'p.toml'} -o {tmp_path / 'o'}"
    )
    assert "own" in output
    (tmp_path / "p.toml").write_text(text.replace('"loss"', '"lost"'))
    assert "target must be a column" in bench(f"methods --paper {tmp_path / 'p.toml'} -o {tmp_path / 'o'}", code=2)


def test_tables_without_chosen_cells_are_left_out(bench, tmp_path):
    bench(f"paper --datasets housing --repeats 1 --no-figures -o {tmp_path}")
    assert {path.name for path in tmp_path.glob("*.csv")} == {"mlp.csv"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--tables mlq", "tables must be among"),
        ("--datasets abalon", "datasets must be among"),
        ("--costs 7", "costs must be among"),
        ("--costs 9 --datasets auto_mpg", "costs must be costs of auto_mpg"),
        ("--format gif", "format must be png or pdf"),
        ("--paper nothing", "paper must be one of rcr2023"),
    ],
)
def test_a_wrong_option_is_explained(options, message, bench, tmp_path):
    assert message in bench(f"paper {options} -o {tmp_path}", code=2)


def test_the_command_on_the_page_has_every_option_of_the_run(bench, small, tmp_path):
    bench(f"paper --tables mlp --datasets housing --costs 9 --repeats 1 --no-figures -o {tmp_path}")
    wanted = f"--output {tmp_path} --repeats 1 --datasets housing --costs 9 --no-figures --paper {small}\n"
    assert f"    recuse bench paper --tables mlp {wanted}" in (tmp_path / "README.md").read_text()


def test_figures_can_be_pdf(bench, tmp_path):
    bench(f"paper --tables mlp --datasets housing --repeats 1 --format pdf -o {tmp_path}")
    assert (tmp_path / "losses_against_cost_mlp.pdf").read_bytes().startswith(b"%PDF")


def test_a_surrogate_of_the_user_joins_every_table(bench, mine, tmp_path):
    bench(f"paper --tables mlp --datasets housing --repeats 1 --methods-from {mine} --no-figures -o {tmp_path}")
    table = pd.read_csv(tmp_path / "mlp.csv")
    assert set(table["surrogate"]) == {"mae", "logistic", "bent"}
    assert table.loc[table["surrogate"] == "bent", "paper_mean"].isna().all()


def test_the_committed_tables_have_the_columns_of_new_ones():
    paper = spec.load()
    for name in paper.table_names:
        assert list(pd.read_csv(f"results/rcr2023/{name}.csv").columns) == COLUMNS
