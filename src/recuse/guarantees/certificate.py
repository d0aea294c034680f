"""Certificates: what is promised of a model, the model at the certified threshold, and the refusal to promise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from recuse.costs import Cost, is_constant
from recuse.dataframes import row_name
from recuse.decision import Decision
from recuse.phrases import counted

Floats = NDArray[np.float64]
CostGiven = Literal["own", "number", "column", "per row"]


class CertifiedModel:
    """A model that accepts the rows whose score is above a certified threshold.

    Parameters
    ----------
    model : fitted estimator or ServedModel
    threshold : float
        Rows with a larger score are accepted.
    cost : float, str or None
        The cost of the certificate: a number, the name of a column, or None if each row has its own cost.
    cost_bound : float or None
        The largest cost that the certificate covers; None if it does not depend on the cost.
    cost_given : {"own", "number", "column", "per row"}
        How the cost was given to `certify`; "own" is the cost of the model, "per row" an array or a callable.
    fingerprint : str, optional
        Checksum of the model that was certified. If given, `decide` raises an error once the model has another one,
        such as after another fit.

    Notes
    -----
    `Certificate.model` and `ServedModel.certified` make these objects. The scores of decisions are those of the model,
    so it is not their sign that tells which rows are accepted.

    Examples
    --------
    >>> from recuse import RiskRejector, datasets
    >>> from sklearn.linear_model import Ridge
    >>> X, y, _, _ = datasets.make_heteroscedastic(300, random_state=0)
    >>> model = RiskRejector(Ridge(), Ridge(), cost=1.0).fit(X, y)
    >>> strict, mild = CertifiedModel(model, threshold=0.5), CertifiedModel(model, threshold=-0.5)
    >>> strict.decide(X).rejection_rate > mild.decide(X).rejection_rate
    True
    """

    def __init__(
        self,
        model: Any,
        threshold: float,
        cost: float | str | None = None,
        cost_bound: float | None = None,
        cost_given: CostGiven = "own",
        fingerprint: str | None = None,
    ) -> None:
        self.model, self.threshold, self.cost_, self.cost_bound = model, threshold, cost, cost_bound
        self.cost_given, self.fingerprint = cost_given, fingerprint
        self._checked: dict[str, Any] | None = None  # the attributes of the model when its fingerprint was compared

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_checked": None}

    def __repr__(self) -> str:
        return f"CertifiedModel({self.model!r}, threshold={self.threshold:.6g})"

    def decide(self, X: Any, cost: Cost | None = None) -> Decision:
        """Predict every row and accept the rows above the certified threshold.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
        cost : float, array-like, callable or str, optional
            Needed if the certificate is for one cost per row. Otherwise only the cost of the certificate is accepted.

        Returns
        -------
        Decision

        Raises
        ------
        ValueError
            If the certificate does not cover the cost, or the model was changed since it was certified.
        """
        self.check_model()
        return self.apply(self.model.decide(X, cost=self.model_cost(cost)))

    def apply(self, decision: Decision) -> Decision:
        """Accept the rows of a decision of the model whose score is above the certified threshold.

        Parameters
        ----------
        decision : Decision
            What `model` has decided with the cost that `model_cost` returns.

        Returns
        -------
        Decision

        Raises
        ------
        ValueError
            If the certificate does not cover the costs of the rows.
        """
        self._check_costs(decision)
        return decision.at_threshold(self.threshold)

    def predict(self, X: Any) -> Floats:
        """Predict every row, whether it would be accepted or not."""
        return np.asarray(self.model.predict(X))

    def decision_function(self, X: Any, cost: Cost | None = None) -> Floats:
        """Compute the score of every row; a row is accepted where it is above `threshold`."""
        return self.decide(X, cost).score

    def expected_loss(self, X: Any) -> Floats:
        """Estimate the loss of every row, if the model can do so."""
        return np.asarray(self.model.expected_loss(X))

    @property
    def loss_(self) -> Any:
        """The loss that the certificate is about."""
        return self.model.loss_

    def check_model(self) -> None:
        """Raise a ValueError if the model is not the one that was certified; checksums are compared once."""
        state, known = getattr(self.model, "__dict__", {}), self._checked
        same = known is not None and known.keys() == state.keys() and all(state[name] is known[name] for name in known)
        if self.fingerprint is None or same:
            return
        if self.model.fingerprint != self.fingerprint:
            raise ValueError(
                f"the model must have the fingerprint {self.fingerprint[:12]} of the certificate, got "
                f"{self.model.fingerprint[:12]}: it was fitted again or changed, so certify it again"
            )
        self._checked = dict(state)

    def model_cost(self, cost: Any) -> Any:
        """Return the cost to pass to the model; None for that of the model itself, which may serve no other.

        Raises a ValueError if the certificate is for a cost that was given in another way.
        """
        own = getattr(self.model, "cost_", None)
        if self.cost_given == "per row":
            return self._cost_per_row(cost)
        if self.cost_ is None:  # the model has a callable, which is not in a model file
            if cost is not None and cost is not own and own is not None:
                raise ValueError(f"cost must be that of the model, which the certificate is for, got {cost!r:.80}")
            return cost
        if isinstance(self.cost_, str) and cost is not None and not _same(cost, self.cost_):
            raise ValueError(f"cost must be the column {self.cost_!r}, which the certificate is for, got {cost!r:.80}")
        if cost is None or _same(cost, self.cost_):
            return None if _same(own, self.cost_) else self.cost_
        return cost

    def _cost_per_row(self, cost: Any) -> Any:
        if cost is None:
            raise ValueError("the certificate is for one cost per row: pass cost=...")
        if isinstance(cost, str) and isinstance(self.cost_, str) and cost != self.cost_:
            raise ValueError(f"cost must be the column {self.cost_!r}, which the certificate is for, got {cost!r}")
        return cost

    def _check_costs(self, decision: Decision) -> None:
        """Raise an error for costs that the certificate does not cover."""
        wrong = np.zeros(len(decision), np.bool_)
        if isinstance(self.cost_, float):
            wrong = decision.cost != self.cost_
            rule = f"be {self.cost_:g}, which the certificate is for"
        elif self.cost_bound is not None:
            wrong = decision.cost > self.cost_bound
            rule = f"be at most {self.cost_bound:g}, the largest that the certificate covers"
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(f"cost must {rule}, got {decision.cost[row]:g} at {row_name(row, decision.index)}")


def _same(cost: Any, stated: float | str) -> bool:
    """Whether a cost is the stated number or column."""
    if isinstance(stated, str) or isinstance(cost, str):
        return isinstance(cost, str) and cost == stated
    return cost is not None and is_constant(cost) and float(cost) == stated


What = Literal["accepted_loss", "rcr_loss"]


@dataclass(frozen=True)
class Certificate:
    """A promise about the loss of a model at a threshold, and what it is based on.

    ``str(certificate)`` is the promise in words.

    Attributes
    ----------
    what : {"accepted_loss", "rcr_loss"}
        The mean loss of accepted rows, or the mean over all rows of the loss if accepted and the cost if rejected.
    target : float
        The promise is that this mean is at most `target`.
    delta : float
        The probability, over the draw of the calibration rows, that a promise is given which does not hold, in this or
        in any other attempt with these rows.
    bound : float
        Losses count as at most `bound`.
    loss : str
        Name of the loss.
    cost : float, str or None
        The cost of a rejection: a number, the name of a column, or None if it was given for each row.
    cost_bound : float or None
        The largest cost that is covered; None if the promise does not depend on costs.
    threshold : float
        Rows with a larger score are accepted.
    n_rows, n_accepted : int
        Number of calibration rows that were tested, and how many of them are accepted.
    n_set_aside : int
        Number of calibration rows that were used for the choice of thresholds instead; 0 if out-of-fold scores were.
    n_thresholds : int
        Length of the sequence of thresholds.
    observed : float
        The mean, over the calibration rows, that the promise is about; of groups, with equal weight of each.
    clipped_share : float
        Share of the accepted calibration rows with a loss above `bound`.
    tail_bound : float
        At most this share of accepted rows has a loss above `bound`. This is a second promise, which holds with
        probability 1 - delta by itself; both hold together with probability 1 - 2 delta.
    training_copies : int or None
        Number of calibration rows that equal training rows; None if that could not be checked.
    repeats : int
        Number of calibration rows that equal an earlier calibration row, of another group if there are groups.
    n_groups : int or None
        Number of groups that were tested; None if each row is a draw of its own.
    attempt : int
        Number of this attempt among those with these calibration rows that are known, counted from 1.
    level : float
        The level of the tests of this attempt.
    joint_level : float
        The probability of any wrong promise among all attempts with these rows so far.
    data_fingerprint, model_fingerprint : str
        Checksums of the calibration rows, whatever their order, and of the model.
    cost_given : {"own", "number", "column", "per row"}
        How the cost was given: by the model, as a number or a column, or as an array or a callable. In the last case
        the certified model needs the cost of new rows, too.
    model : CertifiedModel or None
        The model at the threshold.
    """

    what: What
    target: float
    delta: float
    bound: float
    loss: str
    cost: float | str | None
    cost_bound: float | None
    threshold: float
    n_rows: int
    n_accepted: int
    n_set_aside: int
    n_thresholds: int
    observed: float
    clipped_share: float
    tail_bound: float
    training_copies: int | None
    repeats: int
    n_groups: int | None
    attempt: int
    level: float
    joint_level: float
    data_fingerprint: str
    model_fingerprint: str
    cost_given: CostGiven = "own"
    model: CertifiedModel | None = field(default=None, repr=False, compare=False)

    @property
    def coverage(self) -> float:
        """Share of the calibration rows that are accepted."""
        return self.n_accepted / self.n_rows

    def __str__(self) -> str:
        sure = f"With confidence {1 - self.delta:.6g}"
        return (
            f"{sure}, {self._promise()}. Rows are accepted if their score is above {self.threshold:.6g}: "
            f"{self.n_accepted:,} of {self.n_rows:,} calibration rows ({self.coverage:.1%}), "
            f"where this mean was {self.observed:.4g}. "
            f"{sure}, at most {self.tail_bound:.2%} of accepted rows have a loss above {self.bound:g}; "
            f"of the accepted calibration rows, {self.clipped_share:.2%} had. "
            f"This holds for new {self._drawn()} from the distribution of the calibration rows{self._limits()}. "
            f"{self._copies()} {self._attempts()}"
        )

    def _promise(self) -> str:
        counted = f"each loss counted as at most {self.bound:g}"
        if self.what == "accepted_loss":
            return f"the mean {self.loss} loss of accepted rows is at most {self.target:g}, {counted}"
        return (
            f"the mean over all rows, of the {self.loss} loss of accepted rows and the cost of rejected rows, "
            f"is at most {self.target:g}, {counted}"
        )

    def _drawn(self) -> str:
        drawn = "rows" if isinstance(self.cost, float) else "rows and costs"
        if self.n_groups is None:
            return drawn
        return f"{drawn} of groups drawn at random, with equal weight of all groups ({self.n_groups:,} were tested),"

    def _copies(self) -> str:
        """Return how many calibration rows are copies, in words."""
        others = "another calibration row" if self.n_groups is None else "a row of another group"
        repeats = f"{counted(self.repeats, 'calibration row repeats', 'calibration rows repeat')} {others}"
        if self.training_copies is None:
            return f"Whether calibration rows equal training rows could not be checked; {repeats}."
        copies = counted(self.training_copies, "calibration row equals a", "calibration rows equal a")
        return f"{copies} training row, and {repeats}."

    def _attempts(self) -> str:
        return (
            f"As far as is known, this was attempt {self.attempt} with these rows, tested at level {self.level:.3g}; "
            f"the promises of all attempts with them so far hold together with confidence {1 - self.joint_level:.6g}."
        )

    def _limits(self) -> str:
        if self.cost_bound is not None and not isinstance(self.cost, float):
            return f" with costs of at most {self.cost_bound:g}"
        return f" at cost {self.cost:g}" if isinstance(self.cost, float) else ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, without the model.

        Examples
        --------
        >>> example = Certificate("accepted_loss", 5.0, 0.05, 400.0, "squared", 6.0, None, 0.25, 900, 600, 100, 80,
        ...                       3.5, 0.0, 0.006, 0, 0, None, 1, 0.045, 0.05,
        ...                       "ab", "cd")
        >>> Certificate.from_dict(example.to_dict()) == example
        True
        """
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "model"}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], model: Any = None) -> Self:
        """Read what `to_dict` returned.

        Parameters
        ----------
        values : mapping
        model : fitted estimator or ServedModel, optional
            The model that the certificate is about.

        Raises
        ------
        ValueError
            If a value is missing or wrong.
        """
        read = {each.name: _checked(each.name, values, str(each.type)) for each in fields(cls) if each.name != "model"}
        if read["cost_given"] not in get_args(CostGiven):
            raise ValueError(f"the certificate must have 'cost_given' among {get_args(CostGiven)}")
        if read["what"] not in ("accepted_loss", "rcr_loss") or not 0 <= read["n_accepted"] <= max(read["n_rows"], 1):
            raise ValueError("the certificate has values that do not fit together")
        return cls(**read) if model is None else cls(**read).of_model(model)

    def of_model(self, model: Any) -> Self:
        """Return the same certificate with the model that it is about, at its threshold."""
        at = CertifiedModel(
            model, self.threshold, self.cost, self.cost_bound, self.cost_given, fingerprint=self.model_fingerprint
        )
        return replace(self, model=at)


_TYPES: Mapping[str, tuple[type, ...]] = {
    "What": (str,),
    "CostGiven": (str,),
    "str": (str,),
    "int": (int,),
    "int | None": (int, type(None)),
    "float": (int, float),
    "float | None": (int, float, type(None)),
    "float | str | None": (int, float, str, type(None)),
}


def _checked(name: str, values: Mapping[str, Any], kind: str) -> Any:
    """Return a value of the right type; numbers are finite."""
    value: Any = values.get(name)
    wrong = isinstance(value, bool) or not isinstance(value, _TYPES[kind])
    if wrong or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"the certificate must have {name!r} of type {kind}, got {value!r:.80}")
    return float(value) if isinstance(value, int) and "float" in kind else value


class CannotCertify(ValueError):
    """No threshold could be certified; the message says why, and what it would take.

    Attributes
    ----------
    n_least : int
        Fewer accepted rows, or for the RcR loss fewer rows, are never enough, not even without any loss.
    n_rows_needed : int or None
        About how many calibration rows would be needed at the loss and coverage seen; None if no number is enough.

    Examples
    --------
    >>> from recuse import RiskRejector, datasets
    >>> from recuse.guarantees import certify
    >>> from sklearn.linear_model import Ridge
    >>> X, y, _, _ = datasets.make_heteroscedastic(400, random_state=0)
    >>> model = RiskRejector(Ridge(), Ridge(), cost=1.0).fit(X[:300], y[:300])
    >>> try:
    ...     certify(model, X[300:], y[300:], target=0.2, bound=80.0)
    ... except CannotCertify as refusal:
    ...     print(refusal.n_least)
    1197
    """

    def __init__(self, message: str, n_least: int, n_rows_needed: int | None) -> None:
        super().__init__(message)
        self.n_least, self.n_rows_needed = n_least, n_rows_needed

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.n_least, self.n_rows_needed)


def needed_rows(mean: float, delta: float) -> int:
    """Return the number of values without any loss that refute, at level delta, a mean above a number.

    Examples
    --------
    >>> needed_rows(5 / 400, delta=0.05)
    239
    """
    return math.ceil(math.log(1 / delta) / -math.log1p(-mean))
