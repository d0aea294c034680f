"""Experiments of a paper, read from a TOML file and, where they exist, CSV files of its printed numbers.

To add a paper, add a file to the folder ``papers``.
"""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from recuse import datasets
from recuse.files.tables import read_table
from recuse.validation import require

COMPARISON = "comparison"  # the table against other methods
# Names of the measures in the paper, in its order.
METRICS = ("rcrloss", "al", "rl", "rej", "ar", "ra")
# Columns of the files of printed numbers: words, and numbers.
_PRINTED = ("table", "dataset", "model", "surrogate", "metric"), ("cost", "mean", "std")
_COMPARED = (
    ("dataset", "method"),
    ("cost", "target_rejection", "al_mean", "al_std", "rej_mean", "rej_std", "rcrloss_mean", "rcrloss_std"),
)
_FOLDERS = (Path(__file__).parent / "papers", Path(__file__).parents[3] / "papers")


@dataclass(frozen=True)
class Protocol:
    """Settings of the experiments.

    `target` gives, for each model of the joint training, the units the target is trained in: "original", "centred" or
    "standardised".
    """

    repeats: int
    epochs: int
    slow_start: int
    batch_size: int
    learning_rates: tuple[float, ...]
    hidden: tuple[int, ...]
    target: dict[str, str]


class TableRows(NamedTuple):
    """The rows of one data set, and a hash of them."""

    X: pd.DataFrame
    y: pd.Series[float]
    digest: str


@dataclass(frozen=True)
class Paper:
    """Experiments of a paper and its printed numbers.

    Attributes
    ----------
    tables : dict
        For each table, its "models" and "surrogates"; it has all data sets at their costs.
    training_share : dict
        The figure on growing training data: "model", "surrogate", "shares" and "costs"; empty if there is none.
    files : dict of str to (path, target)
        Data sets that are files; the others are those of `recuse.datasets`.
    printed : DataFrame
        Columns table, dataset, model, surrogate, cost, metric, mean, std; without rows where nothing is printed.
    comparison : DataFrame
        The table against other methods at matched rejection rates; without rows if there is none.
    """

    name: str
    title: str
    citation: str
    protocol: Protocol
    costs: dict[str, tuple[float, ...]]
    files: dict[str, tuple[str, str]]
    tables: dict[str, dict[str, tuple[str, ...]]]
    training_share: dict[str, Any]
    accepted_loss_datasets: tuple[str, ...]
    printed: pd.DataFrame
    comparison: pd.DataFrame

    @property
    def table_names(self) -> list[str]:
        """The tables that can be run, with the comparison if there is one."""
        return [*self.tables, *([] if self.comparison.empty else [COMPARISON])]

    def rows(self, name: str) -> TableRows:
        """Read a data set; columns of a file that are not numbers become categories."""
        return _read_rows(name, self.files.get(name))


@lru_cache(maxsize=8)
def _read_rows(name: str, file: tuple[str, str] | None) -> TableRows:
    if file is None:
        embedded = datasets.load(name)
        return TableRows(embedded.X, embedded.y, embedded.sha256)
    path, target = file
    table = read_table(path)
    require(target in table, "target", f"a column of {path}", target)
    X = table.drop(columns=target)
    words = dict.fromkeys(X.select_dtypes(exclude="number"), "category")
    digest = hashlib.sha256(Path(path).read_bytes() + target.encode()).hexdigest()
    return TableRows(X.astype(words), table[target].astype(float), digest)


def load(paper: str | Path = "rcr2023") -> Paper:
    """Read a paper by its name or by the path of its TOML file.

    Examples
    --------
    >>> paper = load("rcr2023")
    >>> paper.protocol.repeats, sorted(paper.tables)
    (10, ['complete', 'linear_logistic', 'mlp', 'mlp_logistic', 'mlp_mse'])
    """
    path = _find(paper)
    text = tomllib.loads(path.read_text(encoding="utf-8"))
    figures, share = text.get("figures", {}), text.get("figures", {}).get("training_share", {})
    loaded = Paper(
        name=text["name"],
        title=text.get("title", text["name"]),
        citation=text.get("citation", ""),
        protocol=Protocol(**_tuples(text["protocol"])),
        costs=_costs(text["costs"]),
        files={name: (str(path.parent / own["path"]), own["target"]) for name, own in text.get("data", {}).items()},
        tables={name: _tuples(table) for name, table in text.get("tables", {}).items()},
        training_share=_tuples(share) | ({"costs": _costs(share["costs"])} if share else {}),
        accepted_loss_datasets=tuple(figures.get("accepted_loss", {}).get("datasets", ())),
        printed=_read_printed(path.with_suffix("") / "results.csv", *_PRINTED),
        comparison=_read_printed(path.with_suffix("") / "comparison.csv", *_COMPARED),
    )
    known = [*datasets.names(), *loaded.files]
    for name in loaded.costs:
        require(name in known, "costs", f"of data sets among {', '.join(known)}", name)
    return loaded


def _find(paper: str | Path) -> Path:
    given = Path(paper)
    candidates = [given] if given.suffix == ".toml" else [folder / f"{paper}.toml" for folder in _FOLDERS]
    for path in candidates:
        if path.is_file():
            return path
    known = sorted(path.stem for folder in _FOLDERS for path in folder.glob("*.toml"))
    raise ValueError(f"paper must be one of {', '.join(known)} or a TOML file, got {str(paper)!r}")


def _read_printed(path: Path, words: tuple[str, ...], numbers: tuple[str, ...]) -> pd.DataFrame:
    table = pd.read_csv(path) if path.is_file() else pd.DataFrame()
    return table.reindex(columns=[*words, *numbers]).astype(
        dict.fromkeys(words, object) | dict.fromkeys(numbers, float)
    )


def _costs(table: dict[str, list[float]]) -> dict[str, tuple[float, ...]]:
    return {dataset: tuple(float(cost) for cost in costs) for dataset, costs in table.items()}


def _tuples(table: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
