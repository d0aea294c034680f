"""Colours, axes and labels that all displays share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recuse.extras import import_extra
from recuse.losses import SQUARED, TargetLoss

# The palette of Okabe and Ito (2008): eight colours that can be distinguished with any kind of colour vision
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#F0E442")
GREY = "#595959"

# Mark of the texts of `label_lines`.
_LABEL = "line label"
# Height of a line of text in points.
_LINE_HEIGHT = 12.5


@dataclass(kw_only=True)
class Drawing:
    """The axes and the figure of a display, once it is plotted."""

    ax_: Any = field(default=None, repr=False)
    figure_: Any = field(default=None, repr=False)


def new_axes(ax: Any = None, size: tuple[float, float] = (6.4, 4.2)) -> tuple[Any, Any]:
    """Return a figure and its axes: those given, or new ones with a light grid."""
    if ax is not None:
        return ax.figure, ax
    figure, ax = import_extra("matplotlib.pyplot", "plot").subplots(figsize=size, layout="constrained")
    tidy(ax)
    return figure, ax


def tidy(ax: Any, grid: str = "both") -> None:
    """Remove the upper and the right spine, and draw a light grid below the data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["bottom", "left"]].set_color("#B3B3B3")
    ax.tick_params(color="#B3B3B3")
    ax.grid(False)
    ax.grid(True, axis=grid, color="#E6E6E6", lw=0.8)
    ax.set_axisbelow(True)


def percent(axis: Any) -> None:
    """Write the ticks of an axis as percentages."""
    axis.set_major_formatter(import_extra("matplotlib.ticker", "plot").PercentFormatter(1.0, decimals=0))


def finish(ax: Any, xlabel: str, ylabel: str, *, share: bool = False) -> None:
    """Write the labels of axes whose y-axis starts at 0, and of their lines; `share` is for shares of rows along x."""
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.set_ylim(0, None, auto=True)
    if share:
        ax.set_xlim(0, 1)
        percent(ax.xaxis)
    label_lines(ax)


def loss_units(loss: TargetLoss) -> str:
    """Return the units of a loss.

    Examples
    --------
    >>> loss_units(SQUARED)
    'squared units'
    """
    return "squared units" if loss == SQUARED else f"{loss.name} loss"


def loss_measure(loss: TargetLoss) -> str:
    """Return the name of a loss in the middle of a label.

    Examples
    --------
    >>> loss_measure(SQUARED)
    'squared error'
    """
    return "squared error" if loss == SQUARED else f"{loss.name} loss"


def label_lines(ax: Any) -> None:
    """Write the label of each line of the axes at its end, in its colour; labels do not overlap.

    The labels of an earlier call are replaced, so that several displays can share the axes.
    """
    for text in [text for text in ax.texts if text.get_gid() == _LABEL]:
        text.remove()
    ends = [(line, end) for line in ax.lines if (end := _end(line)) is not None]
    if not ends:
        return
    ax.get_xlim(), ax.get_ylim()  # brings the limits up to date
    points = 72 / ax.figure.dpi
    heights = ax.transData.transform([end for _, end in ends])[:, 1] * points
    texts = [line.get_label().replace(" (", "\n(") for line, _ in ends]
    sizes = [_LINE_HEIGHT * (1 + text.count("\n")) for text in texts]
    places = spread(heights, sizes, lowest=ax.get_window_extent().y0 * points)
    for (line, end), text, shift in zip(ends, texts, places - heights, strict=True):
        ax.annotate(
            text,
            end,
            xytext=(7, shift),
            textcoords="offset points",
            color=line.get_color(),
            va="center",
            fontsize="small",
            gid=_LABEL,
            annotation_clip=False,
        )


def _end(line: Any) -> tuple[float, float] | None:
    """Return the last point of a line with a label."""
    x, y = np.asarray(line.get_xdata(), dtype=np.float64), np.asarray(line.get_ydata(), dtype=np.float64)
    known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
    if line.get_label().startswith("_") or len(known) == 0:
        return None
    return float(x[known[-1]]), float(y[known[-1]])


def spread(heights: NDArray[np.float64], sizes: Sequence[float], lowest: float = -np.inf) -> NDArray[np.float64]:
    """Move heights apart, so that items of these sizes do not overlap and none is below `lowest`.

    Examples
    --------
    >>> spread(np.array([10.0, 11.0, 50.0]), [12.0, 12.0, 12.0])
    array([ 4.5, 16.5, 50. ])
    >>> spread(np.array([10.0, 11.0, 50.0]), [12.0, 12.0, 12.0], lowest=0.0)
    array([ 6., 18., 50.])
    """
    order = np.argsort(heights, kind="stable")
    size = np.asarray(sizes)[order]
    offsets = np.append(0.0, np.cumsum((size[1:] + size[:-1]) / 2))
    blocks: list[list[float]] = []  # sum and number of the positions of neighbours that touch
    for value in heights[order] - offsets:
        blocks.append([float(value), 1])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    result = np.empty(len(heights))
    moved = np.concatenate([np.full(int(count), total / count) for total, count in blocks])
    result[order] = np.maximum(moved, lowest + size[0] / 2) + offsets
    return result
