"""Plots of the audit of groups and of drift."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from recuse.audit import drift, groups
from recuse.audit.subgroups import named_groups
from recuse.decision import Decision
from recuse.displays.style import GREY, PALETTE, Drawing, new_axes, percent, tidy
from recuse.estimators.composition import decide
from recuse.extras import import_extra

_PANELS = {"rejection_rate": "rejected_more", "accepted_loss": "mispredicted_more"}
# Height of a line of the figure in inches.
_ROW = 0.34


@dataclass
class GroupAuditDisplay(Drawing):
    """Rejection rate and accepted loss of each group, with intervals; flagged groups have another colour.

    Attributes
    ----------
    table : DataFrame
        From `recuse.audit.groups`.
    ax_ : ndarray of two matplotlib Axes, once plotted
    figure_ : matplotlib Figure, once plotted

    Examples
    --------
    >>> from recuse import RiskRejector, datasets
    >>> from sklearn.linear_model import Ridge
    >>> X, y, _, _ = datasets.make_heteroscedastic(300, random_state=0)
    >>> model = RiskRejector(Ridge(), Ridge(), cost=1.0).fit(X[:200], y[:200])
    >>> side = np.where(X[200:, 0] > 0, "right", "left")
    >>> display = GroupAuditDisplay.from_estimator(model, X[200:], y[200:], side)
    >>> sorted(display.table["group"])
    ['left', 'right']
    """

    table: pd.DataFrame

    @classmethod
    def from_decision(cls, decision: Decision, y: Any, group: Any, *, ax: Any = None, **options: Any) -> Self:
        """Plot the audit of a decision; `options` are those of `recuse.audit.groups`."""
        return cls(groups(decision, y, group, **options)).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, group: Any, *, cost: Any = None, ax: Any = None, **options: Any
    ) -> Self:
        """Plot the audit of the decisions of an estimator; `group` may name columns of `X`."""
        return cls.from_decision(decide(estimator, X, cost=cost), y, named_groups(group, X), ax=ax, **options)

    def plot(self, ax: Any = None) -> Self:
        """Draw one line for each group, in two axes; the vertical lines are the values of all rows."""
        count = len(self.table)
        if ax is None:
            pyplot = import_extra("matplotlib.pyplot", "plot")
            size = (8.4, 1.5 + _ROW * (count + self.table["column"].nunique()))
            self.figure_, axes = pyplot.subplots(1, 2, figsize=size, sharey=True, layout="constrained")
        else:
            axes = np.asarray(ax, dtype=object).reshape(-1)
            if len(axes) != 2:
                raise ValueError(f"ax must be two axes, got {len(axes)}")
            self.figure_ = axes[0].figure
        self.ax_ = np.asarray(axes, dtype=object)
        places = self._places()
        for panel, (measure, flag) in zip(self.ax_, _PANELS.items(), strict=True):
            tidy(panel, grid="x")
            self._draw(panel, measure, flag, places)
        self._label(places)
        return self

    def _places(self) -> Any:
        """Return the height of each line, from the top, with a gap and a heading before each column."""
        column = self.table["column"].to_numpy()
        starts = np.append(True, column[1:] != column[:-1])
        return np.arange(len(column)) + np.cumsum(starts)

    def _draw(self, panel: Any, measure: str, flag: str, places: Any) -> None:
        table, flagged = self.table, self.table[flag].to_numpy()
        panel.axvline(table.attrs["overall"][measure], color=GREY, lw=1, ls="--")
        for rows, color in ((~flagged, PALETTE[0]), (flagged, PALETTE[1])):
            part = table[rows]
            bars = np.abs(part[[f"{measure}_low", f"{measure}_high"]].to_numpy().T - part[measure].to_numpy())
            panel.errorbar(part[measure], places[rows], xerr=bars, fmt="o", color=color, ms=5, lw=1.6)
        for place, value, low in zip(places[flagged], table.loc[flagged, f"{measure}_high"],
                                     table.loc[flagged, measure], strict=True):  # fmt: skip
            text = "rejected more" if measure == "rejection_rate" else "mispredicted more"
            panel.annotate(text, (value if np.isfinite(value) else low, place), xytext=(5, 0), va="center",
                           textcoords="offset points", color=PALETTE[1], fontsize="small")  # fmt: skip

    def _label(self, places: Any) -> None:
        table = self.table
        names = [_name(line) for _, line in table.iterrows()]
        rates, loss = self.ax_
        rates.set_yticks(places, names)
        rates.set_ylim(places.max() + 0.7, -0.4)
        rates.tick_params(axis="y", length=0)
        loss.tick_params(axis="y", length=0, labelleft=False)
        starts = ~table["column"].duplicated().to_numpy()
        for column, place in zip(table["column"][starts], places[starts], strict=True):
            rates.annotate(str(column), (0, place - 1), xycoords=("axes fraction", "data"), xytext=(-4, 0), ha="right",
                           va="center", textcoords="offset points", fontweight="bold")  # fmt: skip
        percent(rates.xaxis)
        measure = "squared error" if table.attrs["loss"] == "squared" else f"{table.attrs['loss']} loss"
        rates.set(xlabel="share of rows rejected", xlim=(0, None))
        loss.set(xlabel=f"mean {measure} of accepted rows")
        widest = 3 * np.fmax.reduce(table["accepted_loss"], initial=table.attrs["overall"]["accepted_loss"])
        loss.set_xlim(0, min(loss.get_xlim()[1], widest) if widest > 0 else None)  # very long bars leave the axes
        confidence = table.attrs["confidence"]
        note = f"bars: {confidence:.0%} intervals; dashed: all rows"
        rates.set_title(note, loc="left", fontsize="small", color=GREY)


@dataclass
class DriftDisplay(Drawing):
    """Distance between two tables, column by column; columns that drifted have another colour.

    Attributes
    ----------
    table : DataFrame
        From `recuse.audit.drift`.
    ax_, figure_ : matplotlib Axes and Figure, once plotted

    Examples
    --------
    >>> before = pd.DataFrame({"age": np.arange(50), "size": np.arange(50)})
    >>> display = DriftDisplay.from_tables(before, before.assign(size=before["size"] + 40))
    >>> display.table.loc[display.table["drifted"], "column"].tolist()
    ['size']
    """

    table: pd.DataFrame

    @classmethod
    def from_tables(
        cls, reference: Any, current: Any, *, ax: Any = None, max_columns: int = 30, **options: Any
    ) -> Self:
        """Plot the drift between two tables; `options` are those of `recuse.audit.drift`."""
        return cls(drift(reference, current, **options)).plot(ax, max_columns=max_columns)

    def plot(self, ax: Any = None, *, max_columns: int = 30) -> Self:
        """Draw the columns with the largest distances, the largest at the top."""
        gap = (self.table["missing_current"] - self.table["missing_reference"]).abs()
        shown = self.table.assign(missing=gap, largest=np.fmax(self.table["distance"], gap))
        shown = shown.sort_values("largest", ascending=False, kind="stable").head(max_columns)
        places = np.arange(len(shown))
        self.figure_, self.ax_ = new_axes(ax, size=(6.8, 1.3 + _ROW * len(shown)))
        tidy(self.ax_, grid="x")
        color = np.where(shown["drifted"], PALETTE[1], PALETTE[0])
        self.ax_.hlines(places, 0, shown["largest"].fillna(0), color=color, lw=1.6)
        self.ax_.scatter(shown["distance"], places, color=color, s=36, zorder=3, label="distance")
        gaps = shown["missing"].to_numpy() > 0
        self.ax_.scatter(shown["missing"][gaps], places[gaps], facecolor="white", edgecolor=color[gaps], s=30, zorder=3,
                         label="change of missing values")  # fmt: skip
        for place, (_, line) in zip(places, shown.iterrows(), strict=True):
            self.ax_.annotate(_remark(line), (line["largest"], place), xytext=(8, 0), textcoords="offset points",
                              va="center", fontsize="small", color=color[place])  # fmt: skip
        self.ax_.set_yticks(places, shown["column"])
        self.ax_.set_ylim(len(shown) - 0.4, -0.6)
        self.ax_.tick_params(axis="y", length=0)
        self.ax_.set(xlabel="distance between the tables (0: equal, 1: disjoint)", xlim=(0, None))
        note = "● distance" + ("   ○ change of the share of missing values" if gaps.any() else "")
        self.ax_.set_title(note, loc="left", fontsize="small", color=GREY)
        return self


def _name(line: pd.Series[Any]) -> str:
    count = int(line["pooled_groups"])
    pooled = f": {count} group{'s' if count > 1 else ''}" if count else ""
    return f"{line['group']}{pooled}  ({line['rows']:,} rows)"


def _remark(line: pd.Series[Any]) -> str:
    if not line["drifted"]:
        return ""
    if np.isfinite(line["new"]) and line["new"] >= 0.005:
        what = "in new categories" if line["kind"] == "category" else "outside the range"
        return f"drifted, {line['new']:.0%} {what}"
    return "drifted"
