"""The group of all commands, whose errors are one sentence."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from recuse.usage_errors import UNUSABLE, flush_output, print_error, sentence_of

__all__ = ["CommandGroup"]

# typer has its own copy of click or imports it, depending on the version
_ClickError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


class CommandGroup(TyperGroup):
    """Prints wrong options as one sentence on standard error, and with ``--json`` also as JSON."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that the arguments name."""
        words = sys.argv[1:] if args is None else list(args)
        try:
            result = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except _ClickError as error:
            if not standalone_mode:
                raise
            if "NoArgs" in type(error).__name__:
                error.show()
            else:
                print_error(_sentence(error), as_json="--json" in words)
            sys.exit(error.exit_code)
        except OSError as error:  # help that cannot be printed
            if not standalone_mode or "--debug" in words:
                raise
            print_error(sentence_of(error))
            sys.exit(UNUSABLE)
        if not standalone_mode:
            return result
        if not flush_output():
            print_error("standard output cannot be written")
            sys.exit(UNUSABLE)
        sys.exit(result if isinstance(result, int) else 0)


def _sentence(error: Any) -> str:
    message = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")
    context = getattr(error, "ctx", None)
    return message if context is None else f"{message}; see {context.command_path} --help"
