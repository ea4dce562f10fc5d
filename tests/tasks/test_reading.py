"""Reading pictures by the one way in that the window uses: what lies there, what is wrong, what a person changed."""

from __future__ import annotations

import gzip
import shutil
import struct
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from desktop.errors import DataError, NoImagesError, PeerloomError
from desktop.state import Edit
from desktop.tasks import reading
from desktop.tasks.builtin import IMAGES
from desktop.tasks.reading import Reading
from desktop.tasks.spec import TaskSpec
from tests.tasks.folders import cats_and_dogs, fill, finish

SMALL = IMAGES.changed(height=8, width=8)
ROOM = SMALL.with_classes(["cat", "dog"])


def read(*paths: Path, spec: TaskSpec = SMALL, edits: tuple[Edit, ...] = ()) -> Reading:
    return finish(reading.read(spec, paths, tuple((edit,) for edit in edits)))


def counts(found: Reading) -> dict[str, int]:
    return {card.name: card.count for card in found.view.classes}


# -- which picture is of which class --------------------------------------------------------------------


@pytest.mark.parametrize(("name", "text"), [
    ("labels.csv", "filename,label\n{}"),
    ("labels.tsv", "image\tclass\n{}"),
    ("no-header.csv", "{}"),
    ("excel.csv", "\ufefffile;class\n{}"),
])
def test_a_csv_of_labels_beside_the_pictures(tmp_path: Path, name: str, text: str) -> None:
    fill(tmp_path / "all", 14)
    separator = {"labels.tsv": "\t", "excel.csv": ";"}.get(name, ",")
    lines = [f"{i:03}.png{separator}{'owl' if i % 2 else 'great tit'}" for i in range(14)]
    (tmp_path / name).write_text(text.format("\n".join(lines)), "utf-8")
    found = read(tmp_path)
    assert found.spec.classes == ("great tit", "owl")
    assert counts(found) == {"great tit": 7, "owl": 7}
    assert not any("label" in finding.title for finding in found.view.findings)


def test_labels_without_the_ending_of_the_file_and_what_does_not_match(tmp_path: Path) -> None:
    fill(tmp_path, 12)
    lines = [f"{i:03},{'a' if i % 2 else 'b'}" for i in range(11)] + ["nothing,a", "000,a"]
    (tmp_path / "labels.csv").write_text("id,label\n" + "\n".join(lines), "utf-8")
    found = read(tmp_path)
    assert counts(found) == {"a": 5, "b": 6}
    said = {finding.title: finding.files for finding in found.view.findings}
    assert said["Lines whose picture is not there: 1"] == ("nothing",)
    assert said["Pictures without a label: 1"] == ("011.png",)
    assert said["Pictures with two labels or none: 1"] == ("000.png",)


def test_class_folders_count_whatever_a_table_beside_them_says(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 6)
    (tmp_path / "sizes.csv").write_text("filename,width\n" + "".join(f"{i:03}.png,{12 + i % 2}\n" for i in range(6)))
    assert counts(read(tmp_path)) == {"cat": 6, "dog": 6}


def test_a_table_that_is_not_about_the_pictures_changes_nothing(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 6)
    (tmp_path / "prices.csv").write_text("name,price\napple,1\npear,2\n", "utf-8")
    assert counts(read(tmp_path)) == {"cat": 6, "dog": 6}


def idx(path: Path, numbers: np.ndarray) -> Path:
    """As the MNIST page describes the format: magic, sizes big endian, then the bytes."""
    content = struct.pack(f">BBBB{numbers.ndim}I", 0, 0, 8, numbers.ndim, *numbers.shape) + numbers.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("names", [("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
                                   ("t10k-images.idx3-ubyte.gz", "t10k-labels.idx1-ubyte.gz")])
def test_the_idx_files_of_mnist(tmp_path: Path, names: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10, dtype=np.uint8), 8)
    pictures = rng.integers(0, 256, (80, 28, 28), dtype=np.uint8)
    idx(tmp_path / names[0], pictures)
    idx(tmp_path / names[1], labels)
    for paths in ((tmp_path,), (tmp_path / names[0], tmp_path / names[1])):
        found = read(*paths, spec=IMAGES.changed(height=28, width=28, channels=1))
        assert found.spec.classes == tuple("0123456789")
        assert counts(found) == {str(digit): 8 for digit in range(10)}
        assert found.data is not None
        x, y = found.data.train.batch(slice(0, None))
        there = {(pictures[i].tobytes(), int(labels[i])) for i in range(80)}
        assert {((one[0] * 255).round().astype(np.uint8).tobytes(), int(label))
                for one, label in zip(x, y, strict=True)} <= there


@pytest.mark.parametrize(("spoil", "words"), [
    (lambda path: path.write_bytes(path.read_bytes()[:-1]), "incomplete"),
    (lambda path: path.write_bytes(path.read_bytes() + b"x"), "more in it than it says"),
    (lambda path: path.write_bytes(b"\0\0\x0d\x03" + path.read_bytes()[4:]), "no IDX file"),
    (lambda path: path.write_bytes(struct.pack(">BBBB3I", 0, 0, 8, 3, 2**31, 2**31, 2**31)), "it says that it holds"),
    (lambda path: path.write_bytes(struct.pack(">BBBB3I", 0, 0, 8, 3, 4, 0, 8)), "it says that it holds 0"),
    (lambda path: path.unlink(), "its pictures are missing"),
])
def test_idx_files_that_are_damaged(tmp_path: Path, spoil: object, words: str) -> None:
    path = idx(tmp_path / "x-idx3-ubyte", np.zeros((4, 8, 8), np.uint8))
    idx(tmp_path / "x-idx1-ubyte", np.array([0, 1, 0, 1], np.uint8))
    spoil(path)  # type: ignore[operator]
    with pytest.raises(DataError, match=words):
        read(tmp_path)


# -- what a person changed -----------------------------------------------------------------------------


def test_classes_are_renamed_merged_and_left_out(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 6)
    fill(tmp_path / "kitten", 7, seed=5)
    fill(tmp_path / "rubbish", 8, seed=6)
    found = read(tmp_path, edits=(
        Edit(what="class", name="kitten", value=" cat "), Edit(what="class", name="rubbish", value=""),
        Edit(what="class", name="dog", value="wolf"), Edit(what="class", name="nothing", value="x")))
    assert counts(found) == {"cat": 13, "wolf": 6}
    assert found.spec.classes == ("cat", "wolf")


def test_files_are_left_out(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 7)
    found = read(tmp_path, edits=(Edit(what="skip", name=str(tmp_path / "cat" / "003.png")),))
    assert counts(found) == {"cat": 6, "dog": 7}
    with pytest.raises(NoImagesError):
        read(tmp_path, edits=(Edit(what="class", name="cat"), Edit(what="class", name="dog")))


def test_a_class_that_the_room_does_not_have_is_given_one_of_its_names(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 6)
    fill(tmp_path / "hound", 7, seed=5)
    found = read(tmp_path, spec=ROOM)
    assert counts(found) == {"cat": 6, "dog": 6, "hound": 7}
    assert [card.name for card in found.view.classes if card.left_out] == ["hound"]
    assert found.spec == ROOM
    assert found.view.score == read(tmp_path, spec=ROOM, edits=(Edit(what="class", name="hound"),)).view.score
    again = read(tmp_path, spec=ROOM, edits=(Edit(what="class", name="hound", value="dog"),))
    assert counts(again) == {"cat": 6, "dog": 13}


def test_a_class_that_differs_by_capitals_only_is_offered_to_be_the_rooms(tmp_path: Path) -> None:
    fill(tmp_path / "Cat", 6)
    fill(tmp_path / "dog", 6, seed=2)
    said = {finding.title: finding for finding in read(tmp_path, spec=ROOM).view.findings}
    offer = said["Classes that the room does not have"]
    assert offer.fix_text == "“Cat” is “cat”"
    assert counts(read(tmp_path, spec=ROOM, edits=offer.fix)) == {"cat": 6, "dog": 6}


# -- the check -----------------------------------------------------------------------------------------


def test_copies_plain_pictures_and_pictures_in_two_classes_are_found_and_can_be_left_out(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 30)
    shutil.copy(tmp_path / "cat" / "000.png", tmp_path / "cat" / "copy.png")
    shutil.copy(tmp_path / "cat" / "001.png", tmp_path / "dog" / "cat or dog.png")
    Image.new("RGB", (20, 20), (200, 100, 50)).save(tmp_path / "dog" / "empty.png")
    (tmp_path / "dog" / "half.png").write_bytes((tmp_path / "dog" / "000.png").read_bytes()[:60])
    found = read(tmp_path)
    said = {finding.title: finding for finding in found.view.findings}
    assert said["1 picture is nearly of one colour"].files == ("dog/empty.png",)
    assert said["1 picture is there more than once"].files == ("cat/copy.png",)
    assert set(said["2 pictures are in two classes"].files) == {"cat/001.png", "dog/cat or dog.png"}
    # 63 pictures and 1 broken file; wrong are 1 plain, 1 copy, 2 in two classes, 1 broken: 59 of 64.
    assert found.view.score == round(100 * 59 / 64)
    clean = read(tmp_path, edits=tuple(edit for finding in said.values() for edit in finding.skip))
    assert clean.view.findings == ()
    assert counts(clean) == {"cat": 29, "dog": 30}


def test_a_good_set_has_the_best_score_and_few_or_uneven_classes_cost_some(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path / "good", 25)
    good = read(tmp_path / "good")
    assert (good.view.score, good.view.findings) == (100, ())
    cats_and_dogs(tmp_path / "few", 6)
    few = read(tmp_path / "few")
    assert few.view.score == 80  # both classes are small: all of the 20 points
    assert [finding.title for finding in few.view.findings] == ["Few pictures"]
    fill(tmp_path / "uneven" / "cat", 25, seed=1)
    fill(tmp_path / "uneven" / "dog", 200, seed=2)
    uneven = read(tmp_path / "uneven")
    assert uneven.view.score == 100 - 2 * (200 // 25 - 5)
    assert "200 pictures of “dog”, 25 of “cat”" in uneven.view.findings[0].text


def test_too_little_data_is_a_sentence_with_what_was_found_beside_it(tmp_path: Path) -> None:
    fill(tmp_path / "cat", 1)
    fill(tmp_path / "dog", 50)
    (tmp_path / "owl").mkdir()
    found = read(tmp_path)
    assert found.data is None
    assert not found.view.usable
    assert "5 in each class" in found.view.error


def test_dropping_the_reading_ends_its_threads(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 60)
    slices = reading.read(SMALL, (tmp_path,), ())
    for _ in range(30):
        next(slices)
    slices.close()
    for thread in threading.enumerate():
        if thread.name.startswith("reading"):
            thread.join(10)
            assert not thread.is_alive()


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(PeerloomError):
        read(tmp_path / "nothing")
