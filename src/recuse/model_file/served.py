"""Models that were loaded from a file and run on ONNX Runtime."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from recuse import losses
from recuse.costs import Cost, cost_of_rows
from recuse.dataframes import is_frame
from recuse.decision import Decision
from recuse.model_file.container import FORMAT_VERSION, GRAPH, read_container
from recuse.model_file.errors import ModelFileError
from recuse.model_file.graph.check import MAX_OPERATIONS, measure_graph
from recuse.model_file.graph.operators import BOOL, DOUBLE, ROWS
from recuse.model_file.header import Header, ReportColumn, leaderboard_of, out_of_fold_of, training_rows_of
from recuse.model_file.reading import Feeds, ImageReader, ReadRows, TableReader
from recuse.model_file.schema import ImageSchema, Inputs, inputs_of
from recuse.model_file.session import open_session, run_session
from recuse.tabular.schema import TableSchema

if TYPE_CHECKING:
    from recuse.experts.decision import DeferralDecision
    from recuse.guarantees.certificate import Certificate, CertifiedModel
    from recuse.tabular.fingerprint import Overlap

Floats = NDArray[np.float64]

_BLOCK = 512  # rows decided at once, so that intermediate results stay in the cache
_DECIDED = ("prediction", "score", "accepted")
_DEFERRED = ("predictions", "expected_losses", "fees")


def load(path: str | os.PathLike[str]) -> ServedModel:
    """Load a model file written by `recuse.save`.

    The file is checked as a whole before anything in it is used: checksums, sizes, the header and every node of the
    graph. It cannot run code. torch and scikit-learn are not imported.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    ServedModel

    Raises
    ------
    ModelFileError
        If the file is damaged, is not a model file, or was written by a newer version.

    Examples
    --------
    >>> import recuse
    >>> recuse.load("README.md")
    Traceback (most recent call last):
    recuse.model_file.errors.ModelFileError: README.md is not a model file ...
    """
    return load_with_digest(path)[0]


def load_with_digest(path: str | os.PathLike[str]) -> tuple[ServedModel, str]:
    """Load a model file, and return the SHA-256 of its content, too, also if the file is replaced meanwhile.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    model : ServedModel
    digest : str
        Hexadecimal digits.
    """
    values, entries, digest = read_container(path)
    try:
        return ServedModel(Header.from_dict(values), entries, Path(path).resolve()), digest
    except ModelFileError as error:
        raise ModelFileError(f"{Path(path)}: {error}") from error


class ServedModel:
    """A fitted model that was loaded from a file.

    It decides like the estimator that was saved. Any number of threads may use it at once, and each call runs on one
    thread.

    Attributes
    ----------
    cost_ : float, str or None
        The cost that decisions use by default: a number, the name of a column, or None if decisions need a cost.
    cost_range_ : tuple of float or None
        The range of costs that the model was fitted for.
    serves_any_cost : bool
        Whether `decide` accepts other costs than the one the model was fitted for.
    loss_ : TargetLoss
    schema : TableSchema or ImageSchema
        The columns, or the images, that the model reads.
    training_rows_ : TrainingRows or None
        Hashes of the rows that the model was trained on; None for images.
    leaderboard : dict of str to (list of str or ndarray), or None
        The columns of the leaderboard of `AutoRejector`.
    out_of_fold : dict of str to ndarray, or None
        The columns of the out-of-fold results of training.
    fingerprint : str
        A checksum that the model has in common with the estimator that was saved.
    estimator : str
        Name of the estimator that was saved.
    experts : tuple of ExpertHeader
        Experts that rows are deferred to; empty for most models.
    path_ : Path or None
        The file that the model was loaded from. `certify` keeps its attempts in the folder of this file.
    operations_per_row : int
        Upper bound of the work for one row, at most 1,000,000,000; one core does about one operation in a nanosecond.

    Notes
    -----
    `recuse.load` makes these objects.
    """

    def __init__(self, header: Header, entries: Mapping[str, bytes], path: Path | None = None) -> None:
        if GRAPH not in entries:
            raise ModelFileError("the file has no graph: save the model again")
        self._header, self._entries, self.path_ = header, entries, path
        graph = entries[GRAPH]
        size = measure_graph(graph, _inputs(header), _outputs(header))
        self._session = open_session(graph, nodes=size.nodes)
        self._block = max(1, min(_BLOCK, size.block, MAX_OPERATIONS // size.operations))
        self.operations_per_row, self._flush = size.operations, size.needs_flush
        schema = header.schema
        self._reader = ImageReader(schema) if isinstance(schema, ImageSchema) else TableReader(schema)
        self.leaderboard: dict[str, ReportColumn] | None = leaderboard_of(header.training)
        self.out_of_fold: dict[str, Floats] | None = out_of_fold_of(header.training, entries)
        self.fingerprint: str = header.training["fingerprint"]
        self.loss_ = losses.get(header.loss)
        self.cost_: float | str | None = header.cost.value
        self.cost_range_, self.serves_any_cost = header.cost.range, header.cost.serves_any_cost
        self.schema: TableSchema | ImageSchema = schema
        self.training_rows_ = training_rows_of(schema, header.training, entries)
        self.estimator, self.experts = header.estimator, header.experts
        _ = self.certificates  # raises an error if one cannot be read

    def __repr__(self) -> str:
        schema = self.schema
        table = f"images of {schema.shape}" if isinstance(schema, ImageSchema) else f"{len(schema.names)} columns"
        return f"ServedModel({self.estimator}, {table}, {self._header.cost.describe()})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._header, dict(self._entries), self.path_)

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The certificates in the file; `recuse.model_file.add_certificate` adds one."""
        if not self._header.certificates:
            return ()
        from recuse.guarantees.certificate import Certificate

        try:
            return tuple(Certificate.from_dict(values, model=self) for values in self._header.certificates)
        except ValueError as error:
            raise ModelFileError(f"the header has a certificate that cannot be read: {error}") from error

    def certified(self, number: int = 0) -> CertifiedModel:
        """Return the model at the threshold of one of its certificates.

        Parameters
        ----------
        number : int, default=0
            Position in `certificates`.
        """
        certificates = self.certificates
        if not 0 <= number < len(certificates):
            raise ValueError(f"the model has {len(certificates)} certificates, counted from 0, got {number}")
        certified = certificates[number].model
        assert certified is not None
        return certified

    def training_overlap(self, X: Any, y: Any) -> Overlap | None:
        """Find rows that equal rows used in training, in all features and in the target.

        Parameters
        ----------
        X : array-like, DataFrame or mapping
        y : array-like of shape (n_rows,)

        Returns
        -------
        Overlap or None
            None if the file has no hashes of training rows.
        """
        return None if self.training_rows_ is None else self.training_rows_.overlap(X, y)

    def decide(
        self,
        X: Any,
        cost: Cost | None = None,
        *,
        fees: Mapping[str, Any] | None = None,
        capacities: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Predict every row and decide which predictions to accept.

        Parameters
        ----------
        X : array-like, DataFrame of any library, or mapping of column names to values
            Columns are found by name if the model was fitted to a table with names. Other columns are ignored.
        cost : float, array-like, callable or str, optional
            Used instead of the cost of the model, if it supports that; see `serves_any_cost`.
        fees, capacities : mapping, optional
            Of a model with experts, as in `defer`.

        Returns
        -------
        Decision
            Of a model with experts, `takes` says who takes each row.
        """
        if self.experts:
            self._check_no_cost(cost)
            return self.defer(X, fees, capacities).as_decision()
        if fees or capacities:
            raise ValueError(f"fees and capacities are those of experts, and {self.estimator} has none")
        return self._decide(self._reader.read(X), cost, _DECIDED)[0]

    def defer(
        self, X: Any, fees: Mapping[str, Any] | None = None, capacities: Mapping[str, Any] | None = None
    ) -> DeferralDecision:
        """Assign every row to the model or to an expert, as `DeferralRegressor.decide` does.

        Capacities hold for the rows of one call, so pass all rows of a day or a shift together.

        Parameters
        ----------
        X : array-like, DataFrame or mapping
            Columns of recorded predictions may be absent.
        fees : mapping of str to float, array-like, callable or str, optional
            Replace the fees of some experts.
        capacities : mapping of str to int, float or None, optional
            Replace the capacities of some experts.

        Returns
        -------
        DeferralDecision
        """
        from recuse.experts.decision import DeferralDecision
        from recuse.experts.expert import Expert, capacities_of, check_names, fees_of, predictions_of

        if not self.experts:
            raise AttributeError(f"{self.estimator} has no experts: use decide")
        experts = {each.name: Expert(each.column, each.fee, each.capacity) for each in self.experts}
        check_names(fees, experts, "fees")
        reading = self._reader.read(X)
        table, alone = reading.frame, self._defer(reading)
        recorded = predictions_of(experts, X, table, fitting=False)
        answers = np.where(np.isnan(recorded), alone.predictions[:, 1:], recorded)
        row_fees = alone.fees[:, 1:].copy()
        changed = {name: experts[name] for name in fees or {}}
        if changed:
            places = [[*experts].index(name) for name in changed]
            row_fees[:, places] = fees_of(changed, X, table, fees, fitting=False)
        limits = capacities_of(experts, len(alone), capacities)
        predictions = np.column_stack([alone.predictions[:, 0], answers])
        return DeferralDecision.assigned(
            [*experts], predictions, alone.expected_loss, row_fees, limits, alone.index, self.loss_
        )

    def _defer(self, reading: ReadRows) -> DeferralDecision:
        """Assign each row on its own."""
        from recuse.costs import row_values
        from recuse.experts.decision import DeferralDecision

        count, index = reading.n_rows, reading.index
        predictions, expected, fees = self._run(reading.feeds, np.empty(count), _DEFERRED, count)
        experts = [each.name for each in self.experts]
        for name, column in zip(experts, fees.T[1:], strict=True):
            row_values(column, f"the fee of {name!r}", count, index)
        limits = np.full(len(experts), count)
        return DeferralDecision.assigned(experts, predictions, expected, fees[:, 1:], limits, index, self.loss_)

    def _check_no_cost(self, cost: Cost | None) -> None:
        if cost is not None:
            raise ValueError(f"cost has no meaning for {self.estimator}: the fees of the experts are the costs")

    def read(
        self,
        X: Any,
        *,
        warn: bool = True,
        columns: Mapping[Any, str] | None = None,
        index: Any = None,
        source: str = "",
    ) -> ReadRows:
        """Convert rows to the inputs of the graph, and find what is unlike the training rows in their cells.

        Parameters
        ----------
        X : array-like, DataFrame of any library, Arrow table, or mapping of column names to values or lists of values
        warn : bool, default=True
            Whether to warn of text in columns of numbers; the warning quotes a cell.
        columns : mapping, optional
            The names of columns of a DataFrame or an Arrow table by those of the model.
        index : pandas Index, optional
            Labels of the rows, instead of those of the table.
        source : str, optional
            Name of the table in errors.

        Returns
        -------
        ReadRows
        """
        return self._reader.read(X, warn=warn, columns=columns, index=index, source=source)

    def decide_reading(self, reading: ReadRows, cost: Cost | None = None) -> tuple[Decision, Floats | None]:
        """Decide about rows that `read` has converted, in one run of the graph.

        Parameters
        ----------
        reading : ReadRows
        cost : float, array-like, callable or str, optional

        Returns
        -------
        decision : Decision
        expected_loss : ndarray of shape (n_rows,) or None
            None if the estimator has no expected loss.
        """
        names = [*_DECIDED, *(["expected_loss"] if self._header.has_expected_loss else [])]
        return self._decide(reading, cost, names)

    def _decide(self, reading: ReadRows, cost: Cost | None, names: Sequence[str]) -> tuple[Decision, Floats | None]:
        if self.experts:
            self._check_no_cost(cost)
            deferral = self._defer(reading)
            return deferral.as_decision(), deferral.expected_loss[:, 0]
        count = reading.n_rows
        row_cost = self._cost_of_rows(cost, reading, count)
        prediction, score, accepted, *expected = self._run(reading.feeds, row_cost, names, count)
        rest = (reading.index, self.loss_, self._header.score_unit)
        decision = Decision.of_checked(prediction, accepted, score, row_cost, *rest)
        return decision, expected[0] if expected else None

    def predict(self, X: Any) -> Floats:
        """Predict every row, whether it would be accepted or not.

        Parameters
        ----------
        X : array-like, DataFrame or mapping

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._outputs(X, "prediction")

    def expected_loss(self, X: Any) -> Floats:
        """Estimate the loss of every row, in the units of the loss.

        Parameters
        ----------
        X : array-like, DataFrame or mapping

        Returns
        -------
        ndarray of shape (n_rows,)

        Raises
        ------
        AttributeError
            If the estimator has no expected loss: its score is that of a surrogate.
        """
        if not self._header.has_expected_loss:
            raise AttributeError(f"{self.estimator} has no expected loss, only a score: use decide")
        return self._outputs(X, "expected_loss")

    def decision_function(self, X: Any, cost: Cost | None = None) -> Floats:
        """Compute the score of every row; a row is accepted where its score is > 0.

        Parameters
        ----------
        X : array-like, DataFrame or mapping
        cost : float, array-like, callable or str, optional

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self.decide(X, cost).score

    @property
    def result_types(self) -> dict[str, str]:
        """The columns of decisions with their types: "double", "boolean" or "string"."""
        types = {"prediction": "double", "accepted": "boolean", "score": "double", "cost": "double"}
        takes = {"takes": "string"} if self.experts else {}
        return {**types, **takes, **({"expected_loss": "double"} if self._header.has_expected_loss else {})}

    def info(self) -> dict[str, Any]:
        """Return what the file says about the model, as plain values."""
        limits = {"operations_per_row": self.operations_per_row}
        return {"format_version": FORMAT_VERSION, **limits, **self._header.values}

    def onnx_graph(self) -> bytes:
        """Return the bare ONNX model, which any ONNX Runtime can run."""
        return self._entries[GRAPH]

    def _outputs(self, X: Any, name: str) -> Floats:
        """Return an output that does not depend on the cost of the rows."""
        reading = self._reader.read(X)
        cost = np.full(reading.n_rows, self._header.prediction_cost or 0.0)
        return np.asarray(self._run(reading.feeds, cost, [name], reading.n_rows)[0])

    def _cost_of_rows(self, cost: Cost | None, reading: ReadRows, count: int) -> Floats:
        if cost is None and isinstance(self.cost_, float):
            return np.full(count, self.cost_)
        if cost is None and self._header.cost.kind == "callable":
            raise ValueError(
                f"{self.estimator} was fitted with a callable as cost, which a file cannot hold: "
                "pass cost=, the callable, a number or one value per row"
            )
        needs_table = callable(cost) or isinstance(self.cost_ if cost is None else cost, str)
        table = reading.frame if needs_table else reading.table
        rows = table if is_frame(table) or isinstance(table, np.ndarray) else np.empty((count, 0))
        if callable(cost) and isinstance(self.cost_, str) and is_frame(rows):
            rows = rows.drop(columns=self.cost_, errors="ignore")  # it is not a feature
        return cost_of_rows(
            cost,
            table,
            rows,
            fitted=self.cost_,
            cost_range=self.cost_range_,
            serves_any_cost=self.serves_any_cost,
            name=self.estimator,
        )

    def _run(self, feeds: Feeds, cost: Floats, names: Sequence[str], count: int) -> list[Any]:
        """Run the graph on blocks of rows, and return the named outputs."""
        if self._header.has_cost_input:
            feeds = {**feeds, "cost": cost[:, None]}
        if count <= self._block:
            return run_session(self._session, feeds, names, flush=self._flush)
        blocks = []
        for start in range(0, count, self._block):
            block = {name: rows[start : start + self._block] for name, rows in feeds.items()}
            blocks.append(run_session(self._session, block, names, flush=self._flush))
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _inputs(header: Header) -> Inputs:
    """Return the inputs that the graph must have."""
    cost: Inputs = {"cost": (DOUBLE, (ROWS, 1))} if header.has_cost_input else {}
    return {**inputs_of(header.schema), **cost}


def _outputs(header: Header) -> Inputs:
    """Return the outputs that the graph must have."""
    numbers = ("prediction", "score", *(["expected_loss"] if header.has_expected_loss else []))
    actions = dict.fromkeys(_DEFERRED if header.experts else (), (DOUBLE, (ROWS, 1 + len(header.experts))))
    return {**dict.fromkeys(numbers, (DOUBLE, (ROWS,))), **actions, "accepted": (BOOL, (ROWS,))}
