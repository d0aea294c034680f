"""The content of the page: everything that is computed in Python, as plain values."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse import audit
from recuse._version import __version__
from recuse.audit.membership import read_groups
from recuse.costs import from_money
from recuse.dataframes import aligned, aligned_columns, row_index
from recuse.decision import Decision
from recuse.losses import SQUARED
from recuse.model_file.schema import ColumnSchema, TableSchema
from recuse.model_file.table_report import table_report
from recuse.report.decisions import RowDecisions, has_expected_loss, row_decisions
from recuse.report.drivers import dependence, importances
from recuse.report.neighbours import nearest_rows

__all__ = ["Request", "content_of"]

Floats = NDArray[np.float64]

_BINS = 10  # of the calibration
_CURVES = 4  # columns with a curve
_EXAMPLES = 6  # rows shown of each kind
_SHOWN_COLUMNS = 12
_GROUP_BINS, _MIN_ROWS = 4, 20  # of the groups
_AUDIT_ROWS = 20_000  # the tests of groups and of drift use at most this many rows


@dataclass(frozen=True)
class Request:
    """What a page is about.

    Attributes
    ----------
    model : ServedModel
    X : table
    y : array-like
    cost : float, array-like, str or None
    group : array-like, str or sequence of str, optional
        Groups of the audit.
    certificate : Certificate, optional
    training : tuple (X, y), optional
        Training rows, for nearest rows and drift.
    money : mapping, optional
        The arguments of `recuse.costs.from_money`.
    title : str
    random_state : int
    """

    model: Any
    X: Any
    y: Any
    cost: Any
    group: Any
    certificate: Any
    training: tuple[Any, Any] | None
    money: Mapping[str, float] | None
    title: str
    random_state: int


def content_of(request: Request) -> dict[str, Any]:
    """Compute the content of the page."""
    model = request.model
    if not isinstance(model.schema, TableSchema):
        raise ValueError("a report needs a model of tables, got a model of images")
    X = model._reader.table_of(request.X)
    cost = from_money(**request.money) if request.cost is None and request.money is not None else request.cost
    decision = model.decide(X, cost=cost)
    _check(request, decision)
    target = aligned_columns(aligned(request.y, row_index(X), "y"), decision.target_names, "y")
    target = np.asarray(target, dtype=np.float64).reshape(decision.prediction.shape)
    if not np.isfinite(target).all():
        raise ValueError("y must be finite, got missing or infinite values; leave these rows out")
    loss = decision.loss.of_rows(decision.prediction - target)
    rows = row_decisions(model, X, decision, loss)
    frame = _frame(X, model.schema)
    random = np.random.RandomState(request.random_state)
    columns = [column for column in model.schema.columns if column.kind != "unused"]
    ranked = importances(model, frame, decision.cost, random)
    return {
        "title": request.title,
        "rows": _packed_rows(rows),
        "money": _money(request.money),
        "model": _model(model, decision, len(loss)),
        "calibration": _calibration(decision, loss) if has_expected_loss(model) else None,
        "drivers": {
            "importances": [asdict(each) for each in ranked],
            "curves": _curves(request, frame, decision, columns, [each.column for each in ranked], random),
            "outcome": "expected loss" if has_expected_loss(model) else "score",
        },
        "examples": _examples(request, frame, decision, target, loss, columns),
        "groups": _groups(request, X, decision, target, rows),
        "problems": [asdict(problem) for problem in table_report(model.schema, frame_of(X, model.schema))],
        "drift": _drift(request, frame, decision, random),
        "certificates": _certificates(request),
    }


def _check(request: Request, decision: Decision) -> None:
    """Raise an error if prices or a certificate do not fit the model."""
    if request.money is not None and decision.loss != SQUARED:
        raise ValueError(f"money needs a model of the squared loss, got the {decision.loss.name} loss")
    certificate = request.certificate
    if certificate is not None and certificate.model_fingerprint != request.model.fingerprint:
        raise ValueError("certificate must be one of this model, got the certificate of another model")


def frame_of(X: Any, schema: TableSchema) -> pd.DataFrame:
    """Return the table with the names of the schema."""
    if isinstance(X, pd.DataFrame) and schema.matrix is None:
        return X
    return pd.DataFrame(np.asarray(X), columns=[column.name for column in schema.columns])


def _frame(X: Any, schema: TableSchema) -> pd.DataFrame:
    """Return the columns that the model uses."""
    return frame_of(X, schema)[schema.names].reset_index(drop=True)


def _packed_rows(rows: RowDecisions) -> dict[str, Any]:
    """Return the numbers of the rows for the browser: little-endian doubles in base 64."""
    constant = not rows.by_row
    return {
        "threshold": _packed(rows.threshold),
        "loss": _packed(rows.loss),
        "unit": None if constant else _packed(rows.unit),
        "expected": None if rows.expected is None else _packed(rows.expected),
        "positions": rows.positions.tolist(),
        "start": rows.start,
        "by_row": rows.by_row,
    }


def _packed(values: NDArray[Any], dtype: str = "<f8") -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")


def _money(money: Mapping[str, float] | None) -> dict[str, float] | None:
    """Return the price of one unit of the loss."""
    if money is None:
        return None
    from_money(**money)  # checks the values
    return {"unit": money["error_cost"] / money["error"] ** 2, **money}


def _model(model: Any, decision: Decision, n_rows: int) -> dict[str, Any]:
    info = model.info()
    return {
        "estimator": model.estimator,
        "loss": decision.loss.name,
        "rows": n_rows,
        "targets": list(decision.target_names or []),
        "training_rows": info["training"]["rows"],
        "columns": len(model.schema.names),
        "score_unit": decision.score_unit,
        "serves_any_cost": bool(model.serves_any_cost),
        "versions": {"recuse": info["recuse"], **info["libraries"]},
        "written_by": __version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _calibration(decision: Decision, loss: Floats) -> list[dict[str, float]]:
    """Return expected and observed loss of rows with similar expected losses."""
    expected = decision.cost - decision.score
    bins = np.array_split(np.argsort(expected, kind="stable"), min(_BINS, len(loss)))
    return [
        {
            "expected": float(expected[some].mean()),
            "observed": float(loss[some].mean()),
            "error": float(loss[some].std() / len(some) ** 0.5),
            "rows": len(some),
        }
        for some in bins
    ]


def _curves(
    request: Request,
    frame: pd.DataFrame,
    decision: Decision,
    columns: Sequence[ColumnSchema],
    ranked: Sequence[str],
    random: np.random.RandomState,
) -> list[dict[str, Any]]:
    by_name = {str(column.name): column for column in columns}
    found = []
    for name in ranked:
        column = by_name[name]
        curve = dependence(request.model, frame, decision.cost, column, random) if column.kind != "date" else None
        if curve is not None:
            found.append(asdict(curve))
        if len(found) == _CURVES:
            break
    return found


def _examples(
    request: Request,
    frame: pd.DataFrame,
    decision: Decision,
    target: Floats,
    loss: Floats,
    columns: Sequence[ColumnSchema],
) -> dict[str, Any]:
    """Return the rows that are rejected most clearly, accepted most clearly, and nearest to the limit."""
    by_score = np.argsort(decision.score, kind="stable")
    rejected, accepted = by_score[: int((~decision.accepted).sum())], by_score[::-1][: int(decision.accepted.sum())]
    limit = np.argsort(np.abs(decision.score), kind="stable")
    shown = columns[:_SHOWN_COLUMNS]
    chosen = {"rejected": rejected, "accepted": accepted, "near the limit": limit}
    return {
        "columns": [str(column.name) for column in shown],
        "more_columns": len(columns) - len(shown),
        "has_training": request.training is not None,
        "kinds": [
            {"kind": kind, "rows": _shown_rows(request, frame, decision, target, loss, columns, places[:_EXAMPLES])}
            for kind, places in chosen.items()
        ],
    }


def _shown_rows(
    request: Request,
    frame: pd.DataFrame,
    decision: Decision,
    target: Floats,
    loss: Floats,
    columns: Sequence[ColumnSchema],
    places: NDArray[np.intp],
) -> list[dict[str, Any]]:
    rows, near = frame.iloc[places], None
    shown = [column.name for column in columns[:_SHOWN_COLUMNS]]
    if request.training is not None and len(places):
        training, training_target = _training_rows(request, decision)
        near = nearest_rows(rows, training, columns)
    result = []
    for number, place in enumerate(places.tolist()):
        neighbours = []
        if near is not None:
            for neighbour in near[number].tolist():
                cells = [_cell(training.iloc[neighbour][name]) for name in shown]
                neighbours.append({"cells": cells, "target": _cell(training_target[neighbour])})
        result.append(
            {
                "label": _label(request.X, place),
                "cells": [_cell(rows.iloc[number][name]) for name in shown],
                "prediction": _cell(decision.prediction[place]),
                "target": _cell(target[place]),
                "loss": float(loss[place]),
                "score": float(decision.score[place]),
                "cost": float(decision.cost[place]),
                "neighbours": neighbours,
            }
        )
    return result


def _training_rows(request: Request, decision: Decision) -> tuple[pd.DataFrame, Floats]:
    """Return the training rows and their targets, matched by label and checked."""
    assert request.training is not None
    given, target = request.training
    table, schema = request.model._reader.table_of(given), request.model.schema
    frame = frame_of(table, schema)
    absent = [name for name in schema.names if name not in frame.columns]
    if absent:
        raise ValueError(f"the training rows must have the column {absent[0]!r}, got {list(frame.columns)!r:.300}")
    values = aligned_columns(aligned(target, row_index(table), "y of training"), decision.target_names, "y of training")
    numbers = np.asarray(values, dtype=np.float64)
    if len(numbers) != len(frame):
        raise ValueError(f"training must have as many targets as rows, {len(frame)}, got {len(numbers)}")
    return frame.reset_index(drop=True), numbers


def _label(X: Any, place: int) -> str:
    index = row_index(X)
    return str(place if index is None else index[place])


def _cell(value: Any) -> Any:
    """Return a cell as text or number for the page."""
    if isinstance(value, np.ndarray) and value.ndim:
        return ", ".join(f"{each:.4g}" for each in value)
    if value is None or (np.ndim(value) == 0 and pd.isna(value)):
        return None
    if isinstance(value, bool | np.bool_):
        return str(value)
    if isinstance(value, int | float | np.integer | np.floating):
        return float(value)
    return str(value)


def _groups(
    request: Request, X: Any, decision: Decision, target: Floats, rows: RowDecisions
) -> list[dict[str, Any]] | None:
    """Return the members of each group for the browser, and the flags of the audit."""
    if request.group is None:
        return None
    return [_group_audit(request, name, values, decision, target, rows) for name, values in _group_columns(request, X)]


def _group_audit(
    request: Request, name: str, values: NDArray[Any], decision: Decision, target: Floats, rows: RowDecisions
) -> dict[str, Any]:
    """Audit the groups of one column, and number the group of every row."""
    found = read_groups(values, None, len(decision), bins=_GROUP_BINS, min_rows=_MIN_ROWS, intersections=1)
    codes = np.argmax([group.rows for group in found], axis=0)
    labels = np.array([group.label for group in found], dtype=object)
    sample = np.arange(len(decision))
    if len(sample) > _AUDIT_ROWS:
        sample = np.sort(np.random.RandomState(request.random_state).choice(sample, _AUDIT_ROWS, replace=False))
    table = audit.groups(
        replace(decision, index=None)[sample],
        target[sample],
        labels[codes][sample],
        min_rows=1,  # small groups are pooled already
        random_state=request.random_state,
    ).set_index("group")
    flags = [
        {
            "rejected_more": bool(table["rejected_more"].get(label, False)),
            "mispredicted_more": bool(table["mispredicted_more"].get(label, False)),
        }
        for label in labels
    ]
    return {"column": name, "labels": labels.tolist(), "codes": _packed(codes[rows.order], "<u2"), "flags": flags}


def _finite(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _group_columns(request: Request, X: Any) -> list[tuple[str, NDArray[Any]]]:
    """Return the values of each column of groups: the name of a column, several names, or one array."""
    group = [request.group] if isinstance(request.group, str) else request.group
    if _are_names(group, X):
        absent = [name for name in group if name not in X.columns]
        if absent:
            raise ValueError(f"group must name columns of X, got {absent[0]!r}, not among {list(X.columns)!r:.300}")
        return [(name, X[name].to_numpy()) for name in group]
    name = str(getattr(group, "name", None) or "group")
    return [(name, np.asarray(aligned(group, row_index(X), "group")))]


def _are_names(group: Any, X: Any) -> bool:
    """Whether groups are names of columns, and not one value for each row."""
    texts = isinstance(group, list | tuple) and all(isinstance(name, str) for name in group)
    return texts and isinstance(X, pd.DataFrame) and (len(group) != len(X) or all(name in X.columns for name in group))


def _drift(
    request: Request, frame: pd.DataFrame, decision: Decision, random: np.random.RandomState
) -> list[dict[str, Any]] | None:
    """Compare the rows with the training rows."""
    if request.training is None:
        return None
    training = _training_rows(request, decision)[0][request.model.schema.names]
    both = [
        table.iloc[np.sort(random.choice(len(table), min(len(table), _AUDIT_ROWS), replace=False))]
        for table in (training, frame)
    ]
    table = audit.drift(*both, random_state=request.random_state)
    return [
        {
            "column": str(line["column"]),
            "kind": str(line["kind"]),
            "distance": _finite(line["distance"]),
            "p": _finite(line["distance_p"]),
            "new": _finite(line["new"]),
            "missing": [_finite(line["missing_reference"]), _finite(line["missing_current"])],
            "drifted": bool(line["drifted"]),
        }
        for _, line in table.iterrows()
    ]


def _certificates(request: Request) -> list[dict[str, Any]]:
    given = [request.certificate] if request.certificate is not None else list(request.model.certificates)
    return [{"statement": str(each)} for each in given]
