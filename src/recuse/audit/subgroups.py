"""Measures of decisions by subgroup, with intervals and tests of unequal treatment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse import losses
from recuse.audit.significance import adjusted, draws_needed, higher_mean, higher_rate, mean_interval, rate_interval
from recuse.costs import resolve
from recuse.dataframes import aligned, is_frame, is_pandas, to_pandas
from recuse.metrics.measures import DecisionLike, checked, numbers, rcr_loss_rows
from recuse.tabular.codecs import MISSING_TIME, distinct_cells
from recuse.tabular.schema import Column, Kind, kind_of
from recuse.validation import check_count, is_count, require

if TYPE_CHECKING:
    import pandas as pd

Flags = NDArray[np.bool_]
Codes = NDArray[np.intp]

MISSING = "missing"
OTHER = "other"
# Numbers and dates with more distinct values are binned.
_MOST_LEVELS = 10


@dataclass(frozen=True)
class Levels:
    """The level of every row in one column: positions in `labels`, the last of which may be that of missing values."""

    column: str
    codes: Codes
    labels: list[str]
    has_missing: bool = False


@dataclass(frozen=True)
class RowGroup:
    """The rows of one group; `pooled` is the number of small groups that it replaces, 0 if it is none of these."""

    column: str
    label: str
    rows: Flags
    pooled: int = 0


def read_groups(
    group: Any, index: pd.Index[Any] | None, n_rows: int, *, bins: int, min_rows: int, intersections: int
) -> list[RowGroup]:
    """Return the groups of all columns, and of the intersections of up to that many columns.

    Examples
    --------
    >>> found = read_groups(["a", "b", "a"], None, 3, bins=4, min_rows=1, intersections=1)
    >>> [(one.column, one.label, int(one.rows.sum())) for one in found]
    [('group', 'a', 2), ('group', 'b', 1)]
    """
    frame = _as_frame(aligned(group, index, "group"))
    if len(frame) != n_rows:
        raise ValueError(f"group must have one value for each of {n_rows} rows, got {len(frame)}")
    columns = [levels_of(frame.iloc[:, place], bins) for place in range(frame.shape[1])]
    found = [one for column in columns for one in pooled(column, min_rows)]
    for count in range(2, intersections + 1):
        for chosen in combinations(columns, count):
            found += pooled(_product(chosen), min_rows)
    return found


def named_groups(group: Any, X: Any) -> Any:
    """Return the columns of a table that `group` names; or `group` itself, if it is one value for each row.

    Parameters
    ----------
    group : str, list of str, array-like, Series or DataFrame
    X : array-like or DataFrame

    Examples
    --------
    >>> import pandas as pd
    >>> named_groups("site", pd.DataFrame({"age": [30, 40], "site": ["a", "b"]})).columns.tolist()
    ['site']
    """
    table, names = to_pandas(X), [group] if isinstance(group, str) else group
    texts = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    if not texts or (names is group and not is_frame(table)):
        return group
    columns = list(table.columns) if is_frame(table) else []
    absent = [name for name in names if name not in columns]
    if absent and names is group and len(names) == len(table):
        return group
    if absent:
        raise ValueError(f"group must name columns of X, got {absent[0]!r}, not among {columns!r:.300}")
    return table[list(names)]


def levels_of(column: pd.Series[Any], bins: int) -> Levels:
    """Return the levels of a column: categories, or numbers and dates, binned by quantiles if they differ much.

    Examples
    --------
    >>> import pandas as pd
    >>> levels_of(pd.Series(["b", None, "a"], name="site"), bins=4)
    Levels(column='site', codes=array([1, 2, 0]), labels=['a', 'b', 'missing'], has_missing=True)
    >>> levels_of(pd.Series(np.arange(40), name="age"), bins=4).labels
    ['≤ 9.75', '(9.75, 19.5]', '(19.5, 29.2]', '> 29.2']
    """
    codes, labels = _known_levels(column, bins)
    present, places = np.unique(codes[codes >= 0], return_inverse=True)
    result = np.full(len(codes), len(present), np.intp)
    result[codes >= 0] = places
    names = [labels[place] for place in present]
    has_missing = bool((codes < 0).any())
    return Levels(str(column.name), result, [*names, _free(MISSING, names)] if has_missing else names, has_missing)


def pooled(levels: Levels, min_rows: int) -> Iterator[RowGroup]:
    """Return the groups of a column; those with fewer rows are one group, except for the missing values."""
    counts = np.bincount(levels.codes, minlength=len(levels.labels))
    small = counts < min_rows
    if levels.has_missing:
        small[-1] = False
    for place in np.flatnonzero(~small & (counts > 0)):
        yield RowGroup(levels.column, levels.labels[place], levels.codes == place)
    few = np.flatnonzero(small & (counts > 0))
    if len(few):
        yield RowGroup(levels.column, _free(OTHER, levels.labels), np.isin(levels.codes, few), len(few))


def _as_frame(values: Any) -> pd.DataFrame:
    import pandas as pd

    if is_frame(values):
        if values.shape[1] == 0:
            raise ValueError("group must have at least one column, got none")
        return values
    if is_pandas(values):
        return pd.DataFrame({"group" if values.name is None else values.name: values})
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return pd.DataFrame({f"group {place}": column for place, column in enumerate(values.T)})
    if np.ndim(values) == 0 or (isinstance(values, np.ndarray) and values.ndim != 1):
        raise ValueError(f"group must have one value per row, got {values!r:.80}")
    return pd.DataFrame({"group": pd.Series(values)})


def _known_levels(column: pd.Series[Any], bins: int) -> tuple[Codes, list[str]]:
    """Return the position of each row's level, -1 where it is missing, and the names of the levels."""
    if column.isna().all():
        return np.full(len(column), -1, np.intp), []
    kind = kind_of(column)
    if kind is not Kind.CATEGORY:
        values = Column(column.name, kind).learned_from(column).codec.of_series(column).values
        if kind is Kind.NUMBER:
            return _binned(values, np.isnan(values), bins)
        return _binned(values.astype("datetime64[us]"), values == MISSING_TIME, bins)
    codes, cells = distinct_cells(column)
    names = [str(cell) for cell in cells]
    if len(set(names)) < len(names):  # 1 and "1", for example
        names = [repr(cell) for cell in cells]
    if column.dtype == "category":
        return codes, names
    order = sorted(range(len(names)), key=names.__getitem__)
    places = np.append(np.argsort(order), -1)
    return places[codes], [names[place] for place in order]


def _binned(values: NDArray[Any], missing: Flags, bins: int) -> tuple[Codes, list[str]]:
    codes = np.full(len(values), -1, np.intp)
    known = values[~missing]
    distinct = np.unique(known)
    if len(distinct) <= _MOST_LEVELS:
        codes[~missing] = np.searchsorted(distinct, known)
        return codes, _texts(distinct)
    shares = np.arange(1, bins) / bins
    if values.dtype.kind == "M":
        edges = np.unique(np.quantile(known.astype(np.int64), shares, method="lower")).astype(values.dtype)
    else:
        edges = np.unique(np.quantile(known, shares))
    codes[~missing] = np.searchsorted(edges, known)
    ends = _texts(edges)
    between = [f"({low}, {high}]" for low, high in pairwise(ends)]
    return codes, [f"≤ {ends[0]}", *between, f"> {ends[-1]}"] if ends else ["all"]


def _texts(values: NDArray[Any]) -> list[str]:
    """Return short texts of sorted numbers or times, which differ."""
    if values.dtype.kind == "M":
        days = [str(day) for day in values.astype("datetime64[D]")]
        return days if len(set(days)) == len(days) else [str(time) for time in values]
    for digits in (3, 6, 17):
        texts = [f"{value:.{digits}g}" if abs(value) < 1e6 else f"{value:.{max(digits, 6)}g}" for value in values]
        if len(set(texts)) == len(texts):
            break
    return texts


def _product(columns: tuple[Levels, ...]) -> Levels:
    cells = np.stack([column.codes for column in columns], axis=1)
    present, codes = np.unique(cells, axis=0, return_inverse=True)
    labels = [" & ".join(column.labels[place] for column, place in zip(columns, row, strict=True)) for row in present]
    return Levels(" & ".join(column.column for column in columns), codes.reshape(-1).astype(np.intp), labels)


def _free(name: str, taken: list[str]) -> str:
    while name in taken:
        name = f"({name})"
    return name


Floats = NDArray[np.float64]


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
    ``recuse.audit.significance.mean_interval``. Intervals are not adjusted for the number of groups.

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

    check_count("bins", bins, least=2)
    check_count("min_rows", min_rows, least=1)
    check_count("n_permutations", n_permutations, least=1)
    for name, value in {"level": level, "confidence": confidence}.items():
        require(0 < value < 1, name, "a number between 0 and 1", value)
    usable = isinstance(intersections, bool) or is_count(intersections)
    require(usable, "intersections", "a bool or an int >= 1", intersections)
    depth = 2 if intersections is True else int(intersections)
    rows = _MeasuredRows.of(decision, y)
    index = getattr(decision, "index", None)
    found = read_groups(group, index, len(rows.rejected), bins=bins, min_rows=min_rows, intersections=depth)
    draws = draws_needed(n_permutations, 2 * len(found), level, len(rows.rejected))
    lines = [rows.line(one, confidence) for one in found]
    tests = np.array([rows.tests(one, draws, [random_state, place]) for place, one in enumerate(found)])
    p = adjusted(tests.reshape(-1)).reshape(-1, 2)
    table = pd.DataFrame(lines)
    for place, name in enumerate(("rejected_more", "mispredicted_more")):
        table[f"{name}_p"], table[name] = p[:, place], p[:, place] <= level
    overall = {name: _mean(values[among]) for name, (values, among) in rows.measures.items()}
    table.attrs = {"overall": overall, "loss": rows.loss, "level": level, "confidence": confidence}
    return table


@dataclass(frozen=True)
class _MeasuredRows:
    """What is measured of each row.

    Attributes
    ----------
    rejected : ndarray of bool of shape (row,)
    measures : mapping
        The values that each measure is the mean of, and the rows that count.
    loss : str
    """

    rejected: Flags
    measures: Mapping[str, tuple[Floats, Flags]]
    loss: str

    @classmethod
    def of(cls, decision: DecisionLike, y: Any) -> _MeasuredRows:
        loss = losses.get(getattr(decision, "loss", "squared"))
        target = aligned(y, getattr(decision, "index", None), "y")
        error, accepted = checked(target, decision.prediction, decision.accepted, loss)
        everyone = np.ones_like(accepted)
        measures = {
            "rejection_rate": ((~accepted).astype(np.float64), everyone),
            "accepted_loss": (error, accepted),
            "rcr_loss": (rcr_loss_rows(error, accepted, resolve(decision.cost, None, len(error))), everyone),
            "mean_loss": (error, everyone),
            "bias": (numbers(decision.prediction, "prediction") - numbers(target, "y"), everyone),
        }
        return cls(~accepted, measures, loss.name)

    def line(self, group: RowGroup, confidence: float) -> dict[str, Any]:
        count = int(group.rows.sum())
        line: dict[str, Any] = {"column": group.column, "group": group.label, "pooled_groups": group.pooled}
        line |= {"rows": count, "share": count / len(group.rows)}
        for name, (values, among) in self.measures.items():
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
        error, accepted = self.measures["accepted_loss"]
        loss = higher_mean(error[accepted], group.rows[accepted], draws, np.random.default_rng(seed))
        return higher_rate(self.rejected, group.rows), loss


def _interval(measure: str, values: Floats, confidence: float) -> tuple[float, float]:
    if measure == "rejection_rate":
        return rate_interval(int(values.sum()), len(values), confidence)
    low, high = mean_interval(values, confidence)
    return (low, high) if measure == "bias" else (max(low, 0.0), high)


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")
