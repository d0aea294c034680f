"""Build sdist and wheel, install them into empty environments, and try them from a folder outside the repository.

    python tools/check_package.py                  # environments by pip: sdist, wheel alone, wheel with each extra
    python tools/check_package.py --only serve     # one of them
    python tools/check_package.py --linked         # no downloads, in seconds: see below

With --linked an environment has links to those packages of the Python that runs this script which the metadata of
the wheel require, directly or not, and to no others.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
NOTHING, SDIST = "nothing", "sdist"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = [extra for extra in PROJECT["optional-dependencies"] if extra not in ("dev", "docs")]  # of users
# versions that differ from the tested ones, since MLflow requires older ones of other packages
FREE = {"mlflow"}


def main() -> None:
    """Build, then try each environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--linked", action="store_true", help="link packages instead of installing them")
    parser.add_argument("--only", nargs="+", choices=[NOTHING, SDIST, *EXTRAS])
    options = parser.parse_args()
    chosen = options.only or [NOTHING, *([] if options.linked else [SDIST]), *EXTRAS]
    with tempfile.TemporaryDirectory() as folder:
        sdist, wheel = build(Path(folder) / "dist")
        check_files(wheel)
        for name in chosen:
            start = time.monotonic()
            place = Path(folder) / name
            extra = None if name in (NOTHING, SDIST) else name
            if options.linked:
                if not (python := linked(place, wheel, extra)):
                    print(f"== {name}: skipped, since its packages are not installed here", flush=True)
                    continue
            else:
                python = installed(place, sdist if name == SDIST else wheel, extra)
            smoke(python, place / "work", Path(folder) / "model", extra)
            print(f"== {name}: passed in {time.monotonic() - start:.0f} s", flush=True)


def build(folder: Path) -> tuple[Path, Path]:
    """Build the sdist from the repository, and the wheel from the sdist."""
    command = [sys.executable, "-m", "build", "--quiet", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def check_files(wheel: Path) -> None:
    """Exit with an error unless the wheel has the files that are not Python, and nothing beside the package."""
    names = set(zipfile.ZipFile(wheel).namelist())
    source = ROOT / "src" / "recuse"
    files = [path for path in source.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    wanted = {f"recuse/{path.relative_to(source).as_posix()}" for path in files}
    wanted |= {f"recuse/bench/papers/{path.name}" for path in (ROOT / "papers").glob("*.toml")}
    if missing := sorted(wanted - names):
        raise SystemExit(f"the wheel must have {', '.join(missing)}")
    if strange := sorted(name for name in names if not name.startswith(("recuse/", "recuse-"))):
        raise SystemExit(f"the wheel must have the package only, got {', '.join(strange)}")


def installed(place: Path, archive: Path, extra: str | None) -> Path:
    """Install an archive with its dependencies into a new environment."""
    venv.create(place, with_pip=True)
    python = python_of(place)
    constraints = ROOT / "constraints.txt"
    if extra in FREE:
        pins = [line for line in constraints.read_text(encoding="utf-8").splitlines() if line.startswith("torch==")]
        constraints = place / "constraints.txt"
        constraints.write_text("\n".join(pins), encoding="utf-8")
    what = f"{archive}[{extra}]" if extra else str(archive)
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", constraints, what]
    subprocess.run(command, check=True)
    return python


def linked(place: Path, wheel: Path, extra: str | None) -> Path | None:
    """Unpack the wheel into a new environment with links to its dependencies; None if one of them is missing."""
    needed = closure(wheel, extra)
    if needed is None:
        return None
    venv.create(place, with_pip=False)
    python = python_of(place)
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(command, check=True)
    (site,) = place.glob("Lib/site-packages" if os.name == "nt" else "lib/python*/site-packages")
    for package in needed:
        for name in {file.parts[0] for file in package.files or () if file.parts[0] not in ("..", "__pycache__")}:
            target = site / name
            if not target.exists():
                target.symlink_to(Path(str(package.locate_file(name))))
    return python


def closure(wheel: Path, extra: str | None) -> list[PathDistribution] | None:
    """List the distributions that the wheel with an extra requires, directly or not; None if one is not installed."""
    metadata = zipfile.Path(wheel)
    (info,) = [part for part in metadata.iterdir() if part.name.endswith(".dist-info")]
    found: dict[str, PathDistribution] = {}
    waiting: list[tuple[PathDistribution, frozenset[str]]] = [
        (PathDistribution(info), frozenset({extra} if extra else ()))  # type: ignore[arg-type]
    ]
    seen = set()
    while waiting:
        package, extras = waiting.pop()
        for requirement in requirements(package, extras):
            key = (requirement.name.lower(), frozenset(requirement.extras))
            if key in seen:
                continue
            seen.add(key)
            if key[0] == "recuse":
                waiting.append((PathDistribution(info), key[1]))  # type: ignore[arg-type]
                continue
            try:
                other = distribution(requirement.name)
            except ModuleNotFoundError:
                return None
            assert isinstance(other, PathDistribution)
            found[key[0]] = other
            waiting.append((other, key[1]))
    return list(found.values())


def requirements(package: PathDistribution, extras: frozenset[str]) -> Iterator[Requirement]:
    """Give the requirements of a distribution that apply here, with some of its extras."""
    for text in package.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in (*extras, "")):
            yield requirement


def smoke(python: Path, work: Path, model: Path, extra: str | None) -> None:
    """Run the smoke test in an empty folder; an extra is tried on the files of the run without extras, if there are."""
    work.mkdir()
    if extra and model.exists():
        for file in model.iterdir():
            (work / file.name).write_bytes(file.read_bytes())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [python, "-I", ROOT / "tools" / "smoke_test.py", *([extra] if extra else [])]
    subprocess.run(command, cwd=work, check=True, env=environment)
    if not extra and not model.exists():
        work.rename(model)


def python_of(place: Path) -> Path:
    """Give the interpreter of an environment."""
    return place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


if __name__ == "__main__":
    main()
