"""Thresholds on the score, and the guarantees that come with them."""

from typing import TYPE_CHECKING

from recuse.lazy_names import lazy_names

if TYPE_CHECKING:
    from recuse.guarantees.certificate import CannotCertify, Certificate, CertifiedModel
    from recuse.guarantees.certification import certify
    from recuse.guarantees.request import BoundWarning
    from recuse.guarantees.thresholds import (
        break_ties,
        by_budget,
        by_cost,
        by_cost_within_budget,
        by_validation_loss,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "BoundWarning": "recuse.guarantees.request",
            "CannotCertify": "recuse.guarantees.certificate",
            "Certificate": "recuse.guarantees.certificate",
            "CertifiedModel": "recuse.guarantees.certificate",
            "break_ties": "recuse.guarantees.thresholds",
            "by_budget": "recuse.guarantees.thresholds",
            "by_cost": "recuse.guarantees.thresholds",
            "by_cost_within_budget": "recuse.guarantees.thresholds",
            "by_validation_loss": "recuse.guarantees.thresholds",
            "certify": "recuse.guarantees.certification",
        },
    )

__all__ = [
    "BoundWarning",
    "CannotCertify",
    "Certificate",
    "CertifiedModel",
    "break_ties",
    "by_budget",
    "by_cost",
    "by_cost_within_budget",
    "by_validation_loss",
    "certify",
]
