"""A table with true targets, read for a model file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from recuse.cli.inputs import options
from recuse.cli.inputs.costs import CostChoice
from recuse.cli.printing.output import Output, counted
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
        As the model reads them.
    y : Series or DataFrame
    cost : float or Series
        For `decide`.
    cells : DataFrame
        The same rows with the names of the file.
    left_out : int
        Number of rows without a target.
    problems : list of TableProblem
    source : str
        Name of the table in messages.
    """

    rows: pd.DataFrame
    y: pd.Series[Any] | pd.DataFrame
    cost: float | pd.Series[float]
    cells: pd.DataFrame
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
    option: str = "--target",
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
    option : str
        The option that gives the names of the target columns.
    """
    from recuse.cli.inputs import served_table
    from recuse.cli.inputs.columns import target_of
    from recuse.files.names import source_name

    names, chosen = _target_names(model, target, option), served_table.chosen_cost(choice, model)
    _check_roles(names, chosen, used, option)
    table = served_table.read_for(model, data, encoding)
    source = source_name(data)
    y = target_of(table, names, source)
    known = y.notna() if y.ndim == 1 else y.notna().all(axis=1)
    if not known.any():
        raise ValueError(f"no row of {source} has a target")
    table, y = table[known], y[known]
    cost = served_table.row_costs(chosen, model, table, source)
    other = {*names, *(each for each in (chosen, model.cost_) if isinstance(each, str))}
    rows = served_table.rows_for(model, table, {*other, *_no_features(model, table, other, used)})
    problems = served_table.problems_of(model, rows, source)
    served_table.print_problems(problems, {*other, *used}, output)
    return LabelledTable(rows, y, cost, table, int((~known).sum()), problems, source)


def _check_roles(targets: list[str], cost: float | str, used: tuple[str, ...], option: str) -> None:
    """Raise an error if a target has another role."""
    for other, names in {"--cost": (cost,), "--group": used}.items():
        twice = [name for name in names if name in targets]
        if twice:
            raise UsageError(f"column {twice[0]!r} must have one role, got {option} and {other}")


def _no_features(model: ServedModel, table: pd.DataFrame, other: set[str], used: tuple[str, ...]) -> tuple[str, ...]:
    """Return the used columns that a model of an array does not read, since the table has more columns than it."""
    from recuse.cli.inputs.served_table import table_schema

    return used if len(set(table.columns) - other) > len(table_schema(model).columns) else ()


def _target_names(model: ServedModel, given: list[str] | None, option: str) -> list[str]:
    stored: Any = model.info()["targets"]
    if given is None and stored["names"] is None:
        raise UsageError(f"the model file has no name of the target: give {option}")
    names = list(given or stored["names"])
    if len(names) != stored["count"]:
        raise UsageError(f"{option} must be given {counted(stored['count'], 'time')}, once for each target")
    return names
