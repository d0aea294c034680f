"""The page as one HTML file."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from recuse.files.atomic import new_file
from recuse.inspection.savings import Prices
from recuse.model_file.served import ServedModel, load
from recuse.report.content import Request, content_of


def write(
    model: Any,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    group: Any = None,
    certificate: Any = None,
    *,
    cost: Any = None,
    training: tuple[Any, Any] | None = None,
    money: Mapping[str, float] | None = None,
    title: str | None = None,
    random_state: int = 0,
) -> None:
    """Write a page about a model and its decisions on test rows.

    The page is one file and needs no network. A slider for the cost and one for the share of rows that may be rejected
    change all numbers and figures.

    Parameters
    ----------
    model : fitted estimator or ServedModel
    X : array-like or DataFrame of shape (n_rows, n_features)
        Rows that the model was not fitted to.
    y : array-like of shape (n_rows,)
    path : path-like
        Usually with the ending ".html". An existing file is replaced.
    group : array-like, DataFrame, str or list of str, optional
        Groups to compare: one value for each row, a table of such columns, or names of columns of `X`.
    certificate : Certificate, optional
        By default the certificates in the file of the model.
    cost : float, array-like or str, optional
        By default the cost of the model.
    training : tuple (X, y), optional
        Training rows. They are shown beside similar test rows, and compared with the test rows for drift.
    money : mapping, optional
        Prices as in `recuse.costs.from_money`: "error", "error_cost" and "review_cost". Savings are then in money.
    title : str, optional
    random_state : int, default=0
        Draws the rows of the sections that do not use all rows.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.linear_model import Ridge
    >>> from recuse import RiskRejector, datasets, report
    >>> (X, y), _, (X_test, y_test) = datasets.split(datasets.load("auto_mpg"), repeat=0)
    >>> model = RiskRejector(Ridge(), cost=6.0, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report.write(model, X_test, y_test, Path(folder) / "report.html", group="origin", training=(X, y))
    ...     "<!doctype html>" in (Path(folder) / "report.html").read_text(encoding="utf-8")
    True
    """
    served = model if isinstance(model, ServedModel) else _served(model)
    heading = title or f"What {served.estimator} would save"
    prices = None if money is None else Prices(**money)
    request = Request(served, X, y, cost, group, certificate, training, prices, heading, random_state)
    text = _page(content_of(request))
    with new_file(path) as file:
        file.write(text.encode("utf-8"))


def _served(model: Any) -> ServedModel:
    """Save and load an estimator, since a loaded model decides much faster."""
    from recuse.model_file.saving import save

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.recuse")
        save(model, path)
        return load(path)


def _page(content: dict[str, Any]) -> str:
    """Insert the content into the template."""
    assets = files("recuse.report") / "assets"
    template = (assets / "report.html").read_text(encoding="utf-8")
    parts = {
        "title": escape(content["title"]),
        "style": (assets / "report.css").read_text(encoding="utf-8"),
        "script": (assets / "report.js").read_text(encoding="utf-8"),
        # "<" could end the script element, or start a comment in it
        "content": json.dumps(content, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark.group(1)], template)
