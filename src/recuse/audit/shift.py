"""Drift: how far the rows of today differ from those of the past, column by column."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse.audit.significance import adjusted, draws_needed, other_shares
from recuse.dataframes import is_frame, is_pandas, to_pandas
from recuse.metrics.measures import DecisionLike
from recuse.validation import check_count, require

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
# The distance, its p-value, the share of new values, and the new categories.
_Parts = tuple[float, float, float, list[str]]

# The test of a column with more categories than this pools the rare ones.
_MOST_CATEGORIES = 1000
# A category with fewer rows is rare.
_RARE = 5
# The test of numbers is exact up to this number of pairs of rows.
_EXACT = 1_000_000


def drift(
    reference: Any,
    current: Any,
    *,
    decisions: tuple[DecisionLike, DecisionLike] | None = None,
    level: float = 0.05,
    min_distance: float = 0.0,
    n_permutations: int = 9999,
    random_state: int = 0,
) -> pd.DataFrame:
    """Compare the columns of two tables: those of training, and those of today.

    Numbers and dates are compared by the test of Kolmogorov and Smirnov, categories by an exact test of their shares,
    and missing values by an exact test of their share. All p-values are adjusted together by the method of Holm. So if
    nothing has changed, the probability of any flag is at most `level`.

    Parameters
    ----------
    reference, current : DataFrame of pandas, polars or pyarrow, or array-like, of shape (n_rows, n_columns)
        `current` must have the columns of `reference`; others are ignored. The kind of a column is that in `reference`.
    decisions : pair of Decision, optional
        Decisions about the rows of both tables, or about other rows of the same times. Adds the lines
        "decision: score" and "decision: rejected".
    level : float, default=0.05
        Probability of any false flag.
    min_distance : float, default=0.0
        Columns are flagged only from this distance on. With very many rows, differences that do not matter are
        significant too.
    n_permutations : int, default=9999
        Most draws of the test of categories. With many columns it is raised.
    random_state : int, default=0

    Returns
    -------
    DataFrame
        One line for each column:

        - ``column``, ``kind``: "number", "date", "category" or "empty";
        - ``distance`` between the known values, from 0 to 1: the largest difference of the distribution functions for
          numbers and dates, half the sum of the differences of the shares for categories;
        - ``distance_p``, its adjusted p-value;
        - ``missing_reference``, ``missing_current``: shares of missing values; text in a column of numbers counts as
          missing; ``missing_p``, the adjusted p-value of their difference, NaN if nothing is missing;
        - ``new``: share of the known current values that are outside the range of `reference`, or in categories that
          it does not have; ``new_categories``: up to ten of these;
        - ``drifted``: whether one of the p-values is at most `level`, and the distance, or the difference in missing
          values, is at least `min_distance`.

    Notes
    -----
    The rows are assumed to be independent. Dates of today are almost always outside the range of the past.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from recuse import audit
    >>> rows = np.arange(300)
    >>> past = pd.DataFrame({"load": rows % 60, "site": np.where(rows % 3, "east", "west")})
    >>> today = pd.DataFrame({"load": rows % 60 + 20, "site": np.where(rows % 3, "east", "west")})
    >>> audit.drift(past, today)[["column", "kind", "distance", "new", "drifted"]].round(2)
      column      kind  distance   new  drifted
    0   load    number      0.33  0.33     True
    1   site  category      0.00  0.00    False
    """
    import pandas as pd

    check_count("n_permutations", n_permutations, least=1)
    require(0 < level < 1, "level", "a number between 0 and 1", level)
    require(0 <= min_distance <= 1, "min_distance", "a number between 0 and 1", min_distance)
    past, today = _as_frame(reference, "reference"), _as_frame(current, "current")
    pairs = _pairs(past, today) + ([] if decisions is None else _decision_pairs(*decisions))
    draws = draws_needed(n_permutations, 2 * len(pairs), level)
    found = [_compared(*pair, draws, random_state + place) for place, pair in enumerate(pairs)]
    table = pd.DataFrame(found)
    tests = ["distance_p", "missing_p"]
    table[tests] = adjusted(table[tests].to_numpy().reshape(-1)).reshape(-1, 2)
    gap = (table["missing_current"] - table["missing_reference"]).abs()
    moved = (table["distance_p"] <= level) & (table["distance"] >= min_distance)
    table["drifted"] = moved | ((table["missing_p"] <= level) & (gap >= min_distance))
    table.attrs = {"level": level, "min_distance": min_distance}
    return table


def _as_frame(table: Any, name: str) -> pd.DataFrame:
    import pandas as pd

    frame = to_pandas(table)
    if is_pandas(frame) and not is_frame(frame):
        frame = pd.DataFrame({"0" if frame.name is None else frame.name: frame})
    if not is_frame(frame):
        cells = np.asarray(frame)
        if cells.ndim != 2:
            raise ValueError(f"{name} must be a table, got shape {cells.shape}")
        frame = pd.DataFrame(frame if isinstance(frame, list) else cells)
    if frame.shape[0] == 0 or frame.shape[1] == 0:
        raise ValueError(f"{name} must have at least one row and one column, got shape {frame.shape}")
    return frame


def _pairs(past: pd.DataFrame, today: pd.DataFrame) -> list[tuple[str, pd.Series[Any], pd.Series[Any]]]:
    for name, frame in {"reference": past, "current": today}.items():
        if frame.columns.has_duplicates:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise ValueError(f"{name} must have unique column names, got {twice!r} more than once")
    absent = [name for name in past.columns if name not in today.columns]
    if absent:
        raise ValueError(f"current must have the columns of reference, got no column {absent[0]!r}")
    return [(str(name), past[name], today[name]) for name in past.columns]


def _decision_pairs(past: DecisionLike, today: DecisionLike) -> list[tuple[str, pd.Series[Any], pd.Series[Any]]]:
    import pandas as pd

    score = [pd.Series(np.asarray(getattr(one, "score", []))) for one in (past, today)]
    rejected = [pd.Series(~np.asarray(one.accepted, dtype=np.bool_)) for one in (past, today)]
    return [("decision: score", score[0], score[1]), ("decision: rejected", rejected[0], rejected[1])]


def _compared(name: str, past: pd.Series[Any], today: pd.Series[Any], draws: int, seed: int) -> dict[str, Any]:
    """Return the line of one column; its p-values are not adjusted."""
    from recuse.tabular.schema import Column, Kind, kind_of

    if past.isna().all():
        parts: _Parts = (math.nan, math.nan, math.nan, [])
        gaps = past.isna().to_numpy(), today.isna().to_numpy()
        kind = "empty"
    elif (found := kind_of(past)) is Kind.CATEGORY:
        parts, gaps = _categories(past, today, draws, seed)
        kind = "category"
    else:
        learned = Column(name, found).learned_from(past)
        before, after = learned.numbers(past), learned.numbers(today)
        gaps = np.isnan(before), np.isnan(after)
        parts = _numbers(before[~gaps[0]], after[~gaps[1]])
        kind = str(found)
    distance, p, new, new_categories = parts
    return {
        "column": name,
        "kind": kind,
        "distance": distance,
        "distance_p": p,
        "missing_reference": float(gaps[0].mean()),
        "missing_current": float(gaps[1].mean()),
        "missing_p": _missing_p(*gaps),
        "new": new,
        "new_categories": new_categories,
    }


def _numbers(before: Floats, after: Floats) -> _Parts:
    if len(before) == 0 or len(after) == 0:
        return math.nan, math.nan, math.nan, []
    from scipy.stats import ks_2samp

    method = "exact" if len(before) * len(after) <= _EXACT else "asymp"
    test = ks_2samp(before, after, method=method)
    outside = (after < before.min()) | (after > before.max())
    return float(test.statistic), float(test.pvalue), float(outside.mean()), []


def _categories(
    past: pd.Series[Any], today: pd.Series[Any], draws: int, seed: int
) -> tuple[_Parts, tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Compare the shares of the categories; they are matched by value, or as text where types differ."""
    import pandas as pd

    from recuse.tabular.codecs import distinct_cells

    values = [column.astype(object).reset_index(drop=True) for column in (past, today)]
    codes, levels = distinct_cells(pd.concat(values, ignore_index=True))
    before, after = codes[: len(past)], codes[len(past) :]
    gaps = before < 0, after < 0
    counts = [np.bincount(part[part >= 0], minlength=len(levels)).astype(np.int64) for part in (before, after)]
    if counts[1].sum() == 0:
        return (math.nan, math.nan, math.nan, []), gaps
    shares = [count / count.sum() for count in counts]
    added = np.flatnonzero((counts[0] == 0) & (counts[1] > 0))
    p = other_shares(*_without_rare(*counts), draws, seed)
    names = sorted(str(levels[place]) for place in added)[:10]
    new = float(counts[1][added].sum() / counts[1].sum())
    return (float(np.abs(shares[0] - shares[1]).sum() / 2), p, new, names), gaps


def _without_rare(before: NDArray[np.int64], after: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pool the rare categories of a column that has very many."""
    rare = before + after < _RARE
    if len(before) <= _MOST_CATEGORIES or not rare.any():
        return before, after
    return np.append(before[~rare], before[rare].sum()), np.append(after[~rare], after[rare].sum())


def _missing_p(before: NDArray[np.bool_], after: NDArray[np.bool_]) -> float:
    if not (before.any() or after.any()):
        return math.nan
    from scipy.stats import fisher_exact

    table = [[int(gaps.sum()), int((~gaps).sum())] for gaps in (before, after)]
    return float(fisher_exact(table).pvalue)
