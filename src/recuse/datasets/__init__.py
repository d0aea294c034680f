"""Data to try a rejector on: embedded tables, the paper's splits, and a set whose Bayes risk is known."""

from recuse.datasets.splits import split
from recuse.datasets.synthetic import make_heteroscedastic
from recuse.datasets.tables import Dataset, load, names

__all__ = ["Dataset", "load", "make_heteroscedastic", "names", "split"]
