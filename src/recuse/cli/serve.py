"""The command `recuse serve`: decide over HTTP."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from recuse.cli import options
from recuse.cli.options import option
from recuse.usage_errors import UNUSABLE, UsageError, one_sentence_errors

_KEY_VARIABLE = "RECUSE_API_KEY"
_MEBIBYTE = 2**20


def serve(
    models: Annotated[list[Path], typer.Argument(metavar="MODEL...", help="Model files; the first is the default.")],
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8000,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    queue: Annotated[Path | None, option("FILE", "File of the review queue, which keeps rejected rows.")] = None,
    audit_share: Annotated[
        float, typer.Option(min=0, max=1, help="Share of accepted rows that go to the review queue at random.")
    ] = 0.02,
    training: Annotated[
        list[str] | None, option("[MODEL=]FILE", "Table of training rows, to explain decisions; can be repeated.")
    ] = None,
    certificate: Annotated[
        list[str] | None,
        option("[MODEL=]N", "Decide at the threshold of certificate N of the file, counted from 1; can be repeated."),
    ] = None,
    api_key_file: Annotated[
        Path | None, option("FILE", f"File with a key for everything; or set {_KEY_VARIABLE}.")
    ] = None,
    keys: Annotated[
        Path | None,
        option("FILE", "TOML file with keys by role, [score], [review], [metrics] and [admin], and by name."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen at an address that others can reach without any key.")
    ] = False,
    allowed_hosts: Annotated[
        list[str] | None, option("NAME", "Name that requests may use for this service; can be repeated.")
    ] = None,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows in one request.")] = 10_000,
    max_cells: Annotated[int, typer.Option(min=1, help="Most rows times columns in one request.")] = 1_000_000,
    max_megabytes: Annotated[int, typer.Option(min=1, help="Largest body of a request, in MiB.")] = 16,
    max_requests: Annotated[int, typer.Option(min=1, help="Most requests at once in one process.")] = 256,
    max_connections: Annotated[int, typer.Option(min=1, help="Most open connections of one process.")] = 1000,
    rate_limit: Annotated[
        float | None, option("N", "Most requests per second from one key or address.", min=0.001)
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one request.")] = 30.0,
    head_timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds for the request line and the headers of a request.")
    ] = 10.0,
    reload_seconds: Annotated[
        float, typer.Option(min=0, help="Time between two looks for replaced model files; 0 never looks.")
    ] = 1.0,
    debug: options.Debug = False,
) -> None:
    """Serve model files over HTTP, without TLS, which is left to a proxy.

    A replaced model file is loaded without a restart. The routes are listed at /docs.

    \b
    Examples:
      recuse serve cars.recuse
      recuse serve cars.recuse homes.recuse --port 0 --workers 2
      recuse serve cars.recuse --queue reviews.sqlite --training cars.csv
      recuse serve certified.recuse --certificate 1
      recuse serve cars.recuse --host 0.0.0.0 --keys keys.toml --allowed-hosts decisions.example.org
    """  # noqa: D301
    with one_sentence_errors(code=UNUSABLE, debug=debug):
        from recuse.serving.access import is_loopback, read_keys
        from recuse.serving.server import run_server
        from recuse.serving.settings import Settings, models_by_name

        api_key = _api_key(api_key_file)
        if api_key is None and keys is None and not insecure and not is_loopback(host):
            raise UsageError(
                f"--host {host} can be reached by others, so it needs a key: set {_KEY_VARIABLE}, or give --keys or "
                "--api-key-file, or --insecure to serve everybody"
            )
        by_name = models_by_name(models)
        settings = Settings(
            by_name,
            queue=queue,
            audit_share=audit_share if queue is not None else 0.0,
            training={name: Path(table) for name, table in _by_model("--training", training, by_name).items()},
            certificates=_certificates(_by_model("--certificate", certificate, by_name)),
            api_key=api_key,
            keys=() if keys is None else read_keys(keys),
            allowed_hosts=tuple(name.lower() for name in (*(allowed_hosts or ()), host, socket.gethostname()) if name),
            max_rows=max_rows,
            max_cells=max_cells,
            max_bytes=max_megabytes * _MEBIBYTE,
            max_requests=max_requests,
            max_connections=max_connections,
            rate_limit=rate_limit,
            timeout=timeout,
            head_timeout=head_timeout,
            reload_seconds=reload_seconds,
        )
        names = ", ".join(by_name)
        run_server(settings, host, port, workers, lambda address: typer.echo(f"Serving {names} at {address}"))


def _by_model(option: str, given: list[str] | None, models: Iterable[str]) -> dict[str, str]:
    """Return the values of an option by name of the model, by default of the first."""
    by_name: dict[str, str] = {}
    for text in given or []:
        name, sign, value = text.partition("=")
        model, value = (name, value) if sign else (next(iter(models)), text)
        if model in by_name:
            raise UsageError(f"{option} must be given once for each model, got {model!r} twice")
        by_name[model] = value
    return by_name


def _certificates(given: dict[str, str]) -> dict[str, int]:
    for text in given.values():
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise UsageError(f"--certificate must be a number from 1, as in [MODEL=]N, got {text!r}")
    return {name: int(text) for name, text in given.items()}


def _api_key(file: Path | None) -> str | None:
    """Return the key of the file, or of the environment; a command line can be read by others."""
    if file is None:
        key = os.environ.get(_KEY_VARIABLE)
        return None if key is None else key.strip()  # secrets often end with a line break
    if _KEY_VARIABLE in os.environ:
        raise UsageError(f"--api-key-file and {_KEY_VARIABLE} cannot both be given")
    return file.read_text(encoding="utf-8").strip()
