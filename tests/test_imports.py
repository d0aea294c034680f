"""Importing the package brings in nothing that only an extra installs."""

import subprocess
import sys

import pytest

from recuse.extras import import_extra

EXTRAS = (
    "matplotlib", "plotly", "pyarrow", "dask", "lightning", "monai", "PIL", "safetensors", "tifffile", "torchmetrics",
    "onnx", "onnxruntime", "fastapi",
)  # fmt: skip


def test_importing_recuse_imports_no_extra():
    code = (
        "import sys, pandas, sklearn, torch; before = set(sys.modules)\n"  # pandas imports pyarrow if there is one
        "import recuse, recuse.cli\n"
        f"print([name for name in {EXTRAS!r} if name in set(sys.modules) - before])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_missing_extra_names_the_pip_command():
    with pytest.raises(ImportError, match=r"nowhere is not installed; get it with: pip install 'recuse\[plot\]'"):
        import_extra("nowhere.pyplot", "plot")


def test_public_names_are_those_of_the_package():
    import recuse

    assert all(hasattr(recuse, name) for name in recuse.__all__)
