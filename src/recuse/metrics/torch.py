"""The measures of regression with rejection as torchmetrics classes.

Each class keeps a sum and a count. Batches of any size on any number of devices therefore give the result of
`recuse.metrics` on all rows at once, provided that each row is seen once. The sums are in single precision;
``metric.set_dtype(torch.float64)`` changes that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from recuse.costs import row_values
from recuse.extras import import_extra
from recuse.metrics.tensor_rows import cost_rows, same_rows

import_extra("torchmetrics", extra="images")

from torchmetrics import Metric, MetricCollection  # noqa: E402

__all__ = [
    "AcceptedLoss",
    "AlwaysAccept",
    "AlwaysReject",
    "FalseAcceptanceRate",
    "FalseRejectionRate",
    "Oracle",
    "RcRLoss",
    "RejectedLoss",
    "RejectionRate",
    "rejection_metrics",
]


class RejectionMetric(Metric, ABC):
    """A mean over some of the rows; NaN if there are none, or if a prediction or score is NaN.

    Parameters
    ----------
    cost : float, default=1.0
        The cost of a rejection where `update` is called without costs.
    **options
        Arguments of torchmetrics.Metric, such as `sync_on_compute`.
    """

    is_differentiable = False
    full_state_update = False
    total: Tensor
    count: Tensor

    def __init__(self, cost: float = 1.0, **options: Any) -> None:
        super().__init__(**options)
        self.cost = float(row_values(cost, "cost", 1)[0])
        self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, prediction: Tensor, score: Tensor, target: Tensor, cost: Tensor | float | None = None) -> None:
        """Add rows.

        Parameters
        ----------
        prediction, target : Tensor of shape (n_rows,) or (n_rows, 1)
        score : Tensor of shape (n_rows,) or (n_rows, 1)
            Scores (a row is accepted if its score is > 0), or whether each row is accepted, as bool.
        cost : float or Tensor of shape (n_rows,), optional
        """
        h, r, y = same_rows(prediction=prediction, score=score, target=target)
        error = (h - y).square()
        accepted = r if r.dtype == torch.bool else r > 0
        costs = cost_rows(self.cost if cost is None else cost, error)
        # NaN, so that a diverged network does not look like one that rejects every row
        lost = ~error.isfinite() | r.isnan()
        error, costs = (column.masked_fill(lost, torch.nan) for column in (error, costs))
        values, among = self.rows(error, accepted, costs)
        self.total += torch.where(among, values.to(self.total.dtype), 0).sum()
        self.count += among.sum()

    def compute(self) -> Tensor:
        """Return the mean over all rows added."""
        return self.total / self.count

    @staticmethod
    @abstractmethod
    def rows(error: Tensor, accepted: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values to average and a mask of the rows to average over, each (n_rows,)."""


class RcRLoss(RejectionMetric):
    """Mean of the squared error of accepted rows and the cost of rejected rows.

    Examples
    --------
    >>> metric = RcRLoss(cost=1.5)
    >>> metric.update(torch.tensor([1.0, 4.0]), torch.tensor([0.3, -0.2]), target=torch.tensor([1.0, 2.0]))
    >>> metric.update(torch.tensor([3.0]), torch.tensor([0.9]), target=torch.tensor([3.0]))
    >>> metric.compute()
    tensor(0.5000)
    """

    higher_is_better = False

    @staticmethod
    def rows(error: Tensor, accepted: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss of every row."""
        return torch.where(accepted, error, cost), torch.ones_like(accepted)


class AcceptedLoss(RejectionMetric):
    """Mean squared error over the accepted rows (AL).

    Examples
    --------
    >>> metric = AcceptedLoss(cost=1.5)
    >>> metric.update(torch.tensor([1.0, 4.0]), torch.tensor([0.3, -0.2]), target=torch.tensor([0.0, 2.0]))
    >>> metric.compute()
    tensor(1.)
    """

    higher_is_better = False

    @staticmethod
    def rows(error: Tensor, accepted: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return the errors of the accepted rows."""
        return error, accepted


class RejectedLoss(RejectionMetric):
    """Mean squared error over the rejected rows (RL).

    Examples
    --------
    >>> metric = RejectedLoss(cost=1.5)
    >>> metric.update(torch.tensor([1.0, 4.0]), torch.tensor([0.3, -0.2]), target=torch.tensor([0.0, 2.0]))
    >>> metric.compute()
    tensor(4.)
    """

    @staticmethod
    def rows(error: Tensor, accepted: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return the errors of the rejected rows."""
        return error, ~accepted


class RejectionRate(RejectionMetric):
    """Share of the rows that are rejected (Rej).

    Examples
    --------
    >>> metric = RejectionRate(cost=1.5)
    >>> metric.update(torch.tensor([1.0, 4.0]), torch.tensor([0.3, -0.2]), target=torch.tensor([0.0, 2.0]))
    >>> metric.compute()
    tensor(0.5000)
    """

    @staticmethod
    def rows(error: Tensor, accepted: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 for each rejected row."""
        return ~accepted, torch.ones_like(accepted)


class FalseRejectionRate(RejectionMetric):
    """Share rejected among the rows whose error is below the cost (AR).

    Examples
    --------
    >>> metric = FalseRejectionRate(cost=1.5)
    >>> metric.update(torch.tensor([1.0, 4.0]), torch.tensor([-0.3, -0.2]), target=torch.tensor([0.0, 2.0]))
    >>> metric.compute()
    tensor(1.)
    """

    higher_is_better = False

    @staticmethod
    def rows(error: Tensor, accepted: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 for each rejected row among the rows with an error below the cost."""
        return ~accepted, error < cost


class FalseAcceptanceRate(RejectionMetric):
    """Share accepted among the rows whose error is at least the cost (RA).

    Examples
    --------
    >>> metric = FalseAcceptanceRate(cost=1.5)
    >>> metric.update(torch.tensor([1.0, 4.0]), torch.tensor([0.3, -0.2]), target=torch.tensor([0.0, 2.0]))
    >>> metric.compute()
    tensor(0.)
    """

    higher_is_better = False

    @staticmethod
    def rows(error: Tensor, accepted: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return 1 for each accepted row among the rows with an error of at least the cost."""
        return accepted, error >= cost


class AlwaysAccept(RejectionMetric):
    """Mean squared error over all rows: the loss of never rejecting (Sup).

    Examples
    --------
    >>> metric = AlwaysAccept(cost=1.5)
    >>> metric.update(torch.tensor([1.0, 4.0]), torch.tensor([0.3, -0.2]), target=torch.tensor([0.0, 2.0]))
    >>> metric.compute()
    tensor(2.5000)
    """

    higher_is_better = False

    @staticmethod
    def rows(error: Tensor, accepted: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return the error of every row."""
        return error, torch.ones_like(accepted)


class AlwaysReject(RejectionMetric):
    """Mean cost: the loss of rejecting every row.

    Examples
    --------
    >>> metric = AlwaysReject(cost=1.5)
    >>> metric.update(torch.tensor([1.0, 4.0]), torch.tensor([0.3, -0.2]), target=torch.tensor([0.0, 2.0]))
    >>> metric.compute()
    tensor(1.5000)
    """

    @staticmethod
    def rows(error: Tensor, accepted: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return the cost of every row."""
        return cost, torch.ones_like(accepted)


class Oracle(RejectionMetric):
    """Mean of the smaller of error and cost: the loss of deciding with the targets known.

    Examples
    --------
    >>> metric = Oracle(cost=1.5)
    >>> metric.update(torch.tensor([1.0, 4.0]), torch.tensor([0.3, -0.2]), target=torch.tensor([0.0, 2.0]))
    >>> metric.compute()
    tensor(1.2500)
    """

    higher_is_better = False

    @staticmethod
    def rows(error: Tensor, accepted: Tensor, cost: Tensor) -> tuple[Tensor, Tensor]:
        """Return the smaller of error and cost for every row."""
        return torch.minimum(error, cost), torch.ones_like(accepted)


_BY_NAME: dict[str, type[RejectionMetric]] = {
    "rcr_loss": RcRLoss,
    "accepted_loss": AcceptedLoss,
    "rejected_loss": RejectedLoss,
    "rejection_rate": RejectionRate,
    "false_rejection_rate": FalseRejectionRate,
    "false_acceptance_rate": FalseAcceptanceRate,
    "always_accept": AlwaysAccept,
    "always_reject": AlwaysReject,
    "oracle": Oracle,
}


def rejection_metrics(cost: float = 1.0, prefix: str | None = None) -> MetricCollection:
    """Return all measures in one collection, under the names of `recuse.metrics.evaluate`.

    Examples
    --------
    >>> metrics = rejection_metrics(cost=4.0, prefix="val/")
    >>> metrics.update(torch.tensor([1.0, 2.0]), torch.tensor([0.3, -0.2]), torch.tensor([1.0, 5.0]))
    >>> measures = metrics.compute()
    >>> measures["val/rcr_loss"], measures["val/always_accept"], measures["val/false_acceptance_rate"]
    (tensor(2.), tensor(4.5000), tensor(0.))
    """
    # no compute groups: torchmetrics would merge measures that happen to agree on the first batch
    members: dict[str, Metric | MetricCollection] = {name: metric(cost) for name, metric in _BY_NAME.items()}
    return MetricCollection(members, prefix=prefix, compute_groups=False)
