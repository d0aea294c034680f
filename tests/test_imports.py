"""Importing the package brings in nothing that only an extra installs."""

import subprocess
import sys

import pytest

from recuse.extras import import_extra

EXTRAS = (
    "matplotlib", "plotly", "pyarrow", "dask", "lightning", "monai", "PIL", "tensorboard", "tifffile", "torchmetrics",
    "onnx", "onnxruntime", "fastapi",
)  # fmt: skip


def test_importing_recuse_imports_no_extra():
    code = (  # pandas itself imports pyarrow where that is installed
        f"import sys, pandas; others = set({EXTRAS!r}) - set(sys.modules); import recuse, recuse.cli; "
        "print(sorted(others & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_missing_extra_names_the_pip_command():
    with pytest.raises(ImportError, match=r"nowhere is not installed; get it with: pip install 'recuse\[plot\]'"):
        import_extra("nowhere.pyplot", "plot")


def test_public_names_are_those_of_the_package():
    import recuse

    assert all(hasattr(recuse, name) for name in recuse.__all__)
