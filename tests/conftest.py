"""Settings for all tests."""

import gc
import signal

import pytest
from hypothesis import settings

# a busy machine may exceed hypothesis's deadline
settings.register_profile("recuse", deadline=None)
settings.load_profile("recuse")

# a shell starts commands in the background with SIGINT ignored, and tests that interrupt a process would inherit this
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Let tests train for a few epochs only; in pyproject.toml, this would import recuse before coverage starts."""
    config.addinivalue_line("filterwarnings", "ignore::recuse.estimators.advice.RejectionWarning")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Spare the garbage collector the modules: their millions of objects stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
