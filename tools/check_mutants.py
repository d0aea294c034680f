"""Change the code at places drawn at random, and see whether the tests of the package fail.

    python tools/check_mutants.py                           # 15 changes in each package of TESTS
    python tools/check_mutants.py reviews costs --count 30 --seed 1

cosmic-ray makes the changes, in a copy of the sources, from an environment of its own (.venv-mutants). A change that no
test notices is printed: either it changes nothing that a user can see, or a promise has no test. This takes too long
for `make test`.
"""

import argparse
import json
import os
import random
import shlex
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".venv-mutants"
COSMIC_RAY = "cosmic-ray==8.7.0"

# Tests that must notice a change in a package, besides its doctests. Those of one package run for two minutes at most.
TESTS = {
    "decision.py": ["tests/test_decision.py"],
    "costs.py": ["tests/test_costs.py"],
    "guarantees": ["tests/guarantees"],
    "reviews": ["tests/reviews"],
    "scoring": ["tests/scoring"],
    "serving": ["tests/serving"],
    "model_file": ["tests/model_file"],
}

# The first change of a type such as `int | None` is no change of behaviour.
NO_CHANGE = "core/ReplaceBinaryOperator_BitOr"


def main() -> int:
    """Try changes in some packages, and print those that no test noticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", help=f"of {', '.join(TESTS)}; all without any")
    parser.add_argument("--count", type=int, default=15, help="number of changes in each package (default: 15)")
    parser.add_argument("--seed", type=int, default=0, help="draws other changes (default: 0)")
    options = parser.parse_args()
    if unknown := set(options.packages) - set(TESTS):
        parser.error(f"packages must be of {', '.join(TESTS)}, got {', '.join(sorted(unknown))}")
    command = install()
    for package in options.packages or TESTS:
        with tempfile.TemporaryDirectory() as folder:
            copy_sources(Path(folder))
            try_changes(command, Path(folder), package, options.count, options.seed)
    return 0


def install() -> Path:
    """Create the environment of cosmic-ray if there is none, and return its command."""
    command = ENVIRONMENT / "bin" / "cosmic-ray"
    if not command.exists():
        venv.create(ENVIRONMENT, with_pip=True)
        subprocess.run([ENVIRONMENT / "bin" / "pip", "install", "--quiet", COSMIC_RAY], check=True)
    return command


def copy_sources(folder: Path) -> None:
    """Copy what the tests need, so that the changes are not made in the repository."""
    for name in ("src", "tests", "papers", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", folder)


def try_changes(command: Path, folder: Path, package: str, count: int, seed: int) -> None:
    """Draw changes of a package, run its tests with each of them, and print the outcome."""
    source = f"src/recuse/{package}"
    tests = [sys.executable, "-m", "pytest", "-x", "-m", "not slow", "-p", "no:cacheprovider", *TESTS[package], source]
    (folder / "mutants.toml").write_text(
        f"[cosmic-ray]\nmodule-path = {json.dumps(source)}\ntest-command = {json.dumps(shlex.join(tests))}\n"
        'timeout = 300\nexcluded-modules = []\n[cosmic-ray.distributor]\nname = "local"\n'
    )
    threads = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg", "PYTHONDONTWRITEBYTECODE": "1"}
    environment = {**os.environ, **threads, "PYTHONPATH": str(folder / "src")}

    def run(*arguments: str) -> str:
        options = {"cwd": folder, "env": environment, "check": True, "text": True}
        return subprocess.run([command, *arguments], stdout=subprocess.PIPE, **options).stdout

    run("baseline", "mutants.toml")
    run("init", "mutants.toml", "mutants.sqlite")
    keep_some(folder / "mutants.sqlite", count, seed)
    run("exec", "mutants.toml", "mutants.sqlite")
    results = [json.loads(line)[1] for line in run("dump", "mutants.sqlite").splitlines()]
    survived = [each for each in results if each["test_outcome"] == "survived"]
    print(f"{package}: the tests noticed {len(results) - len(survived)} of {len(results)} changes", flush=True)
    for each in survived:
        print(each["diff"], flush=True)


def keep_some(session: Path, count: int, seed: int) -> None:
    """Draw places of the code, and for each of them one of the changes that are possible there."""
    connection = sqlite3.connect(session)
    with connection:
        places: dict[tuple[str, int, int], list[str]] = {}
        columns = "module_path, start_pos_row, start_pos_col, operator_name, job_id"
        for *place, operator, job in connection.execute(f"SELECT {columns} FROM mutation_specs ORDER BY 1, 2, 3, 4"):
            if not operator.startswith(NO_CHANGE):
                places.setdefault(tuple(place), []).append(job)
        draw = random.Random(seed)
        kept = [draw.choice(places[place]) for place in draw.sample(sorted(places), min(count, len(places)))]
        for table in ("mutation_specs", "work_items"):
            connection.execute(f"DELETE FROM {table} WHERE job_id NOT IN ({','.join('?' * len(kept))})", kept)
    connection.close()


if __name__ == "__main__":
    sys.exit(main())
