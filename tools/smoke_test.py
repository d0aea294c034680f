"""Try the installed package, in the current folder.

    python -I tools/smoke_test.py [EXTRA ...]

Without extras it goes from a CSV file to a model, its decisions, a certificate and a page, and checks that nothing of
the extras is needed for that. Each extra named is tried on that model.
"""

import importlib.metadata
import importlib.util
import json
import os
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

COMMAND = Path(sysconfig.get_path("scripts")) / ("recuse.exe" if os.name == "nt" else "recuse")
MODULES = {  # what an extra brings
    "files": "pyarrow",
    "plot": "matplotlib",
    "dask": "distributed",
    "serve": "fastapi",
    "mlflow": "mlflow",
    "torch": "torch",
    "images": "lightning",
}


def recuse(*arguments: str) -> str:
    """Run the command, and return what it prints."""
    result = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise SystemExit(f"recuse {' '.join(arguments)} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


def without_extras() -> None:
    """From a CSV file to decisions, in Python and on the command line."""
    import recuse as package

    installed = Path(sysconfig.get_path("purelib")).resolve()
    found = Path(package.__file__).resolve()
    assert found.is_relative_to(installed), f"recuse must be imported from {installed}, got {found}"
    assert recuse("--version").split()[-1] == importlib.metadata.version("recuse")
    recuse("datasets", "auto_mpg", "-o", "cars.csv")
    header, *rows = Path("cars.csv").read_text(encoding="utf-8").splitlines()
    for name, part in {"train.csv": rows[::2], "held_out.csv": rows[1::4], "new.csv": rows[3::4]}.items():
        Path(name).write_text("\n".join([header, *part]) + "\n", encoding="utf-8")
    recuse("fit", "train.csv", "--target", "mpg", "--cost", "6", "--preset", "fast", "-o", "cars.recuse")
    recuse("certify", "cars.recuse", "held_out.csv", "--target", "16", "--bound", "100", "-o", "certified.recuse")
    recuse("predict", "certified.recuse", "new.csv", "--certificate", "1", "-o", "decisions.csv")
    recuse("report", "cars.recuse", "held_out.csv", "-o", "report.html")
    decisions = Path("decisions.csv").read_text(encoding="utf-8").splitlines()
    assert decisions[0].startswith("prediction,accepted,"), decisions[0]
    assert len(decisions) == len(rows[3::4]) + 1
    assert "</html>" in Path("report.html").read_text(encoding="utf-8")
    from recuse.bench import spec

    assert spec.load("rcr2023").costs["auto_mpg"], "the wheel must have the papers"


def with_files() -> None:
    """Parquet in and out."""
    import pyarrow.csv
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.csv.read_csv("new.csv"), "new.parquet")
    recuse("predict", "cars.recuse", "new.parquet", "-o", "decisions.parquet")
    assert pyarrow.parquet.read_table("decisions.parquet").num_rows == 98


def with_plot() -> None:
    """A display, without a screen."""
    os.environ["MPLBACKEND"] = "Agg"
    from recuse.displays import RiskCoverageDisplay

    display = RiskCoverageDisplay.from_predictions([0.0, 1.0, 3.0], [0.0, 0.0, 0.0], [2.0, 1.0, -1.0])
    display.figure_.savefig("curve.png")
    assert Path("curve.png").stat().st_size > 1000


def with_dask() -> None:
    """Scoring on a worker of a cluster."""
    from distributed import LocalCluster

    one = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with LocalCluster(**one, dashboard_address=None, protocol="tcp") as dask:
        where = ("--scheduler", dask.scheduler_address)
        recuse("predict", "cars.recuse", "new.csv", *where, "-o", "by_dask.csv")
    assert len(Path("by_dask.csv").read_text(encoding="utf-8").splitlines()) == 99


def with_serve() -> None:
    """One request to the service."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names, row = (line.split(",") for line in Path("new.csv").read_text(encoding="utf-8").splitlines()[:2])
    cells = {name: float(cell) for name, cell in zip(names, row, strict=True) if name != "mpg"}
    body = json.dumps({"row": cells}).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/predict", body, headers)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    service = subprocess.Popen([COMMAND, "serve", "cars.recuse", "--port", str(port)], **quiet)
    try:
        assert b"accepted" in answer(request, service)
    finally:
        service.terminate()
        service.wait(30)


def answer(request: urllib.request.Request, service: subprocess.Popen[bytes]) -> bytes:
    """Send a request until the service has started."""
    for _ in range(120):
        if service.poll() is not None:
            raise SystemExit(f"recuse serve ended with code {service.returncode}")
        try:
            with urllib.request.urlopen(request, timeout=30) as response:
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            raise SystemExit(f"recuse serve refused the row: {error.read().decode()}") from error
        except OSError:
            time.sleep(0.5)
    raise SystemExit("recuse serve did not answer within a minute")


def with_mlflow() -> None:
    """A model saved for MLflow and loaded by it."""
    import mlflow.pyfunc
    import pandas as pd

    from recuse.mlflow import save_model

    save_model("cars.recuse", "cars_mlflow")
    new = pd.read_csv("new.csv")
    assert len(mlflow.pyfunc.load_model("cars_mlflow").predict(new)) == len(new)


def with_torch() -> None:
    """A step of a network with two heads."""
    import torch

    from recuse import RejectionLoss, TwoHeads

    prediction, score = TwoHeads(torch.nn.Linear(3, 4), features=4)(torch.zeros(5, 3))
    RejectionLoss("mae", cost=0.5)(prediction, score, torch.ones(5)).backward()


def with_images() -> None:
    """One epoch of a small network."""
    from recuse import RcRImageRegressor, datasets

    images, y, *_ = datasets.make_cellularity(24, random_state=0, size=32)
    model = RcRImageRegressor(cost=0.02, epochs=2, slow_start=1, batch_size=8, random_state=0)
    assert len(model.fit(images, y).decide(images)) == 24


EXTRAS: dict[str, Callable[[], None]] = {
    "files": with_files,
    "plot": with_plot,
    "dask": with_dask,
    "serve": with_serve,
    "mlflow": with_mlflow,
    "torch": with_torch,
    "images": with_images,
}


def main() -> None:
    """Try the package and the extras that are named."""
    chosen = sys.argv[1:]
    if not chosen:
        there = [module for module in MODULES.values() if importlib.util.find_spec(module)]
        assert not there, f"an environment without extras must not have {', '.join(there)}"
    if not Path("cars.recuse").exists():
        without_extras()
        print("without extras: from a CSV file to decisions, certificate and page")
    for extra in chosen:
        EXTRAS[extra]()
        print(f"{extra}: {EXTRAS[extra].__doc__}")


if __name__ == "__main__":
    main()
