"""The prediction interface of a saved model in MLflow, with costs as parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from recuse.dataframes import is_frame
from recuse.model_file.served import ServedModel
from recuse.tabular.schema import TableSchema

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["DecisionFunction"]


class DecisionFunction:
    """A model as MLflow calls it.

    Parameters
    ----------
    model : ServedModel
    """

    def __init__(self, model: ServedModel) -> None:
        self._model = model
        names = model.schema.names if isinstance(model.schema, TableSchema) else []
        self._names = {str(name): name for name in names}  # those of MLflow are text

    def predict(self, rows: Any, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Return the columns of `Decision.to_frame`, and `expected_loss` where the model has one."""
        table = rows.rename(columns=self._names) if is_frame(rows) else rows
        decision, expected = self._model.decide_with_expected_loss(table, cost=_cost(params or {}))
        frame = decision.to_frame()
        return frame if expected is None else frame.assign(expected_loss=expected)


def _cost(params: Mapping[str, Any]) -> Any:
    """Return the cost in the parameters of a request; MLflow passes None and [] for those that were not given."""
    cost, costs = params.get("cost"), params.get("costs")
    if cost is not None and costs:
        raise ValueError("pass cost, a number, or costs, one value per row, not both")
    return costs or cost
