# Everything starts from Python 3.11 and make; each target sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := plot
# Percentage of the lines of src/recuse that the tests run, at least; it is only raised.
LEAST_COVERED := 97
export MPLBACKEND := Agg

.PHONY: setup demo test quick lint types unit processors smoke package oldest readme docs mlflow mutants bench clean

setup: .venv/dev.stamp

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo.stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS)]'
	touch $@

.venv/dev.stamp: pyproject.toml constraints.txt | .venv/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS),dev]'
	touch $@ .venv/demo.stamp

.venv/docs.stamp: .venv/dev.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[$(EXTRAS),dev,docs]'
	touch $@

demo: .venv/demo.stamp
	OMP_NUM_THREADS=1 $(BIN)/recuse demo

# types and smoke keep one core busy each, unit both
test: lint
	$(MAKE) -j2 types smoke
	$(MAKE) unit

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/python tools/count_code.py

# lint, and the tests of the core promises: less than two minutes on two cores
QUICK := bad_input.py costs.py decision.py imports.py losses.py theory.py
quick: lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -n auto --dist loadfile -m "not slow" --ignore tests/reviews/test_browser.py \
		$(QUICK:%=tests/test_%) $(addprefix tests/,engine estimators/risk guarantees metrics model_file reviews surrogates tabular)

types: .venv/dev.stamp
	$(BIN)/mypy

# one thread for each of the worker processes: small networks gain nothing from more; a file goes to one process, so that
# what its tests share is made once; at the end it prints the lines of src/recuse that no test runs, and processes that
# tests start do not count
unit: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python -m slipcover --source src/recuse --json --out coverage.json -m pytest -n auto --dist loadfile
	$(BIN)/python -m slipcover --merge coverage.json --out coverage.json --skip-covered --fail-under $(LEAST_COVERED)

# the unit tests as on other processors, whose instructions round differently
processors: .venv/dev.stamp
	ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Nehalem $(MAKE) unit
	ATEN_CPU_CAPABILITY=avx2 OPENBLAS_CORETYPE=Haswell $(MAKE) unit

# the documentation site, in docs/_build/html; a warning is an error, and nothing is fetched
docs: .venv/docs.stamp
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -b html docs docs/_build/html

# wheel and sdist; the wheel in environments that are linked from .venv, tried from another folder
smoke: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python tools/check_package.py --linked

# wheel and sdist in empty environments, by pip, without extras and with each of them; downloads some gigabytes
package: .venv/dev.stamp
	$(BIN)/python tools/check_package.py

# the unit tests with the oldest versions that pyproject.toml allows, in .venv-oldest
oldest: .venv/dev.stamp
	$(BIN)/python tools/check_oldest.py

# outputs and picture of README.md
readme: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python tools/update_readme.py

# MLflow in an environment of its own, .venv-mlflow, without torch
mlflow: .venv/dev.stamp
	$(BIN)/python tools/check_mlflow.py

# changes of the code at random that no test of its package notices, by cosmic-ray in .venv-mutants
mutants: .venv/dev.stamp
	$(BIN)/python tools/check_mutants.py

bench: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/engine.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/synthetic.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/certificates.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/deferral.py
	$(BIN)/python benchmarks/contention.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/estimator_checks.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/model_file_fuzz.py --files 20000
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/parity.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/latency.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/report.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/audit.py
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/auto.py budget
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/auto.py bayes
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/auto.py calibration
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/auto.py split
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/auto.py scale

clean:
	rm -rf .venv .venv-mlflow .venv-mutants .venv-oldest coverage.json build dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf docs/_build docs/generated docs/reference/api
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
