"""A network with a regressor head and a rejector head on any backbone."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from recuse.deep.loss import cost_rows

COST_FLOOR = 1e-6  # keeps the logarithm of a cost of zero finite


class TwoHeads(nn.Module):
    """A regressor and a rejector on one shared backbone, or each on its own.

    The regressor is one linear layer on the features, the rejector a small MLP.

    Parameters
    ----------
    backbone : nn.Module
        Maps a batch to features (n, features); trailing dimensions of size 1 are flattened.
    features : int
        Number of features of a row.
    shared : bool, default=True
        Use the same features for both heads. Otherwise the rejector gets a copy of the backbone with newly drawn
        weights, which doubles the computation.
    rejector_backbone : nn.Module, optional
        A backbone for the rejector instead of that copy, with as many features; `shared` must then be False.
    rejector_hidden : sequence of int, default=(64,)
        Widths of the hidden layers of the rejector's head.
    cost_input : bool, default=False
        Add the logarithm of the row's cost to the inputs of the rejector's head, for costs that vary by row.

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
            raise ValueError("shared must be False if rejector_backbone is given, got shared=True")
        self.features, self.cost_input = features, cost_input
        self.backbone = backbone
        self.rejector_backbone = None if shared else rejector_backbone or _fresh_copy(backbone)
        self.regressor_head = nn.Linear(features, 1)
        self.rejector_head = _mlp(features + cost_input, rejector_hidden)

    def forward(self, x: Tensor, cost: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return (prediction, score), each of shape (n,); a row is accepted if its score is > 0.

        Parameters
        ----------
        x : Tensor
            Input of the backbone.
        cost : Tensor of shape (n,), optional
            Costs of the rows; required with `cost_input=True`.
        """
        features = self._features(self.backbone, x)
        own = features if self.rejector_backbone is None else self._features(self.rejector_backbone, x)
        if self.cost_input:
            own = torch.cat([own, _log_cost(cost, own)], dim=1)
        return self.regressor_head(features)[:, 0], self.rejector_head(own)[:, 0]

    def regress(self, x: Tensor) -> Tensor:
        """Return the prediction (n,) only, without running the rejector."""
        prediction: Tensor = self.regressor_head(self._features(self.backbone, x))
        return prediction[:, 0]

    def regressor_parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters of the prediction; a shared backbone also belongs to the score."""
        yield from self.backbone.parameters()
        yield from self.regressor_head.parameters()

    def rejector_parameters(self) -> Iterator[nn.Parameter]:
        """Return the parameters that only the score depends on; Slow-Start does not change them."""
        if self.rejector_backbone is not None:
            yield from self.rejector_backbone.parameters()
        yield from self.rejector_head.parameters()

    def _features(self, backbone: nn.Module, x: Tensor) -> Tensor:
        features: Tensor = backbone(x)
        flat = features.flatten(1) if features.ndim > 1 else features[:, None]
        if flat.shape[1] != self.features:
            raise ValueError(
                f"backbone must return {self.features} features for each row, as given to TwoHeads, "
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
        raise ValueError("forward needs the cost of each row with cost_input=True: pass cost, got None")
    return (cost_rows(cost, features[:, 0])[:, None] + COST_FLOOR).log()


def _fresh_copy(backbone: nn.Module) -> nn.Module:
    other = copy.deepcopy(backbone)
    for name, part in other.named_modules():
        reset = getattr(part, "reset_parameters", None)
        if reset is not None:
            reset()
        elif next(part.parameters(recurse=False), None) is not None:
            raise ValueError(
                "shared=False needs a backbone whose layers all have reset_parameters(), "
                f"got {type(part).__name__} at {name or 'the top'!r}: pass rejector_backbone instead"
            )
    return other
