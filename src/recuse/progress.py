"""Progress bars on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Report(Protocol):
    """Updates a progress bar."""

    def __call__(self, done: int, title: str | None = None) -> None:
        """Set the number of steps done so far and, if given, the title."""


@contextmanager
def progress_bar(title: str, total: int, *, show: bool = True) -> Iterator[Report]:
    """Show a bar while the block runs, if standard error is a terminal.

    Parameters
    ----------
    title : str
    total : int
        Number of steps.
    show : bool, default=True
        Whether to show the bar at all.

    Yields
    ------
    Report
        Takes the number of steps done so far and, optionally, a new title.

    Examples
    --------
    >>> with progress_bar("training", total=2, show=False) as done:
    ...     done(1)
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    disable = not (show and console.is_terminal)  # elsewhere Rich would print a blank line
    with Progress(*columns, console=console, disable=disable, transient=True) as progress:
        task = progress.add_task(title, total=total)

        def report(done: int, title: str | None = None) -> None:
            progress.update(task, completed=done, description=title)

        yield report
