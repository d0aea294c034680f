"""Experiments of a paper, read from a TOML file and CSV files of its printed numbers.

To add a paper, add a file to the folder ``papers``.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from recuse.bench.images.spec import ImageSpec, image_specs

__all__ = ["METRICS", "Paper", "Protocol", "TableSpec", "TrainingShare", "load"]

# Names of the measures in the paper, in its order.
METRICS = ("rcrloss", "al", "rl", "rej", "ar", "ra")
_FOLDERS = (Path(__file__).parent / "papers", Path(__file__).parents[3] / "papers")


@dataclass(frozen=True)
class Protocol:
    """Settings of every training of the paper.

    `target` gives, for each model, the units the target is trained in: "original", "centred" or "standardised".
    """

    repeats: int
    epochs: int
    slow_start: int
    batch_size: int
    learning_rates: tuple[float, ...]
    hidden: tuple[int, ...]
    target: dict[str, str]


@dataclass(frozen=True)
class TableSpec:
    """Models and surrogates of one table; it has all data sets at their costs."""

    name: str
    models: tuple[str, ...]
    surrogates: tuple[str, ...]


@dataclass(frozen=True)
class TrainingShare:
    """The figure on growing training data."""

    model: str
    surrogate: str
    shares: tuple[float, ...]
    costs: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class Paper:
    """Experiments of a paper and its printed numbers.

    Attributes
    ----------
    printed : DataFrame
        Columns table, dataset, model, surrogate, cost, metric, mean, std.
    comparison : DataFrame
        The table against other methods at matched rejection rates.
    images : dict of str to ImageSpec
        The data sets of images, which `recuse bench images` runs.
    source : Path or None
        The TOML file, where the paper was loaded by its path.
    """

    name: str
    title: str
    citation: str
    protocol: Protocol
    costs: dict[str, tuple[float, ...]]
    tables: dict[str, TableSpec]
    training_share: TrainingShare
    accepted_loss_datasets: tuple[str, ...]
    printed: pd.DataFrame
    comparison: pd.DataFrame
    images: dict[str, ImageSpec] = field(default_factory=dict)
    source: Path | None = None


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
    share = text["figures"]["training_share"]
    return Paper(
        name=text["name"],
        title=text["title"],
        citation=text["citation"],
        protocol=Protocol(**{key: _frozen(value) for key, value in text["protocol"].items()}),
        costs=_costs(text["costs"]),
        tables={name: TableSpec(name, **{k: _frozen(v) for k, v in t.items()}) for name, t in text["tables"].items()},
        training_share=TrainingShare(
            share["model"], share["surrogate"], tuple(share["shares"]), _costs(share["costs"])
        ),
        accepted_loss_datasets=tuple(text["figures"]["accepted_loss"]["datasets"]),
        printed=pd.read_csv(path.with_suffix("") / "results.csv"),
        comparison=pd.read_csv(path.with_suffix("") / "comparison.csv"),
        images=image_specs(text.get("images", {})),
        source=path if Path(paper).suffix == ".toml" else None,
    )


def _find(paper: str | Path) -> Path:
    given = Path(paper)
    candidates = [given] if given.suffix == ".toml" else [folder / f"{paper}.toml" for folder in _FOLDERS]
    for path in candidates:
        if path.is_file():
            return path
    known = sorted(path.stem for folder in _FOLDERS for path in folder.glob("*.toml"))
    raise ValueError(f"paper must be one of {', '.join(known)} or a TOML file, got {str(paper)!r}")


def _costs(table: dict[str, list[float]]) -> dict[str, tuple[float, ...]]:
    return {dataset: tuple(float(cost) for cost in costs) for dataset, costs in table.items()}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
