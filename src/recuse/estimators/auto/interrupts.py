"""Ctrl-C during a fit: an error, or the end of the search with the models so far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

Result = TypeVar("Result")


class Interrupts:
    """Whether a fit goes on after Ctrl-C. With "keep" it does after the first one, and a second one ends it.

    Parameters
    ----------
    mode : {"raise", "keep"}

    Examples
    --------
    >>> interrupts = Interrupts("keep")
    >>> interrupts.goes_on(), interrupts.goes_on(), interrupts.seen
    (True, False, True)
    """

    def __init__(self, mode: Literal["raise", "keep"]) -> None:
        self.mode, self.seen = mode, False

    def goes_on(self) -> bool:
        """Record an interrupt, and return whether the fit goes on."""
        first, self.seen = not self.seen, True
        return first and self.mode == "keep"

    def repeat(self, step: Callable[[], Result]) -> Result:
        """Run a step that the model needs; start it again after an interrupt after which the fit goes on."""
        try:
            return step()
        except KeyboardInterrupt:
            if not self.goes_on():
                raise
            return step()
