"""The five losses of the paper: scores in, (l(r, -1), l(r, +1)) and the slopes in closed form out.

The closed forms spare the training loop a backward pass. At a kink they follow torch: the slope of ``abs``
and of ``relu`` at 0 is 0.
"""

from torch import Tensor, sigmoid, sign
from torch.nn.functional import relu, softplus

from recuse.surrogates.surrogate import LossPair, RegretTransfer, Surrogate

# softplus turns linear past this score; the step there, exp(-40), is below the precision of float64
_LINEAR_FROM = 40.0


def _mae(r: Tensor) -> LossPair:
    return (r + 1).abs(), (r - 1).abs()


def _mae_derivative(r: Tensor) -> LossPair:
    return sign(r + 1), sign(r - 1)


def _hinge(r: Tensor) -> LossPair:
    return relu(1 + r), relu(1 - r)


def _hinge_derivative(r: Tensor) -> LossPair:
    # a clamped sign: comparing and casting gives the same and takes more than twice the time
    return sign(r + 1).clamp_(min=0), sign(r - 1).clamp_(max=0)


def _square(r: Tensor) -> LossPair:
    return (r + 1).square(), (r - 1).square()


def _square_derivative(r: Tensor) -> LossPair:
    doubled = 2 * r
    return doubled + 2, doubled - 2


def _logistic(r: Tensor) -> LossPair:
    return softplus(r, threshold=_LINEAR_FROM), softplus(-r, threshold=_LINEAR_FROM)


def _logistic_derivative(r: Tensor) -> LossPair:
    # s(r) - 1 would do for the second, but cancels to 0 from r = 17 on in float32
    return sigmoid(r), sigmoid(-r).neg()


def _sigmoid(r: Tensor) -> LossPair:
    return sigmoid(r), sigmoid(-r)


def _sigmoid_derivative(r: Tensor) -> LossPair:
    slope = sigmoid(r) * sigmoid(-r)
    return slope, -slope


MAE = Surrogate("mae", _mae, _mae_derivative, RegretTransfer.IDENTITY)
HINGE = Surrogate("hinge", _hinge, _hinge_derivative, RegretTransfer.IDENTITY)
SQUARE = Surrogate("square", _square, _square_derivative, RegretTransfer.ROOT)
LOGISTIC = Surrogate("logistic", _logistic, _logistic_derivative, RegretTransfer.ROOT)
SIGMOID = Surrogate("sigmoid", _sigmoid, _sigmoid_derivative, RegretTransfer.DOUBLE)
