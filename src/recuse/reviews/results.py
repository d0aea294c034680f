"""What a review queue returns: leases, outcomes of answers, and progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Lease", "Order", "Outcome", "Progress"]

Order = Literal["saving", "age"]


@dataclass(frozen=True)
class Lease:
    """A row that a reviewer holds; it does not tell what the model predicted, or whether it rejected the row.

    Attributes
    ----------
    id, token : str
        Of the review and of the lease.
    expires : float
        Seconds since 1970.
    seconds : float
        Length of the lease.
    model, version : str
    targets : list of str or None
        Names of the targets, if the model knows them.
    target_count : int
    row : dict
    recorded : float
        Seconds since 1970.
    """

    id: str
    token: str
    expires: float
    seconds: float
    model: str
    version: str
    targets: list[str] | None
    target_count: int
    row: dict[str, Any]
    recorded: float


@dataclass(frozen=True)
class Outcome:
    """What the answer of a reviewer says about the model.

    Attributes
    ----------
    id : str
    answer, prediction : list of float
        One number for each target.
    loss, cost : float
        Loss of the prediction; cost of the rejection.
    rejected : bool
        Whether the model left the row to people; otherwise the row was drawn from the accepted ones.
    expected_loss : float or None
    saved : float
        What the decision of the model saved against the other one; negative if the other one was better.
    """

    id: str
    answer: list[float]
    prediction: list[float]
    loss: float
    cost: float
    rejected: bool
    expected_loss: float | None
    saved: float


@dataclass(frozen=True)
class Progress:
    """Numbers of rows that wait for a reviewer, are held, and are answered, and the sum of `Outcome.saved`."""

    waiting: int
    held: int
    answered: int
    answered_by_you: int
    skipped_by_you: int
    saved: float
