"""Numerical checks of a binary loss, and the theorems that apply to it.

Every property is computed from values on |r| <= 1e8 in double precision. This is strong evidence and not a proof: the
checks can miss a feature that is much narrower than the grid or lies outside of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np

from recuse.surrogates.losses import RegretTransfer, Surrogate, SurrogateLike, get
from recuse.surrogates.optimum import Array, conditional_risk, evaluate, refine_minimum, score_grid


@final
@dataclass(frozen=True)
class SurrogateReport:
    """Properties of a binary loss, and the theorems that follow from them.

    Attributes
    ----------
    name : str
        Name of the loss.
    non_negative, strictly_positive : bool
        Whether l >= 0, and l > 0, at every finite score.
    classification_calibrated : bool
        Whether minimising the loss always gives the right sign of r.
    bound : float
        The largest absolute value of the loss, or infinity.
    lipschitz_constant : float
        The largest absolute slope, or infinity.
    transfer : RegretTransfer or None
        The proved regret transfer, if there is one.

    Examples
    --------
    >>> report = check("sigmoid")
    >>> report.strictly_positive, report.bounded, report.lipschitz_constant
    (True, True, 0.25)
    """

    name: str
    non_negative: bool
    strictly_positive: bool
    classification_calibrated: bool
    bound: float
    lipschitz_constant: float
    transfer: RegretTransfer | None = None

    @property
    def bounded(self) -> bool:
        """Whether the loss has a finite bound."""
        return math.isfinite(self.bound)

    @property
    def lipschitz(self) -> bool:
        """Whether the loss has a finite Lipschitz constant."""
        return math.isfinite(self.lipschitz_constant)

    @property
    def theorems(self) -> tuple[str, ...]:
        """The statements that hold for this loss."""
        return tuple(statement.holds for applies, statement in self._verdicts() if applies)

    @property
    def not_covered(self) -> tuple[str, ...]:
        """The statements that are not known to hold, each with its condition."""
        return tuple(statement.needs for applies, statement in self._verdicts() if not applies)

    def _verdicts(self) -> list[tuple[bool, _Statement]]:
        positive, calibrated = self.strictly_positive, self.classification_calibrated
        verdicts = [(positive, _REGRESSOR_CONSISTENCY), (positive and calibrated, _REJECTOR_CALIBRATION)]
        if not positive:  # otherwise the first statement is stronger
            verdicts.append((self.non_negative and calibrated, _ACCEPTED_ONLY))
        verdicts.append((self.transfer is not None, _regret_transfer(self.transfer)))
        bound = _error_bound(self.bound, self.lipschitz_constant)
        verdicts.append((self.bounded and self.lipschitz, bound))
        return verdicts

    def __str__(self) -> str:
        facts = {
            "non-negative": _yes_no(self.non_negative),
            "strictly positive": _yes_no(self.strictly_positive),
            "classification-calibrated": _yes_no(self.classification_calibrated),
            "bounded": f"by {self.bound:g}" if self.bounded else "no",
            "Lipschitz": f"with constant {self.lipschitz_constant:g}" if self.lipschitz else "no",
        }
        lines = [f"surrogate {self.name!r}", *(f"  {fact:<26}{value}" for fact, value in facts.items())]
        for title, statements in (("holds", self.theorems), ("not covered", self.not_covered)):
            if statements:
                lines += [f"  {title}:", *(f"    - {statement}" for statement in statements)]
        return "\n".join(lines)


def _yes_no(fact: bool) -> str:
    return "yes" if fact else "no"


class _Statement(NamedTuple):
    holds: str
    needs: str


_REGRESSOR_CONSISTENCY = _Statement(
    "regressor-consistency: for any rejector the best regressor is E[y|x], on every row",
    "regressor-consistency needs a loss above 0 at every score",
)
_REJECTOR_CALIBRATION = _Statement(
    "rejector-calibration: the best rejector accepts exactly where Var[y|x] < c",
    "rejector-calibration needs a classification-calibrated loss above 0 at every score",
)
_ACCEPTED_ONLY = _Statement(
    "consistency on correctly accepted instances only: there the best regressor is E[y|x]",
    "consistency on correctly accepted instances needs a classification-calibrated, non-negative loss",
)


def _regret_transfer(transfer: RegretTransfer | None) -> _Statement:
    return _Statement(
        f"regret transfer: target regret <= {transfer}, u being the surrogate regret",
        "regret transfer is proved for mae, hinge, square, logistic and sigmoid only",
    )


def _error_bound(bound: float, lipschitz_constant: float) -> _Statement:
    return _Statement(
        f"error bound: applies with M1 = {bound:g} and rho = {lipschitz_constant:g}",
        "error bound needs a bounded and Lipschitz loss",
    )


_ZERO = 1e-12  # tolerance for rounding of values near 1
_POSITIVE_TO = 20.0  # beyond it losses like exp(-r) underflow, which is not a zero of the loss
_SETTLED_FROM = 1e4  # a loss that grows from here to the end of the grid counts as unbounded


def check(fn: SurrogateLike) -> SurrogateReport:
    """Check the properties of a binary loss, and list the theorems that apply.

    Parameters
    ----------
    fn : str, Surrogate or callable
        The loss; a callable maps scores to ``(l(r, -1), l(r, +1))``.

    Returns
    -------
    SurrogateReport
        Its string lists the properties and the theorems.

    Raises
    ------
    TypeError, ValueError
        If the loss does not return a pair of arrays of the shape of the scores, does not work element by element,
        returns NaN, or has an analytic derivative that differs from its true one.

    Examples
    --------
    >>> print(check("mae"))
    surrogate 'mae'
      non-negative              yes
      strictly positive         no
      classification-calibrated yes
      bounded                   no
      Lipschitz                 with constant 1
      holds:
        - consistency on correctly accepted instances only: there the best regressor is E[y|x]
        - regret transfer: target regret <= u, u being the surrogate regret
      not covered:
        - regressor-consistency needs a loss above 0 at every score
        - rejector-calibration needs a classification-calibrated loss above 0 at every score
        - error bound needs a bounded and Lipschitz loss
    """
    surrogate = get(fn)
    _validate(surrogate)
    grid = score_grid()
    values = evaluate(surrogate, grid)
    near = np.abs(grid) <= _POSITIVE_TO
    dip = _lowest_dip(surrogate, grid[near], values[:, near])
    return SurrogateReport(
        name=surrogate.name,
        non_negative=min(dip, float(values.min())) >= -_ZERO,
        strictly_positive=dip > _ZERO and float(values[:, near].min()) > 0,
        classification_calibrated=_calibrated(grid, values),
        bound=_bound(grid, values),
        lipschitz_constant=_lipschitz_constant(surrogate, grid, values),
        transfer=surrogate.transfer,
    )


def _validate(surrogate: Surrogate) -> None:
    scores = np.linspace(-4.987, 5.013, 101)  # avoids round numbers, where losses have kinks
    whole, part = evaluate(surrogate, scores), evaluate(surrogate, scores[:7])
    if not np.allclose(whole[:, :7], part):
        raise ValueError(
            f"surrogate {surrogate.name!r} must work element by element, "
            "got other values for the same scores in a shorter array"
        )
    for given, true in zip(surrogate.derivative(scores), surrogate.differences(scores), strict=True):
        wrong = np.flatnonzero(~np.isclose(given, true, rtol=1e-5, atol=1e-7))
        if len(wrong):
            first = wrong[0]
            raise ValueError(
                f"derivative of surrogate {surrogate.name!r} must be that of its function, "
                f"got {given[first]:g} instead of {true[first]:g} at r = {scores[first]:g}"
            )


def _lowest_dip(surrogate: Surrogate, grid: Array, values: Array) -> float:
    """Give the lowest local minimum of both losses, refined between the grid points; infinity if there is none."""
    lowest = math.inf
    for side, loss in enumerate(values):
        dip = 1 + np.flatnonzero((loss[1:-1] <= loss[:-2]) & (loss[1:-1] <= loss[2:]))
        if len(dip):
            refined = refine_minimum(_one_side(surrogate, side), grid[dip - 1], grid[dip + 1])
            lowest = min(lowest, float(refined.min()))
    return lowest


def _one_side(surrogate: Surrogate, side: int) -> Callable[[Array], Array]:
    return lambda scores: evaluate(surrogate, scores)[side]


def _calibrated(grid: Array, values: Array) -> bool:
    """Whether the infimum over scores of the wrong sign exceeds that over all scores, for each eta != 1/2."""
    margin = np.geomspace(0.02, 1.0, 40)
    margin = np.concatenate([-margin, margin])[:, None]  # 2 eta - 1, (eta, 1)
    risk = conditional_risk((1 - margin) / 2, (1 + margin) / 2, values)  # (eta, score)
    wrong_sign = margin * grid <= 0
    excess = risk.min(axis=1, where=wrong_sign, initial=np.inf) - risk.min(axis=1)
    scale = min(np.abs(values[:, grid == 0]).max(), 1e8)  # rounding errors are relative to it
    return bool((excess > 1e-8 * scale).all())


def _bound(grid: Array, values: Array) -> float:
    size = np.abs(values).max(axis=0)
    return _supremum(size[np.abs(grid) <= _SETTLED_FROM].max(), size.max())


def _lipschitz_constant(surrogate: Surrogate, grid: Array, values: Array) -> float:
    near = max(_steepest_near(_one_side(surrogate, side)) for side in (0, 1))
    if not np.isfinite(values).all() or math.isinf(near):
        return math.inf
    slope = (np.abs(np.diff(values)) / np.diff(grid)).max(axis=0)  # one per gap between scores
    middle = np.abs(grid[1:] + grid[:-1]) / 2
    settled = max(near, slope[(middle > _POSITIVE_TO) & (middle <= _SETTLED_FROM)].max())
    return _supremum(settled, max(settled, slope[middle > _SETTLED_FROM].max()))


def _steepest_near(loss: Callable[[Array], Array]) -> float:
    """Refine the grid around the steepest slope of |r| <= 20; a slope that keeps growing is a jump or a cusp."""
    points = np.linspace(-_POSITIVE_TO, _POSITIVE_TO, 4001)
    history = []
    for _ in range(9):  # down to gaps of 1e-7; rounding dominates smaller ones
        values = loss(points)
        if not np.isfinite(values).all():
            return math.inf
        slope = np.abs(np.diff(values)) / np.diff(points)
        steepest = int(slope.argmax())
        history.append(float(slope[steepest]))
        # the gap around a cusp has a smaller slope than its neighbours, so keep these as well
        left, right = points[max(steepest - 1, 0)], points[min(steepest + 2, len(points) - 1)]
        points = np.linspace(left, right, 13)
    return history[-1] if history[-1] <= 1.05 * history[4] else math.inf


def _supremum(settled: float, farthest: float) -> float:
    """Give the supremum to six digits, or infinity if the values still grow at the end of the grid."""
    return float(f"{farthest:.6g}") if farthest <= 1.001 * settled else math.inf
