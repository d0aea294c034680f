"""What requests and answers hold, as types: the routes build them, and the OpenAPI description is made of them."""

import json
import math
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from fastapi import Response
from pydantic import Field, with_config
from typing_extensions import TypedDict  # pydantic cannot read the TypedDict of Python 3.11

from recuse.reviews.results import Progress
from recuse.tabular.schema import Kind

if TYPE_CHECKING:
    from recuse.serving.deciding import DecidedRequest

_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))

Cell = float | str | bool | None
Row = dict[str, Cell]
Rows = Annotated[list[Row], Field(min_length=1)]
Cells = Annotated[list[list[Cell]], Field(min_length=1)]
Cost = Annotated[
    Annotated[float, Field(ge=0)] | Annotated[list[Annotated[float, Field(ge=0)]], Field(min_length=1)] | None,
    Field(description="Cost of a rejection, one for all rows or one for each; by default that of the model."),
]
CertificateNumber = Annotated[
    int | None,
    Field(description="Number of the certificate at whose threshold rows are accepted; null without one."),
]
ModelName = Annotated[str, Field(description="Name of the model; by default the first.")]
Lenient = Annotated[
    bool, Field(description="Whether to ignore unknown columns, and to decide about rows without any known column.")
]
Explain = Annotated[bool, Field(description="Whether to say what is new in each row, and its nearest training rows.")]
Ids = Annotated[
    list[str] | None,
    Field(description="One key for each row; a row that is sent again with its key enters the review queue once."),
]
Record = Annotated[bool, Field(description="Whether the rows may go to the review queue; true by default.")]
Seconds1970 = Annotated[float, Field(description="Seconds since 1970.")]
Reviewer = Annotated[
    str,
    Field(min_length=1, max_length=100, pattern=r"\S", description="The name of a reviewer's key is used instead."),
]
LeaseToken = Annotated[str, Field(description="The token of the lease.")]
Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
]


class ErrorAnswer(TypedDict):
    """What went wrong, in one sentence."""

    error: str


class PredictQuery(TypedDict, total=False):
    """Parameters in the address of /predict."""

    model: ModelName
    explain: Explain


@with_config(json_schema_extra={"oneOf": [{"required": ["row"]}, {"required": ["rows"]}]})
class PredictRequest(TypedDict, total=False):
    """One row or several."""

    row: Row
    rows: Rows
    cost: Cost
    ids: Ids
    record: Record
    lenient: Lenient


class Problem(TypedDict):
    """What is unlike training in a cell: it is missing, a new category, or outside the range."""

    column: str
    problem: str


class NewCell(TypedDict):
    """A cell that no training row had."""

    column: str
    problem: str
    value: str
    expected: str


class Neighbour(TypedDict):
    """A training row that is near to a row."""

    distance: float
    row: Row
    target: Cell | list[Cell]


class Reasons(TypedDict, total=False):
    """Why a decision is as it is; only in answers to requests with `explain=true`."""

    new: list[NewCell]
    neighbours: list[Neighbour] | None


class DecisionRecord(Reasons):
    """The decision about one row."""

    prediction: Annotated[float | list[float | None] | None, Field(description="A list if there are several targets.")]
    accepted: Annotated[bool, Field(description="Whether to use the prediction; if not, ask a person.")]
    score: float | None
    cost: float | None
    expected_loss: float | None
    expected_saving: Annotated[float | None, Field(description="What the decision saves against the other one.")]
    takes: Annotated[str | None, Field(description="Who takes the row, if several experts could: model or a name.")]
    problems: list[Problem]
    review: Annotated[str | None, Field(description="Identifier of the row in the review queue.")]


class PredictAnswer(TypedDict):
    """One decision for each row."""

    model: str
    version: str
    certificate: CertificateNumber
    decisions: list[DecisionRecord]


class ColumnDescription(TypedDict):
    """A column that a model reads."""

    name: str
    kind: Literal[Kind.NUMBER, Kind.DATE, Kind.CATEGORY]
    had_missing: bool
    levels: NotRequired[list[Cell]]
    low: NotRequired[float | None]
    high: NotRequired[float | None]


class CertificateDescription(TypedDict):
    """A certificate of a model."""

    number: Annotated[int, Field(ge=1)]
    statement: str
    what: Literal["accepted_loss", "rcr_loss"]
    target: float
    delta: float
    threshold: float
    cost: float | str | None


class ModelDescription(TypedDict):
    """What a caller needs to know of a model."""

    name: str
    version: str
    estimator: str
    cost: float | str | None
    serves_any_cost: bool
    cost_range: list[float] | None
    has_expected_loss: bool
    experts: Annotated[list[str], Field(description="Who rejected rows go to, if there are several.")]
    loss: str
    targets: list[str]
    columns: list[ColumnDescription]
    missing_words: Annotated[list[str], Field(description="Texts, in lower case, that count as missing values.")]
    training_rows: bool
    certificates: list[CertificateDescription]
    certificate: CertificateNumber
    review_queue: bool


class InvocationsQuery(TypedDict, total=False):
    """Parameters in the address of /invocations."""

    model: ModelName
    lenient: Lenient


class Split(TypedDict):
    """Rows in the format that pandas calls `split`."""

    columns: NotRequired[list[Cell]]
    data: Cells
    index: NotRequired[list[Any]]


@with_config(extra="forbid")
class Params(TypedDict, total=False):
    """Parameters of a request of MLflow."""

    cost: Cost


@with_config(
    json_schema_extra={
        "oneOf": [{"required": [name]} for name in ("dataframe_split", "dataframe_records", "instances", "inputs")]
    }
)
class InvocationsRequest(TypedDict, total=False):
    """Rows in one of four formats of MLflow."""

    dataframe_split: Split
    dataframe_records: Rows
    instances: Rows | Cells
    inputs: dict[str, list[Cell]] | Cells
    params: Params | None


class InvocationsAnswer(TypedDict):
    """One decision for each row; the certificate in force if there is one."""

    predictions: list[DecisionRecord]
    certificate: NotRequired[CertificateNumber]


class ServerMetadata(TypedDict):
    """The service."""

    name: str
    version: str
    extensions: list[str]


class Live(TypedDict):
    """Whether the service is alive."""

    live: bool


class Ready(TypedDict):
    """Whether the service can decide."""

    ready: bool


class ModelReady(TypedDict):
    """Whether a model can decide."""

    name: str
    ready: bool


class TensorMetadata(TypedDict):
    """The name, type and shape of a tensor; -1 stands for any number of rows."""

    name: str
    datatype: Datatype
    shape: list[int]


class ModelMetadata(TypedDict):
    """The tensors that a model reads and returns."""

    name: str
    versions: list[str]
    platform: str
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]


class InputTensor(TypedDict):
    """A tensor of a request, with its values row by row or in nested lists."""

    name: str
    shape: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=8)]
    datatype: Datatype
    data: list[Any]
    parameters: NotRequired[dict[str, Any]]


class RequestedOutput(TypedDict):
    """An output that the answer is to have."""

    name: str
    parameters: NotRequired[dict[str, Any]]


class InferRequest(TypedDict):
    """Rows as tensors, one for each column or one for all."""

    inputs: Annotated[list[InputTensor], Field(min_length=1)]
    outputs: NotRequired[list[RequestedOutput]]
    parameters: NotRequired[dict[str, Any]]
    id: NotRequired[str]


class OutputTensor(TypedDict):
    """A tensor of an answer, with its values row by row."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: list[float | bool | str | None]


class InferParameters(TypedDict):
    """The certificate in force."""

    certificate: CertificateNumber


class InferAnswer(TypedDict):
    """The decisions as tensors."""

    model_name: str
    model_version: str
    outputs: list[OutputTensor]
    id: NotRequired[str]
    parameters: NotRequired[InferParameters]


class LeaseRequest(TypedDict):
    """Who asks for a row, and for which one."""

    reviewer: Reviewer
    order: NotRequired[Literal["saving", "age"]]
    skipped: NotRequired[bool]


class LeaseAnswer(TypedDict):
    """A row that nobody else gets until the lease ends."""

    id: str
    lease: LeaseToken
    expires: Seconds1970
    seconds: float
    model: str
    version: str
    targets: list[str] | None
    target_count: int
    row: Row
    recorded: Seconds1970
    reviewer: str
    progress: Progress


class ReviewRequest(TypedDict):
    """The answer to a row: one number, or a list of them if there are several targets."""

    lease: LeaseToken
    value: float | list[float]
    reviewer: NotRequired[str]


class ReviewAnswer(TypedDict):
    """What the model predicted, and what its decision saved."""

    id: str
    answer: list[float]
    prediction: list[float]
    loss: float
    cost: float
    rejected: bool
    expected_loss: float | None
    saved: float
    progress: Progress


class ReleaseRequest(TypedDict):
    """The lease of a row that is given back."""

    lease: LeaseToken
    skip: NotRequired[bool]


class RenewRequest(TypedDict):
    """The lease that is to be extended."""

    lease: LeaseToken


class RenewAnswer(TypedDict):
    """The new end of the lease."""

    expires: Seconds1970
    seconds: float


def records_of(decided: "DecidedRequest") -> list[DecisionRecord]:
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
        [None] * len(predictions) if decision.takes is None else decision.takes.tolist(),
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
            "cost": finite(cost),
            "expected_loss": finite(loss),
            "expected_saving": None if loss is None else finite(cost - loss if accepted else loss - cost),
            "takes": takes,
            "problems": problems,
            "review": review,
        }
        for values, accepted, score, cost, loss, takes, problems, review in rows
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
