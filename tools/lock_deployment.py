"""Write the lock files of examples/deployment: every file that the container installs, by version and SHA-256.

Asks the default package index, and no other, which wheels pip would install on Linux with Python 3.11, on x86-64 and on
ARM, within the versions of constraints.txt. Run it after a change of requirements.txt or of constraints.txt.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "deployment"
PYTHON = "3.11"
MACHINES = ("x86_64", "aarch64")
GLIBC = range(17, 37)  # the base image has glibc 2.36
HEADER = """# Written by `python tools/lock_deployment.py`; not to be edited.
# {purpose}
"""
LOCKS = {
    "requirements.lock": (
        ["-r", str(FOLDER / "requirements.txt")],
        "What the service imports, with all that it needs.",
    ),
    "build.lock": (["hatchling"], "What builds the wheel of recuse."),
}


def resolved(requirements: list[str], machine: str) -> list[tuple[str, str, str]]:
    """Return name, version and SHA-256 of the wheels that pip would install."""
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in reversed(GLIBC)] + [f"manylinux2014_{machine}"]
    # no index, folder of wheels or proxy cache of this machine: the container has none of them
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    environment |= {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--only-binary=:all:", "--target", folder, "--python-version", PYTHON, "--report", str(report)]
        command += [argument for platform in platforms for argument in ("--platform", platform)]
        subprocess.run([*command, "-c", str(ROOT / "constraints.txt"), *requirements], check=True, env=environment)
        installed = json.loads(report.read_text(encoding="utf-8"))["install"]
    return [
        (_normal(each["metadata"]["name"]), each["metadata"]["version"], _sha256(each["download_info"]))
        for each in installed
    ]


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _sha256(download: dict[str, dict[str, dict[str, str]]]) -> str:
    return download["archive_info"]["hashes"]["sha256"]


def locked(requirements: list[str], purpose: str) -> str:
    """Return the text of a lock file."""
    hashes: dict[tuple[str, str], set[str]] = {}
    for machine in MACHINES:
        for name, version, digest in resolved(requirements, machine):
            hashes.setdefault((name, version), set()).add(digest)
    lines = [HEADER.format(purpose=purpose)]
    for (name, version), digests in sorted(hashes.items()):
        files = " \\\n".join(f"    --hash=sha256:{digest}" for digest in sorted(digests))
        lines.append(f"{name}=={version} \\\n{files}\n")
    return "".join(lines)


def main() -> None:
    """Write all lock files."""
    for name, (requirements, purpose) in LOCKS.items():
        (FOLDER / name).write_text(locked(requirements, purpose), encoding="utf-8")
        print(f"wrote {FOLDER / name}")


if __name__ == "__main__":
    main()
