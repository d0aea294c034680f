"""Decisions as records of JSON."""

from __future__ import annotations

import json
import math
from typing import Any

from fastapi import Response

from recuse.serving.deciding import Decided
from recuse.serving.messages import DecisionRecord

__all__ = ["finite", "finite_values", "json_response", "records_of"]


_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def records_of(decided: Decided) -> list[DecisionRecord]:
    """Return one record for each decision, with values that JSON can hold."""
    decision, expected = decided.decision, decided.expected_loss
    predictions = decision.prediction.tolist()
    problems: list[Any] = decided.problems
    rows = zip(
        predictions if decision.prediction.ndim == 2 else ([value] for value in predictions),
        decision.accepted.tolist(),
        decision.score.tolist(),
        decision.cost.tolist(),
        [None] * len(predictions) if expected is None else expected.tolist(),
        problems,
        decided.reviews,
        strict=True,
    )
    single = decision.prediction.ndim == 1
    return [
        {
            "prediction": finite(values[0]) if single else [finite(value) for value in values],
            "accepted": accepted,
            "score": finite(score),
            "cost": cost,
            "expected_loss": finite(loss),
            "expected_saving": None if loss is None else finite(cost - loss if accepted else loss - cost),
            "problems": problems,
            "review": review,
        }
        for values, accepted, score, cost, loss, problems, review in rows
    ]


def finite(value: float | None) -> float | None:
    """Return a number that JSON has, None for the others.

    Examples
    --------
    >>> finite(2.5), finite(math.inf)
    (2.5, None)
    """
    return value if value is not None and math.isfinite(value) else None


def finite_values(value: Any) -> Any:
    """Return plain values of any depth, with None for numbers that JSON does not have.

    Examples
    --------
    >>> finite_values({"saved": -math.inf, "answer": [2.5]})
    {'saved': None, 'answer': [2.5]}
    """
    if isinstance(value, dict):
        return {name: finite_values(each) for name, each in value.items()}
    if isinstance(value, list):
        return [finite_values(each) for each in value]
    return finite(value) if isinstance(value, float) else value


def json_response(value: Any) -> Response:
    """Return a value as JSON, without NaN and infinity."""
    return Response(_ENCODER.encode(value), media_type="application/json")
