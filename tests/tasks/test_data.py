"""Splits, shares, batches and views. The digits are compared with scikit-learn's."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from desktop.errors import ClassesDifferError, OptionError, TaskError, TooLittleDataError
from desktop.tasks.builtin import DIGITS, IMAGES
from desktop.tasks.data import (
    ArraySet,
    Batches,
    TaskData,
    describe,
    digits,
    load_folder,
    load_sample,
    reading,
    refused,
)
from desktop.tasks.readers import ScanProgress, scan_folder
from desktop.tasks.spec import TaskSpec
from tests.tasks.folders import cats_and_dogs, fill, finish

PETS = IMAGES.changed(height=8, width=8).with_classes(["cat", "dog"])


def load(root: Path, spec: TaskSpec = PETS) -> TaskData:
    return finish(load_folder(spec, finish(scan_folder(root))))


def keys(*parts: ArraySet) -> list[bytes]:
    """Each sample as bytes, sorted, to compare sets of them (digits are all different but for a few)."""
    return sorted(bytes([label]) + picture.tobytes() for part in parts
                  for picture, label in zip(part.pixels, part.labels, strict=True))


# -- the sample digits --------------------------------------------------------------------------------


def test_the_digits_are_those_of_scikit_learn() -> None:
    original = load_digits()
    ours = digits()
    assert ours.pixels.shape == (1797, 1, 8, 8)
    np.testing.assert_array_equal(ours.pixels[:, 0], original.images)
    np.testing.assert_array_equal(ours.labels, original.target)
    x, y = ours.batch(np.array([5, 0]))
    assert (x.dtype, y.dtype) == (np.float32, np.int64)
    np.testing.assert_array_equal(x[:, 0], original.images[[5, 0]] / 16)
    np.testing.assert_array_equal(y, original.target[[5, 0]])


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_shares_are_disjoint_equal_and_together_all(parts: int) -> None:
    shares = [load_sample(DIGITS, (i + 1, parts)) for i in range(parts)]
    sizes = [len(share.train) + len(share.validation) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    assert keys(shares[0].test, *(part for share in shares for part in (share.train, share.validation))
                ) == keys(digits())


def test_the_test_part_is_the_same_for_all_and_stratified() -> None:
    tests = [load_sample(DIGITS, share).test for share in [(1, 1), (1, 3), (3, 3)]]
    assert keys(tests[0]) == keys(tests[1]) == keys(tests[2])
    assert len(tests[0]) == 270  # 15 % of 1797
    whole = np.bincount(load_digits().target)
    assert np.abs(np.bincount(tests[0].labels) - 0.15 * whole).max() <= 1


def test_each_share_holds_each_class_alike() -> None:
    for i in range(4):
        share = load_sample(DIGITS, (i + 1, 4))
        counts = np.bincount(share.train.labels, minlength=10)
        assert counts.max() - counts.min() <= 4
        assert np.bincount(share.validation.labels, minlength=10).min() >= 3


def test_the_split_is_random_but_seeded_and_not_every_fifth_row() -> None:
    everything = digits()
    place = {picture.tobytes(): i for i, picture in enumerate(everything.pixels)}
    rows = np.sort([place[picture.tobytes()] for picture in load_sample(DIGITS).test.pixels])
    assert len(set(np.diff(rows))) > 10
    assert keys(load_sample(DIGITS).validation) == keys(load_sample(DIGITS).validation)
    assert keys(load_sample(DIGITS).test) != keys(load_sample(DIGITS.changed(seed=43)).test)


def test_the_split_is_the_same_for_ever() -> None:
    """Members with other versions of numpy or Python must hold out the same pictures; these were noted once."""
    data = load_sample(DIGITS, (2, 3))
    assert data.test.labels[:12].tolist() == [6, 8, 8, 6, 4, 1, 5, 5, 5, 9, 5, 0]
    assert [int(picture.sum()) for picture in data.test.pixels[:4]] == [292, 321, 275, 381]
    assert [int(picture.sum()) for picture in data.train.pixels[:4]] == [292, 268, 343, 257]


def test_validation_and_test_of_zero_work() -> None:
    data = load_sample(DIGITS.changed(validation=0, test=0))
    assert (len(data.train), len(data.validation), len(data.test)) == (1797, 0, 0)


@pytest.mark.parametrize("share", [(0, 3), (4, 3), (-1, -1), (1, 0)])
def test_impossible_share_is_refused(share: tuple[int, int]) -> None:
    with pytest.raises(OptionError, match=r"share: .* is not valid. Allowed: I/N"):
        load_sample(DIGITS, share)


def test_more_shares_than_pictures() -> None:
    assert len(load_sample(DIGITS, (1, 1527)).train) == 1
    with pytest.raises(TooLittleDataError, match="1527 pictures for 1528 shares"):
        load_sample(DIGITS, (1528, 1528))


def test_tasks_that_the_sample_does_not_fit() -> None:
    with pytest.raises(TaskError, match="no sample data ships with “Your own pictures”"):
        load_sample(PETS)
    with pytest.raises(TaskError, match="8 × 8 grey"):
        load_sample(DIGITS.changed(height=16))


# -- folders ------------------------------------------------------------------------------------------


def test_folder_is_decoded_to_the_size_of_the_model(tmp_path: Path) -> None:
    data = load(cats_and_dogs(tmp_path, 40))
    parts = (data.train, data.validation, data.test)
    assert sum(map(len, parts)) == 80
    assert data.train.pixels.shape[1:] == (3, 8, 8)
    assert data.train.pixels.dtype == np.uint8
    assert all(set(part.labels) == {0, 1} for part in parts)
    x, _ = data.train.batch(slice(0, 4))
    np.testing.assert_allclose(x, data.train.pixels[:4] / 255, rtol=1e-6)
    assert len(set(keys(*parts))) == 80  # each picture in one part


def test_progress_is_told_while_decoding(tmp_path: Path) -> None:
    said = list(load_folder(PETS, finish(scan_folder(cats_and_dogs(tmp_path, 5)))))
    assert said[0] == ScanProgress("Reading cat", 1, 10)
    assert said[-1] == ScanProgress("Reading dog", 10, 10)


def test_parts_have_about_their_share(tmp_path: Path) -> None:
    data = load(cats_and_dogs(tmp_path, 300))
    assert abs(len(data.test) - 90) < 30  # 15 % of 600, within 3.4 standard deviations
    assert abs(len(data.validation) - 60) < 25


def test_a_copy_at_another_member_lies_in_the_same_part(tmp_path: Path) -> None:
    """Else one member would train on what the other holds out."""
    mine, theirs = cats_and_dogs(tmp_path / "mine", 60), tmp_path / "theirs"
    (theirs / "dog").mkdir(parents=True)
    fill(theirs / "cat", 30, seed=9)
    for i in range(0, 60, 2):  # half of my dogs, with other names
        shutil.copy(mine / "dog" / f"{i:03}.png", theirs / "dog" / f"holiday-{i}.png")
    a, b = load(mine), load(theirs)
    held_out = set(keys(a.test))
    assert held_out & set(keys(b.test))
    assert not held_out & set(keys(b.train, b.validation))
    assert not set(keys(b.test)) & set(keys(a.train, a.validation))


def test_smallest_folder_has_a_picture_in_each_part(tmp_path: Path) -> None:
    data = load(cats_and_dogs(tmp_path, 5))
    for part in (data.train, data.validation, data.test):
        assert set(part.labels) == {0, 1}


def test_folder_with_validation_and_test_of_zero(tmp_path: Path) -> None:
    data = load(cats_and_dogs(tmp_path, 5), PETS.changed(validation=0, test=0))
    assert (len(data.train), len(data.validation), len(data.test)) == (10, 0, 0)


def test_fifty_copies_of_one_picture(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 5)
    for i in range(50):
        os.link(tmp_path / "cat" / "000.png", tmp_path / "cat" / f"copy{i}.png")
    data = load(tmp_path)
    assert min(map(len, (data.train, data.validation, data.test))) >= 2


@pytest.mark.parametrize("few", [0, 1, 4])
def test_too_little_data_is_said_with_the_minimum(tmp_path: Path, few: int) -> None:
    fill(tmp_path / "cat", few)
    fill(tmp_path / "dog", 50)
    with pytest.raises(TooLittleDataError) as caught:
        load(tmp_path)
    assert caught.value.sentence == (f"Too little data in “cat”: {few} pictures that can be read, "
                                     "at least 5 in each class are needed.")


def test_broken_pictures_do_not_count(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 5)
    (tmp_path / "cat" / "000.png").write_bytes(b"")
    with pytest.raises(TooLittleDataError, match="“cat”: 4 pictures"):
        load(tmp_path)


def test_classes_that_the_room_does_not_have_are_left_out_and_named(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 5)
    fill(tmp_path / "bird", 7)
    data = load(tmp_path)
    assert len(data.train) + len(data.validation) + len(data.test) == 10
    assert [finding.files for finding in data.findings] == [("bird: 7 pictures",)]


def test_folders_of_which_none_is_a_class_of_the_room_are_refused_by_name(tmp_path: Path) -> None:
    fill(tmp_path / "bird", 5)
    with pytest.raises(ClassesDifferError, match=r"not part of the room: bird\. The room has: cat, dog"):
        load(tmp_path)


def test_a_member_may_lack_a_class_and_the_order_stays_the_rooms(tmp_path: Path) -> None:
    fill(tmp_path / "dog", 6)
    data = load(tmp_path)
    assert set(data.train.labels) == {1}
    assert data.findings[0].files == ("cat",)


def test_classes_of_the_room_must_be_fixed(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="classes are not fixed"):
        load(cats_and_dogs(tmp_path, 5), IMAGES)


def test_pictures_that_break_after_the_scan_are_skipped_and_listed(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 8)
    found = finish(scan_folder(tmp_path))
    (tmp_path / "cat" / "003.png").unlink()
    (tmp_path / "dog" / "004.png").write_bytes(b"")
    data = finish(load_folder(PETS, found))
    assert sum(map(len, (data.train, data.validation, data.test))) == 14
    assert data.findings[0].files == (os.path.join("cat", "003.png") + ": No such file or directory",
                                      os.path.join("dog", "004.png") + ": the file is empty")


# -- batches ------------------------------------------------------------------------------------------


def test_each_epoch_holds_each_sample_once_in_a_new_order() -> None:
    batches = Batches(10, 4, seed=1)
    drawn = np.concatenate([next(batches) for _ in range(10)]).reshape(4, 10)
    assert all(sorted(epoch) == list(range(10)) for epoch in drawn)
    assert len({tuple(epoch) for epoch in drawn}) == 4
    assert batches.epoch == 4.0


def test_batches_follow_from_their_seed() -> None:
    def first(seed: int) -> list[int]:
        return next(Batches(100, 20, seed)).tolist()

    assert first(1) == first(1) != first(2)


@pytest.mark.parametrize(("n", "batch", "size"), [(5, 32, 5), (5, 5, 5), (5, 1, 1), (1, 65_536, 1)])
def test_batches_of_any_size(n: int, batch: int, size: int) -> None:
    batches = Batches(n, batch, seed=0)
    assert {len(next(batches)) for _ in range(7)} == {size}


def test_no_batches_out_of_nothing() -> None:
    for n, batch in ((0, 4), (4, 0)):
        with pytest.raises(ValueError, match="no batches"):
            Batches(n, batch, seed=0)


# -- the view -----------------------------------------------------------------------------------------


def opened(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png))


def test_view_of_the_sample_digits() -> None:
    data = load_sample(DIGITS, (1, 3))
    view = describe(DIGITS, data)
    assert (view.usable, view.error, view.source, view.shape) == (True, "", "sample", "8 × 8, grey")
    assert view.title == "Sample digits, part 1 of 3"
    assert view.training + view.validation + view.test == sum(card.count for card in view.classes)
    assert [card.name for card in view.classes] == list("0123456789")
    assert {len(card.thumbnails) for card in view.classes} == {12}
    thumbnail = opened(view.classes[3].thumbnails[0])
    assert (thumbnail.format, thumbnail.size, thumbnail.mode) == ("PNG", (40, 40), "L")
    first = data.train.pixels[data.train.labels == 3][0, 0]
    np.testing.assert_array_equal(np.asarray(thumbnail)[2::5, 2::5], np.rint(first * (255 / 16)))


def test_view_of_a_folder_with_rotated_photographs(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        for i in range(6):
            image = Image.new("RGB", (40, 20), "blue")
            image.paste("red", (0, 0, 20, 20))
            image.save(tmp_path / name / f"{i}.jpg", exif=exif, quality=90 + i)
    view = describe(PETS, load(tmp_path))
    assert view.shape == "any → 8 × 8, upright, colour, whole picture on white"
    assert [(card.name, card.count) for card in view.classes] == [("cat", 6), ("dog", 6)]
    thumbnail = np.asarray(opened(view.classes[0].thumbnails[0]))
    assert thumbnail.shape == (40, 40, 3)
    assert thumbnail[5, 20, 0] > 200  # red is above
    assert thumbnail[35, 20, 2] > 200  # blue below
    assert set(thumbnail[20, 5]) == {255}  # white beside: upright pictures are narrow


def test_view_while_reading_and_of_what_cannot_be_used() -> None:
    assert reading("pets", ScanProgress("Checking cat", 5, 10)).progress == 0.5
    view = refused("pets", "Too little data in “cat”.")
    assert (view.usable, view.error) == (False, "Too little data in “cat”.")
