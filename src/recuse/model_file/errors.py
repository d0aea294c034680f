"""Errors of saving and loading models."""

from __future__ import annotations


class ModelFileError(ValueError):
    """A model file is damaged, foreign, too large, or of a newer version.

    Examples
    --------
    >>> import tempfile
    >>> import recuse
    >>> with tempfile.NamedTemporaryFile(suffix=".recuse") as file:
    ...     recuse.load(file.name)
    Traceback (most recent call last):
    recuse.model_file.errors.ModelFileError: ...
    """


class ConversionError(ValueError):
    """A fitted model has a part that cannot be saved in a model file.

    Examples
    --------
    A subclass may predict differently from its base class, so it is not converted like it:

    >>> import recuse
    >>> from sklearn.linear_model import Ridge
    >>> class Mine(Ridge):
    ...     pass
    >>> X, y, _, _ = recuse.datasets.make_heteroscedastic(100, random_state=0)
    >>> recuse.save(recuse.RiskRejector(Mine(), Ridge()).fit(X, y), "mine.recuse")
    Traceback (most recent call last):
    recuse.model_file.errors.ConversionError: ...
    """
