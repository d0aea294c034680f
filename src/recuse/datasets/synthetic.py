"""Synthetic data of known conditional mean and variance, and so of known Bayes risk."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from recuse.validation import check_count

Floats = npt.NDArray[np.float64]
# Number of features that the mean and the variance depend on.
_N_USED = 5


def make_heteroscedastic(
    n_samples: int,
    n_features: int = 8,
    random_state: int | np.random.RandomState | np.random.Generator | None = None,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Draw rows whose noise depends on the features, with the mean and variance of each row.

    The features are uniform on [-1, 1]. With x1 to x5 the first five,

        mean     = 2 sin(x1 + x2) + 2 tanh(x3 + x4 - x5)
        variance = exp(2.4 tanh(0.8 (x1 + x3 + x5) + 0.6 sin(x2 - x4))) / 2
        y        = mean + sqrt(variance) * standard normal noise

    so the variance lies between 0.045 and 5.5, and its logarithm is almost uniform. The other features have no
    effect. At a cost c, the lowest RcR loss of any regressor and rejector is the Bayes risk E[min(variance, c)].

    Parameters
    ----------
    n_samples : int
        Number of rows, 1 or more.
    n_features : int, default=8
        Number of features, 5 or more.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the features and the noise; the functions above are fixed.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features)
        Features.
    y : ndarray of shape (n_samples,)
        Target.
    mean : ndarray of shape (n_samples,)
        E[y | x] of each row.
    variance : ndarray of shape (n_samples,)
        Var[y | x] of each row.

    Examples
    --------
    >>> import numpy as np
    >>> from recuse import datasets
    >>> X, y, mean, variance = datasets.make_heteroscedastic(10_000, random_state=0)
    >>> bool(np.quantile(variance, 0.99) > 100 * np.quantile(variance, 0.01))
    True
    >>> cost = np.median(variance)
    >>> bayes_risk = np.minimum(variance, cost).mean()
    >>> bool(bayes_risk < min(cost, variance.mean()))
    True
    """
    shape = check_count("n_samples", n_samples, least=1), check_count("n_features", n_features, least=_N_USED)
    generator = random_state if isinstance(random_state, np.random.Generator) else check_random_state(random_state)
    X = generator.uniform(-1.0, 1.0, size=shape)
    noise = generator.standard_normal(n_samples)
    mean, variance = _mean(X), _variance(X)
    return X, mean + np.sqrt(variance) * noise, mean, variance


def _mean(X: Floats) -> Floats:
    x1, x2, x3, x4, x5 = X.T[:_N_USED]
    return np.asarray(2.0 * np.sin(x1 + x2) + 2.0 * np.tanh(x3 + x4 - x5))


def _variance(X: Floats) -> Floats:
    x1, x2, x3, x4, x5 = X.T[:_N_USED]
    # tanh of a nearly normal index of standard deviation 0.87 is nearly uniform, so variances lie near every cost
    index = 0.8 * (x1 + x3 + x5) + 0.6 * np.sin(x2 - x4)
    return np.asarray(0.5 * np.exp(2.4 * np.tanh(index)))
