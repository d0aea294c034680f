"""Settings for all tests."""

from hypothesis import settings

# the clock of a busy machine is no promise of ours
settings.register_profile("recuse", deadline=None)
settings.load_profile("recuse")
