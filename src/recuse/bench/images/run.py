"""Runs the image experiments and writes their tables, figures and page."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pandas as pd

from recuse.bench.command import reproducing_command
from recuse.bench.images import figures as image_figures
from recuse.bench.images.data import find_source, load_parts
from recuse.bench.images.page import write_image_page
from recuse.bench.images.spec import MODELS, ImageProtocol, ImageSpec, printed_in_target_units
from recuse.bench.images.training import Hardware
from recuse.bench.images.work_unit import KNOWN, YARDSTICKS, ImageWork, image_groups, is_main_process
from recuse.bench.paper.tables import COLUMNS, summarise, write_csv
from recuse.bench.runner import environment, group_seconds, run_groups
from recuse.bench.spec import METRICS, Paper
from recuse.bench.store import GroupStore, write_text
from recuse.bench.work_unit import Group
from recuse.surrogates import get

__all__ = ["adjusted", "run_images"]

_PACKAGES = ("recuse", "torch", "lightning", "torchmetrics", "monai", "numpy", "scikit-learn", "pandas", "pillow")
_CELL = ["dataset", "model", "surrogate", "cost", "metric"]


def adjusted(
    spec: ImageSpec,
    *,
    model: str | None = None,
    surrogates: Sequence[str] | None = None,
    costs: Sequence[float] | None = None,
    repeats: int | None = None,
    epochs: int | None = None,
    size: int | None = None,
    rows: int | None = None,
    precision: str = "32",
) -> ImageSpec:
    """Return a spec with some settings changed; Slow-Start and the number of rows keep their proportions.

    Examples
    --------
    >>> from recuse.bench.spec import load
    >>> spec = adjusted(load().images["agedb"], epochs=10, costs=[60.0])
    >>> spec.protocol.epochs, spec.protocol.slow_start, spec.costs
    (10, 4, (60.0,))
    """
    old = spec.protocol
    protocol = replace(old, precision=precision, size=size or old.size)
    if epochs is not None:
        protocol = replace(protocol, epochs=epochs, slow_start=round(old.slow_start * epochs / old.epochs))
    if rows is not None:
        if not spec.generated:
            raise ValueError(f"rows can be set for a generated data set only, got rows={rows} for {spec.name}")
        protocol = replace(protocol, rows=tuple(max(round(part * rows / old.rows[0]), 2) for part in old.rows))
    model = model or spec.model
    if model not in MODELS:
        raise ValueError(f"model must be one of {', '.join(MODELS)}, got {model!r}")
    return replace(
        spec,
        model=model,
        surrogates=tuple(get(name).name for name in surrogates or spec.surrogates),
        costs=tuple(costs or spec.costs),
        repeats=repeats or spec.repeats,
        protocol=protocol,
    )


def run_images(
    paper: Paper,
    spec: ImageSpec,
    output: Path,
    *,
    root: Path | None = None,
    hardware: Hardware | None = None,
    jobs: int = 1,
    draw: bool = True,
    progress: bool = True,
) -> pd.DataFrame:
    """Run one image data set at all costs and write the results.

    Parameters
    ----------
    paper : Paper
        Contains the printed numbers.
    spec : ImageSpec
        One of the paper's, or `adjusted`.
    output : Path
        Folder for ``<dataset>.csv``, figures, ``<dataset>.json`` with the protocol and the machine, ``README.md`` about
        all data sets that were run there, and ``groups/`` with finished results and the checkpoints of unfinished
        trainings, from which an interrupted run resumes.
    root : Path, optional
        Folder of the images, unless they are generated.
    hardware : Hardware, optional
    jobs : int
        Trainings that run in parallel; the numbers do not depend on it.
    draw : bool
        Also draw the figures.
    progress : bool

    Returns
    -------
    DataFrame
        The table in the CSV file.
    """
    hardware = hardware or Hardware()
    if jobs > 1 and hardware.devices > 1:
        raise ValueError(f"either jobs or devices can be more than one, got {jobs} and {hardware.devices}")
    source, protocol = find_source(spec, root)
    spec = replace(spec, protocol=protocol)
    groups = image_groups(spec.name, spec.model, spec.surrogates, spec.costs, spec.repeats)
    work = ImageWork(source, output / "groups" / "checkpoints" / spec.name, hardware)
    records = _run(groups, protocol, output / "groups", work, jobs, progress)
    table = image_table(records, spec, paper)
    if not is_main_process():
        return table
    write_csv(table, output / f"{spec.name}.csv")
    if draw:
        image_figures.losses_against_cost(table, spec, output / f"{spec.name}_losses.png")
        image_figures.contact_sheet(records, load_parts(source, 0), spec, output / f"{spec.name}_pictures.png")
    seconds = group_seconds(groups, protocol, output / "groups")["seconds"].sum()
    facts = {"command": _command(paper, spec, output), "scale": spec.printed_scale, "protocol": asdict(protocol)}
    facts |= {"processor seconds": round(float(seconds)), **environment(_PACKAGES)}
    write_text(output / f"{spec.name}.json", json.dumps(facts, indent=1) + "\n")
    write_image_page(paper, output)
    return table


def _run(
    groups: Sequence[Group], protocol: ImageProtocol, folder: Path, work: ImageWork, jobs: int, progress: bool
) -> pd.DataFrame:
    store = GroupStore(folder, protocol)
    missing = [group for group in groups if store.load(group) is None]
    work.slow_starts(missing, protocol, jobs)
    threads = work.hardware.threads
    records = run_groups(
        groups, protocol, folder, work=work, tidy=work.tidy, jobs=jobs, threads=threads, progress=progress
    )
    shutil.rmtree(work.folder, ignore_errors=True)  # all results are stored
    return records


def _command(paper: Paper, spec: ImageSpec, output: Path) -> str:
    """Return the command that reproduces the run, with the options that differ from the paper's spec."""
    usual, own = paper.images[spec.name], spec.protocol
    options = {
        "dataset": spec.name,
        "paper": None if paper.source is None else paper.source,
        "root": None if spec.generated else "FOLDER",
        "model": None if spec.model == usual.model else spec.model,
        "surrogates": None if spec.surrogates == usual.surrogates else list(spec.surrogates),
        "costs": None if spec.costs == usual.costs else list(spec.costs),
        "repeats": None if spec.repeats == usual.repeats else spec.repeats,
        "epochs": None if own.epochs == usual.protocol.epochs else own.epochs,
        "size": None if own.size == usual.protocol.size else own.size,
        "rows": None if own.rows == usual.protocol.rows else own.rows[0],
        "precision": None if own.precision == "32" else own.precision,
    }
    return reproducing_command("images", {**options, "jobs": 2, "o": output})


def image_table(records: pd.DataFrame, spec: ImageSpec, paper: Paper) -> pd.DataFrame:
    """Return the cells of one data set in the order of the spec, with the printed mean and deviation if any.

    Costs and losses are in squared units of the target.
    """
    metrics = [*METRICS, *YARDSTICKS, *(name for name in KNOWN if name in records)]
    printed = printed_in_target_units(paper.printed, spec).rename(columns={"mean": "paper_mean", "std": "paper_std"})
    ours = summarise(records, metrics)
    table = ours.merge(printed[[*_CELL, "paper_mean", "paper_std"]], on=_CELL, how="left")
    order: dict[str, list[Any]] = {
        "surrogate": list(spec.surrogates),
        "cost": list(spec.costs),
        "metric": [*METRICS, "sup", *metrics[6:]],
    }
    ranks = table.assign(**{column: table[column].map(values.index) for column, values in order.items()})
    return table.loc[ranks.sort_values(list(order)).index, COLUMNS].reset_index(drop=True)
