"""Regression with rejection from images: data sets, backbones, training with Lightning, and the estimator.

Names are imported when they are first used; all but `make_cellularity` need the extra ``images``.
"""

from typing import TYPE_CHECKING, Any

from recuse.extras import import_extra

if TYPE_CHECKING:
    from recuse.images.agedb import AgeDB
    from recuse.images.backbones import resnet50, small_cnn
    from recuse.images.breastpathq import BreastPathQ
    from recuse.images.cellularity import make_cellularity
    from recuse.images.dataset import ImageFiles, crop_and_flip
    from recuse.images.regressor import RcRImageRegressor

__all__ = [
    "AgeDB",
    "BreastPathQ",
    "ImageFiles",
    "RcRImageRegressor",
    "crop_and_flip",
    "make_cellularity",
    "resnet50",
    "small_cnn",
]

_MODULES = {
    "AgeDB": "agedb",
    "BreastPathQ": "breastpathq",
    "ImageFiles": "dataset",
    "RcRImageRegressor": "regressor",
    "crop_and_flip": "dataset",
    "make_cellularity": "cellularity",
    "resnet50": "backbones",
    "small_cnn": "backbones",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_extra(f"{__name__}.{_MODULES[name]}", extra="images"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
