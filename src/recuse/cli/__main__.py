"""Run the command line as ``python -m recuse.cli``."""

from recuse.cli.app import app

app(prog_name="recuse")
