"""The command `recuse serve`: decide over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recuse.cli.inputs import options
from recuse.usage_errors import UNUSABLE, UsageError, one_sentence_errors

__all__ = ["serve"]


def serve(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model files; the first is the default.")],
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    queue: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File of the review queue, which keeps rejected rows.")
    ] = None,
    audit_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of accepted rows that go to the review queue at random.")
    ] = 0.02,
    training: Annotated[
        list[str] | None,
        typer.Option(metavar="[MODEL=]FILE", help="Table of training rows, to explain decisions; can be repeated."),
    ] = None,
    debug: options.Debug = False,
) -> None:
    """Serve model files over HTTP.

    \b
    Examples:
      recuse serve cars.recuse
      recuse serve cars.recuse homes.recuse --port 0
      recuse serve cars.recuse --queue reviews.sqlite --training cars.csv
    """  # noqa: D301
    with one_sentence_errors(code=UNUSABLE, debug=debug):
        from recuse.serving.server import run_server
        from recuse.serving.settings import Settings, models_by_name

        by_name = models_by_name(models)
        settings = Settings(
            by_name,
            queue=queue,
            audit_share=audit_share if queue is not None else 0.0,
            training=_training(training or [], next(iter(by_name))),
        )
        run_server(settings, host, port, workers, _print_address)


def _training(options: list[str], default: str) -> dict[str, Path]:
    """Return tables of training rows by name of the model."""
    tables: dict[str, Path] = {}
    for text in options:
        name, sign, path = text.partition("=")
        model, table = (name, path) if sign else (default, text)
        if model in tables:
            raise UsageError(f"--training must be given once for each model, got {model!r} twice")
        tables[model] = Path(table)
    return tables


def _print_address(address: str) -> None:
    typer.echo(f"Serving at {address}")
