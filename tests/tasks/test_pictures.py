"""One picture: kinds of files, broken ones, and what the model reads of them. Values by hand or by numpy."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from desktop.errors import BrokenImageError
from desktop.tasks import pictures
from desktop.tasks.builtin import DIGITS, IMAGES

SMALL = IMAGES.changed(height=8, width=8)


def read(path: Path) -> np.ndarray:
    return np.asarray(pictures.read(path, side=1000))


def halves(size: tuple[int, int] = (40, 20)) -> Image.Image:
    """Red on the left, blue on the right."""
    image = Image.new("RGB", size, "blue")
    image.paste("red", (0, 0, size[0] // 2, size[1]))
    return image


def is_red(point: np.ndarray) -> bool:
    return bool(point[0] > 200 and point[2] < 60)


# -- rotated photographs ------------------------------------------------------------------------------


def orientations() -> dict[int, np.ndarray]:
    """For each EXIF orientation the array to store, such that what is seen is [[0, 1, 2], [3, 4, 5]]."""
    seen = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
    return {1: seen, 2: seen[:, ::-1], 3: seen[::-1, ::-1], 4: seen[::-1], 5: seen.T, 6: np.rot90(seen, 1),
            7: np.rot90(seen, 2).T, 8: np.rot90(seen, -1)}


@pytest.mark.parametrize(("kind", "options"), [("png", {}), ("tiff", {}), ("tiff", {"compression": "tiff_lzw"})])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_rotated_photograph_is_read_upright(tmp_path: Path, orientation: int, kind: str, options: dict[str, str]
                                               ) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"turned.{kind}"
    Image.fromarray(np.ascontiguousarray(orientations()[orientation])).save(path, exif=exif, **options)
    np.testing.assert_array_equal(read(path), orientations()[1])


def test_rotated_jpeg_keeps_width_and_height_apart(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the top of what is seen is at the left of what is stored
    halves().save(tmp_path / "phone.jpg", exif=exif, quality=95)
    upright = read(tmp_path / "phone.jpg")
    assert upright.shape == (40, 20, 3)
    assert is_red(upright[5, 10])
    assert not is_red(upright[35, 10])


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_damaged_exif_counts_as_upright(tmp_path: Path) -> None:
    halves().save(tmp_path / "odd.jpg", exif=b"Exif\0\0MM\0*\0\0\0\x08" + b"\xff" * 3)
    assert read(tmp_path / "odd.jpg").shape == (20, 40, 3)


# -- other kinds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["png", "tiff"])
def test_sixteen_bit_ramp_is_scaled_by_its_range_and_not_white(tmp_path: Path, kind: str) -> None:
    ramp = np.linspace(0, 65535, 256).astype(np.uint16).reshape(16, 16)
    Image.fromarray(ramp).save(tmp_path / f"ramp.{kind}")
    assert np.abs(read(tmp_path / f"ramp.{kind}").astype(int) - np.arange(256).reshape(16, 16)).max() <= 1


def test_twelve_of_sixteen_bits_are_not_black(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 1024, 4095]], np.uint16)).save(tmp_path / "xray.png")
    assert read(tmp_path / "xray.png").tolist() == [[0, 64, 255]]


def test_sixteen_bit_picture_of_one_tone(tmp_path: Path) -> None:
    Image.fromarray(np.full((4, 4), 32896, np.uint16)).save(tmp_path / "grey.png")
    assert set(read(tmp_path / "grey.png").flat) == {128}


def test_floating_point_tiff_with_a_hole(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0.0, 0.5, 1.0, np.nan]], np.float32)).save(tmp_path / "f.tiff")
    assert read(tmp_path / "f.tiff").tolist() == [[0, 128, 255, 0]]


def test_cmyk_jpeg_has_its_colours(tmp_path: Path) -> None:
    halves((32, 16)).convert("CMYK").save(tmp_path / "print.jpg", quality=95)
    points = read(tmp_path / "print.jpg")
    assert points.shape == (16, 32, 3)
    assert is_red(points[8, 4])
    assert points[8, 28, 2] > 200


def test_palette_has_its_colours(tmp_path: Path) -> None:
    halves((8, 8)).quantize(2).save(tmp_path / "p.png")
    assert is_red(read(tmp_path / "p.png")[0, 0])


def test_palette_with_transparency_lies_on_white(tmp_path: Path) -> None:
    image = Image.new("P", (4, 4), 0)
    image.putpalette([255, 0, 0, 0, 0, 255])
    image.putpixel((0, 0), 1)
    image.save(tmp_path / "p.png", transparency=b"\x00\xff")
    points = read(tmp_path / "p.png")
    assert points[0, 0].tolist() == [0, 0, 255]
    assert points[3, 3].tolist() == [255, 255, 255]


def test_alpha_lies_on_white(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (200, 0, 0, 0)).save(tmp_path / "clear.png")
    Image.new("LA", (4, 4), (0, 128)).save(tmp_path / "half.png")
    assert set(read(tmp_path / "clear.png").flat) == {255}
    assert set(read(tmp_path / "half.png").flat) == {127}  # 255 · (1 - 128/255)


def test_one_bit_and_animated_pictures(tmp_path: Path) -> None:
    Image.new("1", (4, 4), 1).save(tmp_path / "bit.png")
    assert set(read(tmp_path / "bit.png").flat) == {255}
    red, blue = Image.new("RGB", (4, 4), "red"), Image.new("RGB", (4, 4), "blue")
    red.save(tmp_path / "moves.gif", save_all=True, append_images=[blue])
    assert is_red(read(tmp_path / "moves.gif")[0, 0])


# -- broken pictures ----------------------------------------------------------------------------------


def broken(path: Path) -> str:
    with pytest.raises(BrokenImageError) as caught:
        pictures.read(path, side=1)
    assert path.name in caught.value.sentence
    return str(caught.value.details["why"])


@pytest.mark.parametrize("kind", ["jpg", "png", "bmp", "gif", "webp"])
def test_first_half_of_a_picture(tmp_path: Path, kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / f"whole.{kind}")
    whole = (tmp_path / f"whole.{kind}").read_bytes()
    (tmp_path / f"half.{kind}").write_bytes(whole[:len(whole) // 2])
    assert broken(tmp_path / f"half.{kind}") in ("the file is incomplete", "the file is damaged",
                                                 "what is in it is no picture of a known kind")


def test_half_of_a_jpeg_is_called_incomplete(tmp_path: Path) -> None:
    halves((200, 200)).save(tmp_path / "whole.jpg")
    whole = (tmp_path / "whole.jpg").read_bytes()
    (tmp_path / "half.jpg").write_bytes(whole[:len(whole) // 2])
    assert broken(tmp_path / "half.jpg") == "the file is incomplete"


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / "nothing.png").touch()
    assert broken(tmp_path / "nothing.png") == "the file is empty"


def test_text_named_png(tmp_path: Path) -> None:
    (tmp_path / "letter.png").write_text("Dear Sir or Madam")
    assert broken(tmp_path / "letter.png") == "what is in it is no picture of a known kind"


def test_file_that_is_gone(tmp_path: Path) -> None:
    assert broken(tmp_path / "gone.png") == "No such file or directory"


def test_postscript_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "program.png").write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\nshowpage\n")
    assert broken(tmp_path / "program.png") == "what is in it is no picture of a known kind"


def huge_png(path: Path, side: int) -> None:
    """A PNG whose header says side × side, with a few bytes of data: decoding it would need side² bytes."""
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b""))


@pytest.mark.parametrize("side", [10_001, 30_000, 2**31 - 1])
def test_huge_picture_is_refused_by_its_header(tmp_path: Path, side: int) -> None:
    huge_png(tmp_path / "poster.png", side)
    why = broken(tmp_path / "poster.png")
    assert f"{side:,} × {side:,} points, and at most 100,000,000 can be read" in why


# -- what the model reads -----------------------------------------------------------------------------


def test_wide_picture_keeps_its_proportions_on_white(tmp_path: Path) -> None:
    halves((80, 40)).save(tmp_path / "wide.png")
    points = pictures.pixels(tmp_path / "wide.png", SMALL)
    assert points.shape == (3, 8, 8)
    red, blue, white = [255, 0, 0], [0, 0, 255], [255, 255, 255]
    expected = [[white] * 8] * 2 + [[red] * 4 + [blue] * 4] * 4 + [[white] * 8] * 2
    np.testing.assert_array_equal(points.transpose(1, 2, 0), expected)


def test_width_and_height_are_not_swapped(tmp_path: Path) -> None:
    halves((40, 20)).save(tmp_path / "wide.png")
    points = pictures.pixels(tmp_path / "wide.png", IMAGES.changed(height=10, width=20))
    assert points.shape == (3, 10, 20)
    assert (points[0, :, :10] == 255).all()
    assert (points[2, :, 10:] == 255).all()


def test_a_line_of_points_does_not_vanish(tmp_path: Path) -> None:
    Image.new("RGB", (2000, 1), "black").save(tmp_path / "line.png")
    assert (pictures.pixels(tmp_path / "line.png", SMALL) == 0).sum() == 3 * 8


def test_large_jpeg_is_read_small_but_alike(tmp_path: Path) -> None:
    halves((2000, 2000)).save(tmp_path / "large.jpg", quality=90)
    points = pictures.pixels(tmp_path / "large.jpg", SMALL).transpose(1, 2, 0)
    assert is_red(points[4, 1])
    assert not is_red(points[4, 6])


def test_colour_for_a_grey_task_is_made_grey(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "red.png")
    points = pictures.pixels(tmp_path / "red.png", SMALL.changed(channels=1))
    assert points.shape == (1, 8, 8)
    assert set(points.flat) == {76}  # 0.299 · 255 (ITU-R 601)


# -- strokes: digits ----------------------------------------------------------------------------------

REAL = load_digits().images  # 0 to 16


def enlarged(digit: np.ndarray) -> Image.Image:
    return Image.fromarray((digit * (255 / 16)).round().astype(np.uint8)).resize((192, 192), Image.Resampling.NEAREST)


def test_every_sample_digit_is_read_back_as_it_is(tmp_path: Path) -> None:
    for digit in REAL[::20]:
        enlarged(digit).save(tmp_path / "digit.png")
        points = pictures.pixels(tmp_path / "digit.png", DIGITS)[0]
        np.testing.assert_array_equal(points, (digit * (255 / 16)).round())


def test_dark_on_light_is_inverted(tmp_path: Path) -> None:
    for digit in REAL[::20]:
        Image.fromarray(255 - np.asarray(enlarged(digit))).save(tmp_path / "ink.png")
        np.testing.assert_array_equal(pictures.pixels(tmp_path / "ink.png", DIGITS)[0],
                                      (digit * (255 / 16)).round())


def test_small_digit_on_a_grey_sheet_fills_the_height_and_is_bright(tmp_path: Path) -> None:
    sheet = np.full((300, 400), 200, np.uint8)
    sheet[100:180, 210:220] = 60  # a “1” of 80 × 10, off the middle
    Image.fromarray(sheet).convert("RGB").save(tmp_path / "one.png")
    points = pictures.pixels(tmp_path / "one.png", DIGITS)[0]
    assert points[:, 3:5].max(axis=1).min() > 100  # in each of the 8 rows, in the middle
    assert points[:, :2].max() == points[:, 6:].max() == 0


def test_blank_sheet_is_black(tmp_path: Path) -> None:
    Image.new("L", (50, 50), 230).save(tmp_path / "blank.png")
    assert pictures.pixels(tmp_path / "blank.png", DIGITS).shape == (1, 8, 8)
