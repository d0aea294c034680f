"""The header of a model file as checked values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from recuse import losses
from recuse.model_file.errors import ModelFileError
from recuse.model_file.schema import ImageSchema, schema_from_dict
from recuse.tabular.schema import TableSchema

__all__ = ["CostHeader", "ExpertHeader", "Header"]

_COST_KINDS = ("number", "column", "rows", "callable", "range", "experts")


@dataclass(frozen=True)
class CostHeader:
    """The cost that a model was fitted for.

    Attributes
    ----------
    kind : {"number", "column", "rows", "callable", "range", "experts"}
        With "experts", the cost of a row is that of the cheapest expert.
    value : float, str or None
        The number, or the name of the column.
    range : tuple of float or None
    serves_any_cost : bool
    """

    kind: str
    value: float | str | None
    range: tuple[float, float] | None
    serves_any_cost: bool

    def describe(self) -> str:
        """Return the cost in words."""
        match self.kind:
            case "number":
                return f"cost {self.value:g}"
            case "column":
                return f"cost in column {self.value!r}"
            case "range":
                assert self.range is not None
                return f"cost {self.range[0]:g} to {self.range[1]:g}"
            case "experts":
                return "cost of the cheapest expert"
        return "one cost per row"


@dataclass(frozen=True)
class ExpertHeader:
    """An expert that rows are deferred to.

    Attributes
    ----------
    name : str
    fee : float or str
        A number, or the name of a column.
    capacity : int, float or None
        Largest number or share of the rows of one decision.
    column : str or None
        Column with recorded predictions, which new rows may have.
    """

    name: str
    fee: float | str
    capacity: int | float | None
    column: str | None

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Read an expert; raise a ModelFileError if a value is wrong."""
        if not isinstance(values, dict):
            raise ModelFileError(f"the header must describe each expert, got {values!r:.80}")
        fee: Any = values.get("fee")
        capacity: Any = values.get("capacity")
        column = values.get("column")
        known_fee = isinstance(fee, str) or (_is_number(fee) and fee >= 0)
        share = isinstance(capacity, float) and 0 <= capacity <= 1
        known_capacity = capacity is None or share or (type(capacity) is int and capacity >= 0)
        if not known_fee or not known_capacity or not isinstance(column, str | None):
            raise ModelFileError(f"the header must describe each expert, got {values!r:.80}")
        return cls(_entry(values, "name", str), fee, capacity, column)


@dataclass(frozen=True)
class Header:
    """What a model file says about its model.

    Attributes
    ----------
    estimator : str
    schema : TableSchema or ImageSchema
    cost : CostHeader
    loss : str
        Name of the loss.
    score_unit : str
    target_count : int
    target_names : tuple of str or None
    has_cost_input, has_expected_loss : bool
        Whether the graph has an input `cost`, and an output `expected_loss`.
    prediction_cost : float or None
        The cost at which `predict` asks a graph whose predictions depend on it.
    certificates : tuple of dict
    experts : tuple of ExpertHeader
        Who takes rejected rows; empty without several experts.
    fingerprint : str
        A checksum that the model has in common with the estimator that was saved.
    training : dict
        Number of the training rows and how to hash them, leaderboard, and names of the out-of-fold results.
    values : dict
        All values of the header.
    """

    estimator: str
    schema: TableSchema | ImageSchema
    cost: CostHeader
    loss: str
    score_unit: str
    target_count: int
    target_names: tuple[str, ...] | None
    has_cost_input: bool
    has_expected_loss: bool
    prediction_cost: float | None
    certificates: tuple[dict[str, Any], ...]
    experts: tuple[ExpertHeader, ...]
    fingerprint: str
    training: dict[str, Any]
    values: dict[str, Any] = field(repr=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the header of a file; raise a ModelFileError that names a wrong value."""
        cost, targets = _entry(values, "cost", dict), _entry(values, "targets", dict)
        loss = _entry(values, "loss", str)
        try:
            losses.get(loss)
        except ValueError as error:
            raise ModelFileError(f"the header has an unknown loss: {error}") from error
        names = targets.get("names")
        count = _entry(targets, "count", int)
        if count < 1 or not (names is None or (_texts(names) and len(names) == count)):
            raise ModelFileError(f"the header must name its {count} targets, got {names!r:.80}")
        experts = tuple(ExpertHeader.from_dict(each) for each in _entry({"experts": [], **values}, "experts", list))
        if len({expert.name for expert in experts}) < len(experts):
            raise ModelFileError("the header must have different names of experts")
        certificates, training = _entry(values, "certificates", list), _entry(values, "training", dict)
        if not all(isinstance(each, dict) for each in certificates):
            raise ModelFileError("the header has certificates that cannot be read")
        return cls(
            _entry(values, "estimator", str),
            schema_from_dict(_entry(values, "schema", dict)),
            _cost_of(cost),
            loss,
            _entry(values, "score_unit", str),
            count,
            None if names is None else tuple(names),
            _entry(values, "has_cost_input", bool),
            _entry(values, "has_expected_loss", bool),
            _number(values, "prediction_cost"),
            tuple(certificates),
            experts,
            _entry(training, "fingerprint", str),
            training,
            dict(values),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return dict(self.values)


def _entry(values: Mapping[str, Any], name: str, kind: type) -> Any:
    value = values.get(name)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ModelFileError(f"the header must have {name!r} of type {kind.__name__}, got {value!r:.80}")
    return value


def _number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    if value is None:
        return None
    if not _is_number(value):
        raise ModelFileError(f"the header must have a finite number as {name!r}, got {value!r:.80}")
    return float(value)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)


def _texts(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _cost_of(values: Mapping[str, Any]) -> CostHeader:
    kind, limits = _entry(values, "kind", str), values.get("range")
    value: float | str | None = None
    if kind == "number":
        value = _number(values, "value")
    elif kind == "column":
        value = _entry(values, "value", str)
    valid_range = isinstance(limits, list) and len(limits) == 2 and all(isinstance(each, float) for each in limits)
    if kind not in _COST_KINDS or (kind == "number" and value is None) or (kind == "range" and not valid_range):
        raise ModelFileError(f"the header must describe the cost, got {dict(values)!r:.80}")
    cost_range = (limits[0], limits[1]) if kind == "range" and limits is not None else None
    return CostHeader(kind, value, cost_range, _entry(values, "serves_any_cost", bool))
