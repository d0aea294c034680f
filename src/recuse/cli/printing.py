"""What commands print: messages, facts, tables and JSON."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console, RenderableType
from rich.markup import escape

from recuse.inspection.savings import Prices, better_alternative, saved_per_row
from recuse.phrases import counted, short

if TYPE_CHECKING:
    from rich.table import Table

    from recuse.model_file.table_report import TableProblem

_SHARES = {"rejection_rate", "false_rejection_rate", "false_acceptance_rate"}
_MEANINGS = {
    "rcr_loss": "mean loss per row: its loss if accepted, its cost if rejected",
    "always_accept": "mean loss if every row were accepted",
    "always_reject": "mean cost if every row were rejected",
    "oracle": "smallest mean loss that is possible with these predictions",
    "rejection_rate": "share of rows that are rejected",
    "accepted_loss": "mean loss of the accepted rows",
    "rejected_loss": "mean loss of the rejected rows, had they been accepted",
    "false_rejection_rate": "share rejected of the rows whose loss is below their cost",
    "false_acceptance_rate": "share accepted of the rows whose loss is at least their cost",
}
_PROBLEMS = {
    "wrong type": "{rows} with {example!r} where training had {expected}",
    "new category": "{rows} with a category that training did not have, such as {example!r}",
    "new missing value": "{rows} without a value, which training always had",
    "outside the training range": "{rows} outside the training range {expected}, such as {example}",
}
_LEADERBOARD = ("part", "name", "weight", "rcr_loss", "note")
_PARTS = {"blend": "blend", "regressor": "regressor", "risk": "risk model"}


@dataclass
class Output:
    """Where a command prints.

    Parameters
    ----------
    as_json : bool
        Print one JSON object to standard output instead of messages.
    silent : bool
        Print no messages, only warnings.
    to_stderr : bool
        Print messages to standard error, since standard output is for the data.
    """

    as_json: bool = False
    silent: bool = False
    to_stderr: bool = False
    warned: list[str] = field(default_factory=list)

    def say(self, message: RenderableType = "") -> None:
        """Print a message or a table; text may have the markup of Rich."""
        if not self.silent:
            console = Console(stderr=self.to_stderr, highlight=False)
            # a terminal gets lines that break between words, a file or a program gets whole lines
            console.print(message, soft_wrap=isinstance(message, str) and not console.is_terminal)
            console.file.flush()  # a long fit may follow

    def facts(self, facts: Mapping[str, str], width: int = 9) -> None:
        """Print one line for each name, in a column of this width, and its fact."""
        for name, text in facts.items():
            self.say(f"[bold]{name:{width}}[/] {escape(text)}")

    def warn(self, message: str) -> None:
        """Print a warning as one line, once."""
        if message in self.warned:
            return
        self.warned.append(message)
        if not self.as_json:
            typer.echo(f"warning: {message}", err=True)

    def problems(self, problems: Iterable[TableProblem], used: Collection[str]) -> None:
        """Print each problem of a table as one line; `used` are columns that are not features but have another use."""
        ignored = []
        for each in problems:
            if each.problem in _PROBLEMS:
                facts = {**vars(each), "rows": counted(each.rows, "row")}
                self.warn(f"column {each.column}: {_PROBLEMS[each.problem].format(**facts)}")
            elif each.column not in used:
                ignored.append(str(each.column))
        if ignored:
            self.say(f"Columns that the model does not use: {escape(short(ignored, 10))}.")

    @contextmanager
    def warnings_as_lines(self, kind: type[Warning] = UserWarning) -> Iterator[None]:
        """Print the warnings of a kind when the block ends, each once; all others are left out."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", kind)
            yield
        for warning in caught:
            text = " ".join(str(warning.message).split())
            # the advice that follows the first sentence names classes and parameters
            advises = type(warning.message).__name__ == "RejectionWarning"
            self.warn(text.partition(". Try ")[0] if advises else text)

    def finish(self, result: dict[str, Any]) -> None:
        """Print the result as JSON, if that is wanted."""
        if self.as_json:
            typer.echo(json.dumps(plain({**result, "warnings": self.warned}), allow_nan=False))


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it; NaN and other missing values become None.

    Examples
    --------
    >>> plain({"loss": float("nan"), "names": ("a", "b")})
    {'loss': None, 'names': ['a', 'b']}
    """
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if type(value).__name__ in ("NAType", "NaTType"):  # pandas is not imported for this
        return None
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def size_of(path: Path) -> str:
    """Return the size of a file in words."""
    size = path.stat().st_size
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.1f} kB"


def table_of(
    columns: Sequence[str],
    lines: Iterable[tuple[Sequence[str], str | None]],
    *,
    numbers: Collection[str] = (),
    title: str | None = None,
    caption: str | None = None,
) -> Table:
    """Return a table for the terminal.

    Parameters
    ----------
    columns : sequence of str
    lines : iterable of pairs
        The cells of each line, which may have the markup of Rich, and its style.
    numbers : collection of str
        Columns whose cells end at the right.
    title, caption : str, optional
    """
    from rich.table import Table

    table = Table(title=title, caption=caption, header_style="bold", title_justify="left", caption_justify="left")
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left")
    for cells, style in lines:
        table.add_row(*cells, style=style)
    return table


def as_text(name: str, value: float) -> str:
    """Return a measure as text: a share in percent, "-" if there is none.

    Examples
    --------
    >>> as_text("rejection_rate", 0.256), as_text("rcr_loss", 9.3571), as_text("accepted_loss", float("nan"))
    ('26%', '9.357', '-')
    """
    if math.isnan(value):
        return "-"
    return f"{value:.0%}" if name in _SHARES else f"{value:.4g}"


def comparison_table(measures: Mapping[str, float], prices: Prices | None) -> Table:
    """Return a table of accepting all rows, rejecting all rows, and the decisions of the model."""
    columns = ("decision", "rows rejected", "loss per row", *(["money per row"] if prices else []))
    decisions = (
        ("accept all rows", 0.0, measures["always_accept"], None),
        ("reject all rows", 1.0, measures["always_reject"], None),
        ("recuse", measures["rejection_rate"], measures["rcr_loss"], "bold green"),
    )
    lines = []
    for name, rejected, loss, style in decisions:
        price = [f"{loss * prices.per_unit:,.2f}"] if prices else []
        lines.append(((name, as_text("rejection_rate", rejected), as_text("rcr_loss", loss), *price), style))
    return table_of(columns, lines, numbers=columns[1:])


def explained_table(measures: Mapping[str, float]) -> Table:
    """Return a table of all measures with their meaning."""
    lines = [
        ((name, as_text(name, measures[name]), meaning), "bold" if name == "rcr_loss" else None)
        for name, meaning in _MEANINGS.items()
    ]
    return table_of(("measure", "value", "meaning"), lines, numbers=("value",))


def saved_facts(measures: Mapping[str, float] | None, loss: str, prices: Prices | None) -> dict[str, Any]:
    """Return what the model saves per 1,000 rows, None without measures, and the unit: money or that of the loss."""
    scale, unit = (1.0, f"{loss} loss") if prices is None else (prices.per_unit, "money")
    saved = None if measures is None else 1000 * scale * saved_per_row(measures)
    return {"saved_per_1000_rows": saved, "saved_unit": unit}


def savings_sentence(measures: Mapping[str, float], loss: str, prices: Prices | None) -> str:
    """Say what the model saves per 1,000 rows, in money or in units of the loss."""
    saved = saved_facts(measures, loss, prices)["saved_per_1000_rows"]
    unit = f"units of the {loss} loss" if prices is None else "of money"
    better = "accepting" if measures["always_accept"] <= measures["always_reject"] else "rejecting"
    amount = f"{abs(saved):,.0f}" if abs(saved) >= 100 else f"{abs(saved):.3g}"
    if saved == 0:
        return f"Rejection does not pay on these rows: the model costs as much as {better} all rows."
    if saved < 0:
        return (
            f"Rejection does not pay on these rows: per 1,000 rows the model would cost [bold red]{amount}[/] "
            f"{unit} more than {better} all rows."
        )
    return (
        f"Per 1,000 rows the model would save [bold green]{amount}[/] {unit} "
        f"({saved_per_row(measures) / better_alternative(measures):.0%}), compared with {better} all rows, "
        "the better of the two."
    )


def leaderboard_records(leaderboard: Any) -> list[dict[str, Any]]:
    """Return the lines of a leaderboard, a DataFrame or columns, as plain records; none if there is no leaderboard."""
    if leaderboard is None:
        return []
    columns = [list(leaderboard[name]) for name in _LEADERBOARD]
    return [dict(zip(_LEADERBOARD, line, strict=True)) for line in zip(*columns, strict=True)]


def leaderboard_table(records: list[dict[str, Any]]) -> Table:
    """Return a table of the candidates; those with the highest weights come first."""
    notes = any(record["note"] for record in records)
    lines = []
    for part, kind in _PARTS.items():
        for record in sorted((each for each in records if each["part"] == part), key=lambda each: -each["weight"]):
            cells = [kind, record["name"], f"{record['weight']:.0%}", as_text("rcr_loss", float(record["rcr_loss"]))]
            lines.append(([*cells, record["note"] or ""][: 5 if notes else 4], None if record["weight"] > 0 else "dim"))
    return table_of(
        ("part", "name", "weight", "loss", *(["note"] if notes else [])),
        lines,
        numbers=("weight", "loss"),
        title="Models in the blend",
        caption="Loss with this model alone, as expected of models fitted to all rows.",
    )
