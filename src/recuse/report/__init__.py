"""One self-contained HTML page about a model and its decisions."""

from recuse.report.page import write

__all__ = ["write"]
