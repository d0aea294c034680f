"""The header of a model file, with the arrays that it describes, as checked values.

The header is strict JSON of bounded size and nesting, as `read_container` has checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import NoneType
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from recuse import losses
from recuse.model_file.container import OUT_OF_FOLD, TRAINING_HASHES, TRAINING_REPEATED, unpack_array
from recuse.model_file.errors import ModelFileError
from recuse.model_file.schema import ImageSchema
from recuse.row_hashes import Singles
from recuse.tabular.codecs import Dialect, Level
from recuse.tabular.fingerprint import TrainingRows
from recuse.tabular.schema import Column, Kind, TableSchema

ReportColumn: TypeAlias = NDArray[np.float64] | list[str]

_LARGEST = float(np.finfo(np.float64).max)

# What a value must be: one of some types, or what a function accepts.
Rule = tuple[type, ...] | Callable[[Any], bool]


def _described(what: str, values: Any, **rules: Rule) -> dict[str, Any]:
    """Return the values with these names; raise a ModelFileError if one is not what its rule says."""
    found = {name: values.get(name) for name in rules} if isinstance(values, dict) else {}
    wrong = [name for name, rule in rules.items() if name not in found or not _accepts(rule, found[name])]
    if wrong:
        raise ModelFileError(f"the header must have a valid {wrong[0]!r} of {what}, got {values!r:.80}")
    return found


def _accepts(rule: Rule, value: Any) -> bool:
    return type(value) in rule if isinstance(rule, tuple) else rule(value)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= _LARGEST


def _is_number_or_none(value: Any) -> bool:
    return value is None or _is_number(value)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(type(each) is str for each in value)


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

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Read the cost; raise a ModelFileError if a value is wrong."""
        kinds = ("number", "column", "rows", "callable", "range", "experts")
        known = _described("the cost", values, kind=kinds.__contains__, serves_any_cost=(bool,))
        value, limits = None, None
        if known["kind"] == "number":
            value = float(_described("the cost", values, value=_is_number)["value"])
        elif known["kind"] == "column":
            value = _described("the cost", values, value=(str,))["value"]
        elif known["kind"] == "range":
            low, high = _described("the cost", values, range=_is_range)["range"]
            limits = (low, high)
        return cls(known["kind"], value, limits, known["serves_any_cost"])

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


def _is_range(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(type(each) is float for each in value)


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
        rules: dict[str, Rule] = {"name": (str,), "fee": _is_fee, "capacity": _is_capacity, "column": (str, NoneType)}
        return cls(**_described("an expert", values, **rules))


def _is_fee(value: Any) -> bool:
    return isinstance(value, str) or (_is_number(value) and value >= 0)


def _is_capacity(value: Any) -> bool:
    return value is None or (_is_number(value) and value >= 0 and (type(value) is int or value <= 1))


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
    has_cost_input, has_expected_loss : bool
        Whether the graph has an input `cost`, and an output `expected_loss`.
    prediction_cost : float or None
        The cost at which `predict` asks a graph whose predictions depend on it.
    certificates : list of dict
    experts : tuple of ExpertHeader
        Who takes rejected rows; empty without several experts.
    training : dict
        Number of the training rows and how to hash them, leaderboard, names of the out-of-fold results, and the
        `fingerprint` that the model has in common with the estimator that was saved.
    values : dict
        All values of the header.
    """

    estimator: str
    schema: TableSchema | ImageSchema
    cost: CostHeader
    loss: str
    score_unit: str
    has_cost_input: bool
    has_expected_loss: bool
    prediction_cost: float | None
    certificates: list[dict[str, Any]]
    experts: tuple[ExpertHeader, ...]
    training: dict[str, Any]
    values: dict[str, Any] = field(repr=False)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Read the header of a file; raise a ModelFileError that names a wrong value."""
        known = _described(
            "the model",
            dict(values),
            estimator=(str,),
            loss=_is_loss,
            score_unit=(str,),
            has_cost_input=(bool,),
            has_expected_loss=(bool,),
            prediction_cost=_is_number_or_none,
            certificates=_is_list_of_dicts,
        )
        _described("the target", values.get("targets"), count=(1,).__contains__, names=_is_name)
        given = _described("the experts", {"experts": [], **values}, experts=(list,))["experts"]
        experts = tuple(ExpertHeader.from_dict(each) for each in given)
        if len({expert.name for expert in experts}) < len(experts):
            raise ModelFileError("the header must have different names of experts")
        _described("the training", values.get("training"), fingerprint=(str,))
        return cls(
            schema=_schema_of(values.get("schema")),
            cost=CostHeader.from_dict(values.get("cost")),
            experts=experts,
            training=values["training"],
            values=dict(values),
            **known,
        )


def _is_name(value: Any) -> bool:
    return value is None or (_is_texts(value) and len(value) == 1)


def _is_loss(name: Any) -> bool:
    try:
        return isinstance(name, str) and losses.get(name) is not None
    except ValueError:
        return False


def _is_list_of_dicts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) for each in value)


def _schema_of(values: Any) -> TableSchema | ImageSchema:
    kind = _described("the inputs", values, kind=("table", "image").__contains__)["kind"]
    if kind == "image":
        channels, height, width = _described("the images", values, shape=_is_shape)["shape"]
        return ImageSchema((channels, height, width))
    rules: dict[str, Rule] = {
        "columns": lambda value: _is_list_of_dicts(value) and len(value) > 0,
        "matrix": (str, NoneType),
        "unseen": ("novel", "error", "keep").__contains__,
    }
    known = _described("the columns", values, **rules)
    return TableSchema(tuple(_column_of(each) for each in known["columns"]), known["matrix"], known["unseen"])


def _is_shape(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(type(size) is int and size > 0 for size in value)


def _column_of(values: dict[str, Any]) -> Column:
    rules: dict[str, Rule] = {
        "name": (str, int),
        "kind": tuple(map(str, Kind)).__contains__,
        **dict.fromkeys(("had_missing", "had_text"), (bool,)),
        **dict.fromkeys(("low", "high"), _is_number_or_none),
        "zone": (str, NoneType),
        "levels": _is_list_of_dicts,
        "dialect": (dict,),
        "reason": (str,),
    }
    known = _described("a column", values, **rules)
    of_level: dict[str, Rule] = {"text": (str,), "value": (str, int, float, bool, NoneType), "seen": (bool,)}
    levels = tuple(Level(**_described("a category", level, **of_level)) for level in known["levels"])
    texts: dict[str, Rule] = dict.fromkeys((each.name for each in fields(Dialect)), (str,))
    dialect = Dialect(**_described("a dialect", known["dialect"], **texts))
    return Column(**{**known, "kind": Kind(known["kind"]), "levels": levels, "dialect": dialect})


def leaderboard_of(values: Mapping[str, Any]) -> dict[str, ReportColumn] | None:
    """Read the leaderboard from the header: lists of text, and arrays of numbers with NaN for missing ones.

    Examples
    --------
    >>> leaderboard_of({"leaderboard": {"name": ["blend", "forest"], "rows": [None, 300.0]}})
    {'name': ['blend', 'forest'], 'rows': array([ nan, 300.])}
    """
    table = values.get("leaderboard")
    if table is None:
        return None
    if not isinstance(table, dict) or not all(isinstance(column, list) for column in table.values()):
        raise ModelFileError("the header has a leaderboard that cannot be read")
    if len({len(column) for column in table.values()}) > 1:
        raise ModelFileError("the header has a leaderboard with columns of several lengths")
    return {name: _leaderboard_column(column) for name, column in table.items()}


def _leaderboard_column(values: list[Any]) -> ReportColumn:
    if _is_texts(values):
        return values
    if not all(map(_is_number_or_none, values)):
        raise ModelFileError("the header has a leaderboard with columns of several kinds")
    return np.array([math.nan if value is None else float(value) for value in values])


def out_of_fold_of(values: Mapping[str, Any], arrays: Mapping[str, bytes]) -> dict[str, NDArray[np.float64]] | None:
    """Read the out-of-fold results: one array for each column."""
    names = values.get("out_of_fold")
    if names is None:
        return None
    table = unpack_array(OUT_OF_FOLD, arrays.get(OUT_OF_FOLD, b""))
    if not _is_texts(names) or len(set(names)) != len(table):
        raise ModelFileError(f"the header must name the {len(table)} columns of {OUT_OF_FOLD}, got {names!r:.80}")
    return dict(zip(names, table, strict=True))


def training_rows_of(
    schema: TableSchema | ImageSchema, values: Mapping[str, Any], arrays: Mapping[str, bytes]
) -> TrainingRows | None:
    """Read the hashes of the training rows; None for images."""
    count = values.get("rows")
    if count is None or isinstance(schema, ImageSchema):
        return None
    if type(count) is not int:
        raise ModelFileError(f"the header must have the number of the training rows, got {count!r:.80}")
    rules: dict[str, Rule] = {
        each.name: lambda value: type(value) is int and 0 <= value <= count for each in fields(Singles)
    }
    singles = Singles(**_described("the training rows", values.get("singles"), **rules))
    hashes = unpack_array(TRAINING_HASHES, arrays.get(TRAINING_HASHES, b""))
    repeated = unpack_array(TRAINING_REPEATED, arrays.get(TRAINING_REPEATED, b""))
    if singles.count != count or len(hashes) != len(repeated):
        raise ModelFileError(f"{TRAINING_HASHES} and {TRAINING_REPEATED} must have the same length, for {count} rows")
    return TrainingRows(schema, hashes, repeated, count, singles)
