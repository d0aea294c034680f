"""Adam on the flat parameters of a stack, with a learning rate for each member."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from recuse.engine.stack import Workspace

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # the usual constants of Kingma and Ba (2015)


class StackedAdam:
    """Adam (Kingma and Ba, 2015) for all members at once, with one learning rate each.

    Parameters
    ----------
    workspace : Workspace
        A step reads its gradient and changes the parameters of its stack.
    learning_rates : sequence of float
        One for each member.

    Attributes
    ----------
    factor : float
        The next steps use the learning rates times this factor; 1 at first.
    mean, square : ndarray
        The running sums of the gradients and of their squares; the usual means without the factors ``1 - beta``.
    """

    def __init__(self, workspace: Workspace, learning_rates: Sequence[float]) -> None:
        self.workspace, self.steps, self.factor = workspace, 0, 1.0
        parameters = workspace.stack.parameters
        self.mean, self.square = np.zeros_like(parameters), np.zeros_like(parameters)
        self.rate = workspace.stack.trainable()  # zero for padding, which must not change
        with np.errstate(over="ignore"):  # a huge rate is infinite in single precision
            rates = np.array(learning_rates).astype(parameters.dtype)
        for layer in workspace.stack.views(self.rate):
            layer[:] = np.where(layer > 0, rates.reshape(-1, *[1] * (layer.ndim - 1)), 0)
        self._scratch = np.empty_like(parameters)

    def step(self) -> None:
        """Update every parameter with the learning rate of its member."""
        self.steps += 1
        shrink = ((1 - _BETA2) / (1 - _BETA2**self.steps)) ** 0.5
        scale = -self.factor * (1 - _BETA1) / (1 - _BETA1**self.steps) / shrink
        gradient, update = self.workspace.gradient, self._scratch
        self.mean *= _BETA1
        self.mean += gradient
        self.square *= _BETA2
        self.square += np.multiply(gradient, gradient, out=update)
        np.sqrt(self.square, out=update)
        update += _EPSILON / shrink
        np.divide(self.mean, update, out=update)
        update *= self.rate
        update *= scale
        self.workspace.stack.parameters += update

    def freeze(self, member: int) -> None:
        """Set the parameters and the learning rate of a diverged member to zero."""
        for flat in (self.workspace.stack.parameters, self.mean, self.square, self.rate):
            for layer in self.workspace.stack.views(flat):
                layer[member] = 0

    def copy_moments(self, other: StackedAdam, members: Sequence[int]) -> None:
        """Continue with the moments of some members of another optimiser, one for each member of this one."""
        self.steps = other.steps
        for new, old in ((self.mean, other.mean), (self.square, other.square)):
            pairs = zip(self.workspace.stack.views(new), other.workspace.stack.views(old), strict=True)
            for to, of in pairs:
                to[:] = of[list(members)]
