"""Converters of neighbours."""
