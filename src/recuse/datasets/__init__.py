"""Embedded tables, image data sets, synthetic data of known Bayes risk, and the paper's splits."""

from recuse.datasets.cellularity import make_cellularity
from recuse.datasets.images.agedb import AgeDB
from recuse.datasets.images.breastpathq import BreastPathQ
from recuse.datasets.images.dataset import ImageArrays, ImageDataset, ImageFiles
from recuse.datasets.images.transforms import Augmented, crop_and_flip
from recuse.datasets.splits import split
from recuse.datasets.synthetic import make_heteroscedastic
from recuse.datasets.tables import Dataset, load, names

__all__ = [
    "AgeDB",
    "Augmented",
    "BreastPathQ",
    "Dataset",
    "ImageArrays",
    "ImageDataset",
    "ImageFiles",
    "crop_and_flip",
    "load",
    "make_cellularity",
    "make_heteroscedastic",
    "names",
    "split",
]
