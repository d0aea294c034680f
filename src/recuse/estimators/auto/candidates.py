"""The regressors and risk models that AutoRejector tries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.svm import SVR

from recuse.estimators.auto.models.expanded_features import ExpandedFeatures, has_pieces
from recuse.estimators.auto.models.gaussian_process import GaussianProcess
from recuse.estimators.auto.models.log_target import LogTarget
from recuse.estimators.auto.models.precision_weighted import PrecisionWeighted
from recuse.estimators.auto.models.relevant_features import GammaDeviance, RelevantFeatures
from recuse.estimators.auto.models.risk_linear import RiskLinear
from recuse.estimators.auto.models.risk_network import RiskNetwork
from recuse.estimators.auto.models.risk_process import RiskProcess
from recuse.estimators.crossfitting import Sample
from recuse.estimators.mlp import StackedMLPRegressor
from recuse.estimators.subestimators import check_subestimator
from recuse.losses import Absolute, Huber, Pinball, Squared, TargetLoss
from recuse.validation import require

Floats = NDArray[np.float64]

_KERNELS = 400  # rows below which a process of pieces has one kernel, so that fits of small tables stay short
_FEW = 500  # rows below which the scales of a process of the risk are too uncertain
_SMALL = 600  # rows of a small table, for which trainings are short
_PATIENT = 750  # rows below which processes of several kernels take more steps, as each one takes little time
_LONG = 2_000  # rows below which networks and a process have linear pieces of the features
_MEDIUM = 5_000  # rows of a medium table, for which models are smaller or simpler
_LARGE = 20_000  # rows of a large table, and rows that each tree of its forests is fitted to
_HUGE = 100_000  # rows from which networks have fewer members and larger batches, and no process is tried
# boosted trees of tables with fewer rows: their number, which a decision takes time for, and the learning rate
_BOOSTING = ((_SMALL, 125, 0.08), (_LONG, 100, 0.18), (_LARGE, 250, 0.08), (np.inf, 400, 0.1))
_FEW_BINS = 32  # bins of boosted trees on a small table; with hundreds of columns, more are slow
_TRIED_COLUMNS = 100  # at each split of a tree of a forest; with more, wide tables take most of the time
_SCREEN = {"epochs": 20, "n_members": 4}  # the networks that select features
_PENALTIES = np.logspace(-2, 4, 13)  # the largest penalty leaves little but the mean
_MIN_ROWS_WEIGHTED = 2000  # with fewer rows, estimates of the noise are too poor for weights


@dataclass(frozen=True)
class Learner:
    """A candidate of AutoRejector.

    Attributes
    ----------
    build : callable
        Builds an unfitted regressor from the number of rows and the loss.
    most_rows, least_rows : int, optional
        Range of the number of rows; it is left out for larger and smaller tables.
    growth : float
        The time of a fit is proportional to this power of the number of rows.
    losses : tuple of type
        Losses that it minimises, at least approximately.
    weighted : bool
        Whether it is also tried with weights inverse to the noise of the rows.
    positive : bool
        Whether it needs a target above zero.
    pieces : bool
        Whether it needs columns that can be divided into levels or pieces.
    """

    build: Callable[[int, TargetLoss], Any]
    most_rows: int | None = None
    growth: float = 1.0
    losses: tuple[type[TargetLoss], ...] = (TargetLoss,)
    weighted: bool = False
    least_rows: int = 0
    positive: bool = False
    pieces: bool = False

    def suits(self, sample: Sample, loss: TargetLoss) -> bool:
        """Whether the candidate is suitable for these rows and for this loss."""
        most = np.inf if self.most_rows is None else self.most_rows
        if not (isinstance(loss, self.losses) and self.least_rows <= len(sample.target) <= most):
            return False
        signs = not self.positive or bool(np.all(sample.target > 0))
        return signs and (not self.pieces or has_pieces(sample.inputs))


def _boosting(n_rows: int, loss: TargetLoss) -> Any:
    match loss:
        case Absolute():
            objective: dict[str, Any] = {"loss": "absolute_error"}
        case Pinball(quantile):
            objective = {"loss": "quantile", "quantile": quantile}
        case _:
            objective = {}
    size = {"max_leaf_nodes": 24, "min_samples_leaf": 5} if n_rows < _LARGE else {}
    if n_rows < _SMALL:
        size["max_bins"] = _FEW_BINS
    count, rate = next((count, rate) for rows, count, rate in _BOOSTING if n_rows < rows)
    trees = HistGradientBoostingRegressor(
        max_iter=count,
        learning_rate=rate,
        l2_regularization=1.0,
        max_features=0.5,
        early_stopping=False,  # the blend limits overfitting, and the time is predictable
        **size,
        **objective,
    )
    return ExpandedFeatures(trees, "none")


@dataclass(frozen=True)
class _Recipe:
    """How networks are trained on tables of fewer than `rows` rows."""

    rows: float
    hidden: tuple[int, ...]
    epochs: int
    batch_size: int
    n_members: int
    validation_fraction: float = 0.1
    expansion: Literal["pieces", "ranks"] = "ranks"
    learning_rate: float = 1e-2
    decay: bool = True
    drop_outliers: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the networks."""
        return {name: value for name, value in asdict(self).items() if name not in ("rows", "expansion")}


# a high learning rate is best for small networks, but ruins one of them now and then
_FAST: dict[str, Any] = {"learning_rate": 3e-2, "drop_outliers": True}
_RECIPES = (
    _Recipe(_SMALL, (20, 30, 10), 60, 64, 8, expansion="pieces"),  # more epochs only fit the noise
    _Recipe(_LONG, (64, 64), 200, 128, 4, expansion="pieces"),
    _Recipe(_MEDIUM, (12, 16, 8), 60, 128, 16, **_FAST),
    _Recipe(_LARGE, (12, 16, 8), 240, 128, 16, **_FAST),
    _Recipe(_HUGE, (12, 16, 8), 40, 256, 16, 0.05, **_FAST),
    _Recipe(np.inf, (64, 64), 20, 1024, 4, 0.05),
)


def _recipe(recipes: Sequence[_Recipe], n_rows: int) -> _Recipe:
    return next(recipe for recipe in recipes if n_rows < recipe.rows)


def _networks(n_rows: int, loss: TargetLoss) -> Any:
    recipe = _recipe(_RECIPES, n_rows)
    networks = StackedMLPRegressor(**recipe.parameters, loss=loss)
    # the networks scale the target themselves, together with the loss
    expanded = ExpandedFeatures(networks, recipe.expansion, scale_target=False)
    if not _selects(n_rows):
        return expanded
    screen = clone(expanded).set_params(**{f"regressor__{name}": value for name, value in _SCREEN.items()})
    return RelevantFeatures(expanded, screen, loss)


def _selects(n_rows: int) -> bool:
    """Whether networks select features: with fewer rows this is too uncertain, with more it is not needed."""
    return _MEDIUM <= n_rows < _HUGE


def _extra_trees(n_rows: int, loss: TargetLoss) -> Any:
    return ExpandedFeatures(ExtraTreesRegressor(**_forest_size(n_rows, trees=100), max_features=_TRIED_COLUMNS), "none")


def _linear(n_rows: int, loss: TargetLoss) -> Any:
    return ExpandedFeatures(RidgeCV(_PENALTIES))


def _process(n_rows: int, loss: TargetLoss) -> Any:
    return ExpandedFeatures(_several_kernels(2, n_rows) if _SMALL <= n_rows < _LONG else GaussianProcess())


def _process_of_pieces(n_rows: int, loss: TargetLoss) -> Any:
    several = _KERNELS <= n_rows < _LONG
    return ExpandedFeatures(_several_kernels(3, n_rows) if several else GaussianProcess(), "levels")


def _log_process(n_rows: int, loss: TargetLoss) -> Any:
    return LogTarget(ExpandedFeatures(_several_kernels(2, n_rows), "levels"))


def _several_kernels(parts: int, n_rows: int) -> GaussianProcess:
    """Return a process with many lengths, which would fit the noise without shrinkage."""
    return GaussianProcess(parts, shrinkage=0.1, steps=45 if n_rows < _PATIENT else 20, robust=True)


def _support_vectors(n_rows: int, loss: TargetLoss) -> Any:
    return ExpandedFeatures(SVR(C=10.0, epsilon=0.05), "none")


def _forest_size(n_rows: int, trees: int) -> dict[str, Any]:
    """Bound the memory of a forest: with many rows, each tree is fitted to some of them."""
    if n_rows <= _LARGE:
        return {"n_estimators": trees}
    return {"n_estimators": trees // 4, "bootstrap": True, "max_samples": _LARGE}


_SYMMETRIC = (Squared, Absolute, Huber)  # a conditional mean is close to the minimum of each

LEARNERS: Mapping[str, Learner] = {
    "boosting": Learner(_boosting, weighted=True),
    "networks": Learner(_networks, weighted=True),
    "extra_trees": Learner(_extra_trees, losses=_SYMMETRIC),
    "process": Learner(_process, most_rows=_HUGE, losses=_SYMMETRIC, weighted=True),
    "process_of_pieces": Learner(_process_of_pieces, most_rows=_LONG, losses=_SYMMETRIC, pieces=True),
    "log_process": Learner(_log_process, least_rows=_SMALL, most_rows=_LONG, losses=_SYMMETRIC, positive=True),
    "linear": Learner(_linear, losses=_SYMMETRIC),
    "support_vectors": Learner(_support_vectors, most_rows=_LONG, growth=2.0, losses=_SYMMETRIC),
}


def _risk_extra_trees(n_rows: int, loss: TargetLoss) -> Any:
    return ExtraTreesRegressor(**_forest_size(n_rows, trees=50), min_samples_leaf=3 if n_rows < _LONG else 10)


def _risk_boosting(n_rows: int, loss: TargetLoss) -> Any:
    few = {"max_iter": 100, "max_leaf_nodes": 8, "min_samples_leaf": 20}
    many = {"max_iter": 150, "max_leaf_nodes": 8, "min_samples_leaf": 50}
    size = few if n_rows < _MEDIUM else many
    if n_rows < _SMALL:
        size["max_bins"] = _FEW_BINS
    return HistGradientBoostingRegressor(loss="poisson", learning_rate=0.05, early_stopping=False, **size)


_RISK_RECIPES = (
    _Recipe(_LONG, (32, 32), 60, 64, 4, 0.2, learning_rate=3e-3, decay=False),
    _Recipe(_MEDIUM, (12, 12, 12), 60, 128, 16, 0.2, **_FAST),
    _Recipe(_LARGE, (12, 12, 12), 60, 128, 16, 0.2, **_FAST),
    _Recipe(_HUGE, (12, 12, 12), 30, 256, 16, 0.05, **_FAST),
    _Recipe(4 * _HUGE, (32, 32), 25, 1024, 4, 0.2, learning_rate=3e-3, decay=False),
    _Recipe(np.inf, (32, 32), 10, 1024, 4, 0.2, learning_rate=3e-3, decay=False),
)


def _risk_network(n_rows: int, loss: TargetLoss) -> Any:
    return _selecting(RiskNetwork(**_recipe(_RISK_RECIPES, n_rows).parameters), n_rows)


def _risk_network_of_squares(n_rows: int, loss: TargetLoss) -> Any:
    return _selecting(RiskNetwork(**_recipe(_RISK_RECIPES, n_rows).parameters, expansion="squares"), n_rows)


def _selecting(network: RiskNetwork, n_rows: int) -> Any:
    if not _selects(n_rows):
        return network
    # the last two inputs are the novelty and the prediction of h, which are functions of the others
    return RelevantFeatures(network, clone(network).set_params(**_SCREEN), GammaDeviance(), optional=2)


def _risk_process(n_rows: int, loss: TargetLoss) -> Any:
    return RiskProcess()


def _risk_linear(n_rows: int, loss: TargetLoss) -> Any:
    return RiskLinear()


RISK_MODELS: Mapping[str, Learner] = {
    "extra_trees": Learner(_risk_extra_trees),
    "boosting": Learner(_risk_boosting),
    "network": Learner(_risk_network),
    "network_of_squares": Learner(_risk_network_of_squares, least_rows=_MEDIUM, most_rows=_HUGE),
    "process": Learner(_risk_process, least_rows=_FEW, most_rows=_HUGE),
    "linear": Learner(_risk_linear, most_rows=_LONG),
}


def weighted_variants(learners: Mapping[str, Learner], n_rows: int) -> dict[str, Learner]:
    """Return weighted variants of the learners that have them, by the learner's name, if there are enough rows.

    Examples
    --------
    >>> list(weighted_variants(choose(["boosting", "linear"], LEARNERS, "learners"), n_rows=3000))
    ['boosting']
    """
    if n_rows < _MIN_ROWS_WEIGHTED:
        return {}
    return {name: _weighted(learner) for name, learner in learners.items() if learner.weighted}


def with_weighted(learners: Mapping[str, Learner], n_rows: int) -> dict[str, Learner]:
    """Add weighted variants of the learners that have them, if there are enough rows.

    Examples
    --------
    >>> list(with_weighted(choose(["boosting", "linear"], LEARNERS, "learners"), n_rows=3000))
    ['boosting', 'linear', 'boosting_weighted']
    """
    weighted = weighted_variants(learners, n_rows)
    return {**learners, **{f"{name}_weighted": learner for name, learner in weighted.items()}}


def with_members(learner: Learner, factor: int) -> Learner:
    """Return a learner whose ensembles of networks have more members.

    Examples
    --------
    >>> with_members(LEARNERS["networks"], 2).build(1000, Squared()).regressor.n_members
    8
    """

    def build(n_rows: int, loss: TargetLoss) -> Any:
        estimator = learner.build(n_rows, loss)
        networks = estimator.regressor if isinstance(estimator, RelevantFeatures) else estimator
        if isinstance(networks, ExpandedFeatures) and isinstance(networks.regressor, StackedMLPRegressor):
            networks.regressor.n_members *= factor
        return estimator

    return learner if factor == 1 else replace(learner, build=build)


def _weighted(learner: Learner) -> Learner:
    def build(n_rows: int, loss: TargetLoss) -> Any:
        return PrecisionWeighted(learner.build(n_rows, loss), loss)

    return replace(learner, build=build, weighted=False)


def choose(given: Any, known: Mapping[str, Learner], parameter: str) -> dict[str, Learner]:
    """Convert the parameter `learners` or `risk_models` to candidates.

    Parameters
    ----------
    given : None, list of str or mapping of str to estimator or str
        None selects all of `known`.
    known : mapping of str to Learner
    parameter : str
        Name of the parameter, for errors.

    Examples
    --------
    >>> list(choose(["boosting", "networks"], LEARNERS, "learners"))
    ['boosting', 'networks']
    >>> from sklearn.linear_model import Ridge
    >>> mixed = choose({"ridge": Ridge(), "trees": "extra_trees"}, LEARNERS, "learners")
    >>> mixed["ridge"].build(100, Squared())
    Ridge()
    """
    if given is None:
        return dict(known)
    rule = f"None, a mapping of names to regressors, or a list of names among {list(known)}"
    require(not isinstance(given, str) and hasattr(given, "__iter__") and len(given) > 0, parameter, rule, given)
    parts = given if isinstance(given, Mapping) else {name: name for name in given}
    return {str(name): _learner(part, known, f"{parameter}[{name!r}]") for name, part in parts.items()}


def _learner(part: Any, known: Mapping[str, Learner], name: str) -> Learner:
    """Look up a learner by name, or wrap a user's regressor."""
    if isinstance(part, str):
        require(part in known, name, f"an estimator or one of {list(known)}", part)
        return known[part]
    check_subestimator(part, name)
    return Learner(lambda n_rows, loss: part)
