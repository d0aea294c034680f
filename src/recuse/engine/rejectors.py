"""Training of rejectors on given errors of a regressor.

The targets of a table are the errors e of its rows, ideally out-of-fold. The surrogate psi = e l(r,-1) + c l(r,+1) is
then a function of the score r only.

With a range of costs the score is r(x, c) = u + g(x, u), where u is the logarithm of the cost, scaled to -1 to 1 over
the range, and g is the network. So the score increases with the cost from the start, and the network learns the
threshold of a row. The loss is divided by the cost, so that high and low costs have the same influence.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from recuse.engine.adam import StackedAdam
from recuse.engine.batches import Batch, Batches, Table
from recuse.engine.best_epoch import BestEpochs, Trained
from recuse.engine.cost_range import CostRange, at_drawn_costs, at_several_costs
from recuse.engine.members import Member, SurrogateLosses, costs_by_table
from recuse.engine.mlp import StackedMLP
from recuse.engine.schedule import TrainingPlan
from recuse.engine.stack import Array, Stack
from recuse.engine.training import ALONE, make_batches, mean_loss, run_epochs


class Rejectors:
    """Rejectors that minimise the surrogate psi for given errors.

    Parameters
    ----------
    members : sequence of Member
        Ordered by table, with the same number for each table.
    stack : Stack
    costs : CostRange, optional
        With it, every row of a batch needs a cost, and the costs of the members are ignored.
    """

    def __init__(self, members: Sequence[Member], stack: Stack, costs: CostRange | None = None) -> None:
        self.stack, self._range, self._workspace = stack, costs, stack.workspace()
        self._adam = StackedAdam(self._workspace, [member.learning_rate for member in members])
        self._surrogates, self._cost = SurrogateLosses(members), costs_by_table(members)

    @property
    def stacks(self) -> tuple[Stack, ...]:
        """The rejectors."""
        return (self.stack,)

    def step(self, batch: Batch) -> None:
        """Take one step of every rejector."""
        score = self._scores(batch, training=True)
        _, d_accept, d_reject = self._surrogates(score)
        slope = self._per_cost(batch.y * d_accept + self._costs(batch) * d_reject, batch) * batch.share
        self._workspace.backward(slope.reshape(-1, slope.shape[2]))
        self._adam.step()

    def validate(self, batches: Batches) -> Array:
        """Return the RcR loss of every rejector; with a range of costs, in units of the cost."""
        return mean_loss(batches, self._rcr_loss)

    def _rcr_loss(self, batch: Batch) -> Array:
        score = self._scores(batch)
        # 0 * inf is NaN, so that an infinite or undefined output shows in the loss even if the row is rejected
        loss = np.where(score > 0, batch.y, self._costs(batch)) + 0 * score
        return self._per_cost(loss, batch)

    def _scores(self, batch: Batch, *, training: bool = False) -> Array:
        """Return the scores (table, member of the table, row)."""
        score = self._workspace.forward(batch.x, training=training)
        score = score.reshape(len(self._cost), -1, score.shape[1])
        return score if self._range is None else score + self._range.offset(self._costs(batch))

    def _costs(self, batch: Batch) -> Array:
        if batch.cost is None:
            return self._cost
        # within a range the cost is a divisor, and the padding of a batch has a cost of zero
        return batch.cost if self._range is None else np.maximum(batch.cost, np.float32(self._range.low))

    def _per_cost(self, loss: Array, batch: Batch) -> Array:
        return loss if self._range is None else loss / self._costs(batch)

    def freeze(self, member: int) -> None:
        """Stop training a diverged member."""
        self._adam.freeze(member)


def train_rejectors(
    tables: Sequence[Table],
    validation: Sequence[Table],
    members: Sequence[Member],
    hidden: Sequence[int],
    plan: TrainingPlan,
    costs: CostRange | None = None,
) -> Trained:
    """Train rejectors on given errors. All rejectors with the same learning rate share their best epoch.

    The RcR loss of a few validation rows varies much between epochs, and its minimum is mostly random. So the epoch
    with the lowest mean over the validation rows of all tables is chosen.

    Parameters
    ----------
    tables, validation : sequence of Table
        Training rows and, for each table, validation rows. All training tables have the same number of rows, and so
        have all validation tables. The targets `y` are errors. With a range of costs, the last feature of `x` is a
        placeholder for the cost.
    members : sequence of Member
        Ordered by table, with the same number for each table. With a range of costs, their costs are ignored.
    hidden : sequence of int
        Widths of the hidden layers.
    plan : TrainingPlan
    costs : CostRange, optional
        Train for all costs of a range, with a random cost for each row in each epoch.

    Returns
    -------
    Trained
        `regressor` is the stack of rejectors.
    """
    held_out_tables = [each if costs is None else at_several_costs(each, costs) for each in validation]
    batches, held_out = make_batches(tables, held_out_tables, members)
    stack = StackedMLP([member.rejector_seed for member in members], tables[0].x.shape[1], hidden)
    objective = Rejectors(members, stack, costs)
    weights = np.array([validation[member.table].total_weight for member in members])
    best = BestEpochs(objective, _by_learning_rate(members), weights)
    feature, seed = tables[0].x.shape[1] - 1, tables[0].seed

    def batches_of(epoch: int) -> Iterable[Batch]:
        shuffled = batches.shuffled(plan.batch_size, ALONE, epoch)
        return shuffled if costs is None else at_drawn_costs(shuffled, costs, feature=feature, seed=seed, epoch=epoch)

    run_epochs(
        objective,
        batches_of,
        plan.epochs,
        batch_rows=min(plan.batch_size, batches.rows),
        end_epoch=lambda epoch: best.record(objective.validate(held_out), epoch),
        on_epoch=plan.on_epoch,
    )
    return best.restore()


def _by_learning_rate(members: Sequence[Member]) -> list[list[int]]:
    """Return the indices of the members of each learning rate."""
    rates = [member.learning_rate for member in members]
    return [[i for i, other in enumerate(rates) if other == rate] for rate in dict.fromkeys(rates)]
