"""Certificates and hashes of training rows in model files."""

import numpy as np
import pandas as pd
import pytest

import recuse
from recuse.guarantees import certify
from recuse.model_file import ModelFileError, add_certificate
from recuse.model_file.container import read_container, write_container
from sample_rows import mixed_frame

X, Y = mixed_frame(150)
FRESH, FRESH_Y = mixed_frame(1500, seed=7)


@pytest.fixture(scope="module")
def model():
    return recuse.RiskRejector(cost=1.0, random_state=0).fit(X, Y)


@pytest.fixture
def path(model, tmp_path):
    recuse.save(model, tmp_path / "model.recuse")
    return tmp_path / "model.recuse"


def test_a_served_model_knows_its_training_rows(model, path):
    served = recuse.load(path)
    assert served.fingerprint == model.fingerprint
    for rows, y in ((X, Y), (FRESH, FRESH_Y)):
        one, two = model.training_overlap(rows, y), served.training_overlap(rows, y)
        np.testing.assert_array_equal(one.parts.rows, two.parts.rows)
        np.testing.assert_array_equal(one.copies, two.copies)
        assert (one.expected, one.probability) == (two.expected, two.probability)
    assert served.training_overlap({name: X[name].to_list() for name in X}, Y).copies.all()
    with pytest.raises(ValueError, match="150 of the 150 calibration rows equal training rows"):
        certify(served, X, Y, target=2.0, bound=60.0)


def test_a_served_model_gets_the_certificate_of_the_estimator(model, path):
    one = certify(model, FRESH, FRESH_Y, target=2.0, bound=60.0)
    two = certify(recuse.load(path), FRESH, FRESH_Y, target=2.0, bound=60.0)
    assert (one.level, two.attempt, two.level) == (0.05, 1, pytest.approx(0.045))
    three = certify(model, FRESH, FRESH_Y, target=2.0, bound=60.0, attempts=path.parent / "of-the-estimator.json")
    assert three.to_dict() == pytest.approx(two.to_dict())


def test_certificates_travel_in_the_file(model, path, tmp_path):
    first = certify(model, FRESH, FRESH_Y, target=2.0, bound=60.0)
    second = certify(model, FRESH, FRESH_Y, target=1.2, bound=60.0, what="rcr_loss", delta=0.1)
    assert add_certificate(path, first) == 0
    assert add_certificate(path, second, tmp_path / "two.recuse") == 1
    assert recuse.load(path).certificates == (first,)
    served = recuse.load(tmp_path / "two.recuse")
    assert served.certificates == (first, second)
    np.testing.assert_array_equal(served.decide(FRESH).accepted, model.decide(FRESH).accepted)
    for number, each in enumerate((first, second)):
        certified = served.certified(number)
        np.testing.assert_array_equal(certified.decide(FRESH).accepted, each.model.decide(FRESH).accepted)
        assert str(served.certificates[number]) == str(each)
    with pytest.raises(ValueError, match="has 2 certificates, counted from 0, got 2"):
        served.certified(2)


def test_a_certificate_of_another_model_is_refused(path):
    other = recuse.RiskRejector(cost=1.0, random_state=1).fit(X, Y)
    certificate = certify(other, FRESH, FRESH_Y, target=2.0, bound=60.0)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="the certificate is about a model with fingerprint"):
        add_certificate(path, certificate)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header: header.update(certificates=[{"what": "accepted_loss"}]), "certificate that cannot be read"),
        (lambda header: header["training"].update(rows=-1), "valid 'count' of the training rows"),
        (lambda header: header["training"].update(singles={}), "valid 'count' of the training rows"),
        (lambda header: header["training"].pop("fingerprint"), "valid 'fingerprint' of the training"),
        (lambda header: header.pop("training"), "valid 'fingerprint' of the training, got None"),
        (lambda header: header["training"].update(out_of_fold=["a"]), r"must name the 5 columns of out_of_fold\.npy"),
        (lambda header: header["training"].update(leaderboard=[]), "leaderboard that cannot be read"),
        (lambda header: header["training"].update(leaderboard={"a": [1, "b"]}), "columns of several kinds"),
        (lambda header: header["training"].update(leaderboard={"a": [1], "b": []}), "columns of several lengths"),
        (lambda header: header["schema"]["columns"][0].update(kind="sounds"), "valid 'kind' of a column"),
        (lambda header: header["schema"]["columns"][0].update(dialect={"decimal": 1}), "valid 'decimal' of a dialect"),
        (lambda header: header["schema"]["columns"][0].update(low="far"), "valid 'low' of a column"),
    ],
)
def test_damaged_headers_are_refused(path, change, message):
    header, entries, _ = read_container(path)
    change(header)
    write_container(path, header, entries)
    with pytest.raises(ModelFileError, match=message):
        recuse.load(path)


def test_files_without_hashes_can_be_used(path):
    header, entries, _ = read_container(path)
    header["training"]["rows"] = None  # as for images
    write_container(path, header, entries)
    served = recuse.load(path)
    assert served.training_overlap(X, Y) is None
    assert certify(served, FRESH, FRESH_Y, target=2.0, bound=60.0).training_copies is None


def test_hashes_of_arrays_and_of_other_tables(tmp_path):
    numbers = X[["a", "b"]].fillna(0.0).to_numpy()
    recuse.save(recuse.RcRRegressor(cost=1.0, epochs=3, random_state=0).fit(numbers, Y), tmp_path / "array.recuse")
    served = recuse.load(tmp_path / "array.recuse")
    assert served.training_overlap(numbers, Y).copies.all()
    assert served.training_overlap(pd.DataFrame(numbers, columns=["p", "q"]), Y).copies.all()
