"""Trying a model on a picture: the same preparation as in training, and sentences for files that are none."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits

from desktop.errors import PictureError
from desktop.library.try_image import predict, predict_array, sample_pictures
from desktop.tasks import models
from desktop.tasks.builtin import DIGITS, IMAGES
from desktop.tasks.data import Batches, load_sample

PETS = IMAGES.changed(height=16, width=24).with_classes(["cat", "dog", "owl"])


@pytest.fixture(scope="module")
def trained() -> Iterator[torch.nn.Module]:
    """A model for digits after 400 steps."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    data = load_sample(DIGITS)
    model = models.build_model(DIGITS, 1)
    optimiser = models.build_optimiser(DIGITS, model.parameters())
    batches = Batches(len(data.train), 32, seed=1)
    for _ in range(400):
        x, y = models.tensors(data.train, next(batches))
        loss, _ = models.loss_and_correct(DIGITS, model(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    yield model
    torch.set_num_threads(before)


def test_held_out_pictures_are_read_alike_as_array_and_as_file(trained: torch.nn.Module, tmp_path: Path) -> None:
    right = 0
    for sample in sample_pictures(load_sample(DIGITS).test, 40):
        (tmp_path / "digit.png").write_bytes(sample.png)
        by_file, _ = predict(trained, DIGITS, tmp_path / "digit.png")
        by_array = predict_array(trained, DIGITS, sample.x)
        assert by_file[0].name == by_array[0].name
        right += by_array[0].name == str(sample.label)
    assert right >= 38


def test_ink_on_paper_is_read(trained: torch.nn.Module, tmp_path: Path) -> None:
    """Held-out digits as a phone would show them: dark grey on light, small, off the middle of a noisy sheet."""
    rng = np.random.default_rng(0)
    right = 0
    for sample in sample_pictures(load_sample(DIGITS).test, 40):
        ink = Image.fromarray((sample.x[0] * 255).astype(np.uint8)).resize((80, 80), Image.Resampling.BICUBIC)
        sheet = rng.normal(215, 4, (300, 400))
        sheet[150:230, 40:120] -= np.asarray(ink) * 0.6
        Image.fromarray(sheet.clip(0, 255).astype(np.uint8)).convert("RGB").save(tmp_path / "photo.jpg", quality=85)
        right += predict(trained, DIGITS, tmp_path / "photo.jpg")[0][0].name == str(sample.label)
    assert right >= 36


def test_confidences_are_sorted_and_sum_to_one(trained: torch.nn.Module) -> None:
    found = predict_array(trained, DIGITS, np.zeros((1, 8, 8), np.float32))
    assert sorted(row.name for row in found) == list("0123456789")
    assert sum(row.value for row in found) == pytest.approx(1)
    assert [row.value for row in found] == sorted((row.value for row in found), reverse=True)


def test_trying_leaves_the_model_in_its_mode(trained: torch.nn.Module) -> None:
    for mode in (True, False):
        trained.train(mode)
        predict_array(trained, DIGITS, np.zeros((1, 8, 8), np.float32))
        assert trained.training is mode


def test_picture_as_the_model_sees_it(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (60, 40), "red").save(tmp_path / "phone.jpg", exif=exif, quality=95)  # seen as 40 × 60
    found, png = predict(models.build_model(PETS, 0), PETS, tmp_path / "phone.jpg")
    assert {row.name for row in found} == {"cat", "dog", "owl"}
    seen = np.asarray(Image.open(io.BytesIO(png)))
    assert seen.shape == (128, 192, 3)  # 16 × 24, enlarged
    assert seen[64, 96].tolist() == pytest.approx([254, 0, 0], abs=3)
    assert set(seen[64, 20]) == {255}  # white beside the narrow picture


@pytest.mark.parametrize(("name", "content", "words"), [
    ("text.png", b"hello", "text.png cannot be opened as a picture: what is in it is no picture of a known kind. "
                           "Choose another one."),
    ("empty.jpg", b"", "the file is empty"),
    ("photo.heic", b"\0\0\0\x18ftypheic\0\0\0\0", "HEIC pictures cannot be read; export it as JPEG"),
])
def test_what_is_no_picture_gets_a_sentence(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PictureError) as caught:
        predict(models.build_model(DIGITS, 0), DIGITS, tmp_path / name)
    assert words in caught.value.sentence


@pytest.mark.parametrize("name", ["", "gone.png"])
def test_a_folder_or_nothing_gets_a_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(PictureError, match="it is not a file"):
        predict(models.build_model(DIGITS, 0), DIGITS, tmp_path / name)


def test_samples_are_of_all_classes_and_always_the_same() -> None:
    test = load_sample(DIGITS).test
    samples = sample_pictures(test, 12)
    assert [sample.label for sample in samples] == [*range(10), 0, 1]
    assert [sample.png for sample in samples] == [sample.png for sample in sample_pictures(test, 12)]
    pictures = load_digits().images / 16
    assert all((pictures == sample.x[0]).all(axis=(1, 2)).any() for sample in samples)
    assert Image.open(io.BytesIO(samples[0].png)).size == (192, 192)
    assert len(sample_pictures(test, 10_000)) == 270
