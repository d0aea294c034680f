"""Training of regressors alone, on the loss of their predictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch, Batches, Table
from recuse.engine.best_epoch import BestEpochs, Trained
from recuse.engine.members import Member, count_tables
from recuse.engine.mlp import StackedMLP
from recuse.engine.schedule import TrainingPlan, half_cosine
from recuse.engine.stack import Array, Stack
from recuse.engine.training import ALONE, make_batches, mean_loss, run_epochs
from recuse.losses import SQUARED, TargetLoss


class Regressors:
    """Regressors that minimise the loss of their predictions.

    Parameters
    ----------
    members : sequence of Member
        Ordered by table, with the same number for each table.
    stack : Stack
    loss : TargetLoss
        Loss of a prediction, in the units of the tables.
    """

    def __init__(self, members: Sequence[Member], stack: Stack, loss: TargetLoss = SQUARED) -> None:
        self.members, self.stack, self.loss = list(members), stack, loss
        self._tables, self._workspace = count_tables(self.members), stack.workspace()
        self.reset_adam()

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The regressors."""
        return (self.stack,)

    def step(self, batch: Batch) -> None:
        """Take one step of every regressor."""
        self.update(self.loss.slope(self.residuals(batch, training=True), batch.share))

    def validate(self, batches: Batches) -> Array:
        """Return the loss of every regressor."""
        return mean_loss(batches, lambda batch: self.loss(self.residuals(batch)))

    def freeze(self, member: int) -> None:
        """Stop training a diverged member."""
        self._adam.freeze(member)

    def residuals(self, batch: Batch, *, training: bool = False) -> Array:
        """Return h - y of shape (table, member of the table, row)."""
        prediction = self._workspace.forward(batch.x, training=training)
        return prediction.reshape(self._tables, -1, prediction.shape[1]) - batch.y

    def update(self, slope: Array) -> None:
        """Change the weights, given the derivative of the loss by the predictions (table, member of the table, row)."""
        self._workspace.backward(slope.reshape(-1, slope.shape[2]))
        self._adam.step()

    def scale_rates(self, factor: float) -> None:
        """Use the learning rates times a factor in the next steps."""
        self._adam.factor = factor

    def take(self, members: Sequence[Member], chosen: Sequence[int]) -> Regressors:
        """Return copies of the regressors at `chosen`, with their moments of Adam, as new members."""
        out = Regressors(members, self.stack.take(chosen), self.loss)
        out._adam.copy_moments(self._adam, chosen)
        return out

    def reset_adam(self) -> None:
        """Set the moments of Adam to zero."""
        self._adam = StackedAdam(self._workspace, [member.learning_rate for member in self.members])


def train_regressors(
    tables: Sequence[Table],
    validation: Sequence[Table],
    members: Sequence[Member],
    hidden: Sequence[int],
    plan: TrainingPlan,
    loss: TargetLoss = SQUARED,
) -> Trained:
    """Train regressors alone and keep the best epoch of each by validation loss.

    Parameters
    ----------
    tables, validation : sequence of Table
        Training rows and, for each table, validation rows. All training tables have the same number of rows, and so
        have all validation tables.
    members : sequence of Member
        Ordered by table, with the same number for each table.
    hidden : sequence of int
        Widths of the hidden layers.
    plan : TrainingPlan
    loss : TargetLoss
        Loss of a prediction, in the units of the tables. The squared error gives the baseline "Sup" of the paper.

    Returns
    -------
    Trained
        Members in the order given. It has no rejector.
    """
    batches, held_out = make_batches(tables, validation, members)
    stack = StackedMLP([member.seed for member in members], tables[0].x.shape[1], hidden)
    objective = Regressors(members, stack, loss)
    best = BestEpochs(objective)

    def batches_of(epoch: int) -> Iterable[Batch]:
        if plan.decay:
            objective.scale_rates(half_cosine(epoch, epochs=plan.epochs))
        return batches.shuffled(plan.batch_size, ALONE, epoch)

    run_epochs(
        objective,
        batches_of,
        plan.epochs,
        batch_rows=min(plan.batch_size, batches.rows),
        end_epoch=lambda epoch: best.record(objective.validate(held_out), epoch),
        on_epoch=plan.on_epoch,
    )
    return best.restore()
