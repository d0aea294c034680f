"""DeferralDecision: who takes each row, with predictions, expected losses and fees, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from recuse.costs import row_values
from recuse.dataframes import aligned, float_array
from recuse.decision import LOSS_SAVED, Decision
from recuse.experts.assignment import assign
from recuse.experts.expert import MODEL
from recuse.losses import SQUARED, TargetLoss
from recuse.metrics.measures import numbers, same_length
from recuse.validation import require

Floats = NDArray[np.float64]


def _measures(
    decision: DeferralDecision, y_true: Any, answers: Mapping[str, ArrayLike], sample_weight: ArrayLike | None
) -> pd.DataFrame:
    """Return one line for each action, the total, each action for all rows, and the oracle."""
    target = numbers(aligned(y_true, decision.index, "y_true"), "y_true")
    same_length(y_true=target, decision=decision.action)
    predictions = _with_answers(decision, answers)
    known, fees = np.isfinite(predictions), decision.fees
    losses = np.where(known, decision.loss(predictions - target[:, None]), decision.expected_loss)
    weights = aligned(1.0 if sample_weight is None else sample_weight, decision.index, "sample_weight")
    weights = row_values(weights, "sample_weight", len(target))

    def line(action: NDArray[np.intp], among: NDArray[np.bool_] | slice = slice(None)) -> dict[str, float]:
        rows = np.arange(len(target))[among]
        chosen, weight = (rows, action[rows]), weights[rows]
        values = np.array([losses[chosen], fees[chosen], losses[chosen] + fees[chosen]])
        means = values @ weight / weight.sum() if weight.sum() > 0 else np.full(3, np.nan)
        return {
            "rows": len(rows),
            "share": float(weight.sum() / weights.sum()),
            **dict(zip(("loss", "fee", "total"), means.tolist(), strict=True)),
            "fees_paid": float(weight @ fees[chosen]),
            "estimated": int((~known[chosen]).sum()),
        }

    table = {name: line(decision.action, decision.action == k) for k, name in enumerate(decision.names)}
    table["total"] = line(decision.action)
    for k, name in enumerate(decision.names):
        table[f"always {name}"] = line(np.where(np.isfinite(losses[:, k]), k, 0))
    table["oracle"] = line((losses + fees).argmin(axis=1))
    return pd.DataFrame.from_dict(table, orient="index").astype({"rows": int, "estimated": int})


def _with_answers(decision: DeferralDecision, answers: Mapping[str, ArrayLike]) -> Floats:
    """Return the predictions (row, action), with the answers that experts have given since."""
    predictions = decision.predictions.copy()
    for name, given in answers.items():
        require(name in decision.names[1:], "answers", f"a mapping with names among {decision.names[1:]}", name)
        label = f"the answers of {name!r}"
        values = float_array(aligned(given, decision.index, label), label)
        if values.shape != (len(decision),):
            raise ValueError(f"{label} must have one value for each of {len(decision)} rows, got shape {values.shape}")
        column = predictions[:, decision.names.index(name)]
        column[:] = np.where(np.isfinite(values), values, column)
    return predictions


_COLUMNS = ("action", "predictions", "expected_loss", "fees")


@dataclass(frozen=True, eq=False)
class DeferralDecision:
    """An immutable table of assignments, one row per row of the input.

    Attributes
    ----------
    names : tuple of str
        The actions: "model" for the own prediction, then the experts.
    action : ndarray of int of shape (n_rows,)
        Position in `names` of the action that takes the row.
    predictions : ndarray of shape (n_rows, n_actions)
        NaN where an expert's prediction is not known yet.
    expected_loss : ndarray of shape (n_rows, n_actions)
        Without fees; infinite where a model or a callable has no prediction, so that it cannot take the row.
    fees : ndarray of shape (n_rows, n_actions)
        Zero for the model.
    index : pandas Index or None
        Labels of the rows, if the input was a pandas DataFrame.
    loss : TargetLoss

    Examples
    --------
    >>> decision = DeferralDecision(
    ...     names=("model", "night"),
    ...     action=np.array([0, 1]),
    ...     predictions=np.array([[3.0, np.nan], [8.0, np.nan]]),
    ...     expected_loss=np.array([[0.5, 0.2], [4.0, 0.2]]),
    ...     fees=np.array([[0.0, 1.0], [0.0, 1.0]]),
    ... )
    >>> decision
    DeferralDecision(2 rows: 1 model, 1 night)
    >>> decision.to_frame()[["takes", "prediction", "fee", "expected_loss"]]
       takes  prediction  fee  expected_loss
    0  model         3.0  0.0            0.5
    1  night         NaN  1.0            0.2
    """

    names: tuple[str, ...]
    action: NDArray[np.intp]
    predictions: Floats = field(repr=False)
    expected_loss: Floats = field(repr=False)
    fees: Floats = field(repr=False)
    index: pd.Index[Any] | None = field(default=None, repr=False)
    loss: TargetLoss = SQUARED

    def __post_init__(self) -> None:
        for column in (self.action, self.predictions, self.expected_loss, self.fees):
            column.flags.writeable = False

    @classmethod
    def assigned(
        cls,
        experts: Sequence[str],
        predictions: Floats,
        expected_loss: Floats,
        fees: Floats,
        limits: NDArray[np.intp],
        index: pd.Index[Any] | None = None,
        loss: TargetLoss = SQUARED,
    ) -> Self:
        """Assign each row to the action with the lowest expected loss plus fee, within limits.

        Parameters
        ----------
        experts : sequence of str
        predictions, expected_loss : ndarray of shape (n_rows, n_actions)
        fees : ndarray of shape (n_rows, n_experts)
        limits : ndarray of int of shape (n_experts,)
            Largest number of rows of each expert.
        index, loss : optional
            As in the decision.
        """
        all_fees = np.column_stack([np.zeros(len(fees)), fees])
        action = assign(expected_loss + all_fees, limits)
        return cls((MODEL, *experts), action, predictions, expected_loss, all_fees, index, loss)

    def as_decision(self) -> Decision:
        """Return the own predictions, accepted where the model takes the row.

        The cost of a row is the lowest expected loss plus fee of an expert, and the score is how much less the own
        expected loss is. `takes` says who takes each row.
        """
        cost = (self.expected_loss + self.fees)[:, 1:].min(axis=1)
        return Decision.of_checked(
            self.predictions[:, 0],
            self.action == 0,
            cost - self.expected_loss[:, 0],
            cost,
            self.index,
            self.loss,
            score_unit=LOSS_SAVED,
            takes=self.takes,
        )

    def __len__(self) -> int:
        return len(self.action)

    def __getitem__(self, rows: Any) -> Self:
        """Select rows by a slice, a mask or positions; a single position gives a decision of one row."""
        if isinstance(rows, int | np.integer):
            rows = [rows]
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, **columns, index=None if self.index is None else self.index[rows])

    def __repr__(self) -> str:
        counts = np.bincount(self.action, minlength=len(self.names))
        parts = [f"{count} {name}" for count, name in zip(counts, self.names, strict=True)]
        return f"DeferralDecision({len(self)} rows: {', '.join(parts)})"

    @property
    def takes(self) -> NDArray[np.object_]:
        """The name of the action that takes each row."""
        return np.array(self.names, dtype=object)[self.action]

    @property
    def prediction(self) -> Floats:
        """The prediction of the action that takes each row; NaN if the expert answers later."""
        return self._of_action(self.predictions)

    @property
    def fee(self) -> Floats:
        """The fee of the action that takes each row."""
        return self._of_action(self.fees)

    def to_frame(self) -> pd.DataFrame:
        """Return a table of the action, its prediction, fee and expected loss, and the expected loss of each action.

        It has the index of the input.
        """
        columns = {
            "takes": self.takes,
            "prediction": self.prediction,
            "fee": self.fee,
            "expected_loss": self._of_action(self.expected_loss),
        }
        each = {f"expected_loss_{name}": loss for name, loss in zip(self.names, self.expected_loss.T, strict=True)}
        return pd.DataFrame({**columns, **each}, index=self.index)

    def evaluate(
        self, y_true: Any, answers: Mapping[str, ArrayLike] | None = None, *, sample_weight: ArrayLike | None = None
    ) -> pd.DataFrame:
        """Measure the losses and fees of each action, of all rows, and of simpler rules.

        Parameters
        ----------
        y_true : array-like of shape (n_rows,)
            Pandas targets are matched to the rows by label.
        answers : mapping of str to array-like of shape (n_rows,), optional
            Predictions that experts have made since; NaN where they made none.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        DataFrame
            One line for each action with the rows that it takes, then the lines "total" for all rows, "always ..." for
            each action as if it took all rows that it can and the model took the others, and "oracle" for the best
            action of each row in hindsight, without capacities. The columns are

            - rows, share : number and weighted share of the rows
            - loss, fee, total : mean loss, mean fee and their sum, per row
            - fees_paid : sum of the fees, each times the weight of its row
            - estimated : rows without a known prediction, which count with their expected loss

        Examples
        --------
        >>> decision = DeferralDecision(
        ...     ("model", "night"),
        ...     np.array([0, 1]),
        ...     predictions=np.array([[3.0, np.nan], [8.0, np.nan]]),
        ...     expected_loss=np.array([[0.5, 0.25], [4.0, 0.25]]),
        ...     fees=np.array([[0.0, 1.0], [0.0, 1.0]]),
        ... )
        >>> decision.evaluate([2.0, 5.0], {"night": [np.nan, 5.5]})[["rows", "loss", "fee", "total", "estimated"]]
                      rows   loss  fee  total  estimated
        model            1  1.000  0.0  1.000          0
        night            1  0.250  1.0  1.250          0
        total            2  0.625  0.5  1.125          0
        always model     2  5.000  0.0  5.000          0
        always night     2  0.250  1.0  1.250          1
        oracle           2  0.625  0.5  1.125          0
        """
        return _measures(self, y_true, answers or {}, sample_weight)

    def _of_action(self, columns: Floats) -> Floats:
        return np.take_along_axis(columns, self.action[:, None], axis=1)[:, 0]
