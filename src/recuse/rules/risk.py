"""Rule of the estimators that expect a loss: accept a row where its expected loss is below its cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recuse.tabular.encoder import TableEncoder
from recuse.threads import one_thread

Floats = NDArray[np.float64]

# Number of rows that are predicted at once.
_BLOCK = 8192


class Prediction(NamedTuple):
    """Predictions of some rows.

    Attributes
    ----------
    mean : ndarray of shape (row,)
    spread : ndarray of shape (row,)
        Standard deviation among the members of an ensemble with `predict_members`; zero for other models.
    """

    mean: Floats
    spread: Floats


def predict(model: Any, X: Any) -> Prediction:
    """Predict every row, by all members where the model has `predict_members`."""
    if hasattr(model, "predict_members"):
        members = np.asarray(model.predict_members(X), dtype=np.float64)
    else:
        members = np.asarray(model.predict(X), dtype=np.float64)
        members = members.reshape(1, -1) if members.size == len(X) else members
    if members.ndim != 2 or members.shape[1] != len(X):
        raise ValueError(
            f"{type(model).__name__} must predict one value for each of {len(X)} rows, got shape {members.shape}"
        )
    return Prediction(members.mean(axis=0), members.std(axis=0))


def non_negative(prediction: Any) -> Floats:
    """Return the predictions (row,) of a risk model, clipped at zero."""
    return np.maximum(np.asarray(prediction, dtype=np.float64).reshape(-1), 0.0)


@dataclass(frozen=True)
class ScaledRisk:
    """Models of the risk E[L(h(x) - y) | x], and the factor that their predictions are multiplied by.

    Attributes
    ----------
    models : tuple of estimator
        One for each fold, or one fitted to all residuals.
    scale : float
    """

    models: tuple[Any, ...]
    scale: float

    def paired(self, inputs: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Return pairs of a model and its inputs.

        A single table of inputs is paired with every model, a single model with every table.
        """
        count = max(len(self.models), len(inputs))
        return list(zip(self.models * (count // len(self.models)), list(inputs) * (count // len(inputs)), strict=True))

    def by_fold(self, inputs: Sequence[Floats]) -> Floats:
        """Return the risk (fold, row) for the inputs by the regressors of each fold."""
        return np.array([self.scale * non_negative(model.predict(table)) for model, table in self.paired(inputs)])


@dataclass(frozen=True)
class Novelty:
    """The logarithm of the mean distance to the nearest training rows, in standardised features.

    Errors are larger where there are few rows to learn from.

    Attributes
    ----------
    neighbours : NearestNeighbors
        Fitted to the training rows, or to a sample of them.
    floor : float
        Added to the distance, in standard deviations of a feature; keeps the logarithm finite.
    """

    neighbours: Any
    floor: float = 1e-2

    def __call__(self, features: Floats) -> Floats:
        """Return the novelty (row,) of rows that are not among the training rows."""
        distance, _ = self.neighbours.kneighbors(features)
        return np.asarray(np.log(distance.mean(axis=1) + self.floor))


@dataclass(frozen=True)
class RiskInputs:
    """Computes the inputs of risk models: features, novelty, prediction, and the spread among members.

    Attributes
    ----------
    mean, scale : float
        The prediction is standardised by these.
    sees_prediction, sees_spread : bool
        Whether the prediction and the spread are inputs.
    """

    mean: float
    scale: float
    sees_prediction: bool = True
    sees_spread: bool = False

    def __call__(self, features: Floats, prediction: Prediction, novelty: Floats | None = None) -> Floats:
        """Return the inputs (row, input), given the features and, if it is an input, the novelty (row,)."""
        columns = [features] if novelty is None else [features, novelty]
        if self.sees_prediction:
            columns.append((prediction.mean - self.mean) / self.scale)
        if self.sees_spread:
            columns.append(prediction.spread / self.scale)
        return np.column_stack(columns)


@dataclass(frozen=True)
class RiskModels:
    """Regressors, and the models of their risks.

    Attributes
    ----------
    regressors : tuple of tuple of estimator
        For each regressor of a blend its fitted copies: one for each fold, or a single one fitted to all rows.
    weights : ndarray of shape (regressor,)
    risks : tuple of ScaledRisk
    risk_weights : ndarray of shape (risk model,)
    inputs : RiskInputs
        Inputs of the risk models.
    novelty : Novelty or None
        None if novelty is no input of the risk models.
    reads_rows : bool
        Whether the regressors read the rows as they are, not their features.
    """

    regressors: tuple[tuple[Any, ...], ...]
    weights: Floats
    risks: tuple[ScaledRisk, ...]
    risk_weights: Floats
    inputs: RiskInputs
    novelty: Novelty | None = None
    reads_rows: bool = False

    def of_copy(self, number: int, inputs: Any) -> Prediction:
        """Predict by the copy of this number of each regressor."""
        each = [predict(copies[number], inputs) for copies in self.regressors]
        mean, spread = (np.tensordot(self.weights, np.array(values), 1) for values in zip(*each, strict=True))
        return Prediction(mean, spread)

    def by_copy(self, features: Floats, rows: Any = None) -> list[Prediction]:
        """Predict by the first copies, by the second ones, and so on."""
        inputs = rows if self.reads_rows else features
        return [self.of_copy(number, inputs) for number in range(len(self.regressors[0]))]

    def estimates(self, features: Floats, rows: Any = None) -> tuple[Floats, Floats]:
        """Return the predictions and the risks (copy, row)."""
        copies = self.by_copy(features, rows)
        novelty = None if self.novelty is None else self.novelty(features)
        inputs = [self.inputs(features, prediction, novelty) for prediction in copies]
        risks = np.array([risk.by_fold(inputs) for risk in self.risks])
        return np.array([prediction.mean for prediction in copies]), np.tensordot(self.risk_weights, risks, 1)


@dataclass(frozen=True)
class PowerCalibration:
    """The expected loss of a row of a given risk: level * (risk / centre) ** power.

    Attributes
    ----------
    level, centre : float
        The expected loss of a row whose risk is `centre`, the geometric mean of the training rows.
    power : float
    floor : float
        Smaller risks count as this.
    """

    level: float = 1.0
    centre: float = 1.0
    power: float = 1.0
    floor: float = 0.0

    @property
    def is_identity(self) -> bool:
        """Whether the expected loss is the risk."""
        return self == PowerCalibration()

    def __call__(self, risk: Floats) -> Floats:
        """Return the expected loss (row,) of rows of these risks."""
        if self.is_identity:
            return risk
        return np.asarray(self.level * (np.maximum(risk, self.floor) / self.centre) ** self.power)


@dataclass(frozen=True)
class RiskRule:
    """Accept a row where its expected loss is below its cost.

    The prediction and the risk of a row are means over the copies of the models. The expected loss is the risk times
    `factor`, calibrated, plus the surcharge of cells that carry no information.

    Attributes
    ----------
    encoder : TableEncoder
    models : RiskModels
    factor : float
        Ratio of the risk of the model of new rows to that of one fold.
    calibration : PowerCalibration
    surcharge : ndarray of shape (column,) or None
        Extra expected loss where the cell carries no information; None if such cells are used as they are.
    """

    encoder: TableEncoder
    models: RiskModels
    factor: float = 1.0
    calibration: PowerCalibration = PowerCalibration()
    surcharge: Floats | None = None

    def predict(self, rows: Any) -> Floats:
        """Return h(x) (row,) of checked rows."""
        with one_thread():
            blocks = [self.models.by_copy(self.encoder.transform(block), block) for block in _blocks(rows)]
        return np.concatenate([np.mean([each.mean for each in copies], axis=0) for copies in blocks])

    def estimate(self, rows: Any) -> tuple[Floats, Floats]:
        """Return h(x) and the expected loss (row,) of checked rows."""
        with one_thread():
            predictions, expected = zip(*(self._estimate(block) for block in _blocks(rows)), strict=True)
        return np.concatenate(predictions), np.concatenate(expected)

    def decide(self, rows: Any, cost: Floats) -> tuple[Floats, Floats]:
        """Return h(x) and the score (row,), which is the cost minus the expected loss."""
        prediction, expected = self.estimate(rows)
        return prediction, cost - expected

    def _estimate(self, rows: Any) -> tuple[Floats, Floats]:
        encoded = self.encoder.encode(rows)
        predictions, risks = self.models.estimates(encoded.features, rows)
        expected = self.calibration(self.factor * risks.mean(axis=0))
        if self.surcharge is not None:
            expected = expected + encoded.novelty @ self.surcharge
        return np.asarray(predictions.mean(axis=0)), expected


def _blocks(rows: Any) -> list[Any]:
    """Divide rows into blocks, so that memory does not grow with their number."""
    if isinstance(rows, pd.DataFrame):
        return [rows.iloc[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
    return [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
