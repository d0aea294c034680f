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

__all__ = ["COMPARISON", "METRICS", "Paper", "Protocol", "TableSpec", "TrainingShare", "load"]

COMPARISON = "comparison"  # the table against other methods
# Names of the measures in the paper, in its order.
METRICS = ("rcrloss", "al", "rl", "rej", "ar", "ra")
_COMPARISON_COLUMNS = ("dataset", "method", "cost", "target_rejection", "al_mean", "al_std", "rej_mean", "rej_std")
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
    """The figure on growing training data; without shares there is none."""

    model: str = ""
    surrogate: str = ""
    shares: tuple[float, ...] = ()
    costs: dict[str, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Paper:
    """Experiments of a paper and its printed numbers.

    Attributes
    ----------
    printed : DataFrame
        Columns table, dataset, model, surrogate, cost, metric, mean, std.
    comparison : DataFrame
        The table against other methods at matched rejection rates; empty without the file ``comparison.csv``.
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

    @property
    def table_names(self) -> list[str]:
        """The tables that can be run, with the comparison if there is one."""
        return [*self.tables, *([] if self.comparison.empty else [COMPARISON])]


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
    figures = text.get("figures", {})
    return Paper(
        name=text["name"],
        title=text["title"],
        citation=text["citation"],
        protocol=Protocol(**{key: _frozen(value) for key, value in text["protocol"].items()}),
        costs=_costs(text["costs"]),
        tables={name: TableSpec(name, **{k: _frozen(v) for k, v in t.items()}) for name, t in text["tables"].items()},
        training_share=_training_share(figures.get("training_share")),
        accepted_loss_datasets=tuple(figures.get("accepted_loss", {}).get("datasets", ())),
        printed=pd.read_csv(path.with_suffix("") / "results.csv"),
        comparison=_comparison(path.with_suffix("") / "comparison.csv"),
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


def _training_share(share: dict[str, Any] | None) -> TrainingShare:
    if share is None:
        return TrainingShare()
    return TrainingShare(share["model"], share["surrogate"], tuple(share["shares"]), _costs(share["costs"]))


def _comparison(path: Path) -> pd.DataFrame:
    return pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=list(_COMPARISON_COLUMNS))


def _costs(table: dict[str, list[float]]) -> dict[str, tuple[float, ...]]:
    return {dataset: tuple(float(cost) for cost in costs) for dataset, costs in table.items()}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
