"""Importing the package imports nothing of an extra, and other libraries only where they are needed."""

import subprocess
import sys

import pytest

import recuse
from recuse import metrics
from recuse.extras import import_extra

EXTRAS = (
    "matplotlib", "plotly", "pyarrow", "dask", "lightning", "monai", "PIL", "safetensors", "tifffile", "torchmetrics",
    "fastapi", "uvicorn", "prometheus_client",
)  # fmt: skip
TABLES = """
import numpy as np
import recuse
from recuse import *
from recuse.estimators import StackedMLPRegressor, mlp_plug

X, y, _, _ = recuse.datasets.make_heteroscedastic(80, random_state=0)
models = [
    RcRRegressor(epochs=4),
    RcRRegressorCV(cost_range=(0.5, 2.0), epochs=3, cv=2, n_members=2),
    SelectiveNetRegressor(epochs=3),
    RiskRejector(cv=2),
    mlp_plug(),
    AutoRejector(learners={"networks": StackedMLPRegressor(epochs=3)}, risk_models=["extra_trees"], cv=2),
]
for model in models:
    model.set_params(**{name: 3 for name in model.get_params() if name.endswith("__epochs")}).fit(X, y)
    recuse.save(model, "model.recuse")
    decision = recuse.load("model.recuse").decide(X, cost=1.0)
    assert np.allclose(decision.prediction, model.decide(X, cost=1.0).prediction)
    print(type(model).__name__, len(decision))
surrogates.check("logistic")
for name in ("RejectionLoss", "TwoHeads"):
    try:
        getattr(recuse, name)
    except ImportError as error:
        print(error)
"""
HEAVY = ("torch", "sklearn", "scipy", "pandas", "lightning", "matplotlib", "typer", "rich")

DECIDE = """
import numpy as np
import recuse
from recuse import Decision
two = np.array([1.0, 2.0])
decision = Decision(two, np.array([True, False]), np.array([0.5, -0.5]), recuse.costs.resolve(3.0, None, 2))
recuse.costs.resolve(two, None, 2), recuse.costs.resolve([1.0, 2], None, 2), recuse.losses.get("squared")
recuse.losses.get("pinball:0.9").slope(two), decision[0], decision[decision.accepted], repr(decision)
"""
EVALUATE = """
decision.evaluate(two), decision.evaluate([1, 2.5], sample_weight=two)
recuse.metrics.risk_coverage_curve(two, two, two), recuse.metrics.rcr_loss(two, two, decision.accepted, 1.0)
"""
ENCODE = """
import recuse.tabular.codecs, recuse.tabular.encoder, recuse.tabular.schema, recuse.tabular.encoder
import pandas as pd
encoder = recuse.tabular.encoder.TableEncoder().fit(pd.DataFrame({"a": [1.0, 2.0], "b": ["u", "v"]}))
"""
AUDIT = """
import numpy as np
import recuse
decision = recuse.Decision(np.zeros(60), np.arange(60) % 3 > 0, np.zeros(60), 1.0)
recuse.audit.groups(decision, np.ones(60), ["a", "b"] * 30)
recuse.audit.drift(np.ones((9, 2)), np.zeros((9, 2)), decisions=(decision, decision))
"""


def without(library):
    """Code after which a library cannot be imported."""
    return f"""
import sys

class Missing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == {library!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing)
"""


def imported(code, names):
    """Run code in a process of its own, and return those of the modules that it imports."""
    code += f"\nimport sys\nprint([name for name in {names!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_importing_recuse_imports_no_extra():
    code = (
        "import sys, pandas, sklearn, torch; before = set(sys.modules)\n"  # pandas imports pyarrow if there is one
        "from recuse import *\n"
        "import recuse.cli\n"
        f"print([name for name in {EXTRAS!r} if name in set(sys.modules) - before])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_a_missing_extra_names_the_pip_command():
    with pytest.raises(ImportError, match=r"nowhere is not installed; get it with: pip install 'recuse\[plot\]'"):
        import_extra("nowhere.pyplot", "plot")


@pytest.mark.parametrize("missing", ["torch", "lightning"])
def test_names_of_images_need_their_extra_and_name_the_pip_command(missing):
    code = """
import recuse
assert recuse.datasets.make_cellularity(1, size=16)[0].shape == (1, 3, 16, 16)
try:
    recuse.RcRImageRegressor
except ImportError as error:
    print(error)
"""
    command = [sys.executable, "-c", without(missing) + code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout.strip() == f"{missing} is not installed; get it with: pip install 'recuse[images]'"


def test_everything_for_tables_works_without_torch_and_what_needs_it_names_the_pip_command(tmp_path):
    command = [sys.executable, "-c", without("torch") + TABLES]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    names = ("RcRRegressor", "RcRRegressorCV", "SelectiveNetRegressor", "RiskRejector", "RiskRejector", "AutoRejector")
    missing = "torch is not installed; get it with: pip install 'recuse[torch]'"
    assert result.stdout.splitlines() == [*(f"{name} 80" for name in names), missing, missing]


def test_importing_recuse_imports_not_even_numpy():
    assert imported("import recuse; recuse.__version__, dir(recuse)", (*HEAVY, "numpy")) == "[]"


@pytest.mark.parametrize("code", [DECIDE, DECIDE + EVALUATE], ids=["decide", "evaluate"])
def test_decisions_of_arrays_need_numpy_only(code):
    assert imported(code, (*HEAVY, "narwhals")) == "[]"


def test_encoding_a_table_needs_neither_scikit_learn_nor_torch():
    assert imported(ENCODE, HEAVY) == "['pandas']"


def test_an_audit_needs_neither_scikit_learn_nor_torch():
    assert imported(AUDIT, HEAVY) == "['scipy', 'pandas']"


@pytest.mark.parametrize("package", [recuse, metrics], ids=lambda package: package.__name__)
def test_public_names_are_listed_and_resolve(package):
    assert set(package.__all__) <= set(dir(package))
    assert all(getattr(package, name) is not None for name in package.__all__)


def test_public_names_are_those_of_their_modules():
    assert recuse.Decision is recuse.decision.Decision
    assert recuse.AutoRejector is recuse.estimators.AutoRejector
    assert recuse.RejectionLoss is recuse.deep.loss.RejectionLoss
    assert metrics.rcr_scorer is metrics.scorer.rcr_scorer


@pytest.mark.parametrize("package", [recuse, metrics], ids=lambda package: package.__name__)
def test_a_star_import_gives_all_public_names(package):
    names: dict[str, object] = {}
    exec(f"from {package.__name__} import *", names)
    assert set(package.__all__) <= set(names)


@pytest.mark.parametrize("package", [recuse, metrics], ids=lambda package: package.__name__)
def test_other_names_are_refused(package):
    with pytest.raises(AttributeError, match=rf"^module '{package.__name__}' has no attribute 'Rejector'$"):
        _ = package.Rejector
    with pytest.raises(ImportError, match="cannot import name 'Rejector'"):
        exec(f"from {package.__name__} import Rejector")
