"""Audits of decisions: measures by subgroup with tests, and drift between two tables."""

from recuse.audit.shift import drift
from recuse.audit.subgroups import groups

__all__ = ["drift", "groups"]
