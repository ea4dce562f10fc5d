"""Numbers as people read them: by locale, with a unit, and a dash for what is not a number."""

from __future__ import annotations

import math

from PySide6.QtCore import QCoreApplication, QDateTime, QLocale, Qt

DASH = "–"


def tr(text: str) -> str:
    """Translate a sentence that belongs to numbers, not to a widget."""
    return QCoreApplication.translate("formats", text)


def number(value: float | None, decimals: int = 0) -> str:
    """A plain number, or a dash when there is none or it is not finite."""
    if value is None or not math.isfinite(value):
        return DASH
    locale = QLocale()
    return locale.toString(round(value)) if decimals == 0 else locale.toString(float(value), "f", decimals)


def figure(value: float | None) -> str:
    """A number of any size, to about three digits: "0.231", "0.00042", "12,346"."""
    if value is None or not math.isfinite(value):
        return DASH
    size = abs(value)
    if size == 0:
        return number(value, 3)
    digits = math.floor(math.log10(size))
    return number(value, min(9, 3 - max(0, digits) if digits >= -2 else 2 - digits) if digits < 3 else 0)


def rate(value: float | None) -> str:
    """A number with about three significant digits."""
    if value is None or not math.isfinite(value):
        return DASH
    return number(value, 0 if abs(value) >= 10 else 1)


def percent(share: float | None, decimals: int = 1) -> str:
    """A share of 0..1 in per cent."""
    if share is None or not math.isfinite(share):
        return DASH
    return tr("{number} %").format(number=number(100 * share, decimals))


def size(count: float | None) -> str:
    """Bytes in the unit that gives a short number: "0.9 MB"."""
    if count is None or not math.isfinite(count):
        return DASH
    if count <= 0:
        return tr("0 MB")
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if count >= factor / 10:
            scaled = count / factor
            return f"{number(scaled, 1 if scaled < 100 else 0)} {unit}"
    return f"{number(max(count, 100) / 1e3, 1 if count < 1e4 else 0)} kB"


def megabytes(count: float) -> str:
    """Bytes in MB without the unit, for a pair that shares one."""
    return "0" if count <= 0 else number(count / 1e6, 1 if count < 1e8 else 0)


def duration(seconds: float | None) -> str:
    """A length of time in at most two units: "4 s", "3 min", "1 h 5 min"."""
    if seconds is None or not math.isfinite(seconds):
        return DASH
    whole = max(0, round(seconds))
    if whole < 60:
        return tr("{n} s").format(n=whole)
    if whole < 3600:
        return tr("{n} min").format(n=round(whole / 60))
    hours, minutes = divmod(round(whole / 60), 60)
    return tr("{h} h {m} min").format(h=hours, m=minutes)


def time_left(seconds: float | None) -> str:
    """"about 3 min left", or "" when nobody knows."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    return tr("about {time} left").format(time=duration(seconds))


def counted(count: int, one: str, many: str) -> str:
    """A count with its noun: `one` is said for 1, `many` (which holds {n}) for all else."""
    return one if count == 1 else many.format(n=number(count))


def milliseconds(value: float | None) -> str:
    """A time in ms: "23 ms"."""
    if value is None or not math.isfinite(value):
        return DASH
    return tr("{n} ms").format(n=number(value, 0 if value >= 1 else 1))


def short_digest(digest: str) -> str:
    """The first eight characters of a digest in two groups: "9f2c 41d0"."""
    return f"{digest[:4]} {digest[4:8]}".strip()


def moment(iso: str) -> str:
    """A date and time as this computer writes them, in its own time zone; what is not ISO 8601 stays as it is."""
    read = QDateTime.fromString(iso, Qt.DateFormat.ISODate)
    return QLocale().toString(read.toLocalTime(), QLocale.FormatType.ShortFormat) if read.isValid() else iso
