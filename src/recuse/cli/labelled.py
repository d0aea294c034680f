"""A table with true targets, read for a model file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recuse.cli import options
from recuse.cli.costs import CostChoice
from recuse.cli.output import Output, counted
from recuse.usage_errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from recuse.model_file.served import ServedModel
    from recuse.model_file.table_report import TableProblem

__all__ = ["LabelledTable", "read_labelled"]


@dataclass(frozen=True)
class LabelledTable:
    """The rows with a target.

    Attributes
    ----------
    rows : DataFrame
    y : Series or DataFrame
    cost : float, str or None
        For `decide`.
    left_out : int
        Number of rows without a target.
    problems : list of TableProblem
    source : str
        Name of the table in messages.
    """

    rows: pd.DataFrame
    y: pd.Series[Any] | pd.DataFrame
    cost: float | str | None
    left_out: int
    problems: list[TableProblem]
    source: str

    def describe(self) -> str:
        """Return the number of rows in words."""
        note = f" ({counted(self.left_out, 'row')} without a target left out)" if self.left_out else ""
        return f"{counted(len(self.rows), 'row')} of {options.escaped(self.source)}{note}"


def read_labelled(
    model: ServedModel,
    data: str,
    target: list[str] | None,
    choice: CostChoice | None,
    encoding: str | None,
    output: Output,
    used: tuple[str, ...] = (),
) -> LabelledTable:
    """Read a table and its targets, and print how it differs from the training rows.

    Parameters
    ----------
    model : ServedModel
    data : str
        Path of the table.
    target : list of str or None
        Names of the target columns, if they differ from training.
    choice : CostChoice or None
    encoding : str or None
    output : Output
    used : tuple of str
        Other columns that are used, such as those of groups.
    """
    from recuse.cli import served_table
    from recuse.cli.columns import target_of
    from recuse.table_files import source_name

    names = _target_names(model, target)
    table = served_table.read_for(model, data, encoding)
    source = source_name(data)
    y = target_of(table, names, source)
    known = y.notna() if y.ndim == 1 else y.notna().all(axis=1)
    if not known.any():
        raise ValueError(f"no row of {source} has a target")
    table, y = table[known], y[known]
    problems = served_table.problems_of(model, table, source)
    cost = served_table.checked_cost(choice, model, table, source)
    other = {*names, *used, *(each for each in (cost, model.cost_) if isinstance(each, str))}
    served_table.print_problems(problems, other, output)
    return LabelledTable(table, y, cost, int((~known).sum()), problems, source)


def _target_names(model: ServedModel, given: list[str] | None) -> list[str]:
    stored: Any = model.info()["targets"]
    if given is None and stored["names"] is None:
        raise UsageError("the model file has no name of the target: give --target")
    names = list(given or stored["names"])
    if len(names) != stored["count"]:
        raise UsageError(f"--target must be given {counted(stored['count'], 'time')}, once for each target")
    return names
