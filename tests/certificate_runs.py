"""The functions of benchmarks/certificates.py."""

import importlib.util
import sys
from pathlib import Path

_PATH = Path(__file__).parents[1] / "benchmarks" / "certificates.py"
_spec = importlib.util.spec_from_file_location("certificate_benchmark", _PATH)
runs = sys.modules["certificate_benchmark"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(runs)
