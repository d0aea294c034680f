"""What requests and answers hold, as types that the OpenAPI description is made of; answers as JSON, and errors."""

import json
import math
import reprlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from fastapi import Response
from pydantic import Field, with_config
from typing_extensions import TypedDict  # pydantic cannot read the TypedDict of Python 3.11

from recuse.reviews.results import Progress, ReviewOutcome
from recuse.tabular.schema import Kind

# Every answer has these headers: it is not to be stored, nor its type to be guessed.
DEFAULT_HEADERS = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))
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
    target: Cell


class Reasons(TypedDict, total=False):
    """Why a decision is as it is; only in answers to requests with `explain=true`."""

    new: list[NewCell]
    neighbours: list[Neighbour] | None


class DecisionRecord(Reasons):
    """The decision about one row."""

    prediction: float | None
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
    target: Annotated[str | None, Field(description="Name of the target, if the file has it.")]
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
    target: str | None
    row: Row
    recorded: Seconds1970
    reviewer: str
    progress: Progress


class ReviewRequest(TypedDict):
    """The answer to a row."""

    lease: LeaseToken
    value: float
    reviewer: NotRequired[str]


@dataclass(frozen=True)
class ReviewAnswer(ReviewOutcome):
    """What the model predicted, and what its decision saved."""

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


class RequestError(Exception):
    """A request that cannot be answered.

    Parameters
    ----------
    status : int
        Status code of the answer.
    sentence : str
    headers : dict of str to str, optional
        Headers of the answer.
    reason : str, optional
        Label under which the limits of the service count and log the refusal; None for mistakes in the content.
    """

    def __init__(
        self, status: int, sentence: str, headers: dict[str, str] | None = None, *, reason: str | None = None
    ) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers, self.reason = status, sentence, headers, reason


def error_response(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
    """Return the answer `{"error": sentence}`.

    Examples
    --------
    >>> error_response(404, "there is no such model").body
    b'{"error": "there is no such model"}'
    """
    answer: ErrorAnswer = {"error": " ".join(sentence.split())}
    return Response(json.dumps(answer), status, headers, media_type="application/json")


def shown(value: Any) -> str:
    """Return the beginning of a value for an error, without a text of all of it, which can take long.

    Examples
    --------
    >>> shown([1, 2]), shown("x" * 1000)[-4:], shown(list(range(100)))
    ('[1, 2]', "...'", '[0, 1, 2, 3, 4, 5, ...]')
    """
    return _SHORT.repr(value)[:_MOST_SHOWN]


_MOST_SHOWN = 80
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = _MOST_SHOWN


def json_response(value: Any) -> Response:
    """Return a value as JSON, in which NaN and infinity are null.

    Examples
    --------
    >>> json_response({"saved": -math.inf, "answer": 2.5}).body
    b'{"saved":null,"answer":2.5}'
    """
    try:
        text = _ENCODER.encode(value)
    except ValueError:  # a number that JSON does not have
        text = _ENCODER.encode(_finite_values(value))
    return Response(text, media_type="application/json")


def _finite_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite_values(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite_values(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
