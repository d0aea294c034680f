"""Run the unit tests with the oldest versions that pyproject.toml allows, in the environment .venv-oldest.

    python tools/check_oldest.py                  # all unit tests
    python tools/check_oldest.py tests/metrics    # some of them
    python tools/check_oldest.py --print          # only the versions, as constraints for pip

Every package of the dependencies and extras is pinned to its lower bound; packages that these require are the newest
that fit. torch stays at the version of constraints.txt, since PyPI has older builds with CUDA only.
Use --torch 2.4.0 where pip finds a build for the CPU. MLflow has an environment of its own (tools/check_mlflow.py).
"""

import argparse
import os
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".venv-oldest"
LEFT_OUT = {"dev", "mlflow"}
TOOLS = ["httpx", "hypothesis", "polars", "pytest", "pytest-benchmark", "pytest-xdist", "selenium"]
# long experiments, and pages whose printed numbers belong to the tested versions
SKIPPED = ["tests/bench", "tests/test_documents.py", "tests/test_readme.py", "tests/test_contributing.py"]


def main() -> int:
    """Create the environment, and run the tests in it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="files or folders")
    parser.add_argument("--torch", metavar="VERSION", default=tested("torch"))
    parser.add_argument("--print", action="store_true", dest="only_print")
    options = parser.parse_args()
    bounds = {**lower_bounds(), "torch": options.torch}
    constraints = "".join(f"{name}=={version}\n" for name, version in sorted(bounds.items()))
    if options.only_print:
        print(constraints, end="")
        return 0
    python = install(constraints)
    command = [python, "-m", "pytest", "-n", "auto", "-p", "no:cacheprovider"]
    command += ["-o", "filterwarnings=default"]  # old versions may use what newer ones deprecate
    command += options.tests or [f"--ignore={path}" for path in SKIPPED]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def lower_bounds() -> dict[str, str]:
    """Read the lower bound of every dependency."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [texts for extra, texts in project["optional-dependencies"].items() if extra not in LEFT_OUT]
    bounds: dict[str, str] = {}
    for text in [*project["dependencies"], *(text for texts in extras for text in texts)]:
        requirement = Requirement(text)
        if requirement.name == project["name"]:
            continue
        (bound,) = [each.version for each in requirement.specifier if each.operator == ">="]
        known = bounds.setdefault(requirement.name, bound)
        if known != bound:
            raise SystemExit(f"{requirement.name} must have one lower bound, got {known} and {bound}")
    return bounds


def tested(name: str) -> str:
    """Give the version of a package in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (version,) = [line.partition("==")[2] for line in lines if line.startswith(f"{name}==")]
    return version


def install(constraints: str) -> Path:
    """Install the package with all extras into the environment, which is created if there is none."""
    python = ENVIRONMENT / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    pins = ENVIRONMENT / "constraints.txt"
    pins.write_text(constraints, encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = ",".join(extra for extra in project["optional-dependencies"] if extra not in LEFT_OUT)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", pins]
    subprocess.run([*command, "-e", f"{ROOT}[{extras}]", *TOOLS], check=True)
    return python


if __name__ == "__main__":
    sys.exit(main())
