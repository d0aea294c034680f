"""TwoHeads: any backbone in, a network whose forward gives (prediction, score) out."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from recuse.metrics.tensor_rows import cost_rows

__all__ = ["TwoHeads"]


class TwoHeads(nn.Module):
    """A regressor and a rejector round one backbone, or each round its own.

    The regressor is one linear layer on the features, the rejector a small MLP.

    Parameters
    ----------
    backbone : nn.Module
        Turns a batch into features (n, features), or (n, features, 1, 1) and the like.
    features : int
        How many features the backbone gives for each row.
    shared : bool, default=True
        Let both heads see the same features. Otherwise the rejector gets a copy of the backbone with fresh weights, so
        that what one learns does not disturb the other, at twice the price.
    rejector_backbone : nn.Module, optional
        A backbone for the rejector in place of that copy, with as many features; `shared` must then be False.
    rejector_hidden : sequence of int, default=(64,)
        Widths of the hidden layers of the rejector's head.
    cost_input : bool, default=False
        Let the rejector see the logarithm of the row's cost too: for costs that vary by row.

    Examples
    --------
    >>> network = TwoHeads(nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU()), features=16)
    >>> prediction, score = network(torch.zeros(5, 1, 8, 8))
    >>> prediction.shape, score.shape
    (torch.Size([5]), torch.Size([5]))
    """

    def __init__(
        self,
        backbone: nn.Module,
        features: int,
        *,
        shared: bool = True,
        rejector_backbone: nn.Module | None = None,
        rejector_hidden: Sequence[int] = (64,),
        cost_input: bool = False,
    ) -> None:
        super().__init__()
        if shared and rejector_backbone is not None:
            raise ValueError("shared must be False where the rejector has a backbone of its own, got shared=True")
        self.features, self.cost_input = features, cost_input
        self.backbone = backbone
        self.rejector_backbone = None if shared else rejector_backbone or _fresh_copy(backbone)
        self.regressor_head = nn.Linear(features, 1)
        self.rejector_head = _mlp(features + cost_input, rejector_hidden)

    def forward(self, x: Tensor, cost: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Give (prediction, score), each of shape (n,); a row is accepted where its score is > 0.

        Parameters
        ----------
        x : Tensor
            Whatever the backbone takes.
        cost : Tensor of shape (n,), optional
            The costs of the rows, needed where the network was made with `cost_input`.
        """
        features = self._features(self.backbone, x)
        own = features if self.rejector_backbone is None else self._features(self.rejector_backbone, x)
        if self.cost_input:
            own = torch.cat([own, _log_cost(cost, own)], dim=1)
        return self.regressor_head(features)[:, 0], self.rejector_head(own)[:, 0]

    def regress(self, x: Tensor) -> Tensor:
        """Give the prediction (n,) alone; no part of the rejector runs."""
        prediction: Tensor = self.regressor_head(self._features(self.backbone, x))
        return prediction[:, 0]

    def regressor_parameters(self) -> Iterator[nn.Parameter]:
        """All that the prediction depends on; with a shared backbone, the score depends on most of it too."""
        yield from self.backbone.parameters()
        yield from self.regressor_head.parameters()

    def rejector_parameters(self) -> Iterator[nn.Parameter]:
        """All that only the score depends on: what Slow-Start leaves as it is."""
        if self.rejector_backbone is not None:
            yield from self.rejector_backbone.parameters()
        yield from self.rejector_head.parameters()

    def _features(self, backbone: nn.Module, x: Tensor) -> Tensor:
        features: Tensor = backbone(x)
        flat = features.flatten(1) if features.ndim > 1 else features[:, None]
        if flat.shape[1] != self.features:
            raise ValueError(
                f"backbone must give {self.features} features for each row, as TwoHeads was told, "
                f"got {flat.shape[1]} in shape {tuple(features.shape)}"
            )
        return flat


def _mlp(inputs: int, hidden: Sequence[int]) -> nn.Sequential:
    widths = [inputs, *hidden]
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], 1))


def _log_cost(cost: Tensor | None, features: Tensor) -> Tensor:
    if cost is None:
        raise ValueError("the rejector sees the cost of each row, so forward needs it: pass cost, got None")
    floor = 1e-6  # keeps the logarithm of a free rejection finite
    return (cost_rows(cost, features[:, 0])[:, None] + floor).log()


def _fresh_copy(backbone: nn.Module) -> nn.Module:
    other = copy.deepcopy(backbone)
    for name, part in other.named_modules():
        reset = getattr(part, "reset_parameters", None)
        if reset is not None:
            reset()
        elif next(part.parameters(recurse=False), None) is not None:
            raise ValueError(
                "shared=False needs a backbone whose parts can be started afresh by reset_parameters(), "
                f"got {type(part).__name__} at {name or 'the top'!r}: pass rejector_backbone instead"
            )
    return other
