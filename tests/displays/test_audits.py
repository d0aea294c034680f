import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba

from recuse import Decision, audit
from recuse.displays import PALETTE, DriftDisplay, GroupAuditDisplay


@pytest.fixture
def audited():
    generator = np.random.default_rng(0)
    site = np.repeat(["north", "south", "west"], 100)
    accepted = generator.random(300) > np.where(site == "west", 0.7, 0.1)
    decision = Decision(generator.normal(size=300), accepted, np.zeros(300), 1.0)
    return decision, np.zeros(300), pd.Series(site, name="site")


class Fixed:
    def __init__(self, decision):
        self.decision = decision

    def decide(self, X, cost=None):
        return self.decision


def test_rates_and_losses_are_drawn_with_the_intervals_of_the_table(audited):
    display = GroupAuditDisplay.from_decision(*audited)
    pd.testing.assert_frame_equal(display.table, audit.groups(*audited))
    rates, losses = display.ax_
    plain, flagged = rates.containers
    np.testing.assert_allclose(plain.lines[0].get_xdata().astype(float), display.table["rejection_rate"][:2])
    np.testing.assert_allclose(flagged.lines[0].get_xdata().astype(float), display.table["rejection_rate"][2:])
    segment = flagged.lines[2][0].get_segments()[0][:, 0]
    np.testing.assert_allclose(segment, display.table.loc[2, ["rejection_rate_low", "rejection_rate_high"]].tolist())
    assert to_rgba(flagged.lines[0].get_color()) == to_rgba(PALETTE[1])
    np.testing.assert_allclose(losses.containers[0].lines[0].get_xdata().astype(float), display.table["accepted_loss"])
    assert rates.lines[0].get_xdata()[0] == pytest.approx(audited[0].rejection_rate)
    names = [tick.get_text() for tick in rates.get_yticklabels()]
    assert names == ["north  (100 rows)", "south  (100 rows)", "west  (100 rows)"]
    assert {text.get_text() for text in rates.texts} == {"rejected more", "site"}


def test_the_group_of_an_estimator_may_be_a_column_of_its_table(audited):
    decision, y, site = audited
    X = pd.DataFrame({"site": site, "grade": ["a", "b"] * 150})
    one = GroupAuditDisplay.from_estimator(Fixed(decision), X, y, "site")
    pd.testing.assert_frame_equal(one.table, audit.groups(decision, y, site))
    two = GroupAuditDisplay.from_estimator(Fixed(decision), X, y, ["site", "grade"])
    assert set(two.table["column"]) == {"site", "grade"}
    with pytest.raises(ValueError, match="group must name columns of X, got 'town', not among"):
        GroupAuditDisplay.from_estimator(Fixed(decision), X, y, "town")


def test_the_audit_draws_into_two_given_axes(audited):
    _, axes = plt.subplots(1, 2)
    display = GroupAuditDisplay.from_decision(*audited, ax=axes)
    assert list(display.ax_) == list(axes)
    with pytest.raises(ValueError, match="ax must be two axes, got 1"):
        display.plot(axes[0])


def test_a_pooled_group_shows_the_number_of_groups(audited):
    decision, y, site = audited
    display = GroupAuditDisplay.from_decision(decision, y, site.where(np.arange(300) > 8, "rare"), min_rows=95)
    names = [tick.get_text() for tick in display.ax_[0].get_yticklabels()]
    assert names[-1] == "other: 2 groups  (100 rows)"


def test_drift_is_drawn_from_the_largest_distance():
    rows = np.arange(300)
    past = pd.DataFrame({"same": rows % 7, "site": np.where(rows % 3, "a", "b"), "load": rows % 60})
    today = past.assign(load=past["load"] + 20, site=np.where(rows % 10, past["site"], "c"))
    today.loc[::4, "same"] = np.nan
    display = DriftDisplay.from_tables(past, today)
    names = [tick.get_text() for tick in display.ax_.get_yticklabels()]
    assert names == ["load", "same", "site"]
    distances = next(points for points in display.ax_.collections if points.get_label() == "distance").get_offsets()
    np.testing.assert_allclose(distances[:, 0], display.table.set_index("column").loc[names, "distance"])
    remarks = [text.get_text() for text in display.ax_.texts]
    assert remarks == ["drifted, 33% outside the range", "drifted", "drifted, 10% in new categories"]
    assert len(DriftDisplay(display.table).plot(max_columns=1).ax_.get_yticklabels()) == 1
