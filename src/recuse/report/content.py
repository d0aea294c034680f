"""The content of the page: everything that is computed in Python, as plain values."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse import audit
from recuse._version import __version__
from recuse.audit.subgroups import named_groups, read_groups
from recuse.dataframes import aligned, float_array, is_frame, row_index, to_pandas
from recuse.decision import Decision
from recuse.inspection.explanations import (
    calibration_bins,
    dependence,
    has_expected_loss,
    importances,
    nearest_rows,
    training_sample,
)
from recuse.inspection.savings import Prices
from recuse.losses import SQUARED
from recuse.metrics.measures import numbers, same_length
from recuse.model_file.table_report import table_report
from recuse.tabular.schema import TableSchema

if TYPE_CHECKING:
    from recuse.model_file.served import ServedModel

Floats = NDArray[np.float64]

# Positions of the slider; fewer for a model without an expected loss, which must decide at each of them.
_POSITIONS, _SEARCHED = 101, 41
# The slider goes from the cost divided by this number to the cost times it.
_SPAN = 8.0


@dataclass(frozen=True)
class RowDecisions:
    """Thresholds, losses and costs of rows, sorted by threshold.

    Attributes
    ----------
    threshold : ndarray of shape (row,)
        A row is accepted where the position of the slider is above its threshold.
    loss : ndarray of shape (row,)
        Loss of the prediction.
    unit : ndarray of shape (row,)
        Cost of a row where the slider is at 1; its cost elsewhere is the position times the unit.
    expected : ndarray of shape (row,) or None
        Expected loss, if costs differ by row and it is known. Within a budget, the rows with the lowest cost minus
        expected loss are then rejected, and not those with the highest threshold.
    order : ndarray of shape (row,)
        Place of each sorted row in the table.
    positions : ndarray of shape (position,)
        Positions of the slider.
    start : int
        The position at the cost of the model.
    by_row : bool
        Whether costs differ by row, so that positions are factors and not costs.
    """

    threshold: Floats
    loss: Floats
    unit: Floats
    expected: Floats | None
    order: NDArray[np.intp]
    positions: Floats
    start: int
    by_row: bool


def row_decisions(model: ServedModel, X: Any, decision: Decision, loss: Floats) -> RowDecisions:
    """Find the threshold of every row.

    Parameters
    ----------
    model : fitted estimator or ServedModel
    X : table
    decision : Decision
        At the cost of the report.
    loss : ndarray of shape (row,)
    """
    cost = decision.cost
    by_row = bool(np.ptp(cost) > 0)
    centre, unit = (1.0, cost) if by_row else (float(cost[0]), np.ones(len(cost)))
    known = has_expected_loss(decision)
    positions, start = _positions(model, centre, _POSITIONS if known else _SEARCHED, by_row=by_row)
    if known:
        expected = cost - decision.score  # the score is the cost minus the expected loss
        with np.errstate(divide="ignore", invalid="ignore"):
            threshold = np.where(unit > 0, expected / unit, np.inf)
    elif len(positions) == 1:
        threshold = centre - decision.score  # accepted where the score is above 0
    else:
        threshold = _searched(model, X, unit, positions)
    order = np.lexsort([-decision.score, threshold])
    by_score = (cost - decision.score)[order] if by_row and known else None
    return RowDecisions(threshold[order], loss[order], unit[order], by_score, order, positions, start, by_row)


def _positions(model: ServedModel, centre: float, count: int, *, by_row: bool) -> tuple[Floats, int]:
    """Return the positions of the slider, on a logarithmic scale, and the place of the cost of the report."""
    cost_range = getattr(model, "cost_range_", None)
    if cost_range is not None and not by_row:
        low, high = cost_range
    elif not model.serves_any_cost or centre <= 0 or (cost_range is not None and by_row):
        return np.array([centre]), 0
    else:
        low, high = centre / _SPAN, centre * _SPAN
    positions = np.array([float(f"{each:.4g}") for each in np.geomspace(low, high, count)])
    positions = np.clip(positions, low, high)
    start = int(np.abs(np.log(positions / centre)).argmin())
    positions[start] = centre
    return positions, start


def _searched(model: ServedModel, X: Any, unit: Floats, positions: Floats) -> Floats:
    """Find, for every row, the lowest position at which the model accepts it; decisions are monotone in the cost."""
    threshold = np.full(len(unit), np.inf)
    for position in positions[::-1]:
        accepted = model.decide(X, cost=position * unit).accepted
        threshold[accepted] = np.nextafter(position, 0)  # just below the position
    return threshold


# Numbers of columns with a curve, of example rows of each kind, and of columns that examples show.
_CURVES, _EXAMPLES, _SHOWN_COLUMNS = 4, 6, 12
# Bins of groups that are numbers, and rows below which groups are pooled.
_GROUP_BINS, _MIN_ROWS = 4, 20
# Most rows that groups and drift are tested with.
_AUDIT_ROWS = 20_000


@dataclass(frozen=True)
class Request:
    """What a page is about.

    Attributes
    ----------
    model : ServedModel
    X : table
    y : array-like
    cost : float, array-like, str or None
    group : array-like, DataFrame, str or sequence of str, optional
        Groups of the audit.
    certificate : Certificate, optional
    training : tuple (X, y), optional
        Training rows, for nearest rows and drift.
    prices : Prices, optional
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
    prices: Prices | None
    title: str
    random_state: int


def content_of(request: Request) -> dict[str, Any]:
    """Compute the content of the page."""
    judged = _Judged.of(request)
    decision, rows = judged.decision, row_decisions(request.model, judged.X, judged.decision, judged.loss)
    random = np.random.RandomState(request.random_state)
    return {
        "title": request.title,
        "rows": _packed_rows(rows),
        "money": None if request.prices is None else {"unit": request.prices.per_unit, **asdict(request.prices)},
        "model": _model(judged),
        "calibration": _calibration(decision, judged.loss) if has_expected_loss(decision) else None,
        "drivers": _drivers(judged, random),
        "examples": _examples(judged),
        "groups": None if request.group is None else [_group_audit(judged, rows, *each) for each in _groups(judged)],
        "problems": [asdict(problem) for problem in table_report(judged.schema, _named(judged.X, judged.schema))],
        "drift": None if request.training is None else _drift(judged, random),
        "certificates": [{"statement": str(each)} for each in _certificates(request)],
    }


@dataclass(frozen=True)
class _Judged:
    """The rows of the page, and how the model did on them.

    Attributes
    ----------
    request : Request
    X : DataFrame or array
        The rows as a pandas table, if they have columns with names.
    frame : DataFrame
        The columns that the model uses.
    decision : Decision
    target, loss : ndarray of shape (n_rows,)
    """

    request: Request
    X: Any
    frame: pd.DataFrame
    decision: Decision
    target: Floats
    loss: Floats

    @classmethod
    def of(cls, request: Request) -> Self:
        """Decide about the rows, and check that all parts of a request fit each other."""
        model, prices, certificate = request.model, request.prices, request.certificate
        if not isinstance(model.schema, TableSchema):
            raise ValueError("a report needs a model of tables, got a model of images")
        X = to_pandas(request.X)
        cost = prices.cost if request.cost is None and prices is not None else request.cost
        decision = model.decide(X, cost=cost)
        if prices is not None and decision.loss != SQUARED:
            raise ValueError(f"money needs a model of the squared loss, got the {decision.loss.name} loss")
        if certificate is not None and certificate.model_fingerprint != model.fingerprint:
            raise ValueError("certificate must be one of this model, got the certificate of another model")
        target = numbers(aligned(request.y, row_index(X), "y"), "y")
        same_length(X=decision, y=target)
        frame = _named(X, model.schema)[model.schema.names].reset_index(drop=True)
        return cls(request, X, frame, decision, target, decision.loss(decision.prediction - target))

    @property
    def schema(self) -> TableSchema:
        """The columns of the model."""
        schema: TableSchema = self.request.model.schema
        return schema

    @cached_property
    def training(self) -> tuple[pd.DataFrame, Floats]:
        """The training rows and their targets, matched by label and checked."""
        assert self.request.training is not None
        table = to_pandas(self.request.training[0])
        frame = _named(table, self.schema)
        absent = [name for name in self.schema.names if name not in frame.columns]
        if absent:
            raise ValueError(f"the training rows must have the column {absent[0]!r}, got {list(frame.columns)!r:.300}")
        target = float_array(aligned(self.request.training[1], row_index(table), "y of training"), "y of training")
        if target.shape != (len(frame),):
            raise ValueError(f"training must have as many targets as rows, {len(frame)}, got shape {target.shape}")
        return frame.reset_index(drop=True), target


def _named(X: Any, schema: TableSchema) -> pd.DataFrame:
    """Return the table with the names of the schema."""
    if isinstance(X, pd.DataFrame) and schema.matrix is None:
        return X
    return pd.DataFrame(np.asarray(X), columns=[column.name for column in schema.columns])


def _packed_rows(rows: RowDecisions) -> dict[str, Any]:
    """Return the numbers of the rows for the browser: little-endian doubles in base 64."""
    return {
        "threshold": _packed(rows.threshold),
        "loss": _packed(rows.loss),
        "unit": _packed(rows.unit) if rows.by_row else None,
        "expected": None if rows.expected is None else _packed(rows.expected),
        "positions": rows.positions.tolist(),
        "start": rows.start,
        "by_row": rows.by_row,
    }


def _packed(values: NDArray[Any], dtype: str = "<f8") -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=dtype).tobytes()).decode("ascii")


def _model(judged: _Judged) -> dict[str, Any]:
    model, decision = judged.request.model, judged.decision
    info = model.info()
    return {
        "estimator": model.estimator,
        "loss": decision.loss.name,
        "rows": len(decision),
        "targets": info["targets"]["names"] or [],
        "training_rows": info["training"]["rows"],
        "columns": len(judged.schema.names),
        "score_unit": decision.score_unit,
        "serves_any_cost": bool(model.serves_any_cost),
        "versions": {"recuse": info["recuse"], **info["libraries"]},
        "written_by": __version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }


def _calibration(decision: Decision, loss: Floats) -> list[dict[str, Any]]:
    bins = calibration_bins(decision.cost - decision.score, loss)
    return [{str(name): _cell(value) for name, value in line.items()} for line in bins.to_dict("records")]


def _drivers(judged: _Judged, random: np.random.RandomState) -> dict[str, Any]:
    """Return the importance of every column, and the curves of the most important ones that have one."""
    given = judged.request.model, judged.frame, judged.decision.cost
    ranked = importances(*given, random)
    columns = {str(column.name): column for column in judged.schema.used if column.kind != "date"}
    curves: list[Any] = []
    for column in (columns[each.column] for each in ranked if each.column in columns):
        if len(curves) < _CURVES and (curve := dependence(*given, column, random)) is not None:
            curves.append(asdict(curve))
    outcome = "expected loss" if has_expected_loss(judged.decision) else "score"
    return {"importances": [asdict(each) for each in ranked], "curves": curves, "outcome": outcome}


def _examples(judged: _Judged) -> dict[str, Any]:
    """Return the rows that are rejected most clearly, accepted most clearly, and nearest to the limit."""
    decision = judged.decision
    by_score = np.argsort(decision.score, kind="stable")
    chosen = {
        "rejected": by_score[: int((~decision.accepted).sum())],
        "accepted": by_score[::-1][: int(decision.accepted.sum())],
        "near the limit": np.argsort(np.abs(decision.score), kind="stable"),
    }
    return {
        "columns": [str(column.name) for column in judged.schema.used[:_SHOWN_COLUMNS]],
        "more_columns": max(len(judged.schema.used) - _SHOWN_COLUMNS, 0),
        "has_training": judged.request.training is not None,
        "kinds": [
            {"kind": kind, "rows": list(_shown_rows(judged, places[:_EXAMPLES]))} for kind, places in chosen.items()
        ],
    }


def _shown_rows(judged: _Judged, places: NDArray[np.intp]) -> Iterator[dict[str, Any]]:
    decision, names = judged.decision, [column.name for column in judged.schema.used[:_SHOWN_COLUMNS]]
    rows, neighbours = judged.frame.iloc[places], _neighbours(judged, places, names)
    index = row_index(judged.X)
    for number, place in enumerate(places.tolist()):
        yield {
            "label": str(place if index is None else index[place]),
            "cells": [_cell(rows.iloc[number][name]) for name in names],
            "prediction": _cell(decision.prediction[place]),
            "target": _cell(judged.target[place]),
            "loss": float(judged.loss[place]),
            "score": float(decision.score[place]),
            "cost": float(decision.cost[place]),
            "neighbours": neighbours[number] if neighbours else [],
        }


def _neighbours(judged: _Judged, places: NDArray[np.intp], names: list[Any]) -> list[list[dict[str, Any]]]:
    """Return the cells and the target of the nearest training rows of some rows; none without training rows."""
    if judged.request.training is None or len(places) == 0:
        return []
    training, target = judged.training
    sample = training_sample(training)
    near, _ = nearest_rows(judged.frame.iloc[places], sample, judged.schema.used)
    return [
        [
            {"cells": [_cell(sample.iloc[place][name]) for name in names], "target": _cell(target[sample.index[place]])}
            for place in of_row
        ]
        for of_row in near
    ]


def _cell(value: Any) -> Any:
    """Return a cell as text or number for the page."""
    if value is None or (np.ndim(value) == 0 and pd.isna(value)):
        return None
    if isinstance(value, bool | np.bool_):
        return str(value)
    if isinstance(value, int | float | np.integer | np.floating):
        return float(value)
    return str(value)


def _groups(judged: _Judged) -> list[tuple[str, NDArray[Any]]]:
    """Return the values of each column of groups: the name of a column, several names, a table, or one array."""
    group = named_groups(judged.request.group, judged.X)
    values = aligned(group, row_index(judged.X), "group")
    if is_frame(values):
        return [(str(name), values[name].to_numpy()) for name in values.columns]
    return [(str(getattr(group, "name", None) or "group"), np.asarray(values))]


def _group_audit(judged: _Judged, rows: RowDecisions, name: str, values: NDArray[Any]) -> dict[str, Any]:
    """Return the group of every row as a number for the browser, and the flags of the audit of one column."""
    decision, seed = judged.decision, judged.request.random_state
    found = read_groups(values, None, len(decision), bins=_GROUP_BINS, min_rows=_MIN_ROWS, intersections=1)
    codes = np.argmax([group.rows for group in found], axis=0)
    labels = np.array([group.label for group in found], dtype=object)
    sample = _sample(len(decision), np.random.RandomState(seed))
    # Small groups are pooled already, so that min_rows leaves them as they are.
    table = audit.groups(
        replace(decision, index=None)[sample],
        judged.target[sample],
        labels[codes][sample],
        min_rows=1,
        random_state=seed,
    ).set_index("group")
    flags = [
        {flag: bool(table[flag].get(label, False)) for flag in ("rejected_more", "mispredicted_more")}
        for label in labels
    ]
    return {"column": name, "labels": labels.tolist(), "codes": _packed(codes[rows.order], "<u2"), "flags": flags}


def _drift(judged: _Judged, random: np.random.RandomState) -> list[dict[str, Any]]:
    """Compare the rows with the training rows."""
    training = judged.training[0][judged.schema.names]
    both = [table.iloc[_sample(len(table), random)] for table in (training, judged.frame)]
    table = audit.drift(*both, random_state=judged.request.random_state)
    return [
        {
            "column": str(line["column"]),
            "kind": str(line["kind"]),
            "distance": _cell(line["distance"]),
            "p": _cell(line["distance_p"]),
            "new": _cell(line["new"]),
            "missing": [_cell(line["missing_reference"]), _cell(line["missing_current"])],
            "drifted": bool(line["drifted"]),
        }
        for _, line in table.iterrows()
    ]


def _sample(count: int, random: np.random.RandomState) -> NDArray[np.intp]:
    """Return the places of all rows or, of many, of as many as groups and drift are tested with."""
    return np.sort(random.choice(count, min(count, _AUDIT_ROWS), replace=False))


def _certificates(request: Request) -> list[Any]:
    return [request.certificate] if request.certificate is not None else list(request.model.certificates)
