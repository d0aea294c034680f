from dataclasses import replace

import pytest

from recuse.bench.store import GroupStore, write_text
from recuse.bench.work_unit import Group

GROUP = Group("auto_mpg", "mlp", "mae", 0, costs=(4.0, 6.0))


def result(group, protocol):
    return {
        "group": {"costs": list(group.costs)},
        "protocol": {
            **vars(protocol),
            "learning_rates": list(protocol.learning_rates),
            "hidden": list(protocol.hidden),
        },
        "cells": [{"cost": cost, "rcrloss": cost / 2} for cost in group.costs],
    }


def test_what_is_saved_is_loaded(tmp_path, paper):
    store = GroupStore(tmp_path, paper.protocol)
    assert store.load(GROUP) is None
    store.save(GROUP, result(GROUP, paper.protocol))
    assert store.load(GROUP)["cells"] == [{"cost": 4.0, "rcrloss": 2.0}, {"cost": 6.0, "rcrloss": 3.0}]


def test_a_result_serves_fewer_costs_but_not_more(tmp_path, paper):
    store = GroupStore(tmp_path, paper.protocol)
    store.save(GROUP, result(GROUP, paper.protocol))
    assert [cell["cost"] for cell in store.load(replace(GROUP, costs=(6.0,)))["cells"]] == [6.0]
    assert store.load(replace(GROUP, costs=(4.0, 8.0))) is None


def test_other_costs_of_a_group_are_kept_beside(tmp_path, paper):
    store = GroupStore(tmp_path, paper.protocol)
    for costs in ((6.0,), (4.0,)):
        group = replace(GROUP, costs=costs)
        store.save(group, result(group, paper.protocol))
    assert [cell["cost"] for cell in store.load(GROUP)["cells"]] == [4.0, 6.0]


def test_a_result_of_another_protocol_does_not_count(tmp_path, paper):
    GroupStore(tmp_path, paper.protocol).save(GROUP, result(GROUP, paper.protocol))
    assert GroupStore(tmp_path, replace(paper.protocol, epochs=13)).load(GROUP) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": []}'])
def test_a_damaged_file_is_run_again(tmp_path, paper, text):
    (tmp_path / f"{GROUP.key}.json").write_text(text)
    assert GroupStore(tmp_path, paper.protocol).load(GROUP) is None


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "table.csv"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "new \ud800")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
