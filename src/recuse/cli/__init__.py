"""The command line, with one module for each command."""

from recuse.cli.app import app

__all__ = ["app"]
