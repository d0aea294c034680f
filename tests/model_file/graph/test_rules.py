"""Every decision rule can be written as a graph."""

from dataclasses import is_dataclass
from importlib import import_module
from pkgutil import iter_modules

import recuse.rules
from recuse.model_file.graph.conversion import emitters


def rules():
    """Every class of `recuse.rules` and of images that decides, apart from the interface."""
    names = [f"recuse.rules.{found.name}" for found in iter_modules(recuse.rules.__path__)]
    for module in map(import_module, [*names, "recuse.images.rule"]):
        for value in vars(module).values():
            if isinstance(value, type) and is_dataclass(value) and value.__name__.endswith("Rule"):
                yield value


def test_every_rule_has_an_emitter():
    names = {rule.__name__ for rule in rules()}
    assert names >= {"RiskRule", "RcRRule", "SelectiveRule", "ImageRule", "DeferralRule"}
    assert names == {rule.__name__ for rule in emitters()}
