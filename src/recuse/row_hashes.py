"""Hashes of cells and rows: equal in tables of any library, in single and in double precision."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse.dataframes import is_frame, to_pandas

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]

MISSING = np.uint64(0x9AE16A3B2F90404F)
_START = np.uint64(0xC3A5C85C97CB3127)
_STEP = np.uint64(0x9E3779B97F4A7C15)
# Numbers with more significant digits come from a continuous scale.
_DIGITS = 4
_FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))


@dataclass(frozen=True)
class RowHashes:
    """Hashes of rows with their targets, and of parts of them.

    Attributes
    ----------
    rows : ndarray of uint64 of shape (row,)
        Of all features and the target.
    features : ndarray of uint64 of shape (row,)
        Of all features.
    even, odd : ndarray of uint64 of shape (row,)
        Of every other feature and the target. A change of one column leaves one of them as it was.
    """

    rows: Hashes
    features: Hashes
    even: Hashes
    odd: Hashes

    @classmethod
    def of_cells(cls, features: Sequence[Hashes], y: Any) -> RowHashes:
        """Combine the targets and the bits of the cells, given column by column."""
        target = bits_of_numbers(np.ravel(np.asarray(y, dtype=np.float64)))
        rows, nothing = combined([*features, target]), np.zeros_like(target)
        even, odd = (combined([*features[start::2], target]) for start in (0, 1))
        return cls(rows, combined([nothing, *features]), *((even, odd) if len(features) > 1 else (rows, rows)))


@dataclass(frozen=True)
class Singles:
    """How many rows of a table are unlike all its other rows.

    Attributes
    ----------
    count : int
        Number of all rows.
    rows, features, even, odd : int
        Number of rows of which no other row has the hash; see `RowHashes`.
    """

    count: int
    rows: int
    features: int
    even: int
    odd: int


def bits_of_numbers(values: Floats) -> Hashes:
    """Return the bits of numbers as float32; zeros of both signs are alike, and so are all missing numbers.

    Examples
    --------
    >>> bits = bits_of_numbers(np.array([0.1, float(np.float32(0.1)), 0.2]))
    >>> bool(bits[0] == bits[1]), bool(bits[0] == bits[2])
    (True, False)
    """
    plain = np.ascontiguousarray(values, dtype=np.float64) + 0.0
    with np.errstate(over="ignore", under="ignore"):
        rounded = plain.astype(np.float32).astype(np.float64) + 0.0
    plain = np.where(np.isinf(rounded), plain, rounded)  # too large for float32
    return np.where(np.isnan(plain), MISSING, plain.view(np.uint64))


def bits_of_texts(texts: Sequence[str]) -> Hashes:
    """Return 64 bits of each text."""
    digests = [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def combined(cells: Sequence[Hashes]) -> Hashes:
    """Return a hash of each row from the bits of its cells, given column by column."""
    state = np.full(len(cells[-1]), _START)
    with np.errstate(over="ignore"):
        for column in cells:
            state = _mixed(state * _STEP + _mixed(column))
    return state


def hashes_in_any_order(hashes: Hashes, group: NDArray[np.intp]) -> Hashes:
    """Return a hash of each group of rows that does not depend on the order of its rows.

    Examples
    --------
    >>> one, two = hashes_in_any_order(np.array([1, 2, 2, 1], np.uint64), np.array([0, 0, 1, 1]))
    >>> bool(one == two)
    True
    """
    total = np.zeros(int(group.max(initial=-1)) + 1, np.uint64)
    with np.errstate(over="ignore"):
        np.add.at(total, group, _mixed(hashes + _STEP))
        return _mixed(total)


def count_singles(hashes: Hashes) -> int:
    """Return the number of values that occur once.

    Examples
    --------
    >>> count_singles(np.array([1, 2, 2, 3], np.uint64))
    2
    """
    return int(np.sum(np.unique(hashes, return_counts=True)[1] == 1))


def hashes_of_given(X: Any, count: int) -> Hashes:
    """Return a hash of the features of each row, for any table or images.

    Names and order of the columns do not matter, so that a table is the same for models of different columns.

    Parameters
    ----------
    X : array-like, DataFrame of any library, mapping of column names to values, or sequence of images
    count : int
        Number of rows.

    Examples
    --------
    >>> import pandas as pd
    >>> rooms = pd.DataFrame({"area": [10.0, 20.0], "city": ["Bonn", "Ulm"]})
    >>> bool((hashes_of_given(rooms, 2) == hashes_of_given(rooms[["city", "area"]], 2)).all())
    True
    """
    import pandas as pd

    table = to_pandas(pd.DataFrame(X) if isinstance(X, dict) else X)
    if not is_frame(table):
        array = _array(table, count)
        if array is None or array.ndim != 2:
            return _hashes_of_images(table if array is None else array, count)
        table = pd.DataFrame(array)
    total = np.zeros(count, np.uint64)
    with np.errstate(over="ignore"):
        for place in range(table.shape[1]):
            total += _mixed(_mixed(_bits_of_cells(table.iloc[:, place])) + _STEP)
    return _mixed(total)


def is_continuous(values: Any) -> bool:
    """Whether most of the given numbers have more than four significant digits, so that equal ones are no chance.

    Examples
    --------
    >>> is_continuous(np.random.default_rng(0).normal(size=50)), is_continuous(np.arange(50) / 10)
    (True, False)
    """
    numbers = np.asarray(values, dtype=np.float64)
    numbers = numbers[np.isfinite(numbers) & (numbers != 0)]
    scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.abs(numbers))))
    rounded = np.round(numbers * scale) / scale
    return bool(2 * np.sum(bits_of_numbers(rounded) != bits_of_numbers(numbers)) > np.size(values))


def _array(data: Any, count: int) -> NDArray[Any] | None:
    """Return an array with one row for each row; None for data sets that are no arrays."""
    if hasattr(data, "__getitem__") and not hasattr(data, "__array__") and not isinstance(data, list | tuple):
        return None
    array = np.asarray(data)
    return array if array.ndim > 0 and len(array) == count else None


def _hashes_of_images(images: Any, count: int) -> Hashes:
    """Return a hash of each image; an item of a data set may be an image with its target."""
    digests = []
    for row in range(count):
        item = images[row]
        image = item[0] if isinstance(item, tuple | list) else item
        data = np.ascontiguousarray(np.asarray(image), dtype=np.float32)
        digests.append(hashlib.blake2b(data.tobytes(), digest_size=8).digest())
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _bits_of_cells(cells: pd.Series[Any]) -> Hashes:
    """Return 64 bits for each cell: of its number, or else of its text."""
    import pandas as pd

    if isinstance(cells.dtype, pd.CategoricalDtype):
        cells = cells.astype(object)
    missing = cells.isna().to_numpy()
    numbers = pd.to_numeric(cells, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    bits = np.where(missing, MISSING, bits_of_numbers(numbers))
    text = np.isnan(numbers) & ~missing
    if text.any():
        codes, levels = pd.factorize(cells[text].astype(str))
        bits[text] = bits_of_texts([str(level) for level in levels])[codes]
    return bits


def _mixed(bits: Hashes) -> Hashes:
    """Return bits that each depend on all given bits; this is the last step of the generator SplitMix64."""
    for shift, factor in zip((30, 27), _FACTORS, strict=True):
        bits = (bits ^ (bits >> np.uint64(shift))) * factor
    return bits ^ (bits >> np.uint64(31))
