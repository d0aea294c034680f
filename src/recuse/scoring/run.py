"""Decisions about files of any size, given by their paths."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from recuse.model_file.served import ServedModel
from recuse.scoring.file_run import Engine, Run
from recuse.scoring.inputs import open_inputs
from recuse.scoring.plan import ModelSource, Plan, chosen_cost, kept_names, table_schema
from recuse.scoring.summary import ScoringSummary

__all__ = ["open_run", "score_files"]


def score_files(
    model: str | os.PathLike[str] | ServedModel,
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    cost: float | str | None = None,
    certificate: int | None = None,
    keep: Sequence[str] = (),
    keep_all: bool = False,
    jobs: int | None = None,
    engine: Engine = "local",
    scheduler: str | None = None,
    encoding: str | None = None,
    spreadsheet_safe: bool = False,
    progress: bool = False,
) -> ScoringSummary:
    """Decide about the rows of a file or of a folder of Parquet files, and write the decisions.

    Memory does not grow with the size of the files. The output appears under its name when it is complete. A run that
    was interrupted or killed continues if it is started again with the same arguments; its finished parts are in a
    hidden folder beside the output. The output does not depend on the number of processes, nor on interruptions.

    Parameters
    ----------
    model : path-like or ServedModel
    source : path-like
        A Parquet, Arrow or CSV file, or a folder of Parquet files, which are one table in the order of their names.
    output : path-like
        A file, whose ending gives the format; or a folder, if it ends with "/" or is one: then each input has a file of
        its name there.
    cost : float or str, optional
        Used instead of the cost of the model: a number, or the name of a column.
    certificate : int, optional
        Decide by this certificate of the model file, counted from 1.
    keep : sequence of str
        Columns of the data to write, too.
    keep_all : bool, default=False
        Write all columns of the data, too.
    jobs : int, optional
        Number of processes; by default one for small files, else one for each core.
    engine : {"local", "dask"}
    scheduler : str, optional
        Address of the Dask scheduler. Its workers must have the same files under the same paths.
    encoding : str, optional
        Encoding of a CSV file, UTF-8 by default.
    spreadsheet_safe : bool, default=False
        Write an apostrophe before cells of a CSV file that spreadsheets would run as formulas: texts that start with
        =, +, -, @, a tab or a line break, and are not numbers.
    progress : bool, default=False
        Whether to show a progress bar on standard error.

    Returns
    -------
    ScoringSummary

    Raises
    ------
    ValueError
        If the data or the arguments cannot be used; the message names the file and the row.
    OSError
        If a file cannot be read or written, or another run is writing the same output.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> import recuse
    >>> cars = pd.DataFrame({"weight": range(60)})
    >>> model = recuse.estimators.knn_plug(cost=1.0, random_state=0).fit(cars, cars["weight"] * 2.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "cars.csv"
    ...     cars.to_csv(file, index=False)
    ...     recuse.save(model, Path(folder) / "cars.recuse")
    ...     summary = score_files(Path(folder) / "cars.recuse", file, Path(folder) / "decisions.csv")
    >>> summary.rows
    60
    """
    with open_run(
        model,
        source,
        cost=cost,
        certificate=certificate,
        keep=keep,
        keep_all=keep_all,
        encoding=encoding,
        spreadsheet_safe=spreadsheet_safe,
    ) as run:
        return run.write(os.fspath(output), jobs=jobs, engine=engine, scheduler=scheduler, progress=progress)


@contextmanager
def open_run(
    model: str | os.PathLike[str] | ServedModel | ModelSource,
    source: str | os.PathLike[str],
    *,
    cost: float | str | None = None,
    certificate: int | None = None,
    keep: Sequence[str] = (),
    keep_all: bool = False,
    encoding: str | None = None,
    spreadsheet_safe: bool = False,
) -> Iterator[Run]:
    """Open the files of a run, and check that they have the columns; the parameters are those of `score_files`."""
    if isinstance(keep, str):
        raise ValueError(f"keep must be a sequence of names, got the text {keep!r}")
    origin = ModelSource.of(model)
    served = origin.load()
    table_schema(served)
    value = chosen_cost(served, cost, certificate)
    with open_inputs(os.fspath(source), encoding) as inputs:
        kept = tuple(inputs.names if keep_all else dict.fromkeys(keep))
        plan = Plan(
            origin,
            value,
            certificate,
            kept,
            kept_names(kept, list(served.result_types)),
            encoding=encoding,
            spreadsheet_safe=spreadsheet_safe,
        )
        yield Run(os.fspath(source), plan, served, inputs, inputs.columns(served, plan))
