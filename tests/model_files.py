"""The functions of benchmarks/model_file_fuzz.py that make hostile files."""

import importlib.util
import sys
from pathlib import Path

_PATH = Path(__file__).parents[1] / "benchmarks" / "model_file_fuzz.py"
_spec = importlib.util.spec_from_file_location("model_file_fuzz", _PATH)
fuzz = sys.modules["model_file_fuzz"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(fuzz)
