"""RejectionLoss: the psi of the paper for each row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from recuse import surrogates
from recuse.deep.loss import RejectionLoss

PREDICTION = torch.tensor([1.0, 2.0, -3.0, 0.5])
SCORE = torch.tensor([0.8, -0.6, 2.5, -1.5])
TARGET = torch.tensor([1.5, 5.0, -3.0, 0.0])
COST = torch.tensor([0.5, 2.0, 0.0, 1.0])


@pytest.mark.parametrize("name", ["mae", "hinge", "square", "logistic", "sigmoid"])
class TestFormula:
    def test_a_row_loses_its_error_if_accepted_and_its_cost_if_rejected(self, name):
        accepted, rejected = surrogates.get(name)(SCORE)
        expected = (PREDICTION - TARGET) ** 2 * accepted + COST * rejected
        rows = RejectionLoss(name, reduction="none")(PREDICTION, SCORE, TARGET, COST)
        torch.testing.assert_close(rows, expected)
        torch.testing.assert_close(RejectionLoss(name)(PREDICTION, SCORE, TARGET, COST), expected.mean())
        torch.testing.assert_close(
            RejectionLoss(name, reduction="sum")(PREDICTION, SCORE, TARGET, COST), expected.sum()
        )

    def test_gradients_are_those_of_the_formula(self, name):
        inputs = [tensor.double().requires_grad_() for tensor in (PREDICTION, SCORE, TARGET, COST)]
        assert torch.autograd.gradcheck(RejectionLoss(name), inputs)

    def test_huge_scores_stay_finite(self, name):
        score = torch.tensor([1e4, -1e4], requires_grad=True)
        loss = RejectionLoss(name)(torch.zeros(2), score, torch.ones(2))
        loss.backward()
        assert loss.isfinite()
        assert score.grad.isfinite().all()


@given(cost=st.floats(0, 100), rows=st.integers(1, 6))
def test_a_number_is_that_cost_in_every_row(cost, rows):
    h, r, y = torch.randn(3, rows, generator=torch.Generator().manual_seed(rows))
    by_number = RejectionLoss(cost=cost)(h, r, y)
    torch.testing.assert_close(RejectionLoss()(h, r, y, cost), by_number)
    torch.testing.assert_close(RejectionLoss()(h, r, y, torch.full((rows, 1), cost)), by_number)
    torch.testing.assert_close(RejectionLoss(cost=[cost] * rows)(h, r, y), by_number)


class TestShapes:
    def test_columns_and_rows_mean_the_same(self):
        flat = RejectionLoss()(PREDICTION, SCORE, TARGET, COST)
        tall = RejectionLoss()(PREDICTION[:, None], SCORE, TARGET[:, None], COST[:, None])
        assert tall == flat

    @pytest.mark.parametrize(
        ("inputs", "message"),
        [
            (
                (PREDICTION, SCORE, TARGET[:1]),
                r"same number of rows, got prediction \(4,\), score \(4,\), target \(1,\)$",
            ),
            ((PREDICTION, SCORE[:, None].T, TARGET), r"^score must have one value per row, got shape \(1, 4\)$"),
            ((PREDICTION[0], SCORE, TARGET), r"^prediction must have one value per row, got shape \(\)$"),
            ((PREDICTION, SCORE, TARGET, COST[:1]), r"one value for each of 4 rows, got shape \(1,\)$"),
        ],
    )
    def test_nothing_is_ever_broadcast(self, inputs, message):
        with pytest.raises(ValueError, match=message):
            RejectionLoss()(*inputs)

    def test_a_list_is_no_tensor(self):
        with pytest.raises(TypeError, match=r"^target must be a tensor, got list$"):
            RejectionLoss()(PREDICTION, SCORE, [0.0] * 4)


class TestPrecision:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision_is_computed_in_full(self, dtype):
        h, y = torch.tensor([300.0], dtype=dtype), torch.tensor([-300.0])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = RejectionLoss(cost=0.0)(h, torch.zeros(1, dtype=dtype), y)
        assert loss.dtype == torch.float32
        assert loss == 360_000  # beyond the largest number of float16

    def test_double_precision_stays(self):
        loss = RejectionLoss()(PREDICTION.double(), SCORE.double(), TARGET.double())
        assert loss.dtype == torch.float64

    def test_whole_numbers_are_targets_too(self):
        whole = RejectionLoss()(PREDICTION, SCORE, torch.tensor([1, 5, -3, 0]))
        assert whole == RejectionLoss()(PREDICTION, SCORE, torch.tensor([1.0, 5.0, -3.0, 0.0]))


class TestModule:
    def test_the_cost_moves_with_the_module(self):
        loss = nn.Sequential(RejectionLoss(cost=2.5)).to(torch.float64)
        assert loss[0].cost.dtype == torch.float64
        assert loss.state_dict()["0.cost"] == 2.5
        assert not list(loss.parameters())
        assert loss.to("meta")[0].cost.is_meta

    def test_it_compiles_to_one_graph(self):
        loss = RejectionLoss("logistic", cost=0.5)
        compiled = torch.compile(loss, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(PREDICTION, SCORE, TARGET), loss(PREDICTION, SCORE, TARGET))

    def test_the_repr_shows_the_parameters(self):
        assert repr(RejectionLoss("hinge", cost=0.5)) == "RejectionLoss(surrogate='hinge', cost=0.5, reduction='mean')"
        assert "cost=<3 rows>" in repr(RejectionLoss(cost=[1.0, 2.0, 3.0]))

    def test_a_user_defined_loss_works(self):
        def exponential(r):
            return r.exp(), (-r).exp()

        rows = RejectionLoss(exponential, cost=2.0, reduction="none")(PREDICTION, SCORE, TARGET)
        torch.testing.assert_close(rows, (PREDICTION - TARGET) ** 2 * SCORE.exp() + 2 * (-SCORE).exp())

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"cost": -1.0}, r"^cost must be >= 0, got -1\.0 at row 0$"),
            ({"cost": [1.0, float("nan")]}, r"^cost must be finite, got nan at row 1$"),
            ({"reduction": "median"}, r"^reduction must be 'mean', 'sum' or 'none', got 'median'$"),
            ({"surrogate": "nothing"}, r"^surrogate must be one of mae"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, options, message):
        with pytest.raises(ValueError, match=message):
            RejectionLoss(**options)


def test_the_regressor_alone_is_plain_squared_error_without_a_gradient_for_the_rejector():
    h, r = PREDICTION.clone().requires_grad_(), SCORE.clone().requires_grad_()
    loss = RejectionLoss(cost=9.0)(h, r, TARGET, regressor_only=True)
    loss.backward()
    torch.testing.assert_close(loss, nn.functional.mse_loss(PREDICTION, TARGET))
    assert r.grad is None
    assert h.grad.abs().sum() > 0
