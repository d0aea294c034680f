"""Certificates in model files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from recuse.model_file.container import read_container, write_container
from recuse.model_file.served import load

if TYPE_CHECKING:
    from recuse.guarantees.certificate import Certificate

__all__ = ["add_certificate"]


def add_certificate(
    path: str | os.PathLike[str], certificate: Certificate, output: str | os.PathLike[str] | None = None
) -> int:
    """Write a certificate into a model file.

    The model decides as before; `ServedModel.certified` decides at the certified threshold.

    Parameters
    ----------
    path : path-like
        A file of the model that the certificate is about.
    certificate : Certificate
    output : path-like, optional
        The file to write; by default, `path` is replaced. It is replaced as a whole or, if an error occurs, not at all.

    Returns
    -------
    int
        The number of the certificate in the file, counted from 0.

    Raises
    ------
    ValueError
        If the certificate is about another model.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import recuse
    >>> from recuse.guarantees import certify
    >>> X, y, _, _ = recuse.datasets.make_heteroscedastic(3000, random_state=0)
    >>> model = recuse.RcRRegressor(cost=1.0, epochs=50, random_state=0).fit(X[:1000], y[:1000])
    >>> certificate = certify(model, X[1000:], y[1000:], target=1.0, bound=50.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "model.recuse"
    ...     recuse.save(model, path)
    ...     number = add_certificate(path, certificate)
    ...     served = recuse.load(path)
    >>> served.certified(number).threshold == certificate.threshold
    True
    """
    model = load(path)
    if certificate.model_fingerprint != model.fingerprint:
        raise ValueError(
            f"the certificate is about a model with fingerprint {certificate.model_fingerprint[:12]}, but {path} has "
            f"{model.fingerprint[:12]}: certify the model of this file"
        )
    header, entries, _ = read_container(path)
    header["certificates"] = [*header["certificates"], certificate.to_dict()]
    write_container(path if output is None else output, header, entries)
    return len(header["certificates"]) - 1
