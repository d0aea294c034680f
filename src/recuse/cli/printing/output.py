"""Messages, warnings and JSON of the commands."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import typer
from rich.console import Console, RenderableType

from recuse.phrases import counted, short

__all__ = ["Output", "counted", "plain", "short"]


@dataclass
class Output:
    """Where a command prints.

    Parameters
    ----------
    as_json : bool
        Print one JSON object to standard output instead of messages.
    quiet : bool
        Print no messages, only warnings.
    to_stderr : bool
        Print messages to standard error, since standard output is for the data.
    """

    as_json: bool = False
    quiet: bool = False
    to_stderr: bool = False
    warned: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._console = Console(stderr=self.to_stderr, highlight=False)

    @property
    def silent(self) -> bool:
        """Whether messages are left out."""
        return self.as_json or self.quiet

    def say(self, message: RenderableType = "") -> None:
        """Print a message or a table; text may have the markup of Rich."""
        if not self.silent:
            # a terminal gets lines that break between words, a file or a program gets whole lines
            whole = isinstance(message, str) and not self._console.is_terminal
            self._console.print(message, soft_wrap=whole)
            self._console.file.flush()  # a long fit may follow

    def warn(self, message: str) -> None:
        """Print a warning as one line, once."""
        if message in self.warned:
            return
        self.warned.append(message)
        if not self.as_json:
            typer.echo(f"warning: {message}", err=True)

    @contextmanager
    def warnings_as_lines(self) -> Iterator[None]:
        """Print the warnings of the library when the block ends, each once; those of other libraries are left out."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            yield
        for warning in caught:
            self.warn(_line(warning.message))

    def finish(self, result: dict[str, Any]) -> None:
        """Print the result as JSON, if that is wanted."""
        if self.as_json:
            typer.echo(json.dumps(plain({**result, "warnings": self.warned}), allow_nan=False))


def _line(message: Any) -> str:
    text = " ".join(str(message).split())
    # the advice that follows the first sentence names classes and parameters
    return text.partition(". Try ")[0] if type(message).__name__ == "RejectionWarning" else text


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
