"""Embedded tables, synthetic data of known Bayes risk, image data sets, and the paper's splits."""

from typing import TYPE_CHECKING

from recuse.datasets.splits import split
from recuse.datasets.synthetic import make_heteroscedastic
from recuse.datasets.tables import Dataset, load, names
from recuse.lazy_names import lazy_names

if TYPE_CHECKING:
    from recuse.images import AgeDB as AgeDB
    from recuse.images import BreastPathQ as BreastPathQ
    from recuse.images import make_cellularity
else:
    # They are imported when they are first used. The first two need an extra, so they are not in `__all__`.
    __getattr__, __dir__ = lazy_names(
        __name__, dict.fromkeys(("AgeDB", "BreastPathQ", "make_cellularity"), "recuse.images")
    )

__all__ = [
    "Dataset",
    "load",
    "make_cellularity",
    "make_heteroscedastic",
    "names",
    "split",
]
