"""Error messages for wrong input on the command line, without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

__all__ = ["one_sentence_errors"]

_USAGE_ERROR = 2


@contextmanager
def one_sentence_errors() -> Iterator[None]:
    """Print the message of an error without a traceback, and exit with code 2.

    Bad values, files that cannot be read or written and missing extras are errors of the user. Any other exception is
    an error of the program and keeps its traceback.
    """
    try:
        yield
    except (ValueError, OSError, ImportError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(_USAGE_ERROR) from error
