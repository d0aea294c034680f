"""Ctrl-C during a fit with on_interrupt="keep" gives a model and a warning."""

import signal
import subprocess
import sys
import time

PROGRAM = """
import sys, time, warnings
import numpy as np
from sklearn.linear_model import LinearRegression, Ridge
from recuse import AutoRejector

class Endless(LinearRegression):
    def fit(self, X, y):
        print("running", flush=True)
        time.sleep(60)

random = np.random.default_rng(0)
X = random.normal(size=(100, 2))
y = X[:, 0] + random.normal(size=100)
learners = {"ridge": Ridge(), "endless": Endless()}
model = AutoRejector(learners=learners, risk_models=["boosting"], on_interrupt=sys.argv[1], random_state=0)
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    model.fit(X, y)
print([str(warning.message) for warning in seen if "interrupted" in str(warning.message)])
print(np.isfinite(model.decide(X).prediction).all(), model.leaderboard_["weight"].sum())
"""


def interrupted(mode):
    command = [sys.executable, "-c", PROGRAM, mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "running\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def test_the_model_is_usable_and_the_warning_says_what_is_missing():
    code, output, errors = interrupted("keep")
    assert code == 0, errors
    assert output.splitlines() == ["['fit was interrupted; the model lacks endless and 5 of 8 folds']", "True 3.0"]


def test_by_default_the_fit_ends():
    code, _, errors = interrupted("raise")
    assert code != 0
    assert "KeyboardInterrupt" in errors
