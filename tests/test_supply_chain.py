"""What builds, tests and containers install is named by digest, hash or version, and comes from one index."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "deployment"
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.y*ml"))
LOCKS = ["requirements.lock", "build.lock"]
UNUSED = {"scikit-learn", "scipy", "joblib", "threadpoolctl"}  # imported by fits only


def locked(name):
    """Return the versions and the hashes of a lock file by package; every line must be a package or a hash."""
    text = re.sub(r"^#.*\n", "", (FOLDER / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {}
    for line in text.replace("\\\n", " ").splitlines():
        requirement, *hashes = line.split()
        package, version = re.fullmatch(r"([a-z0-9-]+)==([\w.+!]+)", requirement).groups()
        found[package] = version, [re.fullmatch(r"--hash=sha256:([0-9a-f]{64})", each)[1] for each in hashes]
    return found


def constraints():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def steps():
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values():
            yield from job["steps"]


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_has_hashes_and_the_version_of_the_tests(name):
    packages = locked(name)
    assert packages
    assert [package for package, (_, hashes) in packages.items() if not hashes] == []
    known = constraints()
    assert {package: version for package, (version, _) in packages.items() if known.get(package) != version} == {}


def test_compiled_packages_are_locked_for_two_processors():
    packages = locked("requirements.lock")
    for package in ("httptools", "numpy", "onnx", "onnxruntime", "pandas", "pydantic-core", "uvloop"):
        assert len(packages[package][1]) >= 2, package


def test_the_lock_file_has_all_that_the_service_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [*project["dependencies"], *project["optional-dependencies"]["serve"]]
    linux = {"sys_platform": "linux", "platform_system": "Linux", "python_version": "3.11", "extra": ""}
    packages = locked("requirements.lock")
    for text in declared:
        requirement = Requirement(text)
        if requirement.name in UNUSED or not (requirement.marker or Marker("python_version > '3'")).evaluate(linux):
            continue
        version, _ = packages[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), text
    assert not UNUSED & set(packages)


@pytest.mark.parametrize("name", LOCKS)
def test_lock_files_name_no_host(name):
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert not re.search(r"https?:|file:|index-url|find-links", text)


def test_the_container_starts_from_a_digest_and_installs_by_hash():
    text = (FOLDER / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    images = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert images
    assert [image for image in images if not re.search(r"@sha256:[0-9a-f]{64}$", image)] == []
    installs = re.findall(r"pip install [^&\n]*", text)
    assert len(installs) >= 2
    assert [each for each in installs if "--require-hashes" not in each and "--no-index --no-deps" not in each] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_only_read_and_use_one_index(path):
    text = path.read_text(encoding="utf-8")
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    assert not re.search(r"extra.index|index.url|find.links", text, re.IGNORECASE)


def test_actions_are_named_by_digest():
    actions = [step["uses"] for step in steps() if "uses" in step]
    assert actions
    assert [action for action in actions if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []
    for path in WORKFLOWS:  # and by version, for people
        lines = [line for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
        assert [line for line in lines if not re.search(r"# v\d+\.\d+\.\d+$", line)] == []


def test_a_job_looks_for_known_vulnerabilities():
    commands = [step["run"] for step in steps() if "run" in step]
    for file in ("examples/deployment/requirements.lock", "constraints.txt"):
        assert any("pip_audit" in command and file in command for command in commands), file
