"""Objectives that the epoch loop minimises for all members of a stack at once."""
