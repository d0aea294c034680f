"""Figures of the image experiments: losses against the cost, and accepted and rejected images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from recuse.bench.images.data import ImageParts
from recuse.bench.images.spec import ImageSpec
from recuse.bench.paper.figures import SURROGATES
from recuse.displays import PALETTE
from recuse.extras import import_extra

__all__ = ["contact_sheet", "losses_against_cost"]

_PANELS = {"rcrloss": "RcR loss", "al": "loss of accepted images", "rej": "rejected (%)"}
_SQUARED = ("rcrloss", "al")
_MARKERS = "osD^v"
_COLUMNS = 8  # images in a line of the contact sheet
_GREY = "#7F7F7F"
_BEST = "best possible"


def losses_against_cost(table: pd.DataFrame, spec: ImageSpec, path: Path) -> None:
    """Plot RcR loss, accepted loss and rejection rate against the cost, with reference lines.

    Parameters
    ----------
    table : DataFrame
        Result of `recuse.bench.images.run.image_table`.
    spec : ImageSpec
    path : Path
    """
    pyplot = import_extra("matplotlib.pyplot", "plot")
    figure, axes = pyplot.subplots(1, len(_PANELS), figsize=(10.5, 3.6), layout="constrained")
    for ax, (metric, title) in zip(axes, _PANELS.items(), strict=True):
        scale = spec.printed_scale if metric in _SQUARED else 1.0
        for name in spec.surrogates:
            _curve(ax, _chosen(table, metric, name), name, spec.printed_scale, scale)
        ax.set(title=title, xlabel=f"cost of a rejection{_unit(spec)}")
        ax.set_xticks([cost * spec.printed_scale for cost in spec.costs])
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(f"squared error{_unit(spec)}")
    _yardsticks(axes, table, spec)
    for ax in axes:
        ax.set_ylim(0, None)
    highest = table[table["metric"].isin(["rcrloss", "sup"])]["mean"].max()
    axes[0].set_ylim(0, 1.2 * highest * spec.printed_scale)  # the line of always rejecting may leave the axes
    handles = {label: line for ax in axes for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=min(len(handles), 6), frameon=False)
    _save(figure, path)


def _curve(ax: Any, rows: pd.DataFrame, name: str, cost_scale: float, scale: float) -> None:
    style = SURROGATES.index(name) if name in SURROGATES else len(SURROGATES)
    colour = PALETTE[style]
    cost, mean, std = rows["cost"] * cost_scale, rows["mean"] * scale, rows["std"].fillna(0) * scale
    ax.plot(cost, mean, color=colour, marker=_MARKERS[style % len(_MARKERS)], ms=5, lw=1.8, label=f"RcR, {name}")
    ax.fill_between(cost, (mean - std).clip(lower=0), mean + std, color=colour, alpha=0.12, lw=0)
    printed = rows.dropna(subset=["paper_mean"])
    if len(printed):
        marks = {"marker": "o", "mfc": "none", "mec": colour, "ms": 8, "ls": "none"}
        ax.plot(printed["cost"] * cost_scale, printed["paper_mean"] * scale, **marks, label=f"{name}, printed")


def _yardsticks(axes: Any, table: pd.DataFrame, spec: ImageSpec) -> None:
    """Draw the losses of always accepting and always rejecting, and the Bayes risk if it is known."""
    first, scale = spec.surrogates[0], spec.printed_scale
    lines = {
        "sup": ("always accept (Sup)", {"color": _GREY, "ls": "--"}),
        "always_reject": ("always reject", {"color": _GREY, "ls": ":"}),
        "bayes_risk": (_BEST, {"color": "black", "ls": "-"}),
    }
    for metric, (label, style) in lines.items():
        rows = _chosen(table, metric, first)
        if len(rows):
            axes[0].plot(rows["cost"] * scale, rows["mean"] * scale, lw=1.4, zorder=1.5, label=label, **style)
    for ax, metric, factor in ((axes[1], "bayes_al", scale), (axes[2], "bayes_rej", 1.0)):
        best = _chosen(table, metric, first)
        if len(best):
            ax.plot(best["cost"] * scale, best["mean"] * factor, color="black", lw=1.4, zorder=1.5, label=_BEST)


def _chosen(table: pd.DataFrame, metric: str, surrogate: str) -> pd.DataFrame:
    return table[(table["metric"] == metric) & (table["surrogate"] == surrogate)].sort_values("cost")


def _unit(spec: ImageSpec) -> str:
    return "" if spec.printed_scale == 1 else f" (times {spec.printed_scale:g})"


def contact_sheet(records: pd.DataFrame, parts: ImageParts, spec: ImageSpec, path: Path) -> None:
    """Show the test images with the highest and the lowest scores, in the first repeat at the middle cost.

    Parameters
    ----------
    records : DataFrame
        Records of single runs, with a column "clearest".
    parts : ImageParts
        Images of the first repeat.
    spec : ImageSpec
    path : Path
    """
    pyplot = import_extra("matplotlib.pyplot", "plot")
    cost, surrogate = sorted(spec.costs)[len(spec.costs) // 2], spec.surrogates[0]
    run = records[(records["repeat"] == 0) & (records["cost"] == cost) & (records["surrogate"] == surrogate)].iloc[0]
    lines = -(-len(run["clearest"]["accepted"]) // _COLUMNS)
    figure = pyplot.figure(figsize=(10.5, 2 * (lines * 1.5 + 0.45)), layout="constrained")
    blocks = figure.subfigures(2, 1, hspace=0.04)
    for block, (kind, shown) in zip(blocks, run["clearest"].items(), strict=True):
        block.suptitle(f"most clearly {kind}", x=0.01, ha="left", fontsize=12, weight="bold")
        for ax in (axes := block.subplots(lines, _COLUMNS, squeeze=False)).flat:
            ax.axis("off")
        for ax, case in zip(axes.flat, shown, strict=False):
            ax.imshow(parts.picture(case["row"]), interpolation="lanczos")
            ax.set_title(_caption(case, parts), fontsize=8, pad=3)
    _save(figure, path)


def _caption(case: dict[str, Any], parts: ImageParts) -> str:
    text = f"{case['prediction']:.3g} for {case['y']:.3g}"
    if parts.variance is None:
        return text
    return f"{case['prediction']:.2f} for {case['y']:.2f}, sd {parts.variance[case['row']] ** 0.5:.2f}"


def _save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    import_extra("matplotlib.pyplot", "plot").close(figure)
