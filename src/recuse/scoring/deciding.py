"""Decisions about one block of rows, as a pandas or an Arrow table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse.decision import Decision
from recuse.model_file.served import ServedModel
from recuse.model_file.table_report import TableProblem
from recuse.scoring.data_rows import data_rows
from recuse.scoring.plan import Plan, model_columns
from recuse.scoring.summary import PartSummary
from recuse.tabular.column_checks import check_range, costs_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BlockScorer", "Decided"]


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
        names = [str(name) for name in (block.columns if isinstance(block, pd.DataFrame) else block.column_names)]
        columns = model_columns(self.model, names, self.plan.cost, source)
        cost = self._costs(block, index, source)
        with data_rows():  # the problems of the reading have what its warnings say
            reading = self.model.read(block, cost, warn=False, columns=columns, index=index, source=source)
            decision, expected = self.model.decide_reading(reading, cost)
        decision = decision if self._certified is None else self._certified.apply(decision)
        results = decision.to_frame().reset_index(drop=True)
        if expected is not None:
            results["expected_loss"] = expected
        assert reading.comparison is not None
        summary = _summary(decision, reading.comparison.problems())
        return Decided(self._table(block if kept is None else kept, results), summary)

    def _costs(self, block: Any, index: pd.RangeIndex, source: str) -> float | NDArray[np.float64] | None:
        """Return the cost or one for each row; raise an error if the column of costs holds anything else."""
        cost, limits = self.plan.cost, self.model.cost_range_
        if not isinstance(cost, str):
            return cost
        cells = block[[cost]] if hasattr(block, "iloc") else block.select([cost]).to_pandas()
        values = costs_of(cells.set_axis(index, axis=0), cost, source)
        if limits is not None:
            check_range(values, *limits, f"the cost column {cost!r} of {source}")
        return np.asarray(values, dtype=np.float64)

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


def _summary(decision: Decision, problems: list[TableProblem]) -> PartSummary:
    low, high = float(decision.cost.min()), float(decision.cost.max())
    return PartSummary(len(decision), int(decision.accepted.sum()), low, high, tuple(problems))
