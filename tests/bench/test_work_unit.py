from dataclasses import replace

import pytest

from recuse.bench.work_unit import SUPERVISED, Group, run_group


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
    assert alone == pytest.approx(together[1], rel=1e-4)


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
