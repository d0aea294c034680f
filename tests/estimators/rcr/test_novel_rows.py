"""A row unlike all training rows is rejected."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from recuse import RcRRegressor, RcRRegressorCV
from sample_rows import mixed_frame

FRAME, Y = mixed_frame()
FRAME = FRAME.assign(c=np.linspace(0, 1, len(FRAME)))  # without missing values
SMALL = {"epochs": 30, "n_members": 2, "learning_rate": 1e-2, "random_state": 0}
WAYS = {
    "joint": RcRRegressor(1e6, slow_start=10, **SMALL),
    "cross-fitted": RcRRegressorCV(1e6, cv=2, **SMALL),
    "range": RcRRegressorCV(cost_range=(1.0, 1e6), cv=2, **SMALL),
}
NOVEL = {"an unseen category": ("kind", "sideways"), "a new gap": ("c", np.nan), "a far number": ("b", 1000.0)}


def make(way, **parameters):
    return clone(WAYS[way]).set_params(**parameters).fit(FRAME, Y)


def changed(column, value):
    """Two usual rows, the second with one cell replaced."""
    rows = FRAME.iloc[[1, 1]].reset_index(drop=True)
    rows.loc[1, column] = value
    return rows


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("column", "value"), NOVEL.values(), ids=NOVEL.keys())
def test_a_row_with_a_novel_cell_is_rejected_where_rejection_is_dear(way, column, value):
    decision = make(way).decide(changed(column, value), cost=1e6)
    assert decision.accepted.tolist() == [True, False]
    assert decision.score[1] <= -1
    assert np.isfinite(decision.prediction).all()


@pytest.mark.parametrize("way", WAYS)
def test_cells_may_be_used_as_they_are(way):
    assert make(way, unseen="keep").decide(changed("c", 1.2), cost=1e6).accepted.all()


def test_unseen_categories_may_be_an_error():
    with pytest.raises(ValueError, match=r"column 'kind' must hold .*got 'sideways' at row 1"):
        make("joint", unseen="error").decide(changed("kind", "sideways"))


def test_a_number_just_outside_the_training_range_is_not_rejected_for_it():
    assert make("joint").decide(changed("c", 1.1)).accepted.all()


def test_a_weight_a_thousand_times_too_large_is_rejected_in_an_array_too():
    X = np.random.default_rng(0).normal(size=(80, 2))
    model = RcRRegressor(1e6, **SMALL, slow_start=10).fit(X, X[:, 0])
    assert model.decide(pd.DataFrame(X).mul([1000, 1]).to_numpy()[:5]).rejection_rate == 1.0
