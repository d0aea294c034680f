"""The tables of the paper, embedded in the package."""

from __future__ import annotations

import gzip
import hashlib
import tomllib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

_TABLES = files("recuse.datasets") / "csv"


@dataclass(frozen=True, eq=False)
class Dataset:
    """A table for regression, with its source, its licence and the costs of the paper.

    Parameters
    ----------
    X : DataFrame of shape (n_rows, n_features)
        Features: float64 columns, and columns of category dtype.
    y : Series of shape (n_rows,)
        Target in its original unit, float64.
    name : str
        The name for `load`.
    target : str
        Name of the target's column.
    description : str
        The target and the features, in one line.
    source : str
        The publication to cite.
    licence : str
        The terms of distribution.
    note : str
        Known peculiarities.
    sha256 : str
        Digest of the uncompressed CSV.
    costs : tuple of float
        The paper's costs of a rejection, in squared units of the target.

    Examples
    --------
    >>> from recuse import datasets
    >>> cars = datasets.load("auto_mpg")
    >>> cars.target, cars.X.shape, cars.costs
    ('mpg', (392, 7), (4.0, 6.0, 8.0, 10.0, 13.0))
    """

    X: pd.DataFrame = field(repr=False)
    y: pd.Series[float] = field(repr=False)
    name: str
    target: str
    description: str = field(repr=False)
    source: str = field(repr=False)
    licence: str = field(repr=False)
    note: str = field(repr=False)
    sha256: str = field(repr=False)
    costs: tuple[float, ...]


def names() -> list[str]:
    """List the embedded tables, those of the paper first.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from recuse import datasets
    >>> datasets.names()[:5]
    ['abalone', 'airfoil', 'auto_mpg', 'housing', 'concrete']
    """
    return list(_catalogue())


def load(name: str) -> Dataset:
    """Load an embedded table.

    Parameters
    ----------
    name : str
        One of `names()`.

    Returns
    -------
    Dataset
        A fresh copy, in the original row order.

    Raises
    ------
    ValueError
        If no table has this name.
    OSError
        If the installed file is missing or damaged.

    Examples
    --------
    >>> from recuse import datasets
    >>> cars = datasets.load("auto_mpg")
    >>> cars
    Dataset(name='auto_mpg', target='mpg', costs=(4.0, 6.0, 8.0, 10.0, 13.0))
    >>> cars.X.shape
    (392, 7)
    >>> cars.X["origin"].cat.categories.tolist()
    [1, 2, 3]
    """
    if name not in names():
        raise ValueError(f"name must be one of {', '.join(names())}, got {name!r}")
    facts = dict(_catalogue()[name])
    costs, levels = tuple(facts.pop("costs")), facts.pop("levels")
    frame = _parse(_read(name, facts["sha256"]), levels)
    y = frame.pop(facts["target"])
    return Dataset(X=frame, y=y, name=name, costs=costs, **facts)


@cache
def _catalogue() -> dict[str, dict[str, Any]]:
    return tomllib.loads((_TABLES / "catalogue.toml").read_text(encoding="utf-8"))


def _read(name: str, sha256: str) -> str:
    """Decompress a table and compare it with its digest."""
    file = _TABLES / f"{name}.csv.gz"
    try:
        content = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise OSError(f"{file} must be a complete gzip file, got {error!r}; reinstall recuse") from error
    if (found := hashlib.sha256(content).hexdigest()) != sha256:
        raise OSError(f"{file} must hold a CSV with SHA-256 {sha256}, got {found}; reinstall recuse")
    return content.decode("utf-8")


def _parse(text: str, levels: dict[str, list[Any]]) -> pd.DataFrame:
    """Read a CSV without quotes by column, which is faster than a list for each row."""
    header, _, body = text.rstrip("\n").partition("\n")
    columns = header.split(",")
    cells = body.replace("\n", ",").split(",")
    parts = (cells[first :: len(columns)] for first in range(len(columns)))
    return pd.DataFrame({c: _column(part, levels.get(c)) for c, part in zip(columns, parts, strict=True)})


def _column(cells: Sequence[str], levels: list[Any] | None) -> npt.NDArray[np.float64] | pd.Categorical:
    if levels is None:
        # Python's float rounds correctly; the default parser of pandas 2 can miss the last bit.
        return np.array([float(cell) for cell in cells])
    codes = {str(level): code for code, level in enumerate(levels)}
    return pd.Categorical.from_codes([codes[cell] for cell in cells], categories=pd.Index(levels))
