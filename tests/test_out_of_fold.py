"""Out-of-fold results as one value, of an estimator and of its file."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import recuse
from recuse import DeferralRegressor, RcRRegressor, RiskRejector, datasets
from recuse.out_of_fold import OutOfFold

X, Y, _, _ = datasets.make_heteroscedastic(120, random_state=0)
FRAME = pd.DataFrame(X, index=[f"row {place}" for place in range(120)])
WEIGHT = np.repeat([0.0, 1.0], [20, 100])  # rows of weight zero have no result


def test_an_estimator_and_its_file_have_the_same_rows(tmp_path):
    model = RiskRejector(Ridge(), Ridge(), cost=1.5, cv=3, random_state=0).fit(FRAME, Y, sample_weight=WEIGHT)
    recuse.save(model, tmp_path / "model.recuse")
    own, stored = OutOfFold.of(model), OutOfFold.of(recuse.load(tmp_path / "model.recuse"))
    np.testing.assert_array_equal(own.known, WEIGHT > 0)
    assert own.decision().index.tolist() == FRAME.index[20:].tolist()
    assert stored.decision().to_frame().equals(own.decision().to_frame().reset_index(drop=True))
    pd.testing.assert_frame_equal(own.to_frame(), model.out_of_fold_)
    assert own.losses().mean() == pytest.approx(own.decision().evaluate(Y[20:])["always_accept"])


def test_at_another_cost_the_rows_of_the_lowest_expected_losses_stay():
    rows = OutOfFold.of(RiskRejector(Ridge(), Ridge(), cost=1.5, cv=3, random_state=0).fit(X, Y))
    low, high = rows.decision(cost=0.5), rows.decision(cost=5.0)
    assert (low.cost == 0.5).all()
    assert (high.accepted | ~low.accepted).all()
    np.testing.assert_allclose(high.score - low.score, 4.5)


def test_models_without_decisions_of_their_training_rows_have_none():
    assert OutOfFold.of(RcRRegressor(1.0, epochs=2, random_state=0).fit(X, Y)) is None
    assert OutOfFold.of(DeferralRegressor({"night": (Y, 0.5)}, Ridge(), Ridge(), random_state=0).fit(X, Y)) is None
