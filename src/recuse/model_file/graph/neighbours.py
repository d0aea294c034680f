"""Converters."""
