"""Text cells that spreadsheets would run as formulas."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["formula_cells", "formula_warning", "is_formula", "without_formulas"]

# First characters of formulas. Some spreadsheets take the full-width forms for the plain ones.
_STARTS = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
_NUMBER = re.compile(r"[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][+-]?[0-9]+)?")


def is_formula(cell: Any) -> bool:
    """Whether a cell is text that a spreadsheet may run: it starts with =, +, -, @, a tab or a line break.

    Numbers are none, also as text.

    Examples
    --------
    >>> [is_formula(cell) for cell in ("=1+1", "+49 30 1234", "-5", "+3.2", -5.0, "a=b")]
    [True, True, False, False, False, False]
    """
    return isinstance(cell, str) and cell[:1] in _STARTS and not _NUMBER.fullmatch(cell)


def formula_cells(frame: pd.DataFrame, *, header: bool = True) -> int:
    """Return how many cells of a table, and of its names of columns, `is_formula` finds."""
    names = sum(map(is_formula, frame.columns)) if header else 0
    return names + sum(sum(map(is_formula, _suspects(frame[name]))) for name in _text_columns(frame))


def _suspects(cells: pd.Series[Any]) -> list[str]:
    """Return the cells whose first character is that of a formula; most columns have none."""
    return [cell for cell in cells.tolist() if isinstance(cell, str) and cell[:1] in _STARTS]


def without_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with an apostrophe before all cells and names of columns that `is_formula` finds.

    Examples
    --------
    >>> import pandas as pd
    >>> without_formulas(pd.DataFrame({"note": ["=1+1", "-5"], "x": [-5, 7]})).values.tolist()
    [["'=1+1", -5], ['-5', 7]]
    """
    changed = {
        name: frame[name].astype(object).map(_safe, na_action="ignore").astype(object) for name in _text_columns(frame)
    }
    return frame.assign(**changed).rename(columns=_safe)


def formula_warning(count: int) -> str:
    """Return a warning about a number of cells in a file.

    Examples
    --------
    >>> formula_warning(2).partition(":")[2]
    ' use --spreadsheet-safe'
    """
    cells = "1 cell starts like a formula" if count == 1 else f"{count:,} cells start like formulas"
    return f"{cells} (with =, +, -, @, a tab or a line break), which spreadsheets run: use --spreadsheet-safe"


def _safe(cell: Any) -> Any:
    return f"'{cell}" if is_formula(cell) else cell


def _text_columns(frame: pd.DataFrame) -> list[Any]:
    """Return the names of the columns that may have text."""
    return [name for name, kind in frame.dtypes.items() if kind.kind == "O"]
