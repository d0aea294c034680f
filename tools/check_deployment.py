"""Run the commands of examples/deployment/Dockerfile in a virtual environment, where there is no container engine.

Installs what the image would have, starts the service on a free port, runs the health check, and asks for one decision.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCKERFILE = ROOT / "examples" / "deployment" / "Dockerfile"


def instructions() -> list[list[str]]:
    """Return the instructions of the Dockerfile, each as its name and its value."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [line.split(None, 1) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def install(folder: Path) -> None:
    """Run the first RUN, which installs into /opt/recuse, for another folder."""
    command = next(value for name, value in instructions() if name == "RUN")
    here = command.replace("/opt/recuse", str(folder)).replace("python -m venv", f"{sys.executable} -m venv")
    subprocess.run(here, shell=True, cwd=ROOT, check=True)


def start(folder: Path, model: Path) -> tuple[subprocess.Popen[str], str]:
    """Run ENTRYPOINT for a model on a free port; return the process and its address."""
    entry = json.loads(next(value for name, value in instructions() if name == "ENTRYPOINT"))
    entry[0], entry[entry.index("--host") + 1], entry[entry.index("--port") + 1] = (
        f"{folder}/bin/recuse",
        "127.0.0.1",
        "0",
    )
    process = subprocess.Popen([*entry, str(model)], stdout=subprocess.PIPE, text=True, cwd=folder)
    assert process.stdout is not None
    return process, re.findall(r"http://\S+", process.stdout.readline())[0]


def check_health(folder: Path, address: str) -> None:
    """Run HEALTHCHECK against the address until it succeeds, for at most 30 seconds."""
    health = next(value for name, value in instructions() if name == "HEALTHCHECK").partition("CMD ")[2]
    program, *arguments = json.loads(health.replace("http://127.0.0.1:8000", address))
    for _ in range(30):
        result = subprocess.run([f"{folder}/bin/{program}", *arguments], capture_output=True, check=False)
        if result.returncode == 0:
            return
        time.sleep(1)
    raise SystemExit(f"the health check fails: {result.stderr.decode()[-300:]}")


def size_of(folder: Path) -> int:
    """Return the size of all files in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main() -> None:
    """Install, start, check and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path, help="a model file")
    model = parser.parse_args().model.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "recuse"
        install(folder)
        process, address = start(folder, model)
        try:
            check_health(folder, address)
            with urllib.request.urlopen(address, timeout=10) as answer:
                print("page:", len(answer.read()), "bytes")
            with urllib.request.urlopen(f"{address}/models", timeout=10) as answer:
                columns = json.load(answer)[0]["columns"]
            row = json.dumps({"row": {column["name"]: None for column in columns}}).encode()
            with urllib.request.urlopen(f"{address}/predict", row, timeout=10) as answer:
                print("decision:", json.load(answer)["decisions"][0])
        finally:
            process.terminate()
            process.wait(30)
        print(f"installed: {size_of(folder) / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
