"""Settings for all tests."""

import signal

from hypothesis import settings

# a busy machine may exceed hypothesis's deadline
settings.register_profile("recuse", deadline=None)
settings.load_profile("recuse")

# a shell starts commands in the background with SIGINT ignored, and tests that interrupt a process would inherit this
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
