"""A picklable function from a table to decisions, for Dask, Spark, Ray and other engines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from recuse.dataframes import is_frame, to_pandas
from recuse.files.names import check_names
from recuse.model_file.served import ServedModel
from recuse.scoring.deciding import BlockScorer
from recuse.scoring.plan import ModelSource, ScoringPlan, chosen_cost, kept_names
from recuse.tabular.column_checks import check_column

_SOURCE = "the table"  # in errors


class Scorer:
    """Decides about tables: a function to hand to Dask, Spark, Ray and other engines.

    Every process loads the model once. The pickle of a scorer has the path of the model file, which all processes must
    be able to read; or the model itself, if that was given.

    Parameters
    ----------
    model : path-like or ServedModel
    cost : float or str, optional
        Used instead of the cost of the model: a number, or the name of a column.
    certificate : int, optional
        Decide by this certificate of the model file, counted from 1.
    keep : sequence of str
        Columns of the table that the result has, too.

    Examples
    --------
    >>> import pandas as pd
    >>> import recuse
    >>> cars = pd.DataFrame({"weight": range(60)})
    >>> model = recuse.estimators.knn_plug(cost=1.0, random_state=0).fit(cars, cars["weight"] * 2.0)
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> recuse.save(model, f"{folder.name}/cars.recuse")
    >>> scorer = Scorer(f"{folder.name}/cars.recuse", keep=["weight"])
    >>> list(scorer(cars[:3]).columns)
    ['weight', 'prediction', 'accepted', 'score', 'cost', 'expected_loss']

    >>> sum(len(part) for part in scorer.frames([cars[:30], cars[30:]]))  # Spark: frame.mapInPandas(scorer.frames, ...)
    60
    >>> folder.cleanup()
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | ServedModel,
        *,
        cost: float | str | None = None,
        certificate: int | None = None,
        keep: Sequence[str] = (),
    ) -> None:
        self.model = ModelSource.of(model) if isinstance(model, ServedModel) else str(Path(model).absolute())
        if isinstance(keep, str):
            raise ValueError(f"keep must be a sequence of names, got the text {keep!r}")
        self.cost, self.certificate, self.keep = cost, certificate, tuple(dict.fromkeys(keep))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_scorer"}

    def __repr__(self) -> str:
        model = self.model if isinstance(self.model, str) else self.model.checksum[:12]
        return f"Scorer({model!r}, cost={self.cost!r}, certificate={self.certificate!r}, keep={self.keep!r})"

    def __call__(self, table: Any) -> pd.DataFrame:
        """Decide about a table.

        Parameters
        ----------
        table : DataFrame of any library, or mapping of column names to values

        Returns
        -------
        pandas.DataFrame
            The kept columns and the decisions, with the index of the table.
        """
        frame = _frame_of(table)
        for name in self.keep:
            check_column(frame, name, "column to keep", _SOURCE)
        if isinstance(self._scorer.plan.cost, str):
            check_column(frame, self._scorer.plan.cost, "cost column", _SOURCE)
        if len(frame) == 0:
            return self.meta(frame)
        decided: pd.DataFrame = self._scorer.decide(frame, 0, _SOURCE)[0]
        return decided.set_axis(frame.index, axis=0)

    def frames(self, tables: Iterable[Any]) -> Iterator[pd.DataFrame]:
        """Decide about tables one after the other, as Spark's `mapInPandas` calls a function."""
        return map(self, tables)

    def meta(self, like: pd.DataFrame | None = None) -> pd.DataFrame:
        """Return a table without rows that has the columns of the result, as Dask's `map_partitions` needs it.

        Parameters
        ----------
        like : DataFrame, optional
            A table with the types of the columns to keep, such as ``frame._meta`` of a Dask table.
        """
        plan = self._scorer.plan
        if plan.keep and like is None:
            raise ValueError("like must be a table with the columns to keep, got None")
        kept = {} if like is None else {new: like[name][:0] for name, new in zip(plan.keep, plan.kept_as, strict=True)}
        types = {"boolean": "bool", "double": "float64", "string": "object"}
        results = {name: pd.Series(dtype=types[kind]) for name, kind in self._scorer.model.result_types.items()}
        frame = pd.DataFrame({**{name: cells.reset_index(drop=True) for name, cells in kept.items()}, **results})
        return frame if like is None else frame.set_axis(like.index[:0], axis=0)

    @property
    def spark_schema(self) -> str:
        """The columns of the decisions with types of Spark; columns to keep come before them."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self._scorer.model.result_types.items())

    @cached_property
    def _scorer(self) -> BlockScorer:
        origin = self.model if isinstance(self.model, ModelSource) else ModelSource.of(self.model)
        model = origin.load()
        names = kept_names(self.keep, list(model.result_types))
        cost = chosen_cost(model, self.cost, self.certificate)
        return BlockScorer(model, ScoringPlan(origin, cost, self.certificate, self.keep, names))


def _frame_of(table: Any) -> pd.DataFrame:
    """Return a table of any library as a pandas table whose names are different texts, as those of files."""
    frame = pd.DataFrame(table) if isinstance(table, Mapping) else to_pandas(table)
    if not is_frame(frame):
        raise TypeError(f"a scorer needs a table with named columns, got {type(table).__name__}")
    frame = frame.set_axis(frame.columns.map(str), axis=1)
    check_names(list(frame.columns), _SOURCE)
    return frame
