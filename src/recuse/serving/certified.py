"""Certificates of served models: the one in force, and what a caller may know of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recuse.decision import Decision
from recuse.guarantees.certificate import Certificate
from recuse.model_file.served import ServedModel

__all__ = ["CertificateInForce", "describe_certificates"]


@dataclass(frozen=True)
class CertificateInForce:
    """The certificate at whose threshold a model is served.

    Attributes
    ----------
    number : int
        Its position in the model file, from 1.
    certificate : Certificate
    """

    number: int
    certificate: Certificate

    @classmethod
    def of(cls, model: ServedModel, number: int, name: str) -> Self:
        """Return a certificate of a model; raise a ValueError if the model has none of this number."""
        known = len(model.certificates)
        if not 1 <= number <= known:
            raise ValueError(f"the file of model {name!r} must have certificate {number}, it has {known} certificates")
        return cls(number, model.certificates[number - 1])

    def check_same(self, other: CertificateInForce, name: str) -> None:
        """Raise a ValueError if another file has another promise under this number."""
        old, new = (
            f"{each.what} <= {each.target:g} at delta {each.delta:g}" for each in (self.certificate, other.certificate)
        )
        if old != new:
            raise ValueError(
                f"certificate {self.number} of model {name!r} must promise {old} as before, the new file has {new}"
            )

    def decide(self, model: ServedModel, table: Any, cost: Any) -> tuple[Decision, NDArray[np.float64] | None]:
        """Decide about rows at the certified threshold; raise a ValueError for a cost that is not covered."""
        certified = model.certified(self.number - 1)
        decision, expected = model.decide_with_expected_loss(table, certified.model_cost(cost), warn=False)
        return certified.apply(decision), expected


def describe_certificates(model: ServedModel) -> list[dict[str, Any]]:
    """Return the certificates of a model as plain values, numbered from 1."""
    return [
        {
            "number": number,
            "statement": str(each),
            "what": each.what,
            "target": each.target,
            "delta": each.delta,
            "threshold": each.threshold,
            "cost": each.cost,
        }
        for number, each in enumerate(model.certificates, start=1)
    ]
