from dataclasses import replace

import pytest
import torch

from recuse import RcRRegressor
from recuse.bench.work_unit import SUPERVISED, Group, run_group
from recuse.datasets import load, split
from recuse.estimators import fit_costs


def test_a_group_measures_every_cost(paper):
    cells = run_group(Group("auto_mpg", "mlp", "mae", 0, (4.0, 6.0)), paper.protocol)["cells"]
    assert [cell["cost"] for cell in cells] == [4.0, 6.0]
    for cell in cells:
        assert 0 <= cell["rej"] <= 100
        rejected = cell["rej"] / 100
        assert cell["rcrloss"] == pytest.approx((1 - rejected) * (cell["al"] or 0) + rejected * cell["cost"])
        assert cell["learning_rate"] in paper.protocol.learning_rates
        assert paper.protocol.slow_start <= cell["epoch"] < paper.protocol.epochs


def test_a_cost_has_the_same_numbers_with_or_without_others(paper):
    longer = replace(paper.protocol, epochs=60)
    together = run_group(Group("auto_mpg", "mlp", "logistic", 1, (6.0, 10.0)), longer)["cells"]
    (alone,) = run_group(Group("auto_mpg", "mlp", "logistic", 1, (10.0,)), longer)["cells"]
    assert 0 < alone["rej"] < 100
    assert alone == together[1]


def test_repeats_differ_and_can_be_repeated(paper):
    groups = [Group("housing", "linear", "hinge", repeat, (9.0,)) for repeat in (0, 1, 0)]
    first, second, again = (run_group(group, paper.protocol)["cells"] for group in groups)
    assert first == again
    assert first != second


def test_supervised_training_measures_the_squared_error(paper):
    (cell,) = run_group(Group("auto_mpg", "mlp", SUPERVISED, 0), replace(paper.protocol, epochs=60))["cells"]
    assert 0 < cell["sup"] < 60


def test_a_share_of_the_rows_trains_another_model(paper):
    whole = Group("housing", "mlp", "mae", 0, (9.0,))
    part = replace(whole, share=0.4)
    assert whole.key != part.key
    assert run_group(whole, paper.protocol)["cells"] != run_group(part, paper.protocol)["cells"]


def test_a_group_is_a_fit_of_the_public_estimator(paper):
    group = Group("auto_mpg", "linear", "mae", 1, (6.0,))
    protocol = replace(paper.protocol, target={"linear": "centred"})
    train, validation, (X, y) = split(load("auto_mpg"), 1)
    model = RcRRegressor(
        network="linear",
        epochs=protocol.epochs,
        slow_start=protocol.slow_start,
        learning_rate=protocol.learning_rates,
        n_members=1,
        random_state=[1],
        unseen="keep",
    )
    (model,) = fit_costs(model, *train, costs=[6.0], validation=validation, scale_target="centre")
    (cell,) = run_group(group, protocol)["cells"]
    assert cell["rcrloss"] == model.decide(X).evaluate(y)["rcr_loss"]


def test_unknown_units_of_the_target_are_refused(paper):
    protocol = replace(paper.protocol, target={"mlp": "logarithm"})
    with pytest.raises(ValueError, match=r"^target must be one of 'original', 'centred', 'standardised', got 'logari"):
        run_group(Group("auto_mpg", "mlp", "mae", 0, (4.0,)), protocol)


def test_a_run_leaves_the_number_of_threads_alone(paper):
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        run_group(Group("housing", "mlp", SUPERVISED, 0), replace(paper.protocol, epochs=2))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
