"""What a loss is good for: facts about it in, the statements that hold for it in plain words out."""

import math
from dataclasses import dataclass
from typing import NamedTuple, final

from recuse.surrogates.surrogate import RegretTransfer


@final
@dataclass(frozen=True)
class SurrogateReport:
    """Facts about a binary loss, and which theorems they earn.

    Attributes
    ----------
    name : str
        The loss.
    non_negative, strictly_positive : bool
        Whether l >= 0, and l > 0, at every finite score.
    classification_calibrated : bool
        Whether minimising the loss always yields the right sign of r.
    bound : float
        The largest absolute value of the loss, or infinity.
    lipschitz_constant : float
        The steepest slope, or infinity.
    transfer : RegretTransfer or None
        The proved regret transfer, where there is one.
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
        """The statements that do not hold, or are not known to, and what each would need."""
        return tuple(statement.needs for applies, statement in self._verdicts() if not applies)

    def _verdicts(self) -> list[tuple[bool, "_Statement"]]:
        positive, calibrated = self.strictly_positive, self.classification_calibrated
        verdicts = [(positive, _REGRESSOR_CONSISTENCY), (positive and calibrated, _REJECTOR_CALIBRATION)]
        if not positive:  # otherwise the first statement already says more
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
