"""Generated images of tissue with a cellularity score of known mean and variance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from recuse.images.tissue import Patches, draw_patches
from recuse.validation import check_count

Floats = npt.NDArray[np.floating[Any]]
_BLOCK = 64  # patches rendered at a time: small enough for the processor cache, large enough for numpy
_CALM, _SPLIT = 0.006, 0.45  # disagreement of graders on the clearest and on the worst patch


def make_cellularity(
    n_samples: int,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
    size: int = 64,
) -> tuple[npt.NDArray[np.uint8], Floats, Floats, Floats]:
    """Generate patches of stained tissue with a cellularity score, and the mean and variance of the score.

    A patch shows pink, fibrous stroma and purple cells. Patches differ in the number, size and crowding
    of their cells, in focus and in stain. With s the share of the area that cells cover, b the blur
    (0 sharp, 1 worst) and p the pallor (0 deeply stained, 1 faint), all three visible in the image,

        mean         = 1 / (1 + exp(-5 (s - 0.4)))
        disagreement = 0.006 (0.45 / 0.006)^(0.75 b + 0.25 p)
        variance     = mean (1 - mean) disagreement
        y            ~ the Beta distribution of this mean and variance

    as if graders agreed on clear patches and disagreed on faint or blurred ones. At cost c, no regressor and rejector
    have a lower risk than the Bayes risk E[min(variance, c)]. The range of the variance includes the costs .005 to .025
    of the BreastPathQ experiments: about 69 % of the patches exceed .005 and 19 % exceed .025.

    Parameters
    ----------
    n_samples : int
        Number of patches, 1 or more.
    random_state : int, RandomState, Generator or None, default=None
        Source of the random numbers. Every patch has its own random stream, so with the same integer a larger set
        begins with the patches of a smaller one.
    size : int, default=64
        Height and width in pixels, 16 or more. Cells grow with it.

    Returns
    -------
    images : ndarray of shape (n_samples, 3, size, size), uint8
        Red, green and blue, 0 to 255, as bytes: 6,000 patches take 74 MB, not the 295 MB of floats.
    y : ndarray of shape (n_samples,)
        Score in [0, 1].
    mean : ndarray of shape (n_samples,)
        E[y | patch parameters].
    variance : ndarray of shape (n_samples,)
        Var[y | patch parameters].

    Examples
    --------
    >>> import numpy as np
    >>> from recuse import datasets
    >>> images, y, mean, variance = datasets.make_cellularity(200, random_state=0)
    >>> images.shape, images.dtype
    ((200, 3, 64, 64), dtype('uint8'))
    >>> bool(0 <= y.min() and y.max() <= 1)
    True
    >>> bayes_risk = np.minimum(variance, 0.015).mean()
    >>> bool(bayes_risk < variance.mean())
    True
    """
    n_samples, size = check_count("n_samples", n_samples, least=1), check_count("size", size, least=16)
    streams = [np.random.default_rng(seed) for seed in _spawn(random_state, n_samples)]
    blocks = [draw_patches(streams[first : first + _BLOCK], size) for first in range(0, n_samples, _BLOCK)]
    mean, disagreement = (np.concatenate([of(block) for block in blocks]) for of in (_mean, _disagreement))
    images, y = np.concatenate([block.images for block in blocks]), _grade(streams, mean, disagreement)
    return images, y, mean, mean * (1.0 - mean) * disagreement


def _spawn(
    random_state: int | np.random.RandomState | np.random.Generator | None, n_samples: int
) -> list[np.random.SeedSequence]:
    if isinstance(random_state, np.random.Generator):
        entropy = [int(word) for word in random_state.integers(2**32, size=4)]
    else:
        entropy = [int(word) for word in check_random_state(random_state).randint(2**32, size=4, dtype=np.uint64)]
    return np.random.SeedSequence(entropy).spawn(n_samples)


def _grade(streams: Sequence[np.random.Generator], mean: Floats, disagreement: Floats) -> Floats:
    # A Beta distribution has the variance mean (1 - mean) / (1 + concentration).
    concentration = 1.0 / disagreement - 1.0
    shapes = zip(streams, mean * concentration, (1.0 - mean) * concentration, strict=True)
    return np.array([stream.beta(a, b) for stream, a, b in shapes])


def _mean(patches: Patches) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-5.0 * (patches.share - 0.4))))


def _disagreement(patches: Patches) -> Floats:
    index = 0.75 * patches.blur + 0.25 * patches.pallor
    return np.asarray(_CALM * (_SPLIT / _CALM) ** index)
