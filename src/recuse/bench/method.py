"""The interface of a method of the experiments, and methods from a file of the user."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import pandas as pd

from recuse import surrogates
from recuse.bench.spec import Protocol
from recuse.decision import Decision

Part: TypeAlias = tuple[pd.DataFrame, "pd.Series[float]"]

# Rows that a method learns from, in words for the page.
APART, BOTH = "training; selection on validation", "training and validation together"


@dataclass(frozen=True)
class BenchSplit:
    """What a method may see of one random split of a data set.

    Attributes
    ----------
    train, validation : tuple (X, y)
    X : DataFrame
        The test rows, about which the method decides.
    costs : tuple of float
        Costs of a rejection.
    rates : tuple of float or None
        For each cost, the share of the rows to reject. Only in the comparison at matched rejection rates.
    repeat : int
        Number of the split, for `random_state`.
    protocol : Protocol
        Settings of the paper, such as the size of its network.
    """

    train: Part
    validation: Part
    X: pd.DataFrame
    costs: tuple[float, ...]
    rates: tuple[float, ...] | None
    repeat: int
    protocol: Protocol

    @property
    def both(self) -> Part:
        """Training and validation rows together, for methods that divide their rows themselves."""
        (X, y), (more, targets) = self.train, self.validation
        return pd.concat([X, more]), pd.concat([y, targets])


class BenchMethod(ABC):
    """A method of the experiments: one class with a name and either `fit` or `decide`.

    Attributes
    ----------
    name : str
        In files and on the command line.
    title : str
        On pages and in figures; by default the name.
    description : str
        One line for the page.
    rows : str
        The rows that the method learns from, for the page.
    family : str or None
        Methods of one family are computed together by `decide_together`, for each split; their costs are independent.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from recuse import RiskRejector
    >>> class RidgeRejector(BenchMethod):
    ...     name, description = "ridge", "a ridge regression, and boosted trees for its risk"
    ...
    ...     def fit(self, split):
    ...         return RiskRejector(Ridge(), random_state=split.repeat).fit(*split.both)
    """

    name: str
    title: str = ""
    description: str = ""
    rows: str = BOTH
    family: str | None = None
    _file: ClassVar[str | None] = None  # the text of the user's file that defines the class

    def fit(self, split: BenchSplit) -> Any:
        """Fit a model that has ``decide(X, cost)``."""
        raise ValueError(f"{type(self).__name__} must define fit(split) or decide(split)")

    def decide(self, split: BenchSplit) -> Sequence[Decision]:
        """Learn from the split and decide about its test rows: one `Decision` for each cost."""
        model = self.fit(split)
        return [model.decide(split.X, cost=cost) for cost in split.costs]

    @classmethod
    def decide_together(
        cls, cells: Sequence[tuple[Self, tuple[float, ...]]], split: BenchSplit
    ) -> list[list[Decision]]:
        """Decide by several methods of one family, each at costs of its own."""
        return [list(method.decide(replace(split, costs=costs))) for method, costs in cells]

    def code(self) -> str:
        """Return the source of everything that defines the method, for the key of its cells."""
        classes = [each for each in type(self).__mro__ if issubclass(each, BenchMethod)]
        return "".join(each._file or inspect.getsource(each) for each in classes)


def methods_from(path: Path) -> tuple[list[BenchMethod], list[str]]:
    """Run a Python file, and return an instance of each method that it defines and the surrogates that it registers.

    Raises
    ------
    ValueError
        If the file raises an error, or has neither a method nor a surrogate.
    """
    text, before = path.read_text(encoding="utf-8"), {name: surrogates.get(name) for name in surrogates.names()}
    name = f"methods_of_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"methods must be defined in a Python file, got {str(path)!r}")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ValueError(f"{path} raises {type(error).__name__}: {error}") from error
    finally:
        del sys.modules[name]  # classes of unknown modules are sent to other processes by value
    classes = [each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == name]
    methods = []
    for each in classes:
        if issubclass(each, BenchMethod) and hasattr(each, "name"):
            each._file = text
            methods.append(each())
    new = [each for each in surrogates.names() if before.get(each) is not surrogates.get(each)]
    if not methods and not new:
        raise ValueError(
            f"{path} must define a subclass of BenchMethod with a name or register a surrogate, got neither"
        )
    return methods, new
