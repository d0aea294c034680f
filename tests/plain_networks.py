"""Networks and tables of the engine as torch has them, to compare with."""

from itertools import pairwise

import numpy as np
import torch
from torch import nn

from recuse.engine.batches import Table


def make_table(rows, seed, dtype=np.float32, **columns):
    """Noise that grows with the second feature, so that rejecting pays."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 3))
    y = x[:, 0] + 0.5 * random.normal(size=rows) * (1 + np.abs(x[:, 1]))
    return Table(x.astype(dtype), y.astype(dtype), seed=seed, **columns)


def real_weights(stack, flat, member):
    """The part (out, in + 1) of each layer of an MLP without padding and the unit of ones, of a flat buffer."""
    sizes = pairwise(stack.widths)
    return [layer[member, :out, : into + 1] for layer, (into, out) in zip(stack.views(flat), sizes, strict=True)]


def plain_network(stack, member):
    """The same MLP as torch would write it."""
    layers = []
    for weight in real_weights(stack, stack.parameters, member):
        linear = nn.Linear(weight.shape[1] - 1, weight.shape[0])
        linear.weight.data, linear.bias.data = torch.tensor(weight[:, :-1]), torch.tensor(weight[:, -1])
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def plain_gradient(network):
    """The gradient of a plain MLP in the layout of `real_weights`, flat."""
    linears = [layer for layer in network if isinstance(layer, nn.Linear)]
    parts = [torch.cat([linear.weight.grad, linear.bias.grad[:, None]], dim=1) for linear in linears]
    return np.concatenate([part.numpy().ravel() for part in parts])


def real_gradient(workspace, member):
    """The gradient of one member of a stack of MLPs, flat."""
    return np.concatenate([part.ravel() for part in real_weights(workspace.stack, workspace.gradient, member)])


def weights(stack, member):
    """All parameters of one member, flat."""
    return np.concatenate([part[member].ravel() for part in stack.views(stack.parameters)])
