"""The BreastPathQ data set of tissue patches and their cellularity, read from a folder."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from recuse.images.dataset import ImageFiles, OnError, Reading
from recuse.images.files import list_files, require_folder

_COLUMNS = ["slide", "rid", "y"]
_HOW_TO_GET = """\
BreastPathQ (SPIE-AAPM-NCI challenge 2019; Martel et al., "Assessment of Residual Breast Cancer Cellularity after
Neoadjuvant Chemotherapy using Digital Pathology", The Cancer Imaging Archive) may not be redistributed. Register at
https://breastpathq.grand-challenge.org or ask The Cancer Imaging Archive (https://www.cancerimagingarchive.net) for it,
unpack it and pass the folder of the labels. Expected layout, 2,579 labelled patches:
    <root>/train_labels.csv, val_labels.csv      columns slide, rid, y with y in [0, 1]
    <root>/train/<slide>_<rid>.tif
    <root>/validation/<slide>_<rid>.tif"""


class BreastPathQ(ImageFiles):
    """Patches of breast tissue and their tumour cellularity, from the folder of BreastPathQ.

    The data set may not be redistributed; if the folder is missing, the error explains how to obtain it. Patches are
    resized once and cached.

    Parameters
    ----------
    root : path
        Folder with the patches `<slide>_<rid>.tif` and the CSV files of their labels, at any depth. If two folders
        contain a patch of the same name, `train_labels.csv` refers to the one in `train`, and `val_labels.csv` to the
        one in `val` or `validation`. Patches without a label are ignored.
    labels : path, sequence of paths or None, default=None
        CSV files with the columns slide, rid and y; None is all such files in `root`.
    size : int, default=224
        Patches are resized to `size` by `size`.
    cache : path or None, default=None
        Folder for the resized patches (0.4 GB at size 224); None is `.recuse_cache` in `root`.
    on_error : {"raise", "skip"}, default="raise"
        Raise an error that names a damaged or missing patch, or leave it out and list it in `skipped`.
    verbose : bool, default=False
        Whether to show progress.

    Raises
    ------
    FileNotFoundError
        If the folder is missing or contains no labels.
    ValueError
        If a label is not in [0, 1], or a patch is labelled twice.
    OSError
        If a patch is missing or cannot be read and `on_error` is "raise".

    Examples
    --------
    >>> from recuse import datasets
    >>> datasets.BreastPathQ("no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: no/such/folder must be a folder with the images of BreastPathQ, got nothing there.
    ...
    """

    def __init__(
        self,
        root: str | Path,
        *,
        labels: str | Path | Sequence[str | Path] | None = None,
        size: int = 224,
        cache: str | Path | None = None,
        on_error: OnError = "raise",
        verbose: bool = False,
    ) -> None:
        folder = require_folder(root, "BreastPathQ", _HOW_TO_GET)
        tables = _find_tables(folder) if labels is None else _read_tables(labels)
        if not tables:
            wanted = f"{folder} must contain a CSV with the columns {', '.join(_COLUMNS)}, got none."
            raise FileNotFoundError(f"{wanted}\n{_HOW_TO_GET}")
        files, y = _match(tables, folder)
        self._read_files(files, y, folder, Reading(size, cache, on_error, verbose))


def _find_tables(root: Path) -> dict[Path, pd.DataFrame]:
    tables = {file: _read_table(file) for file in list_files(root, (".csv",))}
    return {file: table for file, table in tables.items() if set(_COLUMNS) <= set(table.columns)}


def _read_tables(labels: str | Path | Sequence[str | Path]) -> dict[Path, pd.DataFrame]:
    files = [Path(file) for file in ([labels] if isinstance(labels, str | Path) else labels)]
    tables = {file: _read_table(file) for file in files}
    for file, table in tables.items():
        if not set(_COLUMNS) <= set(table.columns):
            raise ValueError(f"{file} must have the columns {', '.join(_COLUMNS)}, got {', '.join(table.columns)}")
    return tables


def _read_table(file: Path) -> pd.DataFrame:
    table = pd.read_csv(file, dtype=str, keep_default_na=False, skipinitialspace=True)
    return table.rename(columns=lambda name: str(name).strip().lower())


def _match(tables: Mapping[Path, pd.DataFrame], root: Path) -> tuple[list[Path], npt.NDArray[np.float64]]:
    """Find the file of every label, in the order of the tables; missing files are reported when they are read."""
    patches: dict[str, list[Path]] = defaultdict(list)
    for file in list_files(root, (".tif", ".tiff")):
        patches[file.stem].append(file)
    found: dict[Path, float] = {}
    for source, table in tables.items():
        for line, (slide, rid, y) in enumerate(zip(*(table[name] for name in _COLUMNS), strict=True), start=2):
            where = f"in line {line} of {source}"
            patch = _locate(f"{slide.strip()}_{rid.strip()}", patches, source, root)
            if patch in found:
                raise ValueError(f"a patch must be labelled once, got {patch.stem} again {where}")
            found[patch] = _score(y, where)
    return list(found), np.array(list(found.values()))


def _locate(stem: str, patches: Mapping[str, list[Path]], source: Path, root: Path) -> Path:
    """Return the only patch of this name, or the only one in the folder that the labels are named after."""
    part = source.stem.lower().partition("_")[0]  # train of train_labels.csv
    known = patches.get(stem, [])
    named = [file for file in known if _in_folder_of(part, file.relative_to(root).parts[:-1])]
    candidates = named or known
    if len(candidates) > 1:
        several = ", ".join(file.relative_to(root).as_posix() for file in candidates)
        raise ValueError(f"a label of {source} must refer to one patch, got {several} for {stem}")
    if candidates:
        return candidates[0]
    folder = next((name for name in (part, "validation") if name.startswith(part) and (root / name).is_dir()), "")
    return root / folder / f"{stem}.tif"


def _in_folder_of(part: str, folders: Iterable[str]) -> bool:
    return any(folder.lower().startswith(part) for folder in folders)


def _score(text: str, where: str) -> float:
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"y must be a number in [0, 1], got {text!r} {where}")
    return score
