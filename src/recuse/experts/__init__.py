"""Experts that rows can be deferred to: their fees and capacities, and who takes each row."""
