"""Training of SelectiveNets (Geifman and El-Yaniv, 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch, Batches, Table
from recuse.engine.schedule import SelectivePlan
from recuse.engine.selectivenet import StackedSelectiveNet
from recuse.engine.stack import Array, Stack
from recuse.engine.training import ALONE, run_epochs


@dataclass(frozen=True)
class SelectiveMember:
    """One SelectiveNet to train.

    Attributes
    ----------
    seed : int
        Determines the initial weights.
    learning_rate : float
    coverage : float
        Target share of accepted rows.
    """

    seed: int
    learning_rate: float = 5e-4
    coverage: float = 0.7


@dataclass(frozen=True)
class SelectivelyTrained:
    """Trained SelectiveNets, with the weights of the last epoch.

    Attributes
    ----------
    stack : StackedSelectiveNet
    history : ndarray of shape (epoch, member)
        Training loss, mean over the steps of the epoch.
    diverged : dict of int to int
        Members with infinite or undefined values, and the first epoch with any. Their weights are useless.
    """

    stack: StackedSelectiveNet
    history: Array
    diverged: dict[int, int]


def selective_loss(
    heads: Array, target: Array, weight: Array, coverage: Array, plan: SelectivePlan
) -> tuple[Array, Array]:
    """Return the loss of SelectiveNet, eq. 5-7 of Geifman and El-Yaniv (2019), for every member, and its slopes.

    With e the loss of the prediction (in the paper its squared error) and e' that of the auxiliary prediction, this is

        alpha [ mean(e g) / mean(g) + lam max(0, coverage - mean(g))^2 ] + (1 - alpha) mean(e')

    Parameters
    ----------
    heads : ndarray of shape (3, ..., row)
        Prediction, selection g in (0, 1) and auxiliary prediction.
    target, weight : ndarray of shape (..., row)
        Targets, and the relative weights of the rows in every mean.
    coverage : ndarray of shape (...)
    plan : SelectivePlan
        Its `alpha`, `lam` and `loss`.

    Returns
    -------
    loss : ndarray of shape (...)
    slopes : ndarray of the shape of the heads

    Examples
    --------
    >>> heads = np.array([[1.0, 2.0], [0.5, 0.25], [0.0, 0.0]])
    >>> loss, _ = selective_loss(heads, np.zeros(2), np.ones(2), np.array(0.3), SelectivePlan())
    >>> float(loss)  # (1 * 0.5 + 4 * 0.25) / 0.75 / 2
    1.0
    """
    prediction, selection, auxiliary = heads
    share = weight / weight.sum(axis=-1, keepdims=True)
    error, taken = plan.loss(prediction - target), share * selection
    covered = taken.sum(axis=-1)
    # without the division a smaller g would lower the risk, and only the penalty would oppose it
    risk = (taken * error).sum(axis=-1) / covered
    missing = np.maximum(coverage - covered, 0)
    support = (share * plan.loss(auxiliary - target)).sum(axis=-1)
    loss = plan.alpha * (risk + plan.lam * missing**2) + (1 - plan.alpha) * support
    by_selection = (error - risk[..., None]) / covered[..., None] - 2 * plan.lam * missing[..., None]
    slopes = np.stack(
        [
            plan.loss.slope(prediction - target, plan.alpha * taken / covered[..., None]),
            plan.alpha * share * by_selection,
            plan.loss.slope(auxiliary - target, (1 - plan.alpha) * share),
        ]
    )
    return loss, slopes


class SelectiveNets:
    """SelectiveNets that minimise `selective_loss`.

    Parameters
    ----------
    members : sequence of SelectiveMember
        Divided evenly among the tables, in order.
    stack : StackedSelectiveNet
    plan : SelectivePlan
    """

    def __init__(self, members: Sequence[SelectiveMember], stack: StackedSelectiveNet, plan: SelectivePlan) -> None:
        self.stack, self._plan, self._workspace = stack, plan, stack.workspace()
        self._adam = StackedAdam(self._workspace, [member.learning_rate for member in members])
        self._coverage = np.array([member.coverage for member in members], np.float32)
        self._step_losses: list[Array] = []

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The SelectiveNets."""
        return (self.stack,)

    def step(self, batch: Batch) -> None:
        """Take one step of every member, and record the loss before it. A batch of one row is skipped."""
        if batch.real < 2:  # a single row has no variance for batch norm to normalise by
            return
        # no padding: it would change the statistics of batch norm
        x, y, share = (each[..., : batch.real] for each in (batch.x, batch.y, batch.share))
        tables = len(y)
        heads = self._workspace.forward(x, training=True).reshape(3, tables, -1, batch.real)
        loss, slopes = selective_loss(heads, y, share, self._coverage.reshape(tables, -1), self._plan)
        self._workspace.backward(slopes)
        self._workspace.gradient += self._plan.weight_decay * self.stack.parameters
        self._adam.step()
        self._step_losses.append(loss.ravel())

    def training_loss(self) -> Array:
        """Return the mean loss (member,) of the steps since the last call."""
        losses, self._step_losses = self._step_losses, []
        return np.asarray(np.mean(losses, axis=0, dtype=np.float64))


def train_selective(
    tables: Sequence[Table],
    members: Sequence[SelectiveMember],
    hidden: Sequence[int],
    selection_hidden: int,
    plan: SelectivePlan,
) -> SelectivelyTrained:
    """Train SelectiveNets and keep the last epoch, as in the paper.

    Parameters
    ----------
    tables : sequence of Table
        Training rows. All tables have the same number of rows.
    members : sequence of SelectiveMember
        Divided evenly among the tables, in order.
    hidden, selection_hidden
        See `StackedSelectiveNet`.
    plan : SelectivePlan

    Returns
    -------
    SelectivelyTrained
        Members in the order given.
    """
    if len(members) % len(tables):
        raise ValueError(
            f"every table needs the same number of members, got {len(members)} members for {len(tables)} tables"
        )
    batches = Batches(tables)
    if batches.rows < 2:
        raise ValueError(f"batch norm needs at least 2 rows to train on, got {batches.rows}")
    stack = StackedSelectiveNet([member.seed for member in members], tables[0].x.shape[1], hidden, selection_hidden)
    objective, batch_rows = SelectiveNets(members, stack, plan), plan.even_batch(batches.rows)
    losses: list[Array] = []
    run_epochs(
        objective,
        lambda epoch: batches.shuffled(batch_rows, ALONE, epoch),
        plan.epochs,
        batch_rows=batch_rows,
        end_epoch=lambda _: losses.append(objective.training_loss()),
        on_epoch=plan.on_epoch,
    )
    history = np.stack(losses)
    return SelectivelyTrained(stack, history, _diverged(stack, history))


def _diverged(stack: StackedSelectiveNet, history: Array) -> dict[int, int]:
    """Return the first epoch with an infinite or undefined loss, or with such weights after the last step."""
    finite_weights = [np.isfinite(part.reshape(len(stack), -1)).all(axis=1) for part in stack.views(stack.parameters)]
    finite_epochs = np.isfinite(history)
    finite_epochs[-1] &= np.all(finite_weights, axis=0)
    diverged = np.flatnonzero(~finite_epochs.all(axis=0))
    return {int(member): int(finite_epochs[:, member].argmin()) for member in diverged}
