"""What is trained: stacks of networks that run together."""

from recuse.networks.looped import LoopedModules, NetworkFactory
from recuse.networks.mlp import StackedMLP
from recuse.networks.stack import Stack, outputs, pad_rows, with_bias

__all__ = ["LoopedModules", "NetworkFactory", "Stack", "StackedMLP", "outputs", "pad_rows", "with_bias"]
