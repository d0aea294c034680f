"""Cross-fitting: copies of an estimator, each fitted without one fold, and their predictions of that fold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from recuse.estimators.joint_fits import fit_all, fits_together
from recuse.estimators.subestimators import fit_subestimator, seeded
from recuse.rules.risk import Prediction, predict
from recuse.tabular.folds import Split
from recuse.tabular.rows import is_constant_target
from recuse.threads import one_thread

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


class Sample(NamedTuple):
    """Rows to fit an estimator to.

    Attributes
    ----------
    inputs : ndarray of shape (row, input)
    target, weight : ndarray of shape (row,)
    """

    inputs: Floats
    target: Floats
    weight: Floats

    def take(self, rows: Indices) -> Sample:
        """Return some of the rows."""
        return Sample(self.inputs[rows], self.target[rows], self.weight[rows])


@dataclass(frozen=True)
class CrossFitted:
    """Fitted copies of an estimator, and predictions of rows that they were not fitted to.

    Attributes
    ----------
    estimator : estimator
        Not fitted.
    models : tuple of estimator
        The copies, one for each split.
    out_of_fold : Prediction
        Of each row by the copy that was not fitted to it; NaN for rows in no test part.
    """

    estimator: Any
    models: tuple[Any, ...]
    out_of_fold: Prediction


def cross_fit(
    estimator: Any,
    sample: Sample,
    splits: Sequence[Split],
    random: np.random.RandomState,
    *,
    n_jobs: int | None = None,
    most_rows: int | None = None,
    on_fit: Callable[[], None] | None = None,
) -> CrossFitted:
    """Fit a copy of the estimator to the training rows of each split and predict its test rows.

    Every fit uses one thread, in one of `n_jobs` processes. The result does not depend on their number.

    Parameters
    ----------
    estimator : estimator
    sample : Sample
    splits : sequence of (train, test)
        No row may be in two test parts.
    random : RandomState
        Seeds the copies, and draws rows where there are more than `most_rows`.
    n_jobs : int, optional
    most_rows : int, optional
        Maximum number of rows that each copy is fitted to.
    on_fit : callable, optional
        Called after each fit.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> x = np.arange(6.0)
    >>> sample = Sample(x[:, None], 2 * x, np.ones(6))
    >>> halves = [(np.arange(3), np.arange(3, 6)), (np.arange(3, 6), np.arange(3))]
    >>> cross_fit(LinearRegression(), sample, halves, np.random.RandomState(0)).out_of_fold.mean.round(6) + 0.0
    array([ 0.,  2.,  4.,  6.,  8., 10.])
    """
    fits = FoldFits(estimator, sample, splits, random, n_jobs=n_jobs, most_rows=most_rows, on_fit=on_fit)
    fits.fit(range(len(splits)))
    return fits.result()


class FoldFits:
    """Cross-fitting in steps, some folds at a time.

    Parameters
    ----------
    estimator, sample, splits, random, n_jobs, most_rows, on_fit
        As in `cross_fit`. All random choices are made here, so the order of the steps does not matter.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> x = np.arange(4.0)
    >>> halves = [(np.arange(2), np.arange(2, 4)), (np.arange(2, 4), np.arange(2))]
    >>> fits = FoldFits(LinearRegression(), Sample(x[:, None], x, np.ones(4)), halves, np.random.RandomState(0))
    >>> fits.fit([1])
    >>> fits.missing, fits.result().out_of_fold.mean.round(6) + 0.0
    ([0], array([ 0.,  1., nan, nan]))
    """

    def __init__(
        self,
        estimator: Any,
        sample: Sample,
        splits: Sequence[Split],
        random: np.random.RandomState,
        *,
        n_jobs: int | None = None,
        most_rows: int | None = None,
        on_fit: Callable[[], None] | None = None,
    ) -> None:
        self.estimator, self.sample, self._n_jobs, self._on_fit = estimator, sample, n_jobs, on_fit
        self._work = [(seeded(estimator, random), _drawn(train, most_rows, random), test) for train, test in splits]
        self.repeats, self._models = 1, dict[int, Any]()
        self._mean, self._spread = np.full_like(sample.target, np.nan), np.full(len(sample.target), np.nan)

    @property
    def together(self) -> bool:
        """Whether the copies of several folds are fitted at once."""
        return fits_together(self._work[0][0])

    @property
    def missing(self) -> list[int]:
        """The folds without a model."""
        return [fold for fold in range(len(self._work)) if fold not in self._models]

    def fit(self, folds: Sequence[int]) -> None:
        """Fit the copies of some folds, and predict the test rows of these folds."""
        if not len(folds):
            return
        work = [self._work[fold] for fold in folds]
        if self.together:
            for fold, fitted in zip(folds, self._stack_fits(work), strict=True):
                self._keep(fold, *fitted)
            for _ in folds:
                self._count()
            return
        fits = (delayed(_fit_and_predict)(copy, self.sample, train, test) for copy, train, test in work)
        for fold, fitted in zip(folds, Parallel(self._n_jobs, return_as="generator")(fits), strict=True):
            self._keep(fold, *fitted)
            self._count()

    def _keep(self, fold: int, model: Any, predicted: Prediction) -> None:
        _, _, test = self._work[fold]
        self._mean[test], self._spread[test] = predicted
        self._models[fold] = model

    def _count(self) -> None:
        if self._on_fit is not None:
            self._on_fit()

    def _stack_fits(self, work: list[tuple[Any, Indices, Indices]]) -> list[tuple[Any, Prediction]]:
        """Fit copies at once; an error of `on_fit` afterwards loses none of them."""
        models = _fit_stack([(copy, train) for copy, train, _ in work], self.sample, self._n_jobs)
        with one_thread():
            return [
                (model, predict(model, self.sample.inputs[test]))
                for model, (_, _, test) in zip(models, work, strict=True)
            ]

    def result(self, folds: int | None = None) -> CrossFitted:
        """Return the models and the out-of-fold predictions so far, of the first folds or of all."""
        mean, spread = np.full_like(self._mean, np.nan), np.full_like(self._spread, np.nan)
        for _, _, test in self._work[:folds]:
            mean[test], spread[test] = self._mean[test], self._spread[test]
        models = tuple(self._models[fold] for fold in range(len(self._work))[:folds] if fold in self._models)
        return CrossFitted(self.estimator, models, Prediction(mean, spread))


class MeanOfRepeats:
    """The mean of models of one fold number, each fitted in another division of the rows.

    Parameters
    ----------
    models : sequence of estimator
        The first is of the first division.
    """

    def __init__(self, models: Sequence[Any]) -> None:
        self.models = tuple(models)

    @property
    def first(self) -> Any:
        """The model of the first division."""
        return self.models[0]

    def predict(self, X: Floats) -> Floats:
        """Return the mean prediction."""
        return np.asarray(np.mean([model.predict(X) for model in self.models], axis=0))


def first_division(copies: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the models of the first division of the rows, whose folds the results refer to."""
    return tuple(copy.first if isinstance(copy, MeanOfRepeats) else copy for copy in copies)


class RepeatedFits:
    """Cross-fitting with several divisions of the rows; the out-of-fold predictions are means over the divisions.

    With few rows, a large part of the differences between models is due to the division.

    Parameters
    ----------
    divisions : sequence of FoldFits
        Of the same estimator and rows, with the same number of folds. Results refer to the folds of the first.
    """

    def __init__(self, divisions: Sequence[FoldFits]) -> None:
        self._divisions = list(divisions)

    @property
    def together(self) -> bool:
        """Whether the copies of several folds are fitted at once."""
        return self._divisions[0].together

    @property
    def repeats(self) -> int:
        """Number of divisions."""
        return len(self._divisions)

    @property
    def missing(self) -> list[int]:
        """The folds without a model in some division."""
        return sorted({fold for fits in self._divisions for fold in fits.missing})

    def fit(self, folds: Sequence[int]) -> None:
        """Fit the copies of some folds of every division."""
        for fits in self._divisions:
            fits.fit([fold for fold in folds if fold in fits.missing])

    def result(self, folds: int | None = None) -> CrossFitted:
        """Return the mean models and the out-of-fold predictions so far, by the folds of the first division."""
        return self._mean([fits.result(folds) for fits in self._divisions])

    def _mean(self, each: Sequence[CrossFitted]) -> CrossFitted:
        models = tuple(MeanOfRepeats(models) for models in zip(*(fitted.models for fitted in each), strict=False))
        first = each[0].out_of_fold
        known = np.isfinite(first.spread)
        mean, spread = first.mean.copy(), first.spread.copy()
        mean[known] = np.nanmean([fitted.out_of_fold.mean[known] for fitted in each], axis=0)
        spread[known] = np.nanmean([fitted.out_of_fold.spread[known] for fitted in each], axis=0)
        return CrossFitted(each[0].estimator, models, Prediction(mean, spread))


def refit(
    estimators: Sequence[tuple[Any, int | None]],
    sample: Sample,
    random: np.random.RandomState,
    *,
    n_jobs: int | None = None,
    on_fit: Callable[[], None] | None = None,
) -> list[Any]:
    """Fit a copy of each estimator to all rows, or to a number of them.

    Parameters
    ----------
    estimators : sequence of (estimator, int or None)
        Each with the maximum number of rows to fit it to.
    sample : Sample
    random : RandomState
        Seeds the copies, and draws rows where there are more than the maximum.
    n_jobs : int, optional
    on_fit : callable, optional
        Called after each fit.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> x = np.arange(6.0)
    >>> (model,) = refit([(LinearRegression(), None)], Sample(x[:, None], 2 * x, np.ones(6)), np.random.RandomState(0))
    >>> model.coef_.round(6)
    array([2.])
    """
    everything = np.arange(len(sample.target))
    copies = [(seeded(estimator, random), _drawn(everything, most, random)) for estimator, most in estimators]
    models = []
    for model in Parallel(n_jobs, return_as="generator")(delayed(_fit)(copy, sample, rows) for copy, rows in copies):
        models.append(model)
        if on_fit is not None:
            on_fit()
    return models


def _drawn(rows: Indices, most: int | None, random: np.random.RandomState) -> Indices:
    return rows if most is None or len(rows) <= most else np.sort(random.choice(rows, most, replace=False))


def _fit_stack(copies: Sequence[tuple[Any, Indices]], sample: Sample, n_jobs: int | None) -> list[Any]:
    """Fit copies to their rows, all at once but those whose target is constant."""
    tables = [sample.take(rows) for _, rows in copies]
    models: dict[int, Any] = {}
    together = [place for place, table in enumerate(tables) if not is_constant_target(table.target)]
    with one_thread():
        if together:
            rows = [
                (table.inputs, table.target, None if np.ptp(table.weight) == 0 else table.weight)
                for table in (tables[place] for place in together)
            ]
            fitted = fit_all([copies[place][0] for place in together], rows, n_jobs)
            models = dict(zip(together, fitted, strict=True))
        for place in set(range(len(copies))) - set(together):
            models[place] = fit_subestimator(copies[place][0], *tables[place])
    return [models[place] for place in range(len(copies))]


def _fit_and_predict(copy: Any, sample: Sample, train: Indices, test: Indices) -> tuple[Any, Prediction]:
    with one_thread():
        model = fit_subestimator(copy, *sample.take(train))
        return model, predict(model, sample.inputs[test])


def _fit(copy: Any, sample: Sample, rows: Indices) -> Any:
    with one_thread():
        return fit_subestimator(copy, *sample.take(rows))
