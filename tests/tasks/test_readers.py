"""Folders of pictures: what people's folders hold besides pictures, and what the scan finds."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

from desktop.errors import DataError, NoClassFoldersError, NoFolderError, NoImagesError
from desktop.tasks.readers import FolderScan, ScanProgress, scan_folder
from tests.tasks.folders import cats_and_dogs, fill, finish


def scan(root: Path) -> FolderScan:
    return finish(scan_folder(root))


def test_a_folder_per_class(tmp_path: Path) -> None:
    found = scan(cats_and_dogs(tmp_path / "pets", 3))
    assert {name: [path.name for path in paths] for name, paths in found.classes.items()} == {
        "cat": ["000.png", "001.png", "002.png"], "dog": ["000.png", "001.png", "002.png"]}
    assert found.place == "pets"
    assert found.findings() == ()


def test_progress_is_told_for_each_picture(tmp_path: Path) -> None:
    said = list(scan_folder(cats_and_dogs(tmp_path, 3)))
    assert [(each.done, each.total) for each in said] == [(i, 6) for i in range(1, 7)]
    assert said[-1] == ScanProgress("Checking dog", 6, 6)
    assert said[2].fraction == 0.5
    assert ScanProgress("Looking through cat", 256, 0).fraction is None


def test_many_files_are_listed_in_slices(tmp_path: Path) -> None:
    folder = fill(tmp_path / "cat", 1)
    for i in range(300):
        os.link(folder / "000.png", folder / f"copy{i}.png")
    assert next(scan_folder(tmp_path)) == ScanProgress("Looking through cat", 256, 0)


def test_files_that_are_not_data_are_ignored_silently(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 2)
    for name in (".DS_Store", "._000.png", "Thumbs.db", "desktop.ini", "notes.txt", ".hidden.png"):
        (tmp_path / "cat" / name).write_bytes(b"\0\5\26\7")
    (tmp_path / ".DS_Store").touch()
    for name in ("__MACOSX", ".git", "@eaDir"):
        shutil.copytree(tmp_path / "dog", tmp_path / name)
        shutil.copytree(tmp_path / "dog", tmp_path / "cat" / name)
    found = scan(tmp_path)
    assert {name: len(paths) for name, paths in found.classes.items()} == {"cat": 2, "dog": 2}
    assert found.broken == found.findings() == ()


def test_stray_white_space_is_one_class_said_once(tmp_path: Path) -> None:
    fill(tmp_path / "english", 2, seed=1)
    fill(tmp_path / "english ", 3, seed=2)
    fill(tmp_path / "german", 2, seed=3)
    found = scan(tmp_path)
    assert {name: len(paths) for name, paths in found.classes.items()} == {"english": 5, "german": 2}
    (finding,) = found.findings()
    assert finding.text == "“english” and “english ” are taken as one class, “english”."


def test_names_outside_ascii(tmp_path: Path) -> None:
    fill(tmp_path / "Übung" / "猫", 1)
    os.rename(tmp_path / "Übung" / "猫" / "000.png", tmp_path / "Übung" / "猫" / "é.png")
    fill(tmp_path / "Übung" / "собака", 1)
    found = scan(tmp_path / "Übung")
    assert list(found.classes) == ["собака", "猫"]
    assert found.classes["猫"][0].name == "é.png"


def test_broken_pictures_are_found_before_training_and_listed_by_name(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 3)
    (tmp_path / "cat" / "empty.png").touch()
    (tmp_path / "cat" / "text.png").write_text("not a picture")
    Image.new("RGB", (99, 99)).save(tmp_path / "dog" / "whole.jpg")
    (tmp_path / "dog" / "half.JPG").write_bytes((tmp_path / "dog" / "whole.jpg").read_bytes()[:500])
    found = scan(tmp_path)
    assert {name: len(paths) for name, paths in found.classes.items()} == {"cat": 3, "dog": 4}
    (finding,) = found.findings()
    assert finding.severity == "care"
    assert finding.title == "3 pictures cannot be read"
    assert finding.files == (os.path.join("cat", "empty.png") + ": the file is empty",
                             os.path.join("cat", "text.png") + ": what is in it is no picture of a known kind",
                             os.path.join("dog", "half.JPG") + ": the file is incomplete")


def test_hundreds_of_broken_pictures_are_counted(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 1)
    for i in range(205):
        (tmp_path / "cat" / f"e{i}.png").touch()
    (finding,) = scan(tmp_path).findings()
    assert finding.title == "205 pictures cannot be read"
    assert len(finding.files) == 201
    assert finding.files[-1] == "and 5 more"


def test_pipe_named_png_is_not_waited_for(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 1)
    os.mkfifo(tmp_path / "cat" / "pipe.png")
    assert len(scan(tmp_path).classes["cat"]) == 1


def test_links_that_lead_round_and_round(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 1)
    (tmp_path / "cat" / "again").symlink_to(tmp_path, target_is_directory=True)
    assert len(scan(tmp_path).classes["cat"]) == 1


def test_pictures_in_folders_within_a_class(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 2)
    fill(tmp_path / "cat" / "2024" / "may", 3)
    assert len(scan(tmp_path).classes["cat"]) == 5


def test_an_unpacked_archive_has_a_folder_around(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path / "pets" / "pets", 1)
    shutil.copytree(tmp_path / "pets" / "pets", tmp_path / "pets" / "__MACOSX")
    assert list(scan(tmp_path / "pets").classes) == ["cat", "dog"]


def test_several_class_folders_at_once(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 1)
    (tmp_path / "cat" / "empty.png").touch()
    found = finish(scan_folder([tmp_path / "dog", tmp_path / "cat"]))
    assert list(found.classes) == ["cat", "dog"]
    assert found.place == "dog, cat"
    assert found.findings()[0].files == (os.path.join("cat", "empty.png") + ": the file is empty",)


def test_pictures_beside_the_class_folders_are_left_out_and_said(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 1)
    shutil.copy(tmp_path / "cat" / "000.png", tmp_path / "cover.png")
    (finding,) = scan(tmp_path).findings()
    assert finding.files == ("cover.png",)


def test_an_empty_class_folder_is_kept_for_the_check(tmp_path: Path) -> None:
    cats_and_dogs(tmp_path, 1)
    (tmp_path / "mouse").mkdir()
    assert scan(tmp_path).classes["mouse"] == ()


def test_folder_without_images(tmp_path: Path) -> None:
    with pytest.raises(NoImagesError, match="No pictures in nothing"):
        scan((tmp_path / "nothing").mkdir() or tmp_path / "nothing")
    (tmp_path / "letters" / "a").mkdir(parents=True)
    (tmp_path / "letters" / "a" / "letter.txt").write_text("Dear")
    with pytest.raises(NoImagesError, match="Choose a folder that holds one folder of pictures for each class"):
        scan(tmp_path / "letters")


def test_pictures_without_class_folders(tmp_path: Path) -> None:
    with pytest.raises(NoClassFoldersError, match="lie in no class folders"):
        scan(fill(tmp_path / "all", 3))


def test_a_file_or_nothing_instead_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "data.csv").touch()
    for name in ("data.csv", "gone"):
        with pytest.raises(NoFolderError, match=f"{name} is not a folder"):
            scan(tmp_path / name)


def test_a_folder_that_stays_shut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shut(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    cats_and_dogs(tmp_path, 1)
    monkeypatch.setattr(os, "scandir", shut)  # the tests may run as root, whom no permission stops
    with pytest.raises(DataError, match="Permission denied"):
        scan(tmp_path)


def test_a_scan_can_be_dropped_half_way(tmp_path: Path) -> None:
    slices = scan_folder(cats_and_dogs(tmp_path, 3))
    next(slices)
    slices.close()
