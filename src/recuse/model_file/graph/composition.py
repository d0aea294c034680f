"""Converters of composition."""
