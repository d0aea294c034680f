"""Settings for all tests."""

from hypothesis import settings

# a busy machine may exceed hypothesis's deadline
settings.register_profile("recuse", deadline=None)
settings.load_profile("recuse")
