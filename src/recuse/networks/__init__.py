"""What is trained: stacks of small networks that run together, and big ones with two heads."""

from recuse.networks.convolutional import small_cnn
from recuse.networks.looped import LoopedModules, NetworkFactory
from recuse.networks.mlp import StackedMLP
from recuse.networks.resnet import resnet50
from recuse.networks.stack import Stack, outputs, pad_rows, with_bias
from recuse.networks.two_heads import TwoHeads

__all__ = [
    "LoopedModules",
    "NetworkFactory",
    "Stack",
    "StackedMLP",
    "TwoHeads",
    "outputs",
    "pad_rows",
    "resnet50",
    "small_cnn",
    "with_bias",
]
