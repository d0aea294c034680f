"""Progress bars: a title and a total in, a callback that moves the bar out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(title: str, total: int, *, show: bool = True) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while the block runs; the callback takes how much is done so far.

    Examples
    --------
    >>> with progress_bar("training", total=2, show=False) as done:
    ...     done(1)
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not show, transient=True) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)
