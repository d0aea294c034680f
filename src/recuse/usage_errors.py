"""Error messages of the command line: one sentence on standard error instead of a traceback, and exit codes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import typer

UNUSABLE = 1  # the data or the model cannot be used
WRONG_USAGE = 2
INTERRUPTED = 130


class UsageError(ValueError):
    """Options or arguments that are wrong or do not fit together."""


@contextmanager
def one_sentence_errors(*, code: int = WRONG_USAGE, debug: bool = False, as_json: bool = False) -> Iterator[None]:
    """Print the message of an error without a traceback, and exit with a code.

    Bad values, files that cannot be read or written and missing extras are errors of the user. Any other exception is
    an error of the program and keeps its traceback.

    Parameters
    ----------
    code : int
        Exit code of errors other than `UsageError`, whose code is 2. An interrupted command exits with 130.
    debug : bool
        Whether to keep tracebacks.
    as_json : bool
        Whether to print the message as JSON to standard output, too.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        print_error("interrupted", as_json=as_json)
        raise typer.Exit(INTERRUPTED) from interrupt
    except BrokenPipeError:  # the reader of standard output has enough
        raise
    except (ValueError, OSError, ImportError) as error:
        if debug:
            raise
        print_error(sentence_of(error), as_json=as_json)
        raise typer.Exit(WRONG_USAGE if isinstance(error, UsageError) else code) from error


def print_error(message: str, *, as_json: bool = False) -> None:
    """Print a message as one line on standard error and, for programs, as JSON on standard output."""
    typer.echo(f"error: {message}", err=True)
    if as_json:
        with suppress(OSError):  # standard output may be the reason of the error
            typer.echo(json.dumps({"error": message}))


def flush_output() -> bool:
    """Write what standard output holds back; return False if that is an error."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # the interpreter would try again at its end, and print a traceback
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return isinstance(error, BrokenPipeError)  # the reader has enough
    return True


def sentence_of(error: Exception) -> str:
    """Return the message of an error on one line; an error of the operating system names the file."""
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"
    return " ".join(message.split()) or type(error).__name__
