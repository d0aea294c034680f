"""torchmetrics classes: batches and processes in any division give what the pure functions give for all rows."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recuse import Decision, metrics
from recuse.metrics.torch import (
    AcceptedLoss,
    FalseAcceptanceRate,
    FalseRejectionRate,
    RcRLoss,
    RejectedLoss,
    RejectionRate,
    rejection_metrics,
)


def rows(n_rows, seed):
    random = np.random.default_rng(seed)
    h, r, y = random.normal(size=(3, n_rows)).astype(np.float32)
    return h, r, y, random.uniform(0, 2, size=n_rows).astype(np.float32)


def fed(metric, columns, cuts=()):
    for batch in zip(*(np.split(column, cuts) for column in columns), strict=True):
        metric.update(*(torch.from_numpy(part.copy()) for part in batch))
    return metric


def expected(h, r, y, cost):
    return metrics.evaluate(y, Decision(h, r > 0, r, cost))


class TestAgreement:
    @settings(max_examples=25)
    @given(n_rows=st.integers(1, 40), seed=st.integers(0, 1000), data=st.data())
    def test_any_division_into_batches_equals_all_rows_at_once(self, n_rows, seed, data):
        columns = rows(n_rows, seed)
        cuts = sorted(data.draw(st.sets(st.integers(1, max(n_rows - 1, 1)), max_size=4)) - {n_rows})
        found = fed(rejection_metrics(), columns, cuts).compute()
        assert {name: float(value) for name, value in found.items()} == pytest.approx(
            expected(*columns), rel=1e-5, abs=1e-6, nan_ok=True
        )

    def test_single_measures_equal_their_functions(self):
        h, r, y, cost = rows(30, 0)
        inputs = (y, h, r > 0)
        pairs = {
            RcRLoss: metrics.rcr_loss(*inputs, cost),
            AcceptedLoss: metrics.accepted_loss(*inputs),
            RejectedLoss: metrics.rejected_loss(*inputs),
            RejectionRate: metrics.rejection_rate(r > 0),
            FalseRejectionRate: metrics.false_rejection_rate(*inputs, cost),
            FalseAcceptanceRate: metrics.false_acceptance_rate(*inputs, cost),
        }
        for metric, value in pairs.items():
            assert float(fed(metric(), (h, r, y, cost), [7, 11]).compute()) == pytest.approx(value, rel=1e-6)

    def test_acceptances_can_replace_scores(self):
        h, r, y, cost = rows(20, 1)
        by_score, by_flag = fed(RcRLoss(), (h, r, y, cost)), fed(RcRLoss(), (h, r > 0, y, cost))
        assert by_score.compute() == by_flag.compute()

    def test_a_score_of_zero_rejects(self):
        metric = RejectionRate()
        metric.update(torch.zeros(2), torch.tensor([0.0, 1e-6]), torch.zeros(2))
        assert metric.compute() == 0.5

    def test_double_precision_on_request(self):
        columns = [column.astype(np.float64) for column in rows(1000, 2)]
        metric = fed(RcRLoss().set_dtype(torch.float64), columns, [100, 350])
        assert float(metric.compute()) == pytest.approx(expected(*columns)["rcr_loss"], rel=1e-13)

    def test_the_cost_can_be_given_to_the_constructor(self):
        h, r, y, _ = rows(20, 3)
        once = fed(RcRLoss(cost=0.7), (h, r, y))
        assert float(once.compute()) == pytest.approx(metrics.rcr_loss(y, h, r > 0, 0.7), rel=1e-6)


class TestProcesses:
    def test_sums_are_what_processes_exchange(self):
        """What torchmetrics does over processes: gather each state and reduce it as declared."""
        columns, shares = rows(23, 4), [slice(0, 5), slice(5, 23)]
        parts = [fed(rejection_metrics(), [column[share] for column in columns]) for share in shares]
        for name, value in expected(*columns).items():
            states = [getattr(part, name).metric_state for part in parts]
            reduced = {key: parts[0][name]._reductions[key](torch.stack([s[key] for s in states])) for key in states[0]}
            assert float(reduced["total"] / reduced["count"]) == pytest.approx(value, rel=1e-5, nan_ok=True)

    def test_measures_that_agree_on_the_first_batch_stay_apart(self):
        collection = rejection_metrics(cost=1.0)
        collection.update(torch.zeros(2), torch.ones(2), torch.zeros(2))
        collection.update(torch.zeros(2), -torch.ones(2), torch.full((2,), 3.0))
        assert collection.compute()["rcr_loss"] == 0.5
        assert collection.compute()["always_accept"] == 4.5


class TestEdges:
    def test_a_mean_over_no_rows_is_nan(self):
        everything_accepted = fed(rejection_metrics(cost=1.0), (np.zeros(3), np.ones(3), np.zeros(3))).compute()
        assert everything_accepted["rejected_loss"].isnan()
        assert everything_accepted["false_acceptance_rate"].isnan()
        assert everything_accepted["accepted_loss"] == 0

    @pytest.mark.parametrize(("prediction", "score"), [(np.nan, -1.0), (np.inf, -1.0), (0.0, np.nan)])
    def test_a_diverged_network_gives_nan(self, prediction, score):
        columns = np.array([0.0, prediction]), np.array([1.0, score]), np.zeros(2)
        assert fed(RcRLoss(), columns).compute().isnan()

    def test_reset_clears_the_sums(self):
        metric = fed(RcRLoss(), rows(5, 5))
        metric.reset()
        assert fed(metric, rows(9, 6)).compute() == fed(RcRLoss(), rows(9, 6)).compute()

    def test_half_precision_predictions_do_not_overflow(self):
        metric = RcRLoss()
        metric.update(torch.tensor([300.0], dtype=torch.float16), torch.ones(1), torch.tensor([-300.0]))
        assert metric.compute() == 360_000

    def test_nothing_is_broadcast(self):
        with pytest.raises(
            ValueError, match=r"same number of rows, got prediction \(3,\), score \(3,\), target \(1,\)$"
        ):
            RcRLoss().update(torch.zeros(3), torch.zeros(3), torch.zeros(1))

    def test_a_negative_cost_is_refused(self):
        with pytest.raises(ValueError, match=r"^cost must be >= 0, got -1\.0 at row 0$"):
            RcRLoss(cost=-1.0)
