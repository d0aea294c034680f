"""Run tests/test_mlflow.py in an environment of its own, since MLflow and the development tools pin other versions.

The environment has no torch: models are fitted by the Python that runs this script, and loaded there without it.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = [
    *("mlflow>=3", "httpx", "hypothesis", "joblib", "narwhals", "numpy", "onnx", "onnxruntime", "pandas", "pytest"),
    *("rich", "scikit-learn", "scipy", "threadpoolctl", "typer"),
]


def install(folder: Path) -> Path:
    """Create the environment if there is none, and return its Python."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True)
    return python


def main() -> int:
    """Fit the models here, and run the tests there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--environment", type=Path, default=ROOT / ".venv-mlflow")
    python = install(parser.parse_args().environment)
    source = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with tempfile.TemporaryDirectory() as models:
        subprocess.run([sys.executable, ROOT / "tests" / "mlflow_models.py", models], check=True, env=source)
        command = [
            python,
            "-m",
            "pytest",
            "-o",
            "filterwarnings=default",
            "-p",
            "no:cacheprovider",
            "tests/test_mlflow.py",
        ]
        tests = subprocess.run(command, cwd=ROOT, env={**source, "RECUSE_MODEL_FILES": models}, check=False)
    return tests.returncode


if __name__ == "__main__":
    sys.exit(main())
