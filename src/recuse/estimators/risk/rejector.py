"""RiskRejector: any regressor and a model of its conditional risk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from recuse import losses
from recuse.costs import Cost
from recuse.estimators.crossfitting import CrossFitted, Sample, cross_fit, refit
from recuse.estimators.risk.base import Corrections, FoldModels, RiskBasedRegressor
from recuse.estimators.risk.corrections import FoldMean
from recuse.estimators.risk.model import learn_risk
from recuse.estimators.subestimators import (
    check_subestimator,
    default_regressor,
    default_risk_model,
    fit_subestimator,
    seeded,
)
from recuse.losses import LossLike
from recuse.rules.risk import PowerCalibration, Prediction, RiskInputs, RiskModels, predict
from recuse.tabular.encoder import TableEncoder
from recuse.tabular.folds import Split, check_folds, folds_of, held_out_split, is_partition, splits_of_tested
from recuse.tabular.rows import Rows
from recuse.tabular.schema import Unseen
from recuse.tabular.units import moments
from recuse.threads import one_thread
from recuse.validation import is_count, is_rate, require

Floats = NDArray[np.float64]

_RESIDUALS = ("train", "holdout", "crossfit")
# Number of folds of the risk model if `cv` is not a number.
_FOLDS = 5


class RiskRejector(RiskBasedRegressor):
    """Accept a row where a model of the risk R(x) = E[(h(x) - y)^2 | x] is below the cost.

    The estimator has three parts: a regressor h, a regressor fitted to its squared residuals, and the threshold, which
    is the cost. Training does not depend on the cost, so one fitted model decides at any cost. Other losses than the
    squared error are possible.

    Parameters
    ----------
    regressor : estimator, optional
        Any regressor with scikit-learn's interface, which must itself minimise `loss`. By default boosted trees or, if
        those do not minimise `loss` (Huber's, for example), `StackedMLPRegressor`.
    risk : estimator, optional
        Any regressor, for the squared residuals or other losses of the rows; predictions below zero count as zero. By
        default extremely randomised trees with leaves large enough to average the noise of the residuals.
    residuals : {"crossfit", "holdout", "train"}, default="crossfit"
        The residuals that the risk model is fitted to. "crossfit" fits a regressor without each fold and takes the
        residuals of that fold; h is the mean of these regressors. "holdout" fits h to a part of the rows and takes the
        residuals of the others. "train" takes the residuals of the rows h was fitted to, which are too small.
    cv : int, splitter or iterable of (train, test), default=5
        The folds of "crossfit". A number splits the rows at random; rows with equal features share a fold. The test
        parts of a splitter must not overlap. Rows in none of them, as with ``TimeSeriesSplit``, are used for
        training only, and h is then fitted again to all rows. With "holdout" and "train", a number is the number of
        folds for the risk model.
    cost : float, array-like, callable or str, default=1.0
        Cost of a rejection, in squared units of the target or those of `loss`: a number, a callable of `X`, the name of
        a column of `X` (which is then not a feature), or, passed to `fit`, one value per row.
    prefit : bool, default=False
        Use `regressor` as it is. It must have been fitted to other rows than those passed to `fit`, which only provide
        the residuals. To be able to clone the estimator, wrap the regressor in ``sklearn.frozen.FrozenEstimator``.
    holdout : float, default=0.25
        Share of the rows held out by "holdout".
    sees_prediction : bool, default=True
        Whether h(x) is an input of the risk model in addition to the features. If the regressor has `predict_members`,
        the standard deviation among its members is another input.
    rescale : bool, default=True
        Cross-fit the risk model, and calibrate the risk: a scale and a power are fitted to the out-of-fold losses.
        Otherwise one risk model is fitted to all residuals and used as it is, as published plug-in methods do.
    random_state : int, RandomState or None, default=None
        Splits the rows, and seeds every subestimator whose own `random_state` is None.
    n_jobs : int, optional
        Processes that fit the subestimators, as in joblib; each uses one thread. The results do not depend on it.
    unseen : {"novel", "error", "keep"}, default="novel"
        With "novel", a category or a missing value that did not occur in training, or a number far outside the training
        range, adds to the expected loss what blanking the column adds to the loss of held-out rows. With "error", the
        first two raise an error. "keep" uses all cells as they are; see `recuse.tabular.encoder.TableEncoder`.
    loss : str or TargetLoss, default="squared"
        Loss of a prediction: "squared", "absolute", "huber:1.35", "pinball:0.9", ...; see `recuse.losses`.

    Attributes
    ----------
    regressors_ : list
        The fitted regressors, whose mean is h; more than one only with "crossfit".
    risks_ : list
        The fitted risk models, whose mean is the risk; more than one only with `rescale`.
    scale_ : float
        Factor of their predictions.
    out_of_fold_ : DataFrame
        One line for each row passed to `fit`, with its index: target, prediction, expected_loss, cost and score, the
        cost less the expected loss, each by models that were not fitted to the row; NaN if there are none. Only set
        with `rescale`, and not with "train", whose residuals are not out-of-fold.
    rule_ : RiskRule
        The fitted rule that decides, as in ``recuse.rules.risk``.
    cost_ : the cost of `fit`
    loss_ : TargetLoss
    n_features_in_, feature_names_in_ : as in scikit-learn

    Notes
    -----
    Both subestimators receive standardised numbers, with categories one-hot encoded, so any regressor can be used. A
    prefitted regressor receives the rows as they are. A subestimator without `sample_weight` is fitted to copies of
    the rows.

    The mean of the K regressors of "crossfit" is better than each of them on average, by the variance of their
    predictions around it (Krogh and Vedelsby, 1995). The ratio of the two risks is estimated on interpolated rows, as a
    function of the risk, and the expected losses of new rows and of `out_of_fold_` are lowered by it. For other convex
    losses, Jensen's inequality only implies that the mean is not worse, so the ratio is 1. The risks of `out_of_fold_`
    come from one fold each and are also mapped to the distribution of the mean over the folds. A power law from these
    risks to the expected losses is then fitted to the out-of-fold losses, times the ratio, by their gamma deviance.

    That variance is not an input of the risk model. All but one of the regressors were fitted to the target of a
    training row, so their distance from the other regressor would leak the residual.

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
        unseen: Unseen = "novel",
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
        self.unseen = unseen
        self.loss = loss

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        cost: Cost | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the regressor, then the model of its risk.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_rows, n_features)
            A DataFrame may have categories and missing values.
        y : array-like of shape (n_rows,)
        cost : float, array-like, callable or str, optional
            Replaces the parameter `cost`. Nothing learned depends on it.
        sample_weight : array-like of shape (n_rows,), optional
        groups : array-like of shape (n_rows,), optional
            Rows of one group share a fold. By default rows with equal features are a group.

        Returns
        -------
        RiskRejector
        """
        with self._all_or_nothing():
            self._check_parameters()
            self.__dict__.pop("out_of_fold_", None)  # an earlier fit may have set it
            self.cost_, self.loss_ = self.cost if cost is None else cost, losses.get(self.loss)
            cv = self.cv if self._cross_fits else None
            rows = self._training_rows(X, y, self.cost_, sample_weight, groups=groups, cv=cv, merge_costs=True)
            random = check_random_state(self.random_state)
            encoder = TableEncoder(self.unseen).fit(rows.X, rows.weight, rows.schema)
            self._fit_rows(rows, encoder, encoder.transform(rows.X), random)
        assert rows.origin is not None
        self._advise(rows.origin.weight)
        return self

    def _fit_rows(self, rows: Rows, encoder: TableEncoder, features: Floats, random: np.random.RandomState) -> None:
        splits = self._splits(rows, random)
        fitted = self._fit_regressors(rows, features, splits, random)
        regressors = fitted.models
        if self._cross_fits and not is_partition(splits, len(rows)):
            sample = Sample(features, rows.y, rows.weight)
            regressors = tuple(refit([(fitted.estimator, None)], sample, random, n_jobs=self.n_jobs))
        spread = self.sees_prediction and any(hasattr(model, "predict_members") for model in regressors)
        mean, scale = moments(rows.y, rows.weight)
        inputs = RiskInputs(mean, scale, self.sees_prediction, spread)
        tested, _ = splits_of_tested(splits)  # these rows have residuals
        error = self.loss_(fitted.out_of_fold.mean[tested] - rows.y[tested])
        estimator = default_risk_model() if self.risk is None else self.risk
        folds = self._risk_folds(rows, splits, tested, random)
        residuals = Sample(inputs(features, fitted.out_of_fold)[tested], error, rows.weight[tested])
        risk = learn_risk(estimator, residuals, folds, random, self.n_jobs)
        single = np.ones(1)
        models = RiskModels((regressors,), single, (risk.risk,), single, inputs, reads_rows=self.prefit)
        if self.prefit:  # the columns of its input cannot be blanked, so use the extra loss of a constant prediction
            constant = self.loss_(mean - rows.y).mean()
            extra = max(float(constant - error.mean()), 0.0)
            corrections = Corrections(encoder, FoldMean.of_one(), np.full(len(encoder.slices), extra))
        else:
            of_folds = replace(models, regressors=(fitted.models,))
            both = FoldModels(models, of_folds, of_folds)
            corrections = Corrections.learn(encoder, rows, features, splits, both, self.loss_, random)
        self.rule_ = corrections.rule(models, PowerCalibration())
        if folds is None:
            return
        honest = self.prefit or self.residuals != "train"
        learns = honest and not self.prefit
        expected = corrections.out_of_fold_surcharge(rows, splits) if learns else np.zeros(len(rows))
        calibration, expected[tested] = corrections.calibrate(
            risk.out_of_fold, error, rows.weight[tested], expected[tested]
        )
        self.rule_ = corrections.rule(models, calibration)
        if honest:
            self.out_of_fold_ = self._out_of_fold_table(rows, fitted.out_of_fold.mean, expected)

    @property
    def regressors_(self) -> list[Any]:
        """The fitted regressors."""
        return list(self.rule_.models.regressors[0])

    @property
    def risks_(self) -> list[Any]:
        """The fitted risk models."""
        return list(self.rule_.models.risks[0].models)

    @property
    def scale_(self) -> float:
        """Factor of the predictions of the risk models."""
        return self.rule_.models.risks[0].scale

    def _check_parameters(self) -> None:
        for name in ("regressor", "risk"):
            if getattr(self, name) is not None:
                check_subestimator(getattr(self, name), name)
        require(self.residuals in _RESIDUALS, "residuals", f"one of {_RESIDUALS}", self.residuals)
        require(is_rate(self.holdout) and self.holdout < 1, "holdout", "between 0 and 1", self.holdout)
        check_folds(self.cv)
        losses.get(self.loss)
        if self.prefit:
            self._check_prefit()

    def _check_prefit(self) -> None:
        require(self.regressor is not None, "regressor", "given with prefit=True", None)
        rule = "left at 'crossfit' with prefit=True, since it has no effect"
        require(self.residuals == "crossfit", "residuals", rule, self.residuals)
        try:
            check_is_fitted(self.regressor)
        except NotFittedError as error:
            raise NotFittedError(
                f"prefit=True needs a fitted regressor, got {type(self.regressor).__name__} that is not: "
                "fit it first, to other rows, or leave prefit=False"
            ) from error

    @property
    def _cross_fits(self) -> bool:
        return self.residuals == "crossfit" and not self.prefit

    def _splits(self, rows: Rows, random: np.random.RandomState) -> list[Split]:
        """Return, for each regressor, the rows to fit it to and the rows to compute its residuals on."""
        if self._cross_fits:
            return folds_of(rows, self.cv, random)
        everything = np.arange(len(rows))
        if self.prefit or self.residuals == "train":
            return [(everything, everything)]
        return [held_out_split(rows, self.holdout, random)]

    def _fit_regressors(
        self, rows: Rows, features: Floats, splits: list[Split], random: np.random.RandomState
    ) -> CrossFitted:
        """Fit the regressors, and predict the rows that residuals are computed on."""
        sample = Sample(features, rows.y, rows.weight)
        part = default_regressor(self.loss_) if self.regressor is None else self.regressor
        if self._cross_fits:
            return cross_fit(part, sample, splits, random, n_jobs=self.n_jobs)
        train, test = splits[0]
        with one_thread():
            model = part
            if not self.prefit:
                model = fit_subestimator(seeded(part, random), *sample.take(train))
            mean, spread = np.full_like(rows.y, np.nan), np.full(len(rows), np.nan)
            residual_rows = rows.take(test).X if self.prefit else features[test]
            mean[test], spread[test] = predict(model, residual_rows)
        return CrossFitted(part, (model,), Prediction(mean, spread))

    def _risk_folds(
        self, rows: Rows, splits: list[Split], tested: NDArray[np.intp], random: np.random.RandomState
    ) -> list[Split] | None:
        """Return the folds for cross-fitting the risk model; with "crossfit", those of the regressors."""
        if not self.rescale or len(tested) < 2:
            return None
        if not self._cross_fits:
            return folds_of(rows.take(tested), self.cv if is_count(self.cv) else _FOLDS, random)
        return splits_of_tested(splits)[1] if len(splits) > 1 else None
