"""One picture: from a file of any kind to the points that a model reads, the same for training and for trying."""

from __future__ import annotations

import io
import struct
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError

from desktop.errors import BrokenImageError
from desktop.tasks.spec import TaskSpec

Pixels = npt.NDArray[np.uint8]

MOST_POINTS = 100_000_000  # of one picture: 300 MB when decoded
# Pillow's own guard would warn at 89 million points and raise at twice that, and not say the size. The limit here
# is checked between reading a file's header and decoding it.
Image.MAX_IMAGE_PIXELS = None

# Remarks of its readers about damaged EXIF parts: nothing that a person could act on.
warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")

Image.init()
# Named, because others open programs (EPS runs Ghostscript) or hold further pictures whose size nobody checked.
FORMATS = tuple(name for name in ("JPEG", "PNG", "BMP", "GIF", "WEBP", "TIFF", "PPM", "MPO", "AVIF")
                if name in Image.OPEN)
SUFFIXES = frozenset((".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".bmp", ".dib", ".gif", ".webp", ".tif",
                      ".tiff", ".ppm", ".pgm", ".pbm", ".mpo", ".avif", ".heic", ".heif"))

FAINT = 0.2  # of the brightest: what is below is the paper's grain, not a stroke

UPRIGHT = {  # what undoes each EXIF orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def read(path: Path, side: int) -> Image.Image:
    """The picture upright, with 8 bits per channel, in mode L or RGB. BrokenImageError says why it cannot be.

    `side` is how many points a side are needed: JPEGs are decoded at the smallest size that is not below it,
    which reads the whole file, and finds what is broken, in a fraction of the time.
    """
    try:
        # Given the path, Pillow 13 maps plain TIFFs into memory and garbles those that are turned.
        with path.open("rb") as file, Image.open(file, formats=FORMATS) as image:
            if image.width * image.height > MOST_POINTS:
                raise BrokenImageError(place=path.name, why=f"it has {image.width:,} × {image.height:,} points, and at "
                                                            f"most {MOST_POINTS:,} can be read")
            image.draft(None, (side, side))
            image.load()
            return _eight_bits(_upright(image))
    except BrokenImageError:
        raise
    except Exception as error:  # Pillow's readers raise whatever a damaged file leads them to, even KeyError
        raise BrokenImageError(place=path.name, why=_reason(path, error)) from error


def _reason(path: Path, error: Exception) -> str:
    """In words what kept a picture from being read."""
    try:
        size = path.stat().st_size
    except OSError:
        size = -1
    if size == 0:
        return "the file is empty"
    if isinstance(error, UnidentifiedImageError):
        if path.suffix.lower() in (".heic", ".heif"):
            return "HEIC pictures cannot be read; export it as JPEG"
        return "what is in it is no picture of a known kind"
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or "it cannot be read"
    if isinstance(error, EOFError | struct.error) or "truncated" in str(error).lower():
        return "the file is incomplete"
    if isinstance(error, MemoryError):
        return "it does not fit in the memory"
    return "the file is damaged"


def _upright(image: Image.Image) -> Image.Image:
    """Turned as its EXIF orientation says. An EXIF part that is damaged counts as upright."""
    try:
        orientation = image.getexif().get(0x0112)
    except Exception:  # see `read`
        orientation = None
    turn = UPRIGHT.get(orientation) if isinstance(orientation, int) else None
    return image.transpose(turn) if turn is not None else image


def _eight_bits(image: Image.Image) -> Image.Image:
    """In mode L or RGB: alpha over white; more than 8 bits scaled by the picture's own range."""
    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return Image.fromarray(_by_range(np.asarray(image).astype(np.float32), image.mode))
    if image.mode in ("L", "RGB") and not image.has_transparency_data:
        return image
    if image.mode == "1":
        return image.convert("L")
    if image.has_transparency_data:
        over = Image.new("RGBA", image.size, "white")
        over.alpha_composite(image.convert("RGBA"))
        image = over
    return image.convert("RGB")


def _by_range(values: npt.NDArray[np.float32], mode: str) -> Pixels:
    """Darkest to brightest as 0 to 255: cameras and scanners use 10, 12 or 14 of the 16 bits and do not say which."""
    np.nan_to_num(values, copy=False, posinf=0.0, neginf=0.0)
    low, high = float(values.min()), float(values.max())
    if high > low:
        values = (values - np.float32(low)) * np.float32(255 / (high - low))
    elif mode.startswith("I;16"):
        values = values / np.float32(257)
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def pixels(path: Path, spec: TaskSpec) -> Pixels:
    """The points that the model reads: uint8 [channels, height, width], 0 to 255. BrokenImageError if it cannot.

    The whole picture is kept in its proportions, in the middle, on white (on black for strokes).
    """
    image = read(path, side=256 if spec.images.strokes else 2 * max(spec.images.height, spec.images.width))
    if spec.images.strokes:
        image = strokes(image.convert("L"))
    image = image.convert("L" if spec.images.channels == 1 else "RGB")
    fitted = np.asarray(fit(image, spec.images.height, spec.images.width, 0 if spec.images.strokes else 255))
    return fitted[np.newaxis] if fitted.ndim == 2 else np.ascontiguousarray(fitted.transpose(2, 0, 1))


def fit(image: Image.Image, height: int, width: int, around: int) -> Image.Image:
    """The whole picture in its proportions in the middle of `height` × `width`, with grey level `around` beside it."""
    scale = min(width / image.width, height / image.height)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    # Averaging over areas is how the digits were made; enlarging needs something smoother.
    how = Image.Resampling.BOX if scale < 1 else Image.Resampling.BICUBIC
    small = image.resize(size, how)
    if size == (width, height):
        return small
    canvas = Image.new(image.mode, (width, height), around if image.mode == "L" else (around,) * 3)
    canvas.paste(small, ((width - size[0]) // 2, (height - size[1]) // 2))
    return canvas


def strokes(image: Image.Image) -> Image.Image:
    """A grey picture as bright strokes on black, as the sample digits are.

    Dark on light (the border is brighter than what it surrounds) is inverted. Strokes that fill the height are left
    as they are; others, say a digit on a sheet of paper, are freed from the paper's tone, brought to full brightness
    and cut out, with the sides filled up to a square.
    """
    image.thumbnail((256, 256), Image.Resampling.BOX)
    ink = np.asarray(image).astype(np.int32)
    if min(ink.shape) < 3:
        return image
    border = np.concatenate((ink[0], ink[-1], ink[1:-1, 0], ink[1:-1, -1]))
    if np.median(border) > ink[1:-1, 1:-1].mean():
        ink, border = 255 - ink, 255 - border
    paper = int(np.median(border))
    rows, columns = _extent(ink > paper + FAINT * (ink.max() - paper))
    if rows.stop - rows.start < 0.8 * ink.shape[0]:
        ink = np.maximum(ink - paper, 0)[rows, columns]
        peak = max(1, int(ink.max()))
        ink = np.where(ink > FAINT * peak, ink * 255 // peak, 0)  # fainter: paper
        beside = max(0, ink.shape[0] - ink.shape[1])
        ink = np.pad(ink, ((0, 0), (beside // 2, beside - beside // 2)))
    return Image.fromarray(ink.astype(np.uint8))


def _extent(mask: npt.NDArray[np.bool_]) -> tuple[slice, slice]:
    """The smallest rows and columns that hold all that is true; everything when nothing is."""
    slices = []
    for axis in (1, 0):
        hit = np.flatnonzero(mask.any(axis=axis))
        slices.append(slice(int(hit[0]), int(hit[-1]) + 1) if hit.size else slice(0, mask.shape[1 - axis]))
    return slices[0], slices[1]


def png(points: Pixels, side: int) -> bytes:
    """uint8 [channels, height, width] as PNG, its longer side `side` points; a few points stay visible squares."""
    image = Image.fromarray(points[0] if points.shape[0] == 1 else np.ascontiguousarray(points.transpose(1, 2, 0)))
    longer = max(image.size)
    how = Image.Resampling.NEAREST if longer <= 16 else Image.Resampling.BICUBIC
    size = (max(1, round(image.width * side / longer)), max(1, round(image.height * side / longer)))
    out = io.BytesIO()
    image.resize(size, how).save(out, "PNG", compress_level=1)
    return out.getvalue()
