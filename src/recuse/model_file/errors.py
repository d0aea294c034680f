"""Errors of saving and loading models."""

from __future__ import annotations

__all__ = ["ConversionError", "ModelFileError"]


class ModelFileError(ValueError):
    """A model file is damaged, foreign, too large, or of a newer version."""


class ConversionError(ValueError):
    """A fitted model has a part that cannot be saved in a model file."""
