"""RiskRejector: any regressor and a model of its conditional risk - rows in, predictions and expected losses out."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from recuse import losses
from recuse.costs import Cost
from recuse.estimators.base import RejectingRegressor
from recuse.estimators.risk.model import learn_risk
from recuse.estimators.subestimators import (
    Answers,
    Sample,
    answers,
    check_part,
    fit_parts,
    for_targets,
    regressor_for,
    risk_model,
)
from recuse.losses import SQUARED, LossLike
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.folds import Split, check_folds, folds_of, held_out_split
from recuse.tabular.rows import Rows
from recuse.tabular.units import target_moments
from recuse.validation import is_count, is_rate, require

__all__ = ["RiskRejector"]

Floats = NDArray[np.float64]

_RESIDUALS = ("train", "holdout", "crossfit")
_FOLDS = 5  # for the scale of the risk, where `cv` is no number


class RiskRejector(RejectingRegressor):
    """Accept a row where a model of the risk R(x) = E[(h(x) - y)^2 | x] stays below the cost.

    Three parts: a regressor h, a regressor fitted to its squared residuals, and the threshold, which is the cost. The
    cost has no part in the training, so one fitted model decides at any cost. Another loss may take the place of the
    squared error, and there may be several targets.

    Parameters
    ----------
    regressor : estimator, optional
        Any regressor with scikit-learn's interface, which must itself aim at `loss`. By default boosted trees or, for
        Huber's loss, `StackedMLPRegressor`. Several targets get a copy each where it can predict only one.
    risk : estimator, optional
        Any regressor, for the squared residuals or other losses of the rows; predictions below zero count as zero. By
        default extremely randomised trees with leaves large enough to average the noise of the residuals.
    residuals : {"crossfit", "holdout", "train"}, default="crossfit"
        Which residuals the risk model learns from. "crossfit" fits a regressor for each fold and takes the residuals
        of the rows left out; h is the mean of these regressors. "holdout" fits h to a part of the rows and takes the
        residuals of the others. "train" takes the residuals of the rows h was fitted to, which are too small.
    cv : int, splitter or iterable of (train, test), default=5
        The folds of "crossfit", with every row in one test part. A number divides the distinct rows at random;
        copies of a row stay together.
    cost : float, array-like, callable or str, default=1.0
        What a rejection costs, in squared units of the target or those of `loss`: a number, a callable of `X`, the name
        of a column of `X` (which is then no feature), or, given to `fit`, one value per row.
    prefit : bool, default=False
        Use `regressor` as it is; it is already fitted, to other rows than those given to `fit`, which serve for
        residuals only. `residuals` is then without effect. To clone the whole, put the regressor into
        ``sklearn.frozen.FrozenEstimator``.
    holdout : float, default=0.25
        Share of the rows held out by "holdout".
    sees_prediction : bool, default=True
        Let the risk model see h(x) and, where the regressor has `predict_members`, the standard deviation among its
        members, besides the features.
    rescale : bool, default=True
        Scale the risk so that it is right on average on rows it was not fitted to: by the mean residual over the mean
        of a cross-fitted risk.
    random_state : int, RandomState or None, default=None
        Divides the rows, and seeds every part whose own `random_state` is None.
    n_jobs : int, optional
        Processes that fit the parts, as in joblib; the results do not depend on it.
    loss : str or TargetLoss, default="squared"
        Of a prediction: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`. With several
        targets, its mean over them.

    Attributes
    ----------
    regressors_ : list
        The fitted regressors, whose mean is h; more than one only by "crossfit".
    risk_ : estimator
        The fitted model of the squared residuals or other losses.
    scale_ : float
        What its predictions are multiplied with.
    cost_ : the cost of `fit`
    loss_ : TargetLoss
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn

    Notes
    -----
    Both parts get the features as standardised numbers, categories as one column for each level, so any regressor will
    do. A prefitted regressor gets the rows as they are. Parts that take no `sample_weight` get copies of rows.

    The mean of the K regressors of "crossfit" is better than they are on average, at each row by exactly the variance
    of their predictions round that mean (Krogh and Vedelsby, 1995). This is subtracted from the risk, up to half of it:
    where they disagree still more, the model of the risk is not to be trusted that far. For other convex losses
    Jensen's inequality only says that the mean is no worse than they are on average, so there nothing is subtracted.

    That variance is no input of the risk model. On a training row all but one of the regressors have seen the target,
    and the more they follow it, the more they differ from the one that has not: it would give the residual away.
    The members of the one regressor that has not seen the row are harmless, and these the risk model does see.

    Examples
    --------
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> from recuse import RiskRejector, datasets
    >>> cars = datasets.load("auto_mpg")
    >>> (X, y), _, (X_test, y_test) = datasets.split(cars, repeat=0)
    >>> model = RiskRejector(RandomForestRegressor(50), random_state=0).fit(X, y)
    >>> for cost in (3.0, 6.0, 12.0):
    ...     measures = model.decide(X_test, cost=cost).evaluate(y_test)
    ...     print(measures["rcr_loss"] < min(measures["always_accept"], measures["always_reject"]))
    True
    True
    True
    """

    def __init__(
        self,
        regressor: Any = None,
        risk: Any = None,
        residuals: Literal["crossfit", "holdout", "train"] = "crossfit",
        cv: Any = 5,
        cost: Cost = 1.0,
        *,
        prefit: bool = False,
        holdout: float = 0.25,
        sees_prediction: bool = True,
        rescale: bool = True,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        loss: LossLike = "squared",
    ) -> None:
        self.regressor = regressor
        self.risk = risk
        self.residuals = residuals
        self.cv = cv
        self.cost = cost
        self.prefit = prefit
        self.holdout = holdout
        self.sees_prediction = sees_prediction
        self.rescale = rescale
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.loss = loss

    _several_targets = True

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        cost: Cost | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the regressor, then the model of its risk.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A DataFrame may have categories and missing values.
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
        cost : float, array-like, callable or str, optional
            Takes the place of the parameter `cost`. Nothing learned depends on it.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        RiskRejector
        """
        with self._all_or_nothing():
            self._check_parameters()
            self.cost_, self.loss_ = self.cost if cost is None else cost, losses.get(self.loss)
            rows = self._rows_without_cost(X, y, sample_weight)
            random = check_random_state(self.random_state)
            self._encoder = TableEncoder().fit(rows.X, rows.weight)
            self._target = target_moments(rows.y, rows.weight)
            splits = self._splits(rows, random)
            self._fit_regressors(rows, splits, random)
            self._fit_risk(rows, splits, random)
        return self

    def expected_loss(self, X: Any) -> Floats:
        """Give the estimated risk E[(h(x) - y)^2 | x] of every row, in squared units of the target, or that of `loss`.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._risk_of(*self._ask(self.regressors_, self._check_new_rows(X)))

    @property
    def serves_any_cost(self) -> bool:
        """True: the model of the risk knows nothing of the cost."""
        return True

    def _check_parameters(self) -> None:
        for name in ("regressor", "risk"):
            if getattr(self, name) is not None:
                check_part(getattr(self, name), name)
        require(self.residuals in _RESIDUALS, "residuals", f"one of {_RESIDUALS}", self.residuals)
        require(is_rate(self.holdout) and self.holdout < 1, "holdout", "between 0 and 1", self.holdout)
        check_folds(self.cv)
        losses.get(self.loss)
        if self.prefit:
            self._check_prefit()

    def _check_prefit(self) -> None:
        require(self.regressor is not None, "regressor", "given where prefit=True", None)
        try:
            check_is_fitted(self.regressor)
        except NotFittedError as error:
            raise NotFittedError(
                f"prefit=True needs a fitted regressor, got {type(self.regressor).__name__} that is not: "
                "fit it first, to other rows, or leave prefit=False"
            ) from error

    def _rows_without_cost(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> Rows:
        """Check everything, the cost too, and give canonical rows that know nothing of it."""
        return self._training_rows(X, y, self.cost_, sample_weight, cv=self.cv if self._divides else None)

    @property
    def _divides(self) -> bool:
        return self.residuals == "crossfit" and not self.prefit

    def _splits(self, rows: Rows, random: np.random.RandomState) -> list[Split]:
        """Pairs of the rows a regressor is fitted to and the rows its residuals are taken of."""
        if self._divides:
            return folds_of(rows, self.cv, random)
        everything = np.arange(len(rows))
        if self.prefit or self.residuals == "train":
            return [(everything, everything)]
        return [held_out_split(rows, self.holdout, random)]

    def _fit_regressors(self, rows: Rows, splits: list[Split], random: np.random.RandomState) -> None:
        self._asks_rows = bool(self.prefit)
        if self.prefit:
            self.regressors_ = [self.regressor]
            return
        part = regressor_for(self.loss_) if self.regressor is None else self.regressor
        part = for_targets(part, self._n_targets)
        features = self._encoder.transform(rows.X)
        samples = [(features[train], rows.y[train], rows.weight[train]) for train, _ in splits]
        self.regressors_ = fit_parts(part, samples, random, self.n_jobs)

    def _fit_risk(self, rows: Rows, splits: list[Split], random: np.random.RandomState) -> None:
        part = risk_model() if self.risk is None else self.risk
        residuals = self._residuals(rows, splits)
        self._risk = learn_risk(part, residuals, self._risk_folds(splits, random), random, self.n_jobs)
        self.risk_, self.scale_ = self._risk.model, self._risk.scale

    def _risk_folds(self, splits: list[Split], random: np.random.RandomState) -> NDArray[np.intp] | None:
        """Give each residual a fold, by which to cross-fit the risk: that of "crossfit", or else one at random."""
        if not self.rescale:
            return None
        sizes = [len(test) for _, test in splits]
        if len(splits) > 1:
            return np.repeat(np.arange(len(splits)), sizes)
        count = self.cv if is_count(self.cv) else _FOLDS
        return random.permutation(np.arange(sizes[0]) % min(count, sizes[0]))

    def _residuals(self, rows: Rows, splits: list[Split]) -> Sample:
        """Give the inputs (row, input), targets (row,) and weights (row,) of the risk model, split by split."""
        inputs, error, weight = [], [], []
        for model, (_, test) in zip(self.regressors_, splits, strict=True):  # by "crossfit", one that saw none of them
            left_out = rows.take(test)
            features, said = self._ask([model], left_out.X)
            inputs.append(self._risk_inputs(features, said))
            error.append(self.loss_.of_rows(said.prediction - left_out.y))
            weight.append(left_out.weight)
        return np.concatenate(inputs), np.concatenate(error), np.concatenate(weight)

    def _ask(self, models: list[Any], X: Any) -> tuple[Floats, Answers]:
        """Give the features of the rows, and what the models say about them."""
        features = self._encoder.transform(X)
        return features, answers(models, X if self._asks_rows else features, self._n_targets)

    def _predictions(self, rows: Any) -> Floats:
        return self._ask(self.regressors_, rows)[1].prediction

    def _judge(self, rows: Any, cost: Floats) -> tuple[Floats, Floats]:
        features, said = self._ask(self.regressors_, rows)
        return said.prediction, cost - self._risk_of(features, said)

    def _risk_of(self, features: Floats, said: Answers) -> Floats:
        risk = self._risk(self._risk_inputs(features, said))
        if self.loss_ != SQUARED:
            return risk
        # the mean of the regressors is better than one of them by the variance round it
        return np.maximum(risk - said.ambiguity, risk / 2)

    def _risk_inputs(self, features: Floats, said: Answers) -> Floats:
        """Give what the risk model sees (row, input); predictions are standardised like the features."""
        if not self.sees_prediction:
            return features
        mean, scale = self._target
        inputs = [features, (said.prediction - mean) / scale]
        if any(hasattr(model, "predict_members") for model in self.regressors_):
            inputs.append(said.spread / scale)
        return np.column_stack(inputs)
