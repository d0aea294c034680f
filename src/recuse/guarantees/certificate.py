"""Certificates: what is promised of a model, on which rows it was tested, and the refusal to promise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self, get_args

from recuse.guarantees.certified_model import CertifiedModel, CostGiven
from recuse.phrases import counted

__all__ = ["CannotCertify", "Certificate", "What", "needed_rows"]

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
