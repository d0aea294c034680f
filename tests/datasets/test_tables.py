"""Embedded tables: published values and types, and errors for damaged files."""

import gzip
import hashlib
import shutil
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pytest

from recuse import datasets
from recuse.datasets import tables

NAMES = ["abalone", "airfoil", "auto_mpg", "housing", "concrete"]
SHAPES = {
    "abalone": (4177, 8),
    "airfoil": (1503, 5),
    "auto_mpg": (392, 7),
    "housing": (506, 13),
    "concrete": (1030, 8),
}
TARGETS = {  # name: mean, standard deviation, least, greatest
    "abalone": ("rings", 9.93368, 3.22417, 1, 29),
    "airfoil": ("scaled_sound_pressure_level_db", 124.836, 6.89866, 103.38, 140.987),
    "auto_mpg": ("mpg", 23.445918, 7.805007, 9, 46.6),
    "housing": ("MEDV", 22.5328, 9.1971, 5, 50),
    "concrete": ("compressive_strength_mpa", 35.8178, 16.7057, 2.33181, 82.5992),
}
DIGESTS = {
    "abalone": "b36baf97dbcb1ae8d70ae95dd06794ce7878aef96cefc29cd0c8ca0fd9f8aee1",
    "airfoil": "7de533843e543a14ecb276968a0411af12b3522c836687b49434a7aaf4a89763",
    "auto_mpg": "ada06c22fa8cb973c1c4073fe6f57d746db9d4409822a02afe6c34963ba91e81",
    "housing": "79ac716620024011b03c0c44d2bf99069b8173649181926d9109c25475a3804c",
    "concrete": "15ffb9c0b25f8f2109d13bca1f69c44e2586fcecee7de2e9c0fdf24648bf5895",
}
LEVELS = {
    "abalone": {"sex": ["F", "I", "M"]},
    "airfoil": {},
    "auto_mpg": {"cylinders": [3, 4, 5, 6, 8], "origin": [1, 2, 3]},
    "housing": {"CHAS": [0, 1]},
    "concrete": {},
}
MEANS = {
    "abalone": [0.523992, 0.407881, 0.139516, 0.828742, 0.359367, 0.180594, 0.238831],
    "airfoil": [2886.380572, 6.782302, 0.136548, 50.860745, 0.01113988],
    "auto_mpg": [194.41199, 104.469388, 2977.584184, 15.541327, 75.979592],
    "housing": [
        3.613524,
        11.363636,
        11.136779,
        0.554695,
        6.284634,
        68.574901,
        3.795043,
        9.549407,
        408.237154,
        18.455534,
        356.674032,
        12.653063,
    ],
    "concrete": [281.165631, 73.895485, 54.187136, 181.566359, 6.203112, 972.918592, 773.578883, 45.662136],
}
COSTS = {
    "abalone": (3, 4, 5, 6),
    "airfoil": (9, 12, 16, 20, 25, 30),
    "auto_mpg": (4, 6, 8, 10, 13),
    "housing": (9, 12, 16, 20),
    "concrete": (20, 30, 40, 50, 60),
}


@pytest.fixture
def copied_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the package read a copy of its tables, which a test may damage."""
    folder = tmp_path / "tables"
    shutil.copytree(str(tables._TABLES), folder)
    monkeypatch.setattr(tables, "_TABLES", folder)
    return folder


def test_names_lists_the_five_tables():
    assert datasets.names()[: len(NAMES)] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_shape_and_index(name):
    data = datasets.load(name)
    assert data.X.shape == SHAPES[name]
    assert data.y.shape == SHAPES[name][:1]
    assert data.X.index.equals(data.y.index)


@pytest.mark.parametrize("name", NAMES)
def test_target_has_the_published_moments(name):
    data = datasets.load(name)
    target, *moments = TARGETS[name]
    assert data.y.name == data.target == target
    assert data.y.dtype == np.float64
    np.testing.assert_allclose([data.y.mean(), data.y.std(), data.y.min(), data.y.max()], moments, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_categories_have_fixed_levels_and_the_rest_is_float(name):
    X = datasets.load(name).X
    categories = {c: X[c].cat.categories.tolist() for c in X.select_dtypes("category")}
    assert categories == LEVELS[name]
    assert all(X[c].dtype == np.float64 for c in X if c not in categories)
    assert X.notna().all(axis=None)


@pytest.mark.parametrize("name", NAMES)
def test_column_means(name):
    means = datasets.load(name).X.select_dtypes("float64").mean()
    np.testing.assert_allclose(means, MEANS[name], rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_file_has_the_pinned_digest(name):
    content = gzip.decompress((tables._TABLES / f"{name}.csv.gz").read_bytes())
    assert hashlib.sha256(content).hexdigest() == datasets.load(name).sha256 == DIGESTS[name]


@pytest.mark.parametrize("name", NAMES)
def test_facts_are_stated(name):
    data = datasets.load(name)
    assert data.name == name
    assert data.costs == COSTS[name]
    assert all(isinstance(cost, float) for cost in data.costs)
    for fact in (data.description, data.source, data.licence, data.note):
        assert fact.endswith(".")
        assert "\n" not in fact


def test_known_oddities_of_the_originals_are_kept():
    abalone, housing, concrete = (datasets.load(name) for name in ("abalone", "housing", "concrete"))
    assert abalone.X["sex"].value_counts().to_dict() == {"M": 1528, "I": 1342, "F": 1307}
    assert (abalone.X["height"] == 0).sum() == 2
    assert (housing.y == 50).sum() == 16
    assert concrete.X.assign(y=concrete.y).duplicated().sum() == 25
    assert concrete.y.iloc[0] == 79.98611076


def test_each_load_is_a_fresh_copy():
    first = datasets.load("housing")
    first.X.iloc[0, 0] = -1.0
    assert datasets.load("housing").X.iloc[0, 0] == 0.00632


def test_dataset_is_frozen_and_its_repr_is_short():
    data = datasets.load("housing")
    assert repr(data) == "Dataset(name='housing', target='MEDV', costs=(9.0, 12.0, 16.0, 20.0))"
    with pytest.raises(FrozenInstanceError):
        data.name = "other"


@pytest.mark.parametrize("name", ["boston", "", None, ["abalone"]])
def test_unknown_name_lists_the_known_ones(name):
    with pytest.raises(ValueError, match="must be one of abalone, airfoil, auto_mpg, housing, concrete, got"):
        datasets.load(name)


def test_changed_table_is_refused(copied_tables):
    file = copied_tables / "housing.csv.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()).replace(b"24", b"25", 1)))
    with pytest.raises(OSError, match=f"SHA-256 {DIGESTS['housing']}, got .*; reinstall recuse"):
        datasets.load("housing")


@pytest.mark.parametrize("cut", [slice(0, 1000), slice(0, 0), slice(5, None)])
def test_broken_archive_is_refused(copied_tables, cut):
    file = copied_tables / "housing.csv.gz"
    file.write_bytes(file.read_bytes()[cut])
    with pytest.raises(OSError, match=r"housing\.csv\.gz must .*reinstall recuse"):
        datasets.load("housing")


def test_flipped_bit_is_refused(copied_tables):
    file = copied_tables / "housing.csv.gz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(OSError, match="reinstall recuse"):
        datasets.load("housing")


def test_missing_table_is_reported(copied_tables):
    (copied_tables / "housing.csv.gz").unlink()
    with pytest.raises(OSError, match=r"housing\.csv\.gz must .*reinstall recuse"):
        datasets.load("housing")
