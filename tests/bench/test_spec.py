import pytest

from recuse import datasets
from recuse.bench import spec


def test_the_protocol_is_that_of_the_paper():
    protocol = spec.load("rcr2023").protocol
    assert (protocol.repeats, protocol.epochs, protocol.slow_start, protocol.batch_size) == (10, 1000, 200, 1024)
    assert protocol.learning_rates == (1e-1, 1e-2, 1e-3)
    assert protocol.hidden == (20, 30, 10)


def test_costs_agree_with_the_data_sets():
    costs = spec.load("rcr2023").costs
    assert costs == {name: tuple(datasets.load(name).costs) for name in costs}


def test_every_printed_uci_cell_belongs_to_a_table():
    paper = spec.load("rcr2023")
    printed = paper.printed[paper.printed["table"].isin(paper.tables)]
    assert len(printed[printed["metric"] == "rcrloss"]) == 96
    for table, cells in printed.groupby("table"):
        assert set(cells["surrogate"]) == set(paper.tables[table]["surrogates"])
        assert set(cells["model"]) == set(paper.tables[table]["models"])
        for dataset, part in cells.groupby("dataset"):
            assert tuple(sorted(set(part["cost"]))) == paper.costs[dataset]


def test_an_unknown_paper_is_named_with_the_known_ones():
    with pytest.raises(ValueError, match="must be one of rcr2023 or a TOML file, got 'rcr1999'"):
        spec.load("rcr1999")
