"""Presets of AutoRejector: how much time a fit may take for how good a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_SMALL, _MEDIUM, _LARGE = 600, 1_000, 50_000  # rows


@dataclass(frozen=True)
class Preset:
    """The models of a fit and its folds.

    Attributes
    ----------
    learners, risk_models : tuple of str or None
        Names; None for all.
    folds : tuple of int
        Number of folds of small tables, of others, and of large tables.
    repeats : tuple of int
        Number of divisions into folds that are averaged, for tables of less than 200 and less than 1,000 rows.
    weighted : bool
        Whether weighted variants are tried.
    members : int
        Networks of an ensemble, relative to the default.
    may_keep_folds : bool
        Whether the mean over the models of the folds may be used for new rows. Decisions then take several times as
        long.
    """

    learners: tuple[str, ...] | None = None
    risk_models: tuple[str, ...] | None = None
    folds: tuple[int, int, int] = (8, 5, 3)
    repeats: tuple[int, int] = (1, 1)
    weighted: bool = True
    members: int = 1
    may_keep_folds: bool = True

    def n_folds(self, rows: int) -> int:
        """Return the number of folds.

        Examples
        --------
        >>> [PRESETS["balanced"].n_folds(rows) for rows in (100, 1000, 100_000)]
        [8, 5, 3]
        """
        small, middle, large = self.folds
        return small if rows < _SMALL else middle if rows <= _LARGE else large

    def n_repeats(self, rows: int) -> int:
        """Return the number of divisions into folds.

        Examples
        --------
        >>> [PRESETS["best"].n_repeats(rows) for rows in (50, 500, 5000)]
        [5, 3, 1]
        """
        return self.repeats[0] if rows < 200 else self.repeats[1] if rows < _MEDIUM else 1


PRESETS: Mapping[str, Preset] = {
    "fast": Preset(
        ("boosting", "networks", "extra_trees"),
        ("extra_trees", "boosting"),
        (3, 3, 3),
        weighted=False,
        may_keep_folds=False,
    ),
    "balanced": Preset(repeats=(2, 1)),
    "best": Preset(folds=(10, 10, 5), repeats=(5, 3), members=2),
}
