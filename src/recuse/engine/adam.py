"""Adam on the flat parameters of a stack, with a learning rate for each member."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from recuse.engine.stack import Stack

__all__ = ["StackedAdam"]

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # the usual constants of Kingma and Ba (2015)


class StackedAdam:
    """Adam (Kingma and Ba, 2015) for all members at once, with one learning rate each.

    Parameters
    ----------
    stack : Stack
        A step reads its `gradient` and changes its `parameters`.
    learning_rates : sequence of float
        One for each member.

    Attributes
    ----------
    factor : float
        The next steps use the learning rates times this factor; 1 at first.
    """

    def __init__(self, stack: Stack, learning_rates: Sequence[float]) -> None:
        self.stack, self.steps, self.factor = stack, 0, 1.0
        self.mean = torch.zeros_like(stack.parameters)
        self.square = torch.zeros_like(stack.parameters)
        self._scratch = torch.empty_like(stack.parameters)
        self.rate = stack.trainable()  # zero for padding, which must not change
        for layer in stack.views(self.rate):
            rates = torch.tensor(learning_rates, dtype=layer.dtype, device=layer.device)
            layer.mul_(rates.view(-1, *[1] * (layer.ndim - 1)))

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter with the learning rate of its member."""
        self.steps += 1
        gradient, update = self.stack.gradient, self._scratch
        self.mean.lerp_(gradient, 1 - _BETA1)
        self.square.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        torch.sqrt(self.square, out=update)
        update.mul_((1 - _BETA2**self.steps) ** -0.5).add_(_EPSILON)
        torch.div(self.mean, update, out=update)
        self.stack.parameters.addcmul_(update, self.rate, value=-self.factor / (1 - _BETA1**self.steps))

    def freeze(self, member: int) -> None:
        """Set the parameters and the learning rate of a diverged member to zero."""
        for flat in (self.stack.parameters, self.mean, self.square, self.rate):
            for layer in self.stack.views(flat):
                layer[member] = 0

    def take(self, stack: Stack, members: Sequence[int], learning_rates: Sequence[float]) -> StackedAdam:
        """Return an optimiser with the moments of some members, for a stack of copies of the same members."""
        out = StackedAdam(stack, learning_rates)
        out.steps = self.steps
        chosen = torch.as_tensor(list(members), device=self.mean.device)
        for new, old in ((out.mean, self.mean), (out.square, self.square)):
            for to, of in zip(stack.views(new), self.stack.views(old), strict=True):
                to.copy_(of[chosen])
        return out
