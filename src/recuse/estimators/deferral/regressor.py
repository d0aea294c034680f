"""DeferralRegressor: a regressor, and several experts that rows can be deferred to."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from recuse import losses
from recuse.dataframes import row_index
from recuse.estimators.advice import RejectionWarning
from recuse.estimators.base import CheckedRegressor
from recuse.estimators.deferral.assignment import assign
from recuse.estimators.deferral.decision import DeferralDecision
from recuse.estimators.deferral.expected_losses import (
    ExpectedLoss,
    default_expected_loss,
    default_own_regressor,
    learn_expected_loss,
)
from recuse.estimators.deferral.experts import (
    MODEL,
    capacities_of,
    fees_of,
    is_always_available,
    predictions_of,
    read_experts,
    unanswered,
    without_named_columns,
)
from recuse.estimators.deferral.networks import ChoosingNetworks
from recuse.estimators.risk.base import RiskBasedRegressor
from recuse.estimators.risk.rejector import RiskRejector
from recuse.estimators.subestimators import check_subestimator, seeded
from recuse.losses import LossLike
from recuse.out_of_fold import OutOfFold
from recuse.tabular.encoder import TableEncoder, Unseen
from recuse.tabular.folds import check_folds, folds_of
from recuse.tabular.rows import Rows
from recuse.validation import is_count, require

__all__ = ["DeferralRegressor"]

Floats = NDArray[np.float64]

_METHODS = ("plug_in", "surrogate")


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
    method : {"plug_in", "surrogate"}, default="plug_in"
        "plug_in" compares the expected losses plus fees. "surrogate" trains networks on out-of-fold losses plus fees,
        with a surrogate of the total cost. They learn which action is cheapest, not how much each costs; the expected
        losses of the decision are those of "plug_in" nevertheless.
    cv : int, splitter or iterable of (train, test), default=5
        The folds, as in `RiskRejector`.
    loss : str or TargetLoss, default="squared"
        Loss of a prediction; see `recuse.losses`. Fees are in its units.
    hidden : tuple of int, default=(64, 64)
        Hidden layers of the networks of "surrogate".
    epochs : int, optional
        Epochs of "surrogate"; by default 20 to 100, fewer with more rows.
    n_members : int, default=5
        Networks of "surrogate". Each is trained without one of as many folds, which chooses the epoch.
    random_state : int, RandomState or None, default=None
    n_jobs : int, optional
        Processes, as in joblib; each uses one thread. The results do not depend on it.
    unseen : {"novel", "error", "keep"}, default="novel"
        Treatment of unseen categories and the like, as in `RiskRejector`. With "novel" they add to the expected loss of
        the model, but not to those of the experts.

    Attributes
    ----------
    experts_ : dict of str to Expert
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

    The surrogate is that of Mao, Mohri and Zhong, "Regression with multi-expert deferral", ICML 2024, in its two-stage
    form with the logistic loss. An expert's loss that is not recorded is replaced by its expected loss. The networks
    are trained for the fees of `fit`. A fee that varies by row is another input, and may then have any value later.

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

    def __init__(
        self,
        experts: Mapping[str, Any] | None = None,
        regressor: Any = None,
        risk: Any = None,
        method: Literal["plug_in", "surrogate"] = "plug_in",
        cv: Any = 5,
        *,
        loss: LossLike = "squared",
        hidden: Sequence[int] = (64, 64),
        epochs: int | None = None,
        n_members: int = 5,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        unseen: Unseen = "novel",
    ) -> None:
        self.experts = experts
        self.regressor = regressor
        self.risk = risk
        self.method = method
        self.cv = cv
        self.loss = loss
        self.hidden = hidden
        self.epochs = epochs
        self.n_members = n_members
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
        """Fit the models of the experts' losses, the own regressor, and the networks of "surrogate".

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
            used = rows.origin.place >= 0  # rows of weight > 0
            self._encoder = TableEncoder(self.unseen).fit(rows.X, rows.weight)
            encoded = self._encoder.transform(rows.X)
            expected = self._fit_experts(rows, encoded, predictions[used], cv, random)
            silent = unanswered(self.experts_, predictions[used])
            best = np.full(len(used), np.nan)
            best[used] = _best_costs(expected + fees[used], silent)
            self._fit_own(features, y, np.where(used, best, 0.0), sample_weight, groups, cv, random)
            self.out_of_fold_ = self._out_of_fold_table(used, np.where(silent, np.nan, expected))
            self._networks: ChoosingNetworks | None = None
            if self.method == "surrogate":
                costs = self._observed(rows, used, predictions[used], expected) + _with_model(fees[used])
                self._fit_networks(rows, encoded, costs, fees[used], random)
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
            Replace the fees of some experts. With "surrogate" only those that varied by row in `fit`.
        capacities : mapping of str to int, float or None, optional
            Replace the capacities of some experts.

        Returns
        -------
        DeferralDecision
        """
        rows = self._check_new_rows(X, fees)
        row_fees = fees_of(self.experts_, X, rows, fees, fitting=False)
        limits = capacities_of(self.experts_, len(rows), capacities)
        prediction, own = self.model_.rule_.estimate(self.model_._check_new_rows(rows))
        predictions = predictions_of(self.experts_, X, rows, fitting=False)
        features = self._encoder.transform(rows)
        others = [model(features, column) for model, column in zip(self._expected, predictions.T, strict=True)]
        expected, all_fees = np.column_stack([own, *others]), _with_model(row_fees)
        costs = expected + all_fees
        if self._networks is not None:
            self._check_fees(row_fees, self._networks)
            costs = self._networks.costs(features, row_fees, costs.sum(axis=1))
        for values in (costs, expected):
            values[:, 1:][unanswered(self.experts_, predictions)] = np.inf
        return DeferralDecision(
            self._names,
            assign(costs, limits),
            np.column_stack([prediction, predictions]),
            expected,
            all_fees,
            row_index(X),
            self.loss_,
        )

    @property
    def _names(self) -> tuple[str, ...]:
        return MODEL, *self.experts_

    def _check_parameters(self) -> None:
        for name in ("regressor", "risk"):
            if getattr(self, name) is not None:
                check_subestimator(getattr(self, name), name)
        require(self.method in _METHODS, "method", f"one of {_METHODS}", self.method)
        check_folds(self.cv)
        require(self.epochs is None or is_count(self.epochs), "epochs", "None or an int >= 1", self.epochs)
        require(is_count(self.n_members, least=2), "n_members", "an int >= 2", self.n_members)
        widths = isinstance(self.hidden, Sequence) and all(map(is_count, self.hidden))
        require(widths, "hidden", "a tuple of ints >= 1", self.hidden)
        if isinstance(self.regressor, RiskBasedRegressor):
            own = losses.get(self.regressor.get_params()["loss"])
            rule = f"that of {type(self.regressor).__name__}, {own.name!r}"
            require(own == losses.get(self.loss), "loss", rule, self.loss)

    def _check_new_rows(self, X: Any, fees: Any = None) -> Any:
        named = fees if isinstance(fees, Mapping) else None
        return super()._check_new_rows(without_named_columns(X, getattr(self, "experts_", {}), named))

    def _fit_experts(
        self, rows: Rows, features: Floats, predictions: Floats, cv: Any, random: np.random.RandomState
    ) -> Floats:
        """Fit the models of the experts' expected losses; return the out-of-fold ones (row, expert)."""
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
        self._expected: list[ExpectedLoss] = [model for model, _ in learned]
        return np.column_stack([expected for _, expected in learned])

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

    def _observed(self, rows: Rows, used: NDArray[np.bool_], predictions: Floats, expected: Floats) -> Floats:
        """Return the losses (row, action): observed where the prediction is known, otherwise expected."""
        own = self.model_.out_of_fold_[used]
        both = np.column_stack([own["prediction"], predictions])
        risks = np.column_stack([self.out_of_fold_[used][f"expected_loss_{MODEL}"], expected])
        error = np.column_stack([self.loss_.of_rows(column - rows.y) for column in both.T])
        return np.where(np.isfinite(both), error, risks)

    def _fit_networks(
        self, rows: Rows, features: Floats, costs: Floats, fees: Floats, random: np.random.RandomState
    ) -> None:
        """Train the networks of "surrogate" on the rows with an out-of-fold prediction."""
        known = np.flatnonzero(np.isfinite(costs).all(axis=1))
        self._networks = ChoosingNetworks.learn(
            rows.take(known),
            features[known],
            costs[known],
            fees[known],
            hidden=self.hidden,
            epochs=self.epochs,
            n_members=self.n_members,
            random=random,
        )
        self._fit_fees = fees[0]

    def _check_fees(self, fees: Floats, networks: ChoosingNetworks) -> None:
        """Check that fees which were constant in training have not changed."""
        varying = {place for place, *_ in networks.fees}
        for place, name in enumerate(self.experts_):
            fixed = self._fit_fees[place]
            other = fees[:, place] != fixed
            if place not in varying and other.any():
                raise ValueError(
                    f"the fee of {name!r} must be that of fit, {fixed:g}, with method='surrogate', "
                    f"got {fees[other.argmax(), place]:g}: fit again, or use method='plug_in'"
                )


def _best_costs(costs: Floats, silent: NDArray[np.bool_]) -> Floats:
    """Return the cost of the cheapest expert that can take each row; the largest of these if no expert can."""
    best: Floats = np.where(silent, np.inf, costs).min(axis=1)
    return np.where(np.isinf(best), best[np.isfinite(best)].max(initial=0.0), best)


def _with_model(fees: Floats) -> Floats:
    """Return fees (row, action) with zeros for the model."""
    return np.column_stack([np.zeros(len(fees)), fees])


def _reusable(cv: Any) -> Any:
    """Return splits that can be iterated several times."""
    return cv if is_count(cv) or hasattr(cv, "split") else list(cv)
