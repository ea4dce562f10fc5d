"""Size and speed of a model before there is data."""

from __future__ import annotations

from desktop.tasks.builtin import DIGITS, IMAGES
from desktop.trainer.measure import measure


def test_size_and_speed_are_found_without_data() -> None:
    parameters, samples_per_s = measure(DIGITS)
    # 3·3·1·16+16, 2·16, 3·3·16·32+32, 2·32, 512·64+64, 64·10+10
    assert parameters == 160 + 32 + 4640 + 64 + 32832 + 650
    assert samples_per_s is not None
    assert samples_per_s > 0


def test_classes_that_data_decides_are_taken_as_two() -> None:
    assert measure(IMAGES)[0] == measure(IMAGES.with_classes(["a", "b"]))[0]
