"""Thresholds on the score, and the guarantees that come with them."""

from recuse.guarantees.certificate import CannotCertify, Certificate, CertifiedModel
from recuse.guarantees.certification import certify
from recuse.guarantees.request import BoundWarning
from recuse.guarantees.thresholds import break_ties, by_budget, by_cost, by_cost_within_budget, by_validation_loss

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
