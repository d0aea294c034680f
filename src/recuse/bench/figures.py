"""Figures of the paper and of the leaderboard, drawn from their tables; bands are one standard deviation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from recuse.bench.spec import Paper
from recuse.displays import PALETTE
from recuse.extras import import_extra

_MEASURES = {"rcrloss": "RcR loss", "al": "accepted loss"}
_SURROGATES = ("mae", "hinge", "square", "logistic", "sigmoid")  # each keeps its colour in all figures
_MARKERS = "osD^vP*X"
_METHODS = {"mlp_plug": "MLP-Plug", "selectivenet": "SelectiveNet", "auto": "AutoRejector"}
_OURS = "AutoRejector"  # drawn in black, over the others
_COLOURS = (*PALETTE[:6], "#7F7F7F")  # colours of the other methods
_TITLES = {"auto_mpg": "Auto-mpg"}


def of_paper(
    paper: Paper, tables: Mapping[str, pd.DataFrame], shares: pd.DataFrame, output: Path, kind: str | None
) -> list[Path]:
    """Draw the figures that the tables allow, in a format, and return their paths; with None there are none."""
    drawn = list[Path]()
    if kind is None or not tables:
        return drawn
    cells = pd.concat(tables.values()).drop_duplicates(["dataset", "model", "surrogate", "cost", "metric"])
    trained = cells[cells["model"].isin(["mlp", "linear"])]
    for model in dict.fromkeys(trained["model"]):
        drawn.append(output / f"losses_against_cost_{model}.{kind}")
        _losses_against_cost(trained[trained["model"] == model], drawn[-1])
    if len(shares):
        drawn.append(output / f"losses_against_training_share.{kind}")
        _losses_against_share(shares, drawn[-1])
    names = [name for name in paper.accepted_loss_datasets if name in set(cells["dataset"])]
    if names:
        drawn.append(output / f"accepted_loss_against_rejection.{kind}")
        _accepted_loss_against_rejection(cells[cells["model"] != "linear"], names, drawn[-1])
    return drawn


def of_leaderboard(
    tables: Mapping[str, pd.DataFrame], titles: Mapping[str, str], output: Path, kind: str | None
) -> list[Path]:
    """Draw the ranks and the losses of a leaderboard in a format, and return their paths; with None there are none.

    Parameters
    ----------
    tables : mapping
        As `recuse.bench.leaderboard.standings` gives it.
    titles : mapping of str to str
        The methods, and their names in the figures.
    output : Path
    kind : str or None
    """
    if kind is None:
        return []
    drawn = [output / f"ranks.{kind}", output / f"loss_against_cost.{kind}"]
    difference = tables["friedman"].set_index("blocks_are")["critical_difference"]["cells"]
    _mean_ranks(tables["ranks"], difference, titles, drawn[0])
    losses = tables["leaderboard"].query("metric == 'rcrloss'")
    _relative_loss(losses, {name: title for name, title in titles.items() if name in set(losses["method"])}, drawn[1])
    return drawn


def _losses_against_cost(cells: pd.DataFrame, path: Path) -> None:
    """RcR loss and accepted loss against the cost for every surrogate, one column per data set."""
    names = list(dict.fromkeys(cells["dataset"]))
    surrogates = [name for name in _SURROGATES if name in set(cells["surrogate"])]
    surrogates += [name for name in dict.fromkeys(cells["surrogate"]) if name not in surrogates]
    styles = {name: _style(place) for place, name in enumerate(dict.fromkeys((*_SURROGATES, *surrogates)))}
    figure, axes = _grid(2, len(names))
    for column, name in enumerate(names):
        for ax, measure in zip(axes[:, column], _MEASURES, strict=True):
            part = cells[(cells["dataset"] == name) & (cells["metric"] == measure)]
            for surrogate in surrogates:
                _band(ax, part[part["surrogate"] == surrogate], "cost", surrogate, styles[surrogate])
            printed = part[part["surrogate"] == "mae"].dropna(subset=["paper_mean"])
            if len(printed):
                ax.plot(
                    printed["cost"], printed["paper_mean"], "o", mfc="none", mec="black", ms=7, label="mae, printed"
                )
            ax.set_xticks(sorted(set(part["cost"])))
        axes[0, column].set_title(_title(name))
        axes[1, column].set_xlabel("cost of a rejection")
    _finish(figure, axes, path)


def _losses_against_share(shares: pd.DataFrame, path: Path) -> None:
    """RcR loss and accepted loss against the share of the training rows, one column per data set and cost."""
    panels = [part for _, part in shares.groupby(["dataset", "cost"], sort=False)]
    figure, axes = _grid(2, len(panels))
    for column, part in enumerate(panels):
        name, cost = part["dataset"].iloc[0], part["cost"].iloc[0]
        for place, (ax, measure) in enumerate(zip(axes[:, column], _MEASURES, strict=True)):
            chosen = part[part["metric"] == measure]
            _band(ax, chosen.assign(share=100 * chosen["share"]), "share", measure, _style(place))
        axes[0, column].set_title(f"{_title(name)}, cost {cost:g}")
        axes[1, column].set_xlabel("training rows used (%)")
    _finish(figure, axes, path, legend=False)


def _accepted_loss_against_rejection(cells: pd.DataFrame, names: Sequence[str], path: Path) -> None:
    """Accepted loss against rejection rate, one panel per data set and one curve per method."""
    joint = cells["model"].isin(["mlp", "rcr_mae"])
    label = ("RcR, " + cells["surrogate"]).where(joint, cells["model"].replace(_METHODS))
    cells = cells.assign(label=label).drop_duplicates(["dataset", "label", "cost", "metric"])
    styles = _styles([*(f"RcR, {name}" for name in _SURROGATES), *_METHODS.values(), *cells["label"]])
    figure, axes = _grid(1, len(names), height=3.4, width=3.6)
    for ax, name in zip(axes[0], names, strict=True):
        part = cells[cells["dataset"] == name]
        for method in part["label"].unique():
            rows = part[part["label"] == method]
            wide = rows.pivot(index="cost", columns="metric", values=["mean", "std", "paper_mean"])
            wide = wide.sort_values(("mean", "rej"))
            rate, mean, deviation = (wide[column] for column in (("mean", "rej"), ("mean", "al"), ("std", "al")))
            ax.plot(rate, mean, **styles[method], label=method)
            low, high = (mean - deviation).clip(lower=0), mean + deviation
            ax.fill_between(rate, low, high, color=styles[method]["color"], alpha=0.08, lw=0)
            if method in ("RcR, mae", *_METHODS.values()) and rows["paper_mean"].notna().any():
                marks = {**styles[method], "linestyle": "none", "markerfacecolor": "none", "markersize": 7}
                printed = wide["paper_mean"]
                ax.plot(printed["rej"], printed["al"], **marks, label=f"{method}, printed")
        ax.set(title=_title(name), xlabel="rejected (%)", ylim=(0, None))
    axes[0, 0].set_ylabel("accepted loss")
    _finish(figure, axes, path, labels=False)


def _relative_loss(losses: pd.DataFrame, titles: Mapping[str, str], path: Path) -> None:
    """RcR loss against the cost, over the lower loss of always accept and always reject, one panel per data set."""
    names = list(dict.fromkeys(losses["dataset"]))
    figure, axes = _grid(1, len(names), height=3.4, width=3.2)
    references = ("always_accept", "always_reject", "oracle")
    drawn = {name: title for name, title in titles.items() if name not in references}
    styles = _styles(list(drawn.values()))
    for ax, name in zip(axes[0], names, strict=True):
        part = losses[losses["dataset"] == name].pivot(index="cost", columns="method", values="mean")
        free = part[["always_accept", "always_reject"]].min(axis=1)
        for method, title in drawn.items():
            ax.plot(part.index, part[method] / free, **styles[title], label=title)
        ax.plot(part.index, part["oracle"] / free, color=PALETTE[6], lw=1, ls=":", label="oracle")
        ax.axhline(1, color=PALETTE[6], lw=1, ls="--", label="no rejector")
        ax.set(title=_title(name), xlabel="cost of a rejection", xticks=part.index, ylim=(0, None))
    axes[0, 0].set_ylabel("RcR loss, relative")
    _finish(figure, axes, path, labels=False, columns=len(names) + len(names) // 2 + 1)


def _mean_ranks(summary: pd.DataFrame, difference: float, titles: Mapping[str, str], path: Path) -> None:
    """Mean rank of each method with its interval, best on top; shaded ranks do not differ from the best."""
    ranked = summary.dropna(subset=["mean_rank"]).sort_values("mean_rank", ascending=False)
    figure, axes = _grid(1, 1, height=0.34 * len(ranked) + 1, width=7)
    ax, places = axes[0, 0], range(len(ranked))
    best = ranked["mean_rank"].min()
    ax.axvspan(best, best + difference, color=PALETTE[0], alpha=0.1, lw=0, label="within the critical difference")
    ax.hlines(places, ranked["rank_low"], ranked["rank_high"], color=PALETTE[0], lw=2, label="95%, splits resampled")
    ax.plot(ranked["mean_rank"], places, "o", color=PALETTE[6], ms=6, label="mean rank")
    ax.set_yticks(places, [titles[name] for name in ranked["method"]])
    ax.set(xlabel=f"mean rank over {ranked['cells'].iloc[0]:g} cells (1 is best)", ylim=(-0.5, len(ranked) - 0.5))
    ax.set_xlim(0.8, len(ranked) + 0.2)
    _finish(figure, axes, path, labels=False, columns=3)


def _title(dataset: str) -> str:
    return _TITLES.get(dataset, dataset.replace("_", " ").capitalize())


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


def _band(ax: Any, cells: pd.DataFrame, by: str, label: str, style: dict[str, Any]) -> None:
    ax.plot(cells[by], cells["mean"], **style, label=label)
    low = (cells["mean"] - cells["std"]).clip(lower=0)  # a loss is never negative
    ax.fill_between(cells[by], low, cells["mean"] + cells["std"], color=style["color"], alpha=0.08, lw=0)


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
