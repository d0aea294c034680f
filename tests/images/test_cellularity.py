"""Generated patches: visible parameters, and scores with the stated mean and variance."""

import time

import numpy as np
import pytest

from recuse.datasets import make_cellularity
from recuse.images.cellularity import _disagreement, _grade, _mean
from recuse.images.tissue import draw_patches

COSTS = (0.005, 0.010, 0.015, 0.020, 0.025)


@pytest.fixture(scope="module")
def patches():
    return make_cellularity(1500, random_state=0)


@pytest.fixture(scope="module")
def scenes():
    return draw_patches([np.random.default_rng([7, row]) for row in range(600)], size=64)


def measures(images):
    """Simple measures of pictures: light absorbed in red and green; how steep they are, close by and farther off."""
    absorbed = np.log(250.0 / np.maximum(images[:, :2], 1))
    amount = np.log(absorbed.mean(axis=(2, 3)))
    green = absorbed[:, 1]
    steep = [np.log(np.abs(green[:, :, step:] - green[:, :, :-step]).mean(axis=(1, 2))) for step in (1, 2, 4, 8)]
    linear = np.column_stack([amount, *steep])
    return np.column_stack([np.ones(len(images)), linear, linear**2])


def explained(values, design):
    """Share of the variance that a linear function of the measures explains."""
    fitted = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    return 1 - np.var(values - fitted) / np.var(values)


def test_shapes_and_types():
    images, y, mean, variance = make_cellularity(5, random_state=0, size=40)
    assert images.shape == (5, 3, 40, 40)
    assert images.dtype == np.uint8
    assert y.shape == mean.shape == variance.shape == (5,)
    assert all(array.dtype == np.float64 for array in (y, mean, variance))


def test_score_and_moments_are_those_of_a_distribution_on_the_unit_interval(patches):
    _, y, mean, variance = patches
    assert y.min() >= 0
    assert y.max() <= 1
    assert (variance > 0).all()
    assert (variance < mean * (1 - mean)).all()


@pytest.mark.parametrize("by", ["mean", "variance"])
def test_residuals_have_the_stated_moments_in_every_bin(patches, by):
    _, y, mean, variance = patches
    standard = (y - mean) / np.sqrt(variance)
    for rows in np.array_split(np.argsort({"mean": mean, "variance": variance}[by]), 5):  # 300: errors 6 % and 8 %
        assert abs(standard[rows].mean()) < 0.22
        assert abs(standard[rows].var() - 1) < 0.30


@pytest.mark.parametrize(("mean", "disagreement"), [(0.15, 0.45), (0.5, 0.05), (0.85, 0.006)])
def test_many_grades_of_one_patch_have_its_mean_and_variance(mean, disagreement):
    n_grades = 20_000
    stream = np.random.default_rng(0)
    y = _grade([stream] * n_grades, np.full(n_grades, mean), np.full(n_grades, disagreement))
    variance = mean * (1 - mean) * disagreement
    assert abs(y.mean() - mean) < 4 * np.sqrt(variance / n_grades)
    assert y.var() == pytest.approx(variance, rel=0.04)


def test_variance_straddles_every_cost(patches):
    variance = patches[3]
    for cost in COSTS:
        assert 0.15 < (variance > cost).mean() < 0.85


def test_mean_rises_with_the_share_of_cells_and_spans_the_scale(scenes):
    order = np.argsort(scenes.share)
    assert (np.diff(_mean(scenes)[order]) >= 0).all()
    assert _mean(scenes).min() < 0.2
    assert _mean(scenes).max() > 0.8
    assert scenes.share.min() >= 0
    assert scenes.share.max() <= 1


def test_disagreement_rises_with_blur_and_with_pallor(scenes):
    logarithm = np.log(_disagreement(scenes))
    design = np.column_stack([np.ones(len(logarithm)), scenes.blur, scenes.pallor])
    _, by_blur, by_pallor = np.linalg.lstsq(design, logarithm, rcond=None)[0]
    assert by_blur > by_pallor > 0.5


def test_share_blur_and_pallor_show_in_the_picture(scenes):
    design = measures(scenes.images)
    assert explained(scenes.share, design) > 0.9
    assert explained(scenes.blur, design) > 0.9
    assert explained(scenes.pallor, design) > 0.9


def test_patches_are_pink_where_empty_and_purple_where_crowded(scenes):
    red, green, blue = scenes.images.astype(float).mean(axis=(2, 3)).T
    empty, full = scenes.share < 0.15, scenes.share > 0.65
    assert (green < np.minimum(red, blue)).all()  # both stains swallow green
    assert (red[empty] > blue[empty]).mean() > 0.9
    assert (blue[full] > red[full]).mean() > 0.9


def test_no_two_patches_are_alike(patches):
    flat = patches[0][:200].reshape(200, -1)
    assert len(np.unique(flat, axis=0)) == 200


@pytest.mark.parametrize("make_state", [lambda: 5, lambda: np.random.RandomState(5), lambda: np.random.default_rng(5)])
def test_same_state_same_patches(make_state):
    first, again = (make_cellularity(4, random_state=make_state()) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n_samples", [1, 3, 65])
def test_a_smaller_set_is_the_beginning_of_a_larger_one(patches, n_samples):
    for part, whole in zip(make_cellularity(n_samples, random_state=0), patches, strict=True):
        np.testing.assert_array_equal(part, whole[:n_samples])


def test_other_seed_other_patches_and_no_seed_new_ones():
    sets = [make_cellularity(2, random_state=seed)[0] for seed in (0, 1, None, None)]
    for one in range(4):
        for other in range(one):
            assert not np.array_equal(sets[one], sets[other])


def test_a_larger_size_shows_nearly_the_same_scene():
    small, large = (make_cellularity(8, random_state=3, size=size) for size in (64, 128))
    np.testing.assert_allclose(small[2], large[2], atol=0.03)  # the share is counted in pixels
    halved = large[0].reshape(8, 3, 64, 2, 64, 2).mean(axis=(3, 5))
    assert np.corrcoef(halved.ravel(), small[0].ravel())[0, 1] > 0.95


def test_it_is_fast():
    make_cellularity(64, random_state=0)
    start = time.process_time()
    make_cellularity(512, random_state=0)
    assert time.process_time() - start < 5  # under 1 s on a quiet machine


@pytest.mark.parametrize("n_samples", [0, -3, 2.5, "10"])
def test_bad_number_of_patches(n_samples):
    with pytest.raises(ValueError, match=f"n_samples must be an integer >= 1, got {n_samples!r}"):
        make_cellularity(n_samples)


@pytest.mark.parametrize("size", [0, 15, 64.0])
def test_bad_size(size):
    with pytest.raises(ValueError, match=f"size must be an integer >= 16, got {size!r}"):
        make_cellularity(2, size=size)
