from dataclasses import replace

import pytest

from recuse.bench import spec


@pytest.fixture
def paper():
    """The paper with trainings of a few epochs."""
    whole = spec.load("rcr2023")
    target = dict.fromkeys(whole.protocol.target, "standardised")  # learns something even in a few epochs
    rates = (1e-1, 1e-2)
    protocol = replace(whole.protocol, repeats=2, epochs=20, slow_start=8, learning_rates=rates, target=target)
    return replace(whole, protocol=protocol, costs={"auto_mpg": (4.0, 6.0), "housing": (9.0,)})
