"""No data leaves the process: ONNX Runtime keeps no database of events, and nothing looks up another host."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "tests" / "model_file" / "files" / "format-1.recuse"
ROW = {"cylinders": 4, "displacement": 97.0, "horsepower": 88.0, "weight": 2130.0, "acceleration": 14.5}
ROW |= {"model_year": 71.0, "origin": 3}

# by these ONNX Runtime recognises builds and tests, where it sends nothing by itself, or is told where to write
HIDDEN = (
    *("BUILDKITE", "CI", "CIRCLECI", "CODEBUILD_BUILD_ID", "GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL"),
    *("TEAMCITY_VERSION", "TF_BUILD", "TRAVIS", "ORT_DISABLE_TELEMETRY", "ORT_RUNNING_UNIT_TESTS", "XDG_CACHE_HOME"),
)
DECIDE = f"""
import sys, recuse
print(len(recuse.load(sys.argv[1]).decide({ROW!r})))
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the home of a user is not HOME on Windows")


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def environment(home, **more):
    return {**{name: each for name, each in os.environ.items() if name not in HIDDEN}, "HOME": str(home), **more}


def left_in(home):
    return [str(path.relative_to(home)) for path in home.rglob("*")]


def decide(home, *command, **variables):
    result = subprocess.run(
        [*command, sys.executable, "-c", DECIDE, MODEL],
        env=environment(home, **variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, "1\n"), result.stderr


@pytest.fixture
def strace(tmp_path):
    """Return a command that writes what a program opens and connects to, and the path of that list."""
    program, trace = shutil.which("strace"), tmp_path / "trace.txt"
    if program is None:
        pytest.skip("needs strace")
    command = [program, "-f", "--seccomp-bpf", "-o", str(trace), "-e", "trace=network,open,openat,openat2"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace must not trace here")
    return command, trace


def reached(trace):
    """Return addresses off this machine that a program connected or sent to."""
    calls = re.findall(r"(?:connect|sendto|sendmsg|sendmmsg)\(.*", trace.read_text(encoding="utf-8", errors="replace"))
    addresses = re.findall(r'(?:inet_addr\("|inet_pton\(AF_INET6, ")([^"]+)"', "\n".join(calls))
    return [each for each in addresses if not each.startswith("127.") and each != "::1"]


def opened(trace):
    """Return files that a program opened for events or for names of hosts."""
    paths = re.findall(r'open\w*\([^"]*"([^"]+)"', trace.read_text(encoding="utf-8", errors="replace"))
    return [each for each in paths if "/Microsoft" in each or "/.onnxruntime" in each or each == "/etc/resolv.conf"]


@pytest.mark.parametrize("value", [None, "", "0"])
def test_loading_and_deciding_leave_no_file_at_home(home, value):
    decide(home, **({} if value is None else {"ORT_DISABLE_TELEMETRY": value}))
    assert left_in(home) == []


def test_serving_leaves_no_file_at_home_and_reaches_no_other_host(home, strace):
    command, trace = strace
    service = [sys.executable, "-m", "recuse.cli", "serve", str(MODEL), "--port", "0"]
    server = subprocess.Popen([*command, *service], stdout=subprocess.PIPE, text=True, env=environment(home))
    try:
        address = re.search(r"http://\S+", server.stdout.readline())[0]
        body = json.dumps({"row": ROW}).encode()
        request = urllib.request.Request(f"{address}/predict", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.load(answer)["decisions"]
    finally:
        (child,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()[:1]
        os.kill(int(child), signal.SIGTERM)  # strace itself would not end the service
        server.communicate(timeout=60)
    assert (left_in(home), opened(trace), reached(trace)) == ([], [], [])
    assert "format-1.recuse" in trace.read_text(encoding="utf-8", errors="replace")  # it was traced


def test_onnxruntime_is_imported_in_one_place():
    folders = ("src", "tests", "benchmarks", "tools", "examples", "docs")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    found = [path for path in files if re.search(r"^\s*(import|from) onnxruntime\b", path.read_text("utf-8"), re.M)]
    assert [path.relative_to(ROOT).as_posix() for path in found] == ["src/recuse/model_file/runtime.py"]
