"""The command that reproduces a run, for the pages of results."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

__all__ = ["reproducing_command"]


def reproducing_command(experiment: str, options: Mapping[str, object]) -> str:
    """Give the command that runs the same experiments again.

    Parameters
    ----------
    experiment : str
        The command below ``recuse bench``.
    options : mapping of str to object
        By name. None stands for the default and is left out, True for a flag; sequences are joined by commas.

    Examples
    --------
    >>> reproducing_command("paper", {"tables": ["mlp"], "costs": [4.0, 6.0], "repeats": None, "no-figures": True})
    'recuse bench paper --tables mlp --costs 4,6 --no-figures'
    """
    words = ["recuse", "bench", experiment]
    for name, value in options.items():
        if value is not None and value is not False:
            words += [f"-{name}" if len(name) == 1 else f"--{name}"]
            words += [] if value is True else [_as_text(value)]
    return shlex.join(words)


def _as_text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(f"{each:g}" if isinstance(each, float) else str(each) for each in value)
    return str(value)
