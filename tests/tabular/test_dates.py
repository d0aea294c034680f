"""Dates and times of any type become a trend and the cycles that vary in training."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from recuse.tabular.encoder import TableEncoder

DAYS = ["2024-01-01", "2024-04-02", "2024-07-03"]  # Monday, Tuesday, Wednesday


def column(values, **options):
    return pd.DataFrame({"day": pd.Series(values, **options)})


def encode(train, new=None):
    return TableEncoder().fit(train).encode(train if new is None else new)


FORMS = {
    "text": column(DAYS),
    "date objects": column([dt.date.fromisoformat(day) for day in DAYS]),
    "datetime objects": column([dt.datetime.fromisoformat(day) for day in DAYS], dtype=object),
    "datetime64": column(pd.to_datetime(DAYS)),
    "with a zone": column(pd.to_datetime(DAYS).tz_localize("America/New_York")),
    "objects with a zone": column(pd.Series(pd.to_datetime(DAYS).tz_localize("UTC"), dtype=object)),
    "text with a zone": column([f"{day}T00:00:00Z" for day in DAYS]),
    "periods": column(pd.PeriodIndex(DAYS, freq="D")),
    "arrow dates": column([dt.date.fromisoformat(day) for day in DAYS], dtype="date32[pyarrow]"),
    "arrow timestamps": column(pd.to_datetime(DAYS), dtype="timestamp[us][pyarrow]"),
    "arrow timestamps with a zone": column(
        pd.to_datetime(DAYS).tz_localize("America/New_York"), dtype="timestamp[us, tz=America/New_York][pyarrow]"
    ),
}


@pytest.mark.parametrize("frame", FORMS.values(), ids=FORMS)
def test_every_form_of_the_same_days_has_the_same_features(frame):
    month, weekday = 2 * np.pi * np.array([[0 / 12, 3 / 12, 6 / 12], [0 / 7, 1 / 7, 2 / 7]])
    features = encode(frame).features
    assert features.shape == (3, 5)
    np.testing.assert_allclose(features[:, 1:3], np.column_stack([np.sin(month), np.cos(month)]), atol=1e-9)
    np.testing.assert_allclose(features[:, 3:5], np.column_stack([np.sin(weekday), np.cos(weekday)]), atol=1e-9)
    assert features[:, 0].mean() == pytest.approx(0, abs=1e-9)
    assert features[:, 0].std() == pytest.approx(1)
    np.testing.assert_allclose(np.diff(features[:, 0])[1] / np.diff(features[:, 0])[0], 1, rtol=1e-3)


def test_features_of_a_time_do_not_depend_on_the_other_rows():
    times = column(pd.date_range("2024-01-01", periods=1000, freq="37h"))
    encoder = TableEncoder().fit(times)
    alone = np.vstack([encoder.encode(times.iloc[[row]]).features for row in range(0, 1000, 7)])
    np.testing.assert_array_equal(alone, encoder.encode(times).features[::7])


def test_only_cycles_that_vary_have_features():
    mondays = column(pd.date_range("2024-01-01", periods=3, freq="7D"))
    assert encode(mondays).features.shape == (3, 1)
    hours = encode(column(pd.to_datetime(["2024-01-01 06:00", "2024-01-01 18:00"]))).features
    np.testing.assert_allclose(hours, [[-1, 1, 0], [1, -1, 0]], atol=1e-9)
    assert encode(column(["2024-01-01", "2024-01-01"])).features.tolist() == [[0.0], [0.0]]


def test_a_missing_date_has_a_flag_if_training_had_one():
    features = encode(column([*DAYS, None])).features
    np.testing.assert_array_equal(features[3], [0, 0, 0, 0, 0, 1])
    assert features[:3, 5].tolist() == [0, 0, 0]


def test_dates_after_the_training_range_become_novel_and_the_trend_is_clipped():
    train = column(pd.to_datetime(["2024-01-01", "2024-01-11"]))
    encoded = encode(train, column(["2024-01-06", "2024-01-13T12:00", "2024-01-16", "2034-01-01"]))
    np.testing.assert_allclose(encoded.novelty[:, 0], [0, 0.5, 1, 1])
    np.testing.assert_allclose(encoded.features[:, 0], [0, 1.5, 2, 2])


def test_hours_are_those_of_the_time_zone_of_training():
    local = pd.to_datetime(["2024-01-01 06:00", "2024-07-01 06:00", "2024-07-01 18:00"]).tz_localize("Europe/Berlin")
    encoder = TableEncoder().fit(column(local))
    np.testing.assert_allclose(encoder.transform(column(local.tz_convert("UTC"))), encoder.transform(column(local)))
    assert encoder.transform(column(local))[0, -2:] == pytest.approx([1, 0], abs=1e-9)


def test_text_that_is_no_date_stays_a_category_and_numbers_are_refused_for_dates():
    assert encode(column(["2024-01-01", "soon"])).features.shape == (2, 2)
    assert encode(column(["2024-13-01", "2024-13-02"])).features.shape == (2, 2)
    with pytest.raises(ValueError, match=r"^column 'day' must hold dates or times as in training, got float64$"):
        encode(FORMS["text"], column([1.0]))
