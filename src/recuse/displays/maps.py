"""Map of the accepted and the rejected rows in the plane of two features or of two principal components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.audit.subgroups import levels_of
from recuse.dataframes import is_frame, to_pandas
from recuse.decision import Decision
from recuse.displays.style import PALETTE, Drawing, new_axes
from recuse.estimators.composition import decide
from recuse.extras import import_extra
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.schema import Column, Kind, kind_of

Floats = NDArray[np.float64]
Ticks = list[str] | Literal["dates"] | None

_DATES: Final = "dates"
# Largest random shift of the rows of a category, in units of the distance between two categories.
_WIDTH = 0.25


@dataclass
class RejectionMapDisplay(Drawing):
    """Accepted and rejected rows in the plane of two features, or of the first two principal components.

    Attributes
    ----------
    points : ndarray of shape (n_rows, 2)
        Places of the rows. Rows of a category, or with missing values, are shifted at random, so that they can be seen.
    accepted : ndarray of bool of shape (n_rows,)
    names : tuple of str
        Labels of the axes.
    ticks : tuple
        For each axis the names of the categories, "dates" for days since 1970, or None for numbers.
    ax_, figure_ : matplotlib Axes and Figure, once plotted

    Examples
    --------
    >>> from recuse import RiskRejector, datasets
    >>> from sklearn.linear_model import Ridge
    >>> X, y, _, _ = datasets.make_heteroscedastic(300, random_state=0)
    >>> model = RiskRejector(Ridge(), Ridge(), cost=1.0).fit(X[:200], y[:200])
    >>> display = RejectionMapDisplay.from_decision(model.decide(X[200:]), X[200:], features=[0, 1])
    >>> display.points.shape
    (100, 2)
    """

    points: Floats
    accepted: NDArray[np.bool_]
    names: tuple[str, str]
    ticks: tuple[Ticks, Ticks] = (None, None)

    @classmethod
    def from_decision(
        cls, decision: Decision, X: Any, features: Sequence[Any] | None = None, *, random_state: int = 0, **plot: Any
    ) -> Self:
        """Plot the decisions about the rows of a table.

        Parameters
        ----------
        decision : Decision
        X : array-like or DataFrame of shape (n_rows, n_columns)
        features : two names of columns, or positions in an array, optional
            By default the rows are projected to the first two principal components of their encoded columns.
        random_state : int, default=0
            Seed of the random shifts.
        **plot
            Options of `plot`.
        """
        frame = to_pandas(X)
        frame = frame if is_frame(frame) else pd.DataFrame(np.asarray(frame))
        if len(frame) != len(decision):
            raise ValueError(f"X must have one row for each of {len(decision)} decisions, got {len(frame)}")
        if features is None:
            points, names = _projected(frame)
            return cls(points, decision.accepted, names).plot(**plot)
        if isinstance(features, str) or len(features) != 2:
            raise ValueError(f"features must be two columns, got {features!r}")
        absent = [name for name in features if name not in frame.columns]
        if absent:
            raise ValueError(f"features must be columns of X, got {absent[0]!r}")
        generator = np.random.default_rng(random_state)
        (x, x_ticks), (y, y_ticks) = (_places(frame[name], generator) for name in features)
        names = (str(features[0]), str(features[1]))
        return cls(np.column_stack([x, y]), decision.accepted, names, (x_ticks, y_ticks)).plot(**plot)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, features: Sequence[Any] | None = None, *, cost: Any = None, **plot: Any
    ) -> Self:
        """Plot the decisions of an estimator, also inside a Pipeline or search."""
        return cls.from_decision(decide(estimator, X, cost=cost), X, features, **plot)

    def plot(self, ax: Any = None) -> Self:
        """Draw accepted rows as dots and rejected ones as crosses."""
        self.figure_, self.ax_ = new_axes(ax, size=(5.8, 4.8))
        alpha = float(np.clip(40 / np.sqrt(max(len(self.points), 1)), 0.15, 0.8))
        groups = {"accepted": (self.accepted, "o", PALETTE[0], 14), "rejected": (~self.accepted, "x", PALETTE[1], 22)}
        for place, (name, (rows, marker, color, size)) in enumerate(groups.items()):
            shape = {"linewidths": 0} if marker == "o" else {"linewidths": 1.2}
            x, y = self.points[rows].T
            self.ax_.scatter(x, y, s=size, marker=marker, color=color, alpha=alpha, label=name, **shape)
            sign = "●" if marker == "o" else "×"  # noqa: RUF001
            text = f"{sign} {name} {rows.mean():.0%}" if len(rows) else name
            self.ax_.text(0.28 * place, 1.02, text, transform=self.ax_.transAxes, color=color, va="bottom")
        self.ax_.set(xlabel=self.names[0], ylabel=self.names[1])
        for axis, ticks in zip((self.ax_.xaxis, self.ax_.yaxis), self.ticks, strict=True):
            if ticks == _DATES:
                axis.axis_date()
                locator = axis.get_major_locator()
                axis.set_major_formatter(import_extra("matplotlib.dates", "plot").ConciseDateFormatter(locator))
            elif ticks is not None:
                axis.set_ticks(range(len(ticks)), ticks)
        return self


def _projected(frame: pd.DataFrame) -> tuple[Floats, tuple[str, str]]:
    """Return the first two principal components of the encoded rows, and their names with the shares of variance."""
    features = TableEncoder(unseen="keep").fit(frame).transform(frame)
    centred = features - features.mean(axis=0)
    left, singular, right = np.linalg.svd(centred, full_matrices=False)
    if len(singular) < 2:
        raise ValueError("X must have at least two features and two rows for a projection, got fewer")
    signs = np.sign(right[np.arange(2), np.abs(right[:2]).argmax(axis=1)])  # the largest weight is positive
    total = max(float((singular**2).sum()), np.finfo(np.float64).tiny)
    shares = singular[:2] ** 2 / total
    name = "{} principal component ({:.0%} of variance)"
    names = name.format("first", shares[0]), name.format("second", shares[1])
    return left[:, :2] * singular[:2] * signs, names


def _places(column: pd.Series[Any], generator: np.random.Generator) -> tuple[Floats, Ticks]:
    """Return the places of a column on an axis, and the names of its categories; missing numbers lie below the rest."""
    kind = Kind.UNUSED if column.isna().all() else kind_of(column)
    if kind in (Kind.NUMBER, Kind.DATE):
        numbers = Column(column.name, kind).learned_from(column).numbers(column)
        if kind is Kind.DATE:
            return _with_missing(numbers / 86_400, generator), _DATES
        return _with_missing(numbers, generator), None
    levels = levels_of(column, bins=4)
    return levels.codes + generator.uniform(-_WIDTH, _WIDTH, size=len(column)), levels.labels


def _with_missing(values: Floats, generator: np.random.Generator) -> Floats:
    gaps = np.isnan(values)
    if not gaps.any():
        return values
    low, high = np.nanmin(values), np.nanmax(values)
    width = (high - low) or 1.0
    shift = generator.uniform(0.08, 0.14, size=len(values))
    return np.where(gaps, low - width * shift, values)
