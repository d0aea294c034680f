"""Image data sets: published folder layouts, cache, splits and augmentation."""

import os
import pickle
import shutil

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from torch.utils.data import DataLoader

from recuse import datasets
from recuse.datasets import AgeDB, BreastPathQ
from recuse.images import ImageFiles, crop_and_flip
from recuse.images import files as image_files
from recuse.images.files import read_image

FACES = [
    "0_MariaCallas_35_f.jpg",
    "1_MariaCallas_0_f.jpg",
    "2_Jean_Luc_Picard_59_m.jpg",
    "10_LeonidasPappas_101_m.jpg",
    "11_GretaGarbo_7_f.jpg",
    "12_GretaGarbo_44_f.jpg",
]
AGES = {name: float(name.split("_")[-2]) for name in FACES}
LABELS = {
    "train": [("99788", 1, 0.0), ("99788", 2, 0.35), ("102174", 1, 1.0), ("102174", 2, 0.8)],
    "validation": [("104246", 1, 0.05), ("104246", 7, 0.6)],
}


def colour(seed):
    return np.random.default_rng(seed).integers(30, 226, size=3).astype(np.uint8)


def plain(seed, size=30):
    """An image of one colour, which depends on the seed."""
    return np.broadcast_to(colour(seed), (size, size, 3)).copy()


@pytest.fixture
def faces(tmp_path):
    root = tmp_path / "AgeDB"
    root.mkdir()
    for seed, name in enumerate(FACES):
        Image.fromarray(plain(seed)).save(root / name, quality=95)
    return root


@pytest.fixture
def tissue(tmp_path):
    root = tmp_path / "breastpathq"
    for part, file in (("train", "train_labels.csv"), ("validation", "val_labels.csv")):
        (root / part).mkdir(parents=True)
        lines = [f"{slide},{rid},{y}" for slide, rid, y in LABELS[part]]
        (root / file).write_text("\n".join(["slide,rid,y", *lines]) + "\n", encoding="utf-8")
        for slide, rid, _ in LABELS[part]:
            tifffile.imwrite(root / part / f"{slide}_{rid}.tif", plain(int(slide) + rid), photometric="rgb")
    return root


def shown(image):
    """The colour of a normalised image of one colour, as bytes."""
    return (image.mean(dim=(1, 2)) * 127.5 + 127.5).round().numpy()


# ------------------------------------------------------------------------------------------------- reading


def test_faces_have_the_age_of_their_name(faces):
    data = AgeDB(faces, size=16)
    assert len(data) == len(FACES)
    assert dict(zip(data.files, data.y, strict=True)) == AGES
    assert data.skipped == []


def test_an_item_is_a_normalised_picture_and_its_target(faces):
    data = AgeDB(faces, size=16)
    image, age = data[data.files.index(FACES[2])]
    assert image.shape == (3, 16, 16)
    assert image.dtype == age.dtype == torch.float32
    assert age.item() == 59
    np.testing.assert_allclose(shown(image), colour(2), atol=2)  # JPEG loses a little


def test_default_size_is_the_papers(faces):
    assert AgeDB(faces)[0][0].shape == (3, 224, 224)


def test_patches_have_the_label_of_their_table(tissue):
    data = BreastPathQ(tissue, size=16)
    expected = {f"{part}/{slide}_{rid}.tif": y for part, rows in LABELS.items() for slide, rid, y in rows}
    assert dict(zip(data.files, data.y, strict=True)) == expected
    for index, file in enumerate(data.files):
        slide, rid = file.removesuffix(".tif").partition("/")[2].split("_")
        np.testing.assert_array_equal(shown(data[index][0]), colour(int(slide) + int(rid)))


def test_one_folder_and_one_table_are_enough(tissue):
    for file in (tissue / "train").iterdir():
        shutil.move(file, tissue / file.name)
    shutil.move(tissue / "train_labels.csv", tissue / "labels.csv")
    (tissue / "val_labels.csv").unlink()
    (tissue / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    assert len(BreastPathQ(tissue, size=16)) == len(LABELS["train"])
    assert len(BreastPathQ(tissue, labels=tissue / "labels.csv", size=16)) == len(LABELS["train"])


def test_labels_mean_the_patch_in_the_folder_of_their_name(tissue):
    """The archive has patches of equal name in other folders."""
    (tissue / "cells").mkdir()
    shutil.copy(tissue / "train" / "99788_1.tif", tissue / "cells" / "99788_1.tif")
    shutil.copy(tissue / "train" / "99788_1.tif", tissue / "validation" / "99788_1.tif")
    assert "train/99788_1.tif" in BreastPathQ(tissue, size=16).files


def test_a_label_that_could_mean_two_patches_is_named(tissue):
    shutil.move(tissue / "train_labels.csv", tissue / "labels.csv")
    (tissue / "cells").mkdir()
    shutil.copy(tissue / "train" / "99788_1.tif", tissue / "cells" / "99788_1.tif")
    with pytest.raises(ValueError, match=r"must refer to one patch, got cells/99788_1\.tif, train/99788_1\.tif"):
        BreastPathQ(tissue, size=16)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK"])
def test_any_mode_becomes_three_channels(tmp_path, mode):
    file = tmp_path / "image.tif"
    Image.fromarray(plain(3)).convert(mode).save(file)
    assert read_image(file, 8).shape == (3, 8, 8)


@pytest.mark.parametrize(("dtype", "scale"), [(np.uint16, 256), (np.float32, 1 / 255)])
def test_tiffs_that_pillow_does_not_know(tmp_path, dtype, scale):
    file = tmp_path / "deep.tif"
    tifffile.imwrite(file, (plain(3).astype(dtype) * dtype(scale)), photometric="rgb")
    np.testing.assert_array_equal(read_image(file, 8)[:, 4, 4], colour(3))


@pytest.mark.parametrize("suffix", ["tif", "png"])
def test_sixteen_bits_of_grey_keep_their_upper_eight(tmp_path, suffix):
    file = tmp_path / f"deep.{suffix}"
    Image.fromarray(np.full((10, 10), 200 * 256 + 7, np.uint16)).save(file)
    np.testing.assert_array_equal(read_image(file, 8), 200)


def test_files_of_archives_that_are_no_pictures_are_passed_over(faces):
    (faces / "__MACOSX").mkdir()
    for name in (f"__MACOSX/._{FACES[0]}", f"._{FACES[0]}", "readme.txt"):
        (faces / name).write_bytes(b"x")
    assert len(AgeDB(faces, size=16)) == len(FACES)


def test_own_files(faces):
    data = ImageFiles([faces / name for name in FACES], range(6), size=16)
    assert data.files == tuple(FACES)
    np.testing.assert_array_equal(data.y, np.arange(6))
    with pytest.raises(ValueError, match="files and y must have equal length, 1 or more, got 6 and 2"):
        ImageFiles([faces / name for name in FACES], [1.0, 2.0])
    with pytest.raises(ValueError, match="y must be finite, got nan at row 1"):
        ImageFiles([faces / name for name in FACES[:2]], [1.0, np.nan])


# --------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize("make", [AgeDB, BreastPathQ])
def test_the_error_of_a_missing_folder_explains_how_to_obtain_the_data(tmp_path, make):
    with pytest.raises(
        FileNotFoundError, match=f"(?s){make.__name__}.*got nothing there.*redistributed.*layout.*<root>"
    ):
        make(tmp_path / "nowhere")


@pytest.mark.parametrize(("make", "lacks"), [(AgeDB, "no .jpg file"), (BreastPathQ, "slide, rid, y, got none")])
def test_the_error_of_an_empty_folder_names_what_is_missing(tmp_path, make, lacks):
    with pytest.raises(FileNotFoundError, match=f"(?s){lacks}.*redistributed"):
        make(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "noise", "empty"])
def test_damaged_pictures_are_named_or_skipped(faces, damage):
    file = faces / FACES[3]
    content = file.read_bytes()
    file.write_bytes({"cut": content[: len(content) // 2], "noise": b"no image at all", "empty": b""}[damage])
    with pytest.raises(OSError, match=rf"1 image in .* cannot be used: {FACES[3]} \(.+\); pass on_error"):
        AgeDB(faces, size=16)
    data = AgeDB(faces, size=16, on_error="skip")
    assert [skipped.file for skipped in data.skipped] == [FACES[3]]
    assert data.skipped[0].reason
    assert FACES[3] not in data.files
    kept = {name: age for name, age in AGES.items() if name != FACES[3]}
    assert dict(zip(data.files, data.y, strict=True)) == kept
    for index, name in enumerate(data.files):  # no row has slipped
        np.testing.assert_allclose(shown(data[index][0]), colour(FACES.index(name)), atol=2)


def test_a_missing_patch_is_named_or_skipped(tissue):
    (tissue / "train" / "99788_2.tif").unlink()
    with pytest.raises(OSError, match=r"train/99788_2\.tif \(no such file\)"):
        BreastPathQ(tissue, size=16)
    data = BreastPathQ(tissue, size=16, on_error="skip")
    assert [tuple(skipped) for skipped in data.skipped] == [("train/99788_2.tif", "no such file")]
    assert len(data) == 5


def test_many_bad_pictures_are_counted(tissue):
    for file in (tissue / "train").iterdir():
        file.write_bytes(b"")
    for file in (tissue / "validation").iterdir():
        file.unlink()
    with pytest.raises(OSError, match=r"6 images in .* and 1 more"):
        BreastPathQ(tissue, size=16)
    with pytest.raises(OSError, match="none of the 6 images"):
        BreastPathQ(tissue, size=16, on_error="skip")


@pytest.mark.parametrize("name", ["face.jpg", "1_A_old_f.jpg", "1_A_102_f.jpg", "1_A_-3_f.jpg"])
def test_a_face_with_another_name_is_named_or_skipped(faces, name):
    shutil.copy(faces / FACES[0], faces / name)
    with pytest.raises(ValueError, match=f"<id>_<Name>_<age>_<gender>.jpg with an age of 0 to 101, got '{name}'"):
        AgeDB(faces, size=16)
    data = AgeDB(faces, size=16, on_error="skip")
    assert [skipped.file for skipped in data.skipped] == [name]
    assert len(data) == len(FACES)


@pytest.mark.parametrize("label", ["1.2", "-0.1", "nan", "", "high"])
def test_a_label_outside_the_unit_interval_is_named(tissue, label):
    with (tissue / "val_labels.csv").open("a", encoding="utf-8") as stream:
        stream.write(f"104246,8,{label}\n")
    with pytest.raises(
        ValueError, match=rf"y must be a number in \[0, 1\], got '{label}' in line 4 of .*val_labels.csv"
    ):
        BreastPathQ(tissue, size=16, on_error="skip")


def test_a_patch_labelled_twice_is_named(tissue):
    with (tissue / "train_labels.csv").open("a", encoding="utf-8") as stream:
        stream.write("99788,2,0.5\n")
    with pytest.raises(ValueError, match=r"labelled once, got 99788_2 again in line 6 of .*train_labels.csv"):
        BreastPathQ(tissue, size=16)


def test_named_labels_without_the_columns(tissue):
    (tissue / "own.csv").write_text("slide,rid\n1,2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="must have the columns slide, rid, y, got slide, rid"):
        BreastPathQ(tissue, labels=[tissue / "own.csv"])


@pytest.mark.parametrize(
    ("option", "message"),
    [({"size": 0}, "size must be"), ({"on_error": "ignore"}, "on_error must be")],
)
def test_bad_options(faces, option, message):
    with pytest.raises(ValueError, match=message):
        AgeDB(faces, **option)


# ---------------------------------------------------------------------------------------------------- cache


def test_a_second_start_reads_no_picture(faces, monkeypatch):
    first = AgeDB(faces, size=16, cache=faces.parent / "cache")
    assert not (faces / ".recuse_cache").exists()
    monkeypatch.setattr(image_files, "read_image", None)
    second = AgeDB(faces, size=16, cache=faces.parent / "cache")
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one[0], other[0])
        assert torch.equal(one[1], other[1])


def test_the_cache_moves_with_the_folder(faces, monkeypatch):
    AgeDB(faces, size=16)
    moved = faces.rename(faces.with_name("moved"))
    monkeypatch.setattr(image_files, "read_image", None)
    assert len(AgeDB(moved, size=16)) == len(FACES)


def test_a_changed_picture_is_read_again(faces):
    before = AgeDB(faces, size=16)[0][0]
    file = faces / AgeDB(faces, size=16).files[0]
    Image.fromarray(255 - plain(0)).save(file, quality=95)
    os.utime(file, ns=(1, 1))
    assert not torch.equal(AgeDB(faces, size=16)[0][0], before)


def test_other_sizes_and_files_have_caches_of_their_own(faces):
    assert AgeDB(faces, size=16)[0][0].shape == (3, 16, 16)
    assert AgeDB(faces, size=24)[0][0].shape == (3, 24, 24)
    (faces / FACES[0]).unlink()
    assert len(AgeDB(faces, size=16)) == len(FACES) - 1


def test_an_interrupted_build_leaves_nothing_behind(faces, monkeypatch):
    def interrupt(file, size):
        if file.name == FACES[4]:
            raise KeyboardInterrupt
        return read_image(file, size)

    monkeypatch.setattr(image_files, "read_image", interrupt)
    with pytest.raises(KeyboardInterrupt):
        AgeDB(faces, size=16)
    assert list((faces / ".recuse_cache").iterdir()) == []


def test_the_cache_is_one_array_that_numpy_reads(faces):
    data = AgeDB(faces, size=16)
    (file,) = (faces / ".recuse_cache").glob("*.npy")
    pixels = np.load(file, mmap_mode="r")
    assert pixels.shape == (len(FACES), 3, 16, 16)
    assert pixels.dtype == np.uint8
    assert not list((faces / ".recuse_cache").glob("*.partial"))
    assert len(pickle.dumps(data)) < 4000  # another process gets the path and not the pixels
    assert torch.equal(pickle.loads(pickle.dumps(data))[1][0], data[1][0])


def test_a_cut_cache_is_built_again(faces):
    whole = AgeDB(faces, size=16)[5][0]
    (file,) = (faces / ".recuse_cache").glob("*.npy")
    file.write_bytes(file.read_bytes()[:-100])
    assert torch.equal(AgeDB(faces, size=16)[5][0], whole)


# --------------------------------------------------------------------------------------------------- splits


def test_a_split_takes_the_rows_that_a_table_of_this_length_would_give(faces):
    from types import SimpleNamespace

    data = AgeDB(faces, size=16)
    table = datasets.split(SimpleNamespace(X=np.arange(len(data)), y=data.y), 2)
    for part, (rows, y) in zip(data.split(2), table, strict=True):
        np.testing.assert_array_equal(part.y, y)
        assert part.files == tuple(data.files[row] for row in rows)
        for index, row in enumerate(rows):
            assert torch.equal(part[index][0], data[row][0])
            assert part[index][1] == data[row][1]


def test_some_of_the_images_are_a_data_set_of_their_own(faces):
    (faces / FACES[0]).write_bytes(b"")
    data = AgeDB(faces, size=16, on_error="skip")
    some = data.take([3, 1]).take([1, 0])
    assert some.files == (data.files[1], data.files[3])
    assert some.y.tolist() == [AGES[name] for name in some.files]
    assert torch.equal(some[1][0], data[3][0])
    assert len(data) == len(FACES) - 1


# --------------------------------------------------------------------------------------------- augmentation


def test_crops_and_flips_are_those_of_the_padded_picture():
    image = torch.arange(3.0 * 6 * 6).reshape(3, 6, 6)
    padded = torch.full((3, 10, 10), -1.0)
    padded[:, 2:8, 2:8] = image
    crops = {(top, left): padded[:, top : top + 6, left : left + 6] for top in range(5) for left in range(5)}
    seen = []
    for seed in range(600):
        got = crop_and_flip(image, np.random.default_rng(seed), padding=2)
        seen += [
            (place, flip)
            for place, crop in crops.items()
            for flip in (0, 1)
            if torch.equal(got, crop.flip(2) if flip else crop)
        ]
    assert len(seen) == 600  # nothing else happens
    assert len(set(seen)) == 50  # all places, both ways
    assert 250 < sum(flip for _, flip in seen) < 350


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_loaders_share_the_cache(faces):
    data = AgeDB(faces, size=16)
    images, ages = next(iter(DataLoader(data, batch_size=6, num_workers=2)))
    assert images.shape == (6, 3, 16, 16)
    np.testing.assert_array_equal(ages, data.y)
