"""DeferralRegressor: a regressor, and several experts that rows can be deferred to."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from recuse import losses
from recuse.dataframes import row_index
from recuse.decision import LOSS_SAVED
from recuse.estimators.advice import RejectionWarning
from recuse.estimators.auto.candidates import LEARNERS, RISK_MODELS, with_weighted
from recuse.estimators.base import CheckedRegressor, fitted_fingerprint
from recuse.estimators.crossfitting import Sample
from recuse.estimators.risk.base import RiskBasedRegressor
from recuse.estimators.risk.model import learn_risk
from recuse.estimators.risk.rejector import RiskRejector
from recuse.estimators.subestimators import check_subestimator, seeded
from recuse.experts.decision import DeferralDecision
from recuse.experts.expert import (
    MODEL,
    capacities_of,
    fees_of,
    is_always_available,
    predictions_of,
    read_experts,
    unanswered,
    without_named_columns,
)
from recuse.losses import LossLike, Squared, TargetLoss
from recuse.out_of_fold import OutOfFold
from recuse.rules.deferral import DeferralRule, ExpertLoss
from recuse.rules.risk import ScaledRisk
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.fingerprint import TrainingRows
from recuse.tabular.folds import Split, check_folds, folds_of, splits_of_tested
from recuse.tabular.rows import Rows
from recuse.tabular.schema import Unseen
from recuse.tabular.units import moments
from recuse.validation import is_count, require

Floats = NDArray[np.float64]

# An expert must have predicted at least this number of rows.
_LEAST_ROWS = 10


def default_own_regressor(n_rows: int, loss: TargetLoss) -> Any:
    """Return small networks; with the squared error and many rows, noisy rows have less weight."""
    learners = with_weighted({"networks": LEARNERS["networks"]}, n_rows)
    weighted = isinstance(loss, Squared) and "networks_weighted" in learners
    return learners["networks_weighted" if weighted else "networks"].build(n_rows, loss)


def default_expected_loss(n_rows: int, loss: TargetLoss) -> Any:
    """Return networks that predict the logarithm of the expected loss."""
    return RISK_MODELS["network"].build(n_rows, loss)


def learn_expected_loss(
    part: Any,
    rows: Rows,
    features: Floats,
    prediction: Floats,
    *,
    name: str,
    sees_prediction: bool,
    loss: TargetLoss,
    splits: Sequence[Split],
    random: np.random.RandomState,
    n_jobs: int | None,
) -> tuple[ExpertLoss, Floats]:
    """Cross-fit a model of the losses of an expert, to the rows that it has predicted.

    Parameters
    ----------
    part : estimator
    rows : Rows
    features : ndarray of shape (row, feature)
    prediction : ndarray of shape (row,)
        NaN where the expert made none.
    name : str
        Of the expert, for errors.
    sees_prediction : bool
        Whether the prediction is an input of the model.
    loss : TargetLoss
    splits : sequence of (train, test)
        Folds of all rows. Only rows in a test part are used.
    random, n_jobs
        As in `learn_risk`.

    Returns
    -------
    ExpertLoss
    ndarray of shape (row,)
        Expected losses of the rows by models that were not fitted to them.
    """
    parts = [test[np.isfinite(prediction[test])] for _, test in splits]
    count = sum(map(len, parts))
    if count < _LEAST_ROWS:
        raise ValueError(f"expert {name!r} must have predictions of at least {_LEAST_ROWS} rows, got {count}")
    learned, folds = splits_of_tested([(part, part) for part in parts if len(part)])
    scale = moments(prediction[learned], rows.weight[learned]) if sees_prediction else None
    error = loss(prediction[learned] - rows.y[learned])
    untrained = ExpertLoss(name, ScaledRisk((), 1.0), scale)
    inputs = untrained.inputs(features[learned], prediction[learned])
    sample = Sample(inputs, error, rows.weight[learned])
    risk = learn_risk(part, sample, folds if len(folds) > 1 else None, random, n_jobs)
    model = replace(untrained, risk=risk.risk)
    expected = model(features, prediction)
    if len(folds) > 1:
        expected[learned] = risk.out_of_fold
    return model, expected


class DeferralRegressor(CheckedRegressor):
    """Predict a row, or defer it to one of several experts, whichever has the lowest expected loss plus fee.

    The own regressor and its expected loss are cross-fitted, as in `RiskRejector`. So is, for each expert, a model of
    the expert's expected loss, from the rows that the expert has predicted. A row is assigned to the action with the
    lowest expected loss plus fee. If more rows prefer an expert than its capacity allows, the assignment with the
    lowest sum over all rows of the call is used.

    Parameters
    ----------
    experts : mapping of str to Expert or tuple
        An `Expert`, a tuple (source, fee) or a tuple (source, fee, capacity) for each name. A source is a fitted model,
        a callable, recorded predictions, or the name of a column of `X`; see `recuse.estimators.Expert`. The name
        "model" is reserved for the own prediction, and "total", "oracle" and "always ..." for the lines of `evaluate`.
    regressor : estimator, optional
        Any regressor, which must itself minimise `loss`; or a `RiskRejector` or `AutoRejector`, which is used with
        its own settings. By default small networks; with the squared error and many rows, noisy rows have less weight.
    risk : estimator, optional
        Any regressor, for the losses of the experts, and for those of `regressor` unless that is a `RiskRejector` or
        `AutoRejector`. By default networks that predict the logarithm of the expected loss.
    cv : int, splitter or iterable of (train, test), default=5
        The folds, as in `RiskRejector`.
    loss : str or TargetLoss, default="squared"
        Loss of a prediction; see `recuse.losses`. Fees are in its units.
    random_state : int, RandomState or None, default=None
    n_jobs : int, optional
        Processes, as in joblib; each uses one thread. The results do not depend on it.
    unseen : {"novel", "error", "keep"}, default="novel"
        Treatment of unseen categories and the like, as in `RiskRejector`. With "novel" they add to the expected loss of
        the model, but not to those of the experts.

    Attributes
    ----------
    experts_ : dict of str to Expert
    rule_ : DeferralRule
        The fitted rule that decides, as in ``recuse.rules.deferral``.
    model_ : RiskRejector or AutoRejector
        The own regressor with its expected loss. Its costs are the expected losses plus fees of the best expert.
    out_of_fold_ : DataFrame
        One line for each row passed to `fit`, with its index: target, prediction, and for each action
        ``expected_loss_...`` by models that were not fitted to the row. NaN if there are none.
    loss_ : TargetLoss
    n_features_in_, feature_names_in_ : as in scikit-learn

    Notes
    -----
    Models and callables among the experts are called for all rows, in `fit` and in `decide`, with the features: `X`
    without the columns of recorded predictions and fees. They must not have been fitted to the rows passed to `fit`.
    Their prediction is an input of the model of their expected loss. They cannot take rows for which they return NaN.

    Examples
    --------
    >>> from sklearn.ensemble import ExtraTreesRegressor
    >>> from recuse import DeferralRegressor, datasets
    >>> X, y, mean, variance = datasets.make_heteroscedastic(600, random_state=0)
    >>> night = y + np.random.RandomState(1).normal(size=600) * 0.3  # recorded answers of an expert
    >>> trees = ExtraTreesRegressor(50, min_samples_leaf=5)
    >>> model = DeferralRegressor({"night": (night, 0.5, 0.25)}, trees, trees, random_state=0).fit(X, y)
    >>> X_new, y_new, *_ = datasets.make_heteroscedastic(200, random_state=1)
    >>> decision = model.decide(X_new)
    >>> int((decision.takes == "night").sum())  # its capacity is a quarter
    50
    >>> measures = decision.evaluate(y_new)
    >>> bool(measures.loc["total", "total"] < measures.loc["always model", "total"])
    True
    """

    rule_: DeferralRule
    model_: RiskBasedRegressor
    score_unit = LOSS_SAVED

    def __init__(
        self,
        experts: Mapping[str, Any] | None = None,
        regressor: Any = None,
        risk: Any = None,
        cv: Any = 5,
        *,
        loss: LossLike = "squared",
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        unseen: Unseen = "novel",
    ) -> None:
        self.experts = experts
        self.regressor = regressor
        self.risk = risk
        self.cv = cv
        self.loss = loss
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.unseen = unseen

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted copy that shares the experts, whose models stay fitted."""
        copy: Self = super().__sklearn_clone__()
        copy.experts = self.experts
        return copy

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Fit the models of the experts' losses, and the own regressor.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A DataFrame may have categories and missing values, and the columns that experts name.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional
        groups : array-like of shape (n_rows,), optional
            Rows of one group share a fold. By default rows with equal features are a group.

        Returns
        -------
        DeferralRegressor
        """
        with self._all_or_nothing():
            self._check_parameters()
            self.experts_, self.loss_ = read_experts(self.experts), losses.get(self.loss)
            random, cv = check_random_state(self.random_state), _reusable(self.cv)
            features = without_named_columns(X, self.experts_)
            rows = self._training_rows(features, y, 1.0, sample_weight, groups=groups, cv=cv, sort=False)
            table = self._check_features(features, None, reset=False)
            predictions = predictions_of(self.experts_, X, table, fitting=True)
            fees = fees_of(self.experts_, X, table, fitting=True)
            assert rows.origin is not None
            used = rows.origin.place >= 0  # rows of weight 0 are left out
            encoder = TableEncoder(self.unseen).fit(rows.X, rows.weight, rows.schema)
            experts, expected = self._fit_experts(rows, encoder.transform(rows.X), predictions[used], cv, random)
            silent = unanswered(self.experts_, predictions[used])
            best = np.full(len(used), np.nan)
            best[used] = _best_costs(expected + fees[used], silent)
            self._fit_own(features, y, np.where(used, best, 0.0), sample_weight, groups, cv, random)
            self.rule_ = DeferralRule(self.model_.rule_, encoder, experts)
            self.out_of_fold_ = self._out_of_fold_table(used, np.where(silent, np.nan, expected))
        return self

    def predict(self, X: Any) -> Floats:
        """Predict every row by the own regressor, also those that would be deferred.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return np.asarray(self.model_.predict(self._check_new_rows(X)))

    def decide(
        self, X: Any, fees: Mapping[str, Any] | None = None, capacities: Mapping[str, Any] | None = None
    ) -> DeferralDecision:
        """Assign every row to the model or to an expert.

        Capacities hold for the rows of one call, so pass all rows of a day or a shift together.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A column of recorded predictions may be absent.
        fees : mapping of str to float, array-like, callable or str, optional
            Replace the fees of some experts.
        capacities : mapping of str to int, float or None, optional
            Replace the capacities of some experts.

        Returns
        -------
        DeferralDecision
        """
        rows = self._check_new_rows(X, fees)
        row_fees = fees_of(self.experts_, X, rows, fees, fitting=False)
        limits = capacities_of(self.experts_, len(rows), capacities)
        answers = predictions_of(self.experts_, X, rows, fitting=False)
        prediction, expected = self.rule_.estimate(rows, answers)
        predictions = np.column_stack([prediction, answers])
        return DeferralDecision.assigned(
            [*self.experts_], predictions, expected, row_fees, limits, row_index(X), self.loss_
        )

    @property
    def training_rows_(self) -> TrainingRows | None:
        """Hashes of all rows that `fit` used."""
        return self.model_.training_rows_

    @property
    def fingerprint(self) -> str:
        """A checksum of the parameters and the results of `fit`; models of different fits differ in it."""
        return fitted_fingerprint(self)

    def _check_parameters(self) -> None:
        for name in ("regressor", "risk"):
            if getattr(self, name) is not None:
                check_subestimator(getattr(self, name), name)
        check_folds(self.cv)
        if isinstance(self.regressor, RiskBasedRegressor):
            own = losses.get(self.regressor.get_params()["loss"])
            rule = f"that of {type(self.regressor).__name__}, {own.name!r}"
            require(own == losses.get(self.loss), "loss", rule, self.loss)

    def _check_new_rows(self, X: Any, fees: Any = None) -> Any:
        named = fees if isinstance(fees, Mapping) else None
        return super()._check_new_rows(without_named_columns(X, getattr(self, "experts_", {}), named))

    def _fit_experts(
        self, rows: Rows, features: Floats, predictions: Floats, cv: Any, random: np.random.RandomState
    ) -> tuple[tuple[ExpertLoss, ...], Floats]:
        """Fit the models of the experts' expected losses; also return the out-of-fold ones (row, expert)."""
        part = default_expected_loss(len(rows), self.loss_) if self.risk is None else self.risk
        splits = folds_of(rows, cv, random)
        learned = [
            learn_expected_loss(
                part,
                rows,
                features,
                prediction,
                name=name,
                sees_prediction=is_always_available(expert),
                loss=self.loss_,
                splits=splits,
                random=random,
                n_jobs=self.n_jobs,
            )
            for (name, expert), prediction in zip(self.experts_.items(), predictions.T, strict=True)
        ]
        experts = tuple(
            replace(
                model,
                model=expert.source if hasattr(expert.source, "predict") else None,
                fee=expert.fee,
                capacity=expert.capacity,
                column=expert.source if isinstance(expert.source, str) else None,
            )
            for expert, (model, _) in zip(self.experts_.values(), learned, strict=True)
        )
        return experts, np.column_stack([expected for _, expected in learned])

    def _fit_own(
        self, X: Any, y: Any, cost: Floats, sample_weight: Any, groups: Any, cv: Any, random: np.random.RandomState
    ) -> None:
        """Fit the own regressor and its risk, for rejection at the expected cost of the best expert."""
        model = self.regressor
        if not isinstance(model, RiskBasedRegressor):
            n_rows = len(cost)
            model = RiskRejector(
                default_own_regressor(n_rows, self.loss_) if model is None else model,
                default_expected_loss(n_rows, self.loss_) if self.risk is None else self.risk,
                cv=cv,
                n_jobs=self.n_jobs,
                unseen=self.unseen,
                loss=self.loss_,
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RejectionWarning)
            self.model_ = seeded(model, random).fit(X, y, cost=cost, sample_weight=sample_weight, groups=groups)

    def _out_of_fold_table(self, used: NDArray[np.bool_], expected: Floats) -> pd.DataFrame:
        own = OutOfFold.of(self.model_)
        require(own is not None, "regressor", "an estimator with out-of-fold results", self.regressor)
        assert own is not None
        table = pd.DataFrame({"target": own.target, "prediction": own.prediction}, index=own.index)
        table[f"expected_loss_{MODEL}"] = own.expected_loss
        for name, column in zip(self.experts_, expected.T, strict=True):
            table[f"expected_loss_{name}"] = np.nan
            table.loc[used, f"expected_loss_{name}"] = column
        return table


def _best_costs(costs: Floats, silent: NDArray[np.bool_]) -> Floats:
    """Return the cost of the cheapest expert that can take each row; the largest of these if no expert can."""
    best: Floats = np.where(silent, np.inf, costs).min(axis=1)
    return np.where(np.isinf(best), best[np.isfinite(best)].max(initial=0.0), best)


def _reusable(cv: Any) -> Any:
    """Return splits that can be iterated several times."""
    return cv if is_count(cv) or hasattr(cv, "split") else list(cv)
