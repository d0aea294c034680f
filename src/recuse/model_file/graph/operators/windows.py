"""Size of the result of convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence

from recuse.model_file.graph.operators.signatures import Attributes

__all__ = ["window_size"]

_MAX_PAD = 64
_MAX_STRIDE = 64
_MAX_KERNEL = 64


def window_size(size: Sequence[int], kernel: Sequence[int], attrs: Attributes) -> tuple[int, ...]:
    """Return height and width of the result of a sliding window."""
    strides, pads = attrs.get("strides", [1, 1]), attrs.get("pads", [0, 0, 0, 0])
    if len(strides) != 2 or len(pads) != 4 or not 1 <= min(strides) <= max(strides) <= _MAX_STRIDE:
        raise ValueError(f"strides {strides} and pads {pads} are not valid")
    if not 0 <= min(pads) <= max(pads) <= _MAX_PAD or max(kernel) > _MAX_KERNEL:
        raise ValueError(f"strides {strides} and pads {pads} are not valid")
    result = tuple((size[axis] + pads[axis] + pads[axis + 2] - kernel[axis]) // strides[axis] + 1 for axis in range(2))
    if min(kernel) < 1 or min(result) < 1 or max(pads) >= min(kernel):
        raise ValueError(f"a window of {tuple(kernel)} does not fit images of {tuple(size)}")
    return result
