"""Measures of decisions by subgroup, with intervals and tests of unequal treatment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse.audit.intervals import mean_interval, rate_interval
from recuse.audit.significance import adjusted, draws_needed, higher_mean, higher_rate
from recuse.costs import resolve
from recuse.dataframes import aligned, float_array
from recuse.metrics.measures import DecisionLike, checked, rcr_loss_rows
from recuse.validation import check_count, is_count, require

if TYPE_CHECKING:
    import pandas as pd

    from recuse.audit.membership import RowGroup

__all__ = ["groups"]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def groups(
    decision: DecisionLike,
    y: Any,
    group: Any,
    *,
    intersections: bool | int = False,
    bins: int = 4,
    min_rows: int = 20,
    level: float = 0.05,
    confidence: float = 0.95,
    n_permutations: int = 9999,
    random_state: int = 0,
) -> pd.DataFrame:
    """Compare the decisions about each group of rows with those about the other rows.

    Two questions are asked about each group: Is it rejected more often than the other rows? And is the loss of its
    accepted rows higher than that of the other accepted rows? The first is answered by Fisher's exact test, the second
    by a permutation test of the difference in means. The p-values of both questions and all groups are adjusted
    together by the method of Holm. So if all rows are treated alike, the probability of any flag in the table is at
    most `level`. This holds for skewed losses and small groups too.

    The rows must be independent, and must not be rows that the model was fitted to.

    Parameters
    ----------
    decision : Decision
    y : array-like of shape (n_rows,)
        True targets; pandas targets are matched by label.
    group : array-like of shape (n_rows,), Series, or DataFrame with a column for each grouping
        Pandas objects are matched by label. Numbers and dates with more than ten distinct values are binned by
        quantiles. Missing values are a group.
    intersections : bool or int, default=False
        Whether to add the groups of each pair of columns, such as women of a certain age. A number allows for
        intersections of up to that many columns.
    bins : int, default=4
        Number of quantile bins of numbers and dates.
    min_rows : int, default=20
        Groups with fewer rows are reported together as "other".
    level : float, default=0.05
        Probability of any false flag.
    confidence : float, default=0.95
        Confidence of each interval.
    n_permutations : int, default=9999
        Most draws of a permutation test. A test stops early once the loss is clearly not higher. With many groups
        it is raised, so that the adjusted p-values can be below `level`; with more than 100,000 rows it is lowered.
    random_state : int, default=0
        Seed of the permutations.

    Returns
    -------
    DataFrame
        One line for each group, with these columns:

        - ``column``, ``group``, ``rows``, ``share``; ``pooled_groups``, the number of small groups in "other";
        - ``rejection_rate``, ``accepted_loss``, ``rcr_loss``, ``mean_loss`` (of all predictions, rejected or not) and
          ``bias`` (mean of prediction - y), each with ``_low`` and ``_high``, the ends of its interval, and
          ``_difference``, its difference to the other rows;
        - ``rejected_more_p`` and ``mispredicted_more_p``, the adjusted p-values, and the flags ``rejected_more`` and
          ``mispredicted_more``.

        ``attrs`` has the measures of all rows, "overall", the name of the "loss", the "level" and the "confidence".

    Notes
    -----
    The intervals of rates are those of Clopper and Pearson. Those of means are corrected for skewness, see
    `recuse.audit.intervals.mean_interval`. Intervals are not adjusted for the number of groups.

    Where costs differ between rows, a group with lower costs is rejected more often even by a perfect model.

    Examples
    --------
    >>> import numpy as np
    >>> from recuse import Decision, audit
    >>> generator = np.random.default_rng(0)
    >>> y = generator.normal(size=400)
    >>> site = np.repeat(["north", "south"], 200)
    >>> error = generator.normal(size=400) * np.where(site == "north", 1.0, 2.0)
    >>> decision = Decision(y + error, np.arange(400) % 5 > 0, np.zeros(400), cost=3.0)
    >>> table = audit.groups(decision, y, site)
    >>> table[["group", "rows", "rejection_rate", "rejected_more", "mispredicted_more"]]
       group  rows  rejection_rate  rejected_more  mispredicted_more
    0  north   200             0.2          False              False
    1  south   200             0.2          False               True
    """
    import pandas as pd

    from recuse.audit.membership import read_groups

    check_count("bins", bins, least=2)
    check_count("min_rows", min_rows, least=1)
    check_count("n_permutations", n_permutations, least=1)
    for name, value in {"level": level, "confidence": confidence}.items():
        require(0 < value < 1, name, "a number between 0 and 1", value)
    require(isinstance(intersections, bool) or is_count(intersections), "intersections", "a bool or an int >= 1",
            intersections)  # fmt: skip
    depth = 2 if intersections is True else int(intersections)
    rows = _MeasuredRows.of(decision, y)
    index = getattr(decision, "index", None)
    found = read_groups(group, index, len(rows.error), bins=bins, min_rows=min_rows, intersections=depth)
    draws = draws_needed(n_permutations, 2 * len(found), level, len(rows.error))
    lines = [rows.line(one, confidence) for one in found]
    tests = np.array([rows.tests(one, draws, [random_state, place]) for place, one in enumerate(found)])
    p = adjusted(tests.reshape(-1)).reshape(-1, 2)
    table = pd.DataFrame(lines)
    for place, name in enumerate(("rejected_more", "mispredicted_more")):
        table[f"{name}_p"], table[name] = p[:, place], p[:, place] <= level
    table.attrs = {"overall": rows.overall(), "loss": rows.loss, "level": level, "confidence": confidence}
    return table


@dataclass(frozen=True)
class _MeasuredRows:
    """What is measured of each row."""

    rejected: Flags
    error: Floats
    rcr: Floats
    residual: Floats
    loss: str

    @classmethod
    def of(cls, decision: DecisionLike, y: Any) -> _MeasuredRows:
        from recuse import losses

        loss = losses.get(getattr(decision, "loss", "squared"))
        target = aligned(y, getattr(decision, "index", None), "y")
        error, accepted = checked(target, decision.prediction, decision.accepted, loss)
        rcr = rcr_loss_rows(error, accepted, resolve(decision.cost, None, len(error)))
        prediction = np.asarray(decision.prediction, dtype=np.float64)
        residual = prediction - float_array(target, "y").reshape(prediction.shape)
        return cls(~accepted, error, rcr, residual, loss.name)

    def measures(self) -> Mapping[str, tuple[Floats, Flags]]:
        """Return the values that each measure is the mean of, and the rows that count."""
        everyone = np.ones_like(self.rejected)
        return {
            "rejection_rate": (self.rejected.astype(np.float64), everyone),
            "accepted_loss": (self.error, ~self.rejected),
            "rcr_loss": (self.rcr, everyone),
            "mean_loss": (self.error, everyone),
            "bias": (self.residual, everyone),
        }

    def overall(self) -> dict[str, float]:
        return {name: _mean(values[among]) for name, (values, among) in self.measures().items()}

    def line(self, group: RowGroup, confidence: float) -> dict[str, Any]:
        count = int(group.rows.sum())
        line: dict[str, Any] = {"column": group.column, "group": group.label, "pooled_groups": group.pooled}
        line |= {"rows": count, "share": count / len(group.rows)}
        for name, (values, among) in self.measures().items():
            inside = values[among & group.rows]
            low, high = _interval(name, inside, confidence)
            mean = _mean(inside)
            line |= {name: mean, f"{name}_low": low, f"{name}_high": high}
            line[f"{name}_difference"] = mean - _mean(values[among & ~group.rows])
        return line

    def tests(self, group: RowGroup, draws: int, seed: list[int]) -> tuple[float, float]:
        """Return the p-values of both questions before adjustment, NaN if there is nothing to compare with."""
        if group.rows.all():
            return np.nan, np.nan
        accepted = ~self.rejected
        loss = higher_mean(self.error[accepted], group.rows[accepted], draws, np.random.default_rng(seed))
        return higher_rate(self.rejected, group.rows), loss


def _interval(measure: str, values: Floats, confidence: float) -> tuple[float, float]:
    if measure == "rejection_rate":
        return rate_interval(int(values.sum()), len(values), confidence)
    low, high = mean_interval(values, confidence)
    return (low, high) if measure == "bias" else (max(low, 0.0), high)


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")
