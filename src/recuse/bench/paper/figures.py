"""Figures of the paper and of the leaderboard; bands are one standard deviation over the repeats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from recuse.bench.spec import Paper
from recuse.bench.work_unit import SUPERVISED
from recuse.displays import PALETTE
from recuse.extras import import_extra

__all__ = [
    "METHODS",
    "SURROGATES",
    "accepted_loss_against_rejection",
    "losses_against_cost",
    "losses_against_share",
    "mean_ranks",
    "relative_loss",
]

_MEASURES = {"rcrloss": "RcR loss", "al": "accepted loss"}
SURROGATES = ("mae", "hinge", "square", "logistic", "sigmoid")  # each keeps its colour in all figures
_MARKERS = "osD^vP*X"
METHODS = {  # the names of the paper, and ours
    "rcr_mae": "RcR, mae",
    "mlp_plug": "MLP-Plug",
    "selectivenet": "SelectiveNet",
    "auto": "AutoRejector",
}
_OURS = METHODS["auto"]  # drawn in black, over the others
_COLOURS = (*PALETTE[:6], "#7F7F7F")  # of the others
_TITLES = {
    "abalone": "Abalone",
    "airfoil": "Airfoil",
    "auto_mpg": "Auto-mpg",
    "housing": "Housing",
    "concrete": "Concrete",
}


def losses_against_cost(records: pd.DataFrame, paper: Paper, model: str, path: Path) -> None:
    """RcR loss and accepted loss against the cost for every surrogate, one column per data set."""
    chosen = records[(records["model"] == model) & (records["surrogate"] != SUPERVISED)]
    names = [name for name in paper.costs if name in set(chosen["dataset"])]
    figure, axes = _grid(2, len(names))
    surrogates = [name for name in SURROGATES if name in set(chosen["surrogate"])]
    for column, name in enumerate(names):
        part = chosen[chosen["dataset"] == name]
        for ax, measure in zip(axes[:, column], _MEASURES, strict=True):
            for surrogate in surrogates:
                style = SURROGATES.index(surrogate)
                _band(ax, part[part["surrogate"] == surrogate], "cost", measure, surrogate, style)
            ax.set_xticks(sorted(set(part["cost"])))
            _reference(ax, paper, name, model, measure)
        axes[0, column].set_title(_TITLES.get(name, name))
        axes[1, column].set_xlabel("cost of a rejection")
    _finish(figure, axes, path)


def losses_against_share(records: pd.DataFrame, paper: Paper, path: Path) -> None:
    """RcR loss and accepted loss against the share of the training rows, one column per data set and cost."""
    panels = [(name, cost) for name, costs in paper.training_share.costs.items() for cost in costs]
    panels = [(name, cost) for name, cost in panels if _cell(records, name, cost).shape[0]]
    figure, axes = _grid(2, len(panels))
    for column, (name, cost) in enumerate(panels):
        part = _cell(records, name, cost)
        for style, (ax, measure) in enumerate(zip(axes[:, column], _MEASURES, strict=True)):
            _band(ax, part.assign(share=100 * part["share"]), "share", measure, paper.training_share.surrogate, style)
        axes[0, column].set_title(f"{_TITLES.get(name, name)}, cost {cost:g}")
        axes[1, column].set_xlabel("training rows used (%)")
    _finish(figure, axes, path, legend=False)


def accepted_loss_against_rejection(
    methods: dict[str, pd.DataFrame], printed: pd.DataFrame, datasets: Sequence[str], path: Path
) -> None:
    """Accepted loss against rejection rate, one panel per data set and one curve per method.

    Parameters
    ----------
    methods : dict of str to DataFrame
        Records with columns dataset, cost, repeat, rej, al.
    printed : DataFrame
        The paper's comparison table, drawn as hollow marks.
    datasets : sequence of str
    path : Path
    """
    styles = _styles([*methods, *METHODS.values()])
    figure, axes = _grid(1, len(datasets), height=3.4, width=3.6)
    for ax, name in zip(axes[0], datasets, strict=True):
        for method, records in methods.items():
            mean = records[records["dataset"] == name].groupby("cost")[["rej", "al"]].mean().sort_values("rej")
            deviation = records[records["dataset"] == name].groupby("cost")["al"].std().loc[mean.index]
            ax.plot(mean["rej"], mean["al"], **styles[method], label=method)
            low, high = (mean["al"] - deviation).clip(lower=0), mean["al"] + deviation
            ax.fill_between(mean["rej"], low, high, color=styles[method]["color"], alpha=0.08, lw=0)
        for code, rows in printed[printed["dataset"] == name].groupby("method", sort=False):
            label = METHODS[str(code)]
            marks = {**styles[label], "linestyle": "none", "markerfacecolor": "none", "markersize": 7}
            ax.plot(rows["rej_mean"], rows["al_mean"], **marks, label=f"{label}, printed")
        ax.set(title=_TITLES.get(name, name), xlabel="rejected (%)", ylim=(0, None))
    axes[0, 0].set_ylabel("accepted loss")
    _finish(figure, axes, path, labels=False)


def relative_loss(records: pd.DataFrame, paper: Paper, titles: dict[str, str], path: Path) -> None:
    """RcR loss against the cost, divided by the lower loss of always accept and always reject; one panel per data set.

    Parameters
    ----------
    records : DataFrame
        As `recuse.bench.leaderboard.summary.named` gives them, with the reference lines.
    paper : Paper
    titles : dict of str to str
        The methods to draw, and their names in the legend.
    path : Path
    """
    names = [name for name in paper.costs if name in set(records["dataset"])]
    means = records.groupby(["dataset", "method", "cost"], sort=False)["rcrloss"].mean()
    figure, axes = _grid(1, len(names), height=3.4, width=3.2)
    styles = _styles(list(titles.values()))
    for ax, name in zip(axes[0], names, strict=True):
        part = means[name].unstack("method").sort_index()
        free = part[["always_accept", "always_reject"]].min(axis=1)
        for method, title in titles.items():
            ax.plot(part.index, part[method] / free, **styles[title], label=title)
        ax.plot(part.index, part["oracle"] / free, color=PALETTE[6], lw=1, ls=":", label="oracle")
        ax.axhline(1, color=PALETTE[6], lw=1, ls="--", label="no rejector")
        ax.set(title=_TITLES.get(name, name), xlabel="cost of a rejection", xticks=part.index, ylim=(0, None))
    axes[0, 0].set_ylabel("RcR loss, relative")
    _finish(figure, axes, path, labels=False, columns=len(names) + len(names) // 2 + 1)


def mean_ranks(summary: pd.DataFrame, difference: float, titles: dict[str, str], path: Path) -> None:
    """Mean rank of each method with its interval, best on top; shaded ranks do not differ significantly from the best.

    Parameters
    ----------
    summary : DataFrame
        As in `recuse.bench.leaderboard.summary.Standings`.
    difference : float
        The critical difference with the cells as blocks.
    titles : dict of str to str
        The methods, and their names in the figure.
    path : Path
    """
    ranked = summary.dropna(subset=["mean_rank"]).sort_values("mean_rank", ascending=False)
    figure, axes = _grid(1, 1, height=0.34 * len(ranked) + 1, width=7)
    ax, places = axes[0, 0], range(len(ranked))
    best = ranked["mean_rank"].min()
    ax.axvspan(best, best + difference, color=PALETTE[0], alpha=0.1, lw=0, label="within the critical difference")
    ax.hlines(places, ranked["rank_low"], ranked["rank_high"], color=PALETTE[0], lw=2, label="95%, splits resampled")
    ax.plot(ranked["mean_rank"], places, "o", color=PALETTE[6], ms=6, label="mean rank")
    ax.set_yticks(places, [titles[name] for name in ranked["method"]])
    ax.set(xlabel=f"mean rank over {ranked['cells'].iloc[0]:g} cells (1 is best)", xlim=(0.8, len(ranked) + 0.2))
    _finish(figure, axes, path, labels=False)


def _cell(records: pd.DataFrame, name: str, cost: float) -> pd.DataFrame:
    return records[(records["dataset"] == name) & (records["cost"] == cost)]


def _grid(rows: int, columns: int, *, height: float = 2.5, width: float = 2.6) -> tuple[Any, Any]:
    pyplot = import_extra("matplotlib.pyplot", "plot")
    size = (width * columns, height * rows + 0.5)
    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    return figure, axes


def _style(index: int) -> dict[str, Any]:
    line = "-" if index < len(_COLOURS) else "--"
    marker = _MARKERS[index % len(_MARKERS)]
    return {"color": _COLOURS[index % len(_COLOURS)], "marker": marker, "markersize": 4, "linestyle": line, "lw": 1.6}


def _styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Give each name a style, in the order given; AutoRejector is black."""
    others = [name for name in dict.fromkeys(names) if name != _OURS]
    ours = {"color": PALETTE[6], "marker": "*", "markersize": 8, "linestyle": "-", "lw": 2.4, "zorder": 3}
    return {name: _style(index) for index, name in enumerate(others)} | {_OURS: ours}


def _band(ax: Any, records: pd.DataFrame, by: str, measure: str, label: str, style: int) -> None:
    grouped = records.astype({measure: float}).groupby(by)[measure]
    mean, deviation = grouped.mean(), grouped.std()
    ax.plot(mean.index, mean, **_style(style), label=label)
    low = (mean - deviation).clip(lower=0)  # a loss is never negative
    ax.fill_between(mean.index, low, mean + deviation, color=_COLOURS[style], alpha=0.08, lw=0)


def _reference(ax: Any, paper: Paper, name: str, model: str, measure: str) -> None:
    """The printed numbers for the mae surrogate, as hollow marks, where the paper has them."""
    printed = paper.printed.query("dataset == @name and model == @model and metric == @measure and surrogate == 'mae'")
    if len(printed):
        ax.plot(printed["cost"], printed["mean"], "o", mfc="none", mec="black", ms=7, label="mae, printed")


def _finish(
    figure: Any, axes: Any, path: Path, *, legend: bool = True, labels: bool = True, columns: int | None = None
) -> None:
    if labels:
        for ax, title in zip(axes[:, 0], _MEASURES.values(), strict=True):
            ax.set_ylabel(title)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    if legend:
        handles = dict(zip(*reversed(axes.flat[0].get_legend_handles_labels()), strict=True))
        columns = min(len(handles), columns or 2 * axes.shape[1])
        figure.legend(handles.values(), handles, loc="outside lower center", ncols=columns, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    import_extra("matplotlib.pyplot", "plot").close(figure)
