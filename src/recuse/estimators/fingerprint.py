"""A checksum that identifies a fitted estimator, also after pickling and in a model file."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pandas as pd

from recuse.tabular.fingerprint import TrainingRows

__all__ = ["fitted_fingerprint"]


def fitted_fingerprint(estimator: Any) -> str:
    """Return a checksum of the class, the plain parameters, and the fitted attributes that hold plain values.

    Networks and trees are not part of it, since their bytes may differ between equal models. Out-of-fold results,
    validation losses and the hashes of the training rows identify them well enough.

    Examples
    --------
    >>> from recuse import RiskRejector
    >>> X, y = np.arange(20.0)[:, None], np.arange(20.0) ** 2
    >>> one, two = (RiskRejector(cost=cost, random_state=0).fit(X, y) for cost in (1.0, 2.0))
    >>> fitted_fingerprint(one) == fitted_fingerprint(two)
    False
    """
    digest = hashlib.sha256(type(estimator).__name__.encode())
    fitted = {name: value for name, value in vars(estimator).items() if name[0] != "_" and name[-1] == "_"}
    for name, value in sorted({**estimator.get_params(deep=False), **fitted}.items()):
        for piece in _pieces(value):
            digest.update(name.encode() + b"\0" + piece + b"\0")
    return digest.hexdigest()


def _pieces(value: Any) -> list[bytes]:
    """Return the bytes of a plain value, nothing for other objects."""
    if isinstance(value, str | bool | int | float | np.number):
        return [repr(value.item() if isinstance(value, np.number) else value).encode()]
    if isinstance(value, TrainingRows):
        return [*_pieces(value.hashes), *_pieces(value.count)]
    if isinstance(value, pd.DataFrame):
        return [piece for name in value.columns for piece in _pieces(value[name].to_numpy())]
    if isinstance(value, np.ndarray) and value.dtype.kind in "iufb":
        return [np.ascontiguousarray(value).tobytes()]
    if isinstance(value, list | tuple):
        return [piece for each in value for piece in _pieces(each)]
    return []
