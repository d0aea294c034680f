"""Decisions about one block of rows, as a pandas or an Arrow table."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse.decision import Decision
from recuse.model_file.arrow_columns import ArrowReader
from recuse.model_file.reading import Feeds, TableReader
from recuse.model_file.served import ServedModel
from recuse.model_file.table_report import TableProblem, table_report
from recuse.scoring.cell_types import as_expected
from recuse.scoring.data_rows import data_rows
from recuse.scoring.plan import Plan, model_columns, table_schema
from recuse.scoring.summary import PartSummary
from recuse.tabular.column_checks import check_finite, check_range, costs_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BlockScorer", "Decided", "result_names"]


@dataclass(frozen=True)
class Decided:
    """The decisions about a block.

    Attributes
    ----------
    table : DataFrame or pyarrow.Table
        Kept columns and decisions; of the same library as the block.
    summary : PartSummary
    """

    table: Any
    summary: PartSummary


class BlockScorer:
    """Decides about blocks of rows.

    Parameters
    ----------
    model : ServedModel
    plan : Plan
    """

    def __init__(self, model: ServedModel, plan: Plan) -> None:
        self.model, self.plan = model, plan
        self.schema = table_schema(model)
        assert isinstance(model._reader, TableReader)
        self._arrow = ArrowReader(model._reader, as_expected)
        self._certified = None if plan.certificate is None else model.certified(plan.certificate - 1)
        if self._certified is not None:
            self._certified.check_model()
            self._certified.model_cost(plan.cost)  # raises an error if the certificate is for another

    def decide(self, block: Any, first: int, source: str, kept: Any = None) -> Decided:
        """Decide about a block.

        Parameters
        ----------
        block : DataFrame or pyarrow.Table
        first : int
            Number of the first row in its file, counted from 0.
        source : str
            Name of the file in errors.
        kept : DataFrame, optional
            The columns to keep, if they are not those of the block.
        """
        import pandas as pd

        index = pd.RangeIndex(first, first + len(block))
        is_pandas = isinstance(block, pd.DataFrame)
        names = [str(name) for name in (block.columns if is_pandas else block.column_names)]
        columns = model_columns(self.model, names, self.plan.cost, source)
        cost = self._costs(block, index, source)
        with data_rows(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the problems have what these say
            read = self._read_frame if is_pandas else self._read_arrow
            feeds, problems = read(block, columns, index, source)
            decision, expected = self._run(feeds, cost, index)
        results = decision.to_frame().reset_index(drop=True)
        if expected is not None:
            results["expected_loss"] = expected
        return Decided(self._table(block if kept is None else kept, results), _summary(decision, problems))

    def _costs(self, block: Any, index: pd.RangeIndex, source: str) -> float | NDArray[np.float64] | None:
        """Return the cost or one for each row; raise an error if the column of costs holds anything else."""
        cost, limits = self.plan.cost, self.model.cost_range_
        if not isinstance(cost, str):
            return cost
        values = costs_of(_frame(block, {cost: cost}, index), cost, source)
        if limits is not None:
            check_range(values, *limits, f"the cost column {cost!r} of {source}")
        return np.asarray(values, dtype=np.float64)

    def _read_frame(
        self, block: Any, columns: dict[str | int, str], index: pd.RangeIndex, source: str
    ) -> tuple[Feeds, list[TableProblem]]:
        frame = _frame(block, columns, index)
        for column in self.schema.columns:
            if column.name in columns:
                frame[column.name] = as_expected(column, frame[column.name])
        problems = table_report(self.schema, frame)
        check_finite(frame, [column.name for column in self.schema.columns if column.kind == "number"], source)
        return self.model._reader.read(frame), problems

    def _read_arrow(
        self, block: Any, columns: dict[str | int, str], index: pd.RangeIndex, source: str
    ) -> tuple[Feeds, list[TableProblem]]:
        try:
            return self._arrow.read({name: block.column(given) for name, given in columns.items()}, index)
        except ValueError:
            self._read_frame(block, columns, index, source)  # the same error, with the name of the file
            raise

    def _run(
        self, feeds: Feeds, cost: float | NDArray[np.float64] | None, index: pd.RangeIndex
    ) -> tuple[Decision, NDArray[np.float64] | None]:
        """Return the decision and, if the model has one, the expected loss."""
        model, header, count = self.model, self.model._header, len(index)
        if model.experts:
            model._check_no_cost(cost)
            deferral = model._defer(feeds, index)
            return deferral.as_decision(), deferral.expected_loss[:, 0]
        row_cost = model._cost_of_rows(cost, np.empty((count, 0)), count)
        names = ["prediction", "score", "accepted"] + ["expected_loss"] * header.has_expected_loss
        prediction, score, accepted, *expected = model._run(feeds, row_cost, names, count)
        rest = (index, model.loss_, header.target_names, header.score_unit)
        decision = Decision.of_checked(prediction, accepted, score, row_cost, *rest)
        certified = decision if self._certified is None else self._certified.apply(decision)
        return certified, expected[0] if expected else None

    def _table(self, block: Any, results: pd.DataFrame) -> Any:
        """Put the kept columns before the decisions."""
        import pandas as pd

        keep, names = list(self.plan.keep), list(self.plan.kept_as)
        if isinstance(block, pd.DataFrame):
            kept = block[keep].reset_index(drop=True).set_axis(names, axis=1)
            return pd.concat([kept, results], axis=1)
        import pyarrow as pa

        table = block.select(keep).rename_columns(names)
        for name in results.columns:
            table = table.append_column(name, pa.array(results[name].to_numpy()))
        return table.replace_schema_metadata(None)


def result_names(model: ServedModel) -> list[str]:
    """Return the names of the columns that decisions of a model have."""
    count, header = model._header.target_count, model._header
    shape = (1,) if count == 1 else (1, count)
    takes = ["model"] if header.experts else None
    decision = Decision(np.zeros(shape), [True], [0.0], 0.0, target_names=header.target_names, takes=takes)
    return [*decision.to_frame().columns, *(["expected_loss"] if header.has_expected_loss else [])]


def _frame(block: Any, columns: dict[Any, str], index: pd.RangeIndex) -> pd.DataFrame:
    """Return columns of a block as a pandas table, by other names."""
    import pandas as pd

    if not isinstance(block, pd.DataFrame):
        block = block.select(list(dict.fromkeys(columns.values()))).to_pandas()
    frame: pd.DataFrame = block[list(columns.values())].set_axis(list(columns), axis=1)
    return frame.set_axis(index, axis=0)


def _summary(decision: Decision, problems: list[TableProblem]) -> PartSummary:
    low, high = float(decision.cost.min()), float(decision.cost.max())
    return PartSummary(len(decision), int(decision.accepted.sum()), low, high, tuple(problems))
