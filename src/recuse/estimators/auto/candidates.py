"""What AutoRejector tries: the number of rows and a loss in, regressors and models of the risk out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.svm import SVR

from recuse.estimators.auto.models.gaussian_process import GaussianProcess
from recuse.estimators.auto.models.rank_features import Prepared
from recuse.estimators.auto.models.risk_network import RiskNetwork
from recuse.estimators.mlp import StackedMLPRegressor
from recuse.estimators.subestimators import check_part
from recuse.losses import Absolute, Huber, Pinball, Squared, TargetLoss
from recuse.validation import require

__all__ = ["LEARNERS", "RISK_MODELS", "Learner", "chosen"]

_SOME = 5_000  # rows from which trees have to be fewer, or may be larger
_LARGE = 20_000  # rows from which a tree of a forest sees only so many of them


@dataclass(frozen=True)
class Learner:
    """One thing to try.

    Attributes
    ----------
    build : callable
        Rows to fit to and the loss in, an unfitted regressor out.
    most_rows : int, optional
        Tables of more rows do without it.
    growth : float
        The power of the number of rows by which the time of a fit grows.
    losses : tuple of type
        Those it aims at, or comes close to.
    again : bool
        Worth a second fit in which rows count by how little noise they have.
    """

    build: Callable[[int, TargetLoss], Any]
    most_rows: int | None = None
    growth: float = 1.0
    losses: tuple[type[TargetLoss], ...] = (TargetLoss,)
    again: bool = False

    def suits(self, n_rows: int, loss: TargetLoss) -> bool:
        """Whether it is worth trying on so many rows and this loss."""
        return isinstance(loss, self.losses) and (self.most_rows is None or n_rows <= self.most_rows)


def _boosting(n_rows: int, loss: TargetLoss) -> Any:
    match loss:
        case Absolute():
            aim: dict[str, Any] = {"loss": "absolute_error"}
        case Pinball(quantile):
            aim = {"loss": "quantile", "quantile": quantile}
        case _:
            aim = {}
    size = {"max_leaf_nodes": 12, "min_samples_leaf": 5} if n_rows < _LARGE else {}
    return HistGradientBoostingRegressor(
        max_iter=600 if n_rows < _LARGE else 400,
        learning_rate=0.05 if n_rows < _LARGE else 0.1,
        l2_regularization=1.0,
        max_features=0.5,
        early_stopping=False,  # the blend makes up for it, and the time can be foretold
        **size,
        **aim,
    )


def _networks(n_rows: int, loss: TargetLoss) -> Any:
    batch = _batch_size(n_rows)
    updates = 6_000  # of the weights, in each training
    return Prepared(
        StackedMLPRegressor(
            hidden=(64, 64),
            epochs=min(300 if n_rows < 2000 else 150, max(20, updates * batch // n_rows)),
            batch_size=batch,
            learning_rate=(1e-2, 3e-3) if n_rows < _SOME else 3e-3,
            n_members=4,
            validation_fraction=0.15,
            loss=loss,
        ),
        scale_target=False,  # they do that themselves, and turn the loss as well
    )


def _batch_size(n_rows: int) -> int:
    return 64 if n_rows < 2000 else 256 if n_rows < _LARGE else 1024


def _extra_trees(n_rows: int, loss: TargetLoss) -> Any:
    return ExtraTreesRegressor(**_forest_size(n_rows, trees=300 if n_rows < _SOME else 100))


def _process(n_rows: int, loss: TargetLoss) -> Any:
    return Prepared(GaussianProcess())


def _support_vectors(n_rows: int, loss: TargetLoss) -> Any:
    return Prepared(SVR(C=10.0, epsilon=0.05), ranks="none")


def _forest_size(n_rows: int, trees: int) -> dict[str, Any]:
    """Keep a forest in memory: of many rows, each tree sees some."""
    if n_rows <= _LARGE:
        return {"n_estimators": trees}
    return {"n_estimators": trees // 4, "bootstrap": True, "max_samples": _LARGE}


_MEAN_LIKE = (Squared, Absolute, Huber)  # the middle of a distribution serves them all

LEARNERS: Mapping[str, Learner] = {
    "boosting": Learner(_boosting, again=True),
    "networks": Learner(_networks, again=True),
    "extra_trees": Learner(_extra_trees, losses=_MEAN_LIKE),
    "process": Learner(_process, most_rows=5000, growth=2.0, losses=_MEAN_LIKE),
    "support_vectors": Learner(_support_vectors, most_rows=10_000, growth=2.0, losses=_MEAN_LIKE),
}


def _risk_extra_trees(n_rows: int, loss: TargetLoss) -> Any:
    return ExtraTreesRegressor(**_forest_size(n_rows, trees=100), min_samples_leaf=5, max_features=0.5)


def _risk_boosting(n_rows: int, loss: TargetLoss) -> Any:
    few = {"max_iter": 60, "max_leaf_nodes": 8, "min_samples_leaf": 20}
    many = {"max_iter": 200, "min_samples_leaf": 200}
    size = few if n_rows < _SOME else many
    return HistGradientBoostingRegressor(loss="poisson", learning_rate=0.05, early_stopping=False, **size)


def _risk_network(n_rows: int, loss: TargetLoss) -> Any:
    batch = _batch_size(n_rows)
    updates = 4_000
    return RiskNetwork(epochs=min(60, max(10, updates * batch // n_rows)), batch_size=batch)


# the first gives the first estimate of the risk, so let it be quick
RISK_MODELS: Mapping[str, Learner] = {
    "extra_trees": Learner(_risk_extra_trees),
    "boosting": Learner(_risk_boosting),
    "network": Learner(_risk_network),
}


def chosen(given: Any, known: Mapping[str, Learner], parameter: str) -> dict[str, Learner]:
    """Read a parameter: None for all that are known, names of some, or a mapping that may bring a user's own.

    Examples
    --------
    >>> list(chosen(["boosting", "networks"], LEARNERS, "learners"))
    ['boosting', 'networks']
    >>> from sklearn.linear_model import Ridge
    >>> mixed = chosen({"ridge": Ridge(), "trees": "extra_trees"}, LEARNERS, "learners")
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
    """Give one that is known by name, or make one of a user's regressor."""
    if isinstance(part, str):
        require(part in known, name, f"an estimator or one of {list(known)}", part)
        return known[part]
    check_part(part, name)
    return Learner(lambda n_rows, loss: part)
