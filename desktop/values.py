"""Kinds of values that a person can type: each says in words what it allows, and reads nothing else."""

from __future__ import annotations

import math
import re
import unicodedata
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

import msgspec

from desktop.errors import OptionError

T = TypeVar("T")


class Kind(Protocol[T]):
    """How one kind of value is read from text and written as text."""

    @property
    def row(self) -> str:
        """Which control the settings page shows: see state.SettingRow.kind."""

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""

    def read(self, text: str) -> T:
        """The value; ValueError when the text is not one that is allowed."""

    def write(self, value: T) -> str:
        """The text that `read` reads as this value."""


def checked(key: str, text: str, kind: Kind[T]) -> T:
    """The value that `text` stands for; OptionError with the key, the text and what is allowed."""
    try:
        return kind.read(text)
    except ValueError:
        raise OptionError(key=key, value=text, allowed=kind.allowed) from None


class Whole(msgspec.Struct, frozen=True):
    """A whole number from `low` to `high`; `also` is one further value with its meaning, (0, "any free one")."""

    low: int
    high: int
    also: tuple[int, str] | None = None
    row: ClassVar[str] = "number"

    @property
    def allowed(self) -> str:
        span = f"a whole number from {self.low} to {self.high}"
        return f"{span}, or {self.also[0]} for {self.also[1]}" if self.also else span

    def read(self, text: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", text):  # int() would take 1_000 and digits of other scripts too
            raise ValueError(text)
        value = int(text)
        if not (self.low <= value <= self.high or (self.also and value == self.also[0])):
            raise ValueError(text)
        return value

    def write(self, value: int) -> str:
        return str(value)


class Real(msgspec.Struct, frozen=True):
    """A number from `low` to `high`, or above `low` when it is open."""

    low: float
    high: float
    open_low: bool = False
    row: ClassVar[str] = "number"

    @property
    def allowed(self) -> str:
        if self.open_low:
            return f"a number above {self.low:g}, up to {self.high:g}"
        return f"a number from {self.low:g} to {self.high:g}"

    def read(self, text: str) -> float:
        if not re.fullmatch(r"-?[0-9.]{1,32}(e[-+]?[0-9]{1,3})?", text, re.IGNORECASE):
            raise ValueError(text)
        value = float(text)
        if not (self.low <= value <= self.high) or (self.open_low and value == self.low) or not math.isfinite(value):
            raise ValueError(text)
        return value

    def write(self, value: float) -> str:
        return f"{value:.12g}"


class Choice(msgspec.Struct, frozen=True):
    """One of a few words."""

    choices: tuple[str, ...]
    remark: str = ""
    row: ClassVar[str] = "choice"

    @property
    def allowed(self) -> str:
        return ", ".join(self.choices) + (f" ({self.remark})" if self.remark else "")

    def read(self, text: str) -> str:
        if text not in self.choices:
            raise ValueError(text)
        return text

    def write(self, value: str) -> str:
        return value


class Text(msgspec.Struct, frozen=True):
    """Text that fully matches `pattern`, of at most `longest` characters, each of which can be seen."""

    words: str
    pattern: str = r".*"
    longest: int = 200
    row: ClassVar[str] = "text"

    @property
    def allowed(self) -> str:
        return self.words

    def read(self, text: str) -> str:
        text = text.strip()
        hidden = any(unicodedata.category(character).startswith("C") for character in text)
        if hidden or len(text) > self.longest or not re.fullmatch(self.pattern, text):
            raise ValueError(text)
        return text

    def write(self, value: str) -> str:
        return value


class Share(msgspec.Struct, frozen=True):
    """I/N: the I-th of N equal parts."""

    most: int = 256
    row: ClassVar[str] = "text"

    @property
    def allowed(self) -> str:
        return f"I/N, the I-th of N equal parts, such as 1/3; N is at most {self.most}"

    def read(self, text: str) -> tuple[int, int]:
        match = re.fullmatch(r"([0-9]{1,4})/([0-9]{1,4})", text)
        if not match:
            raise ValueError(text)
        part, parts = int(match[1]), int(match[2])
        if not 1 <= part <= parts <= self.most:
            raise ValueError(text)
        return part, parts

    def write(self, value: tuple[int, int]) -> str:
        return f"{value[0]}/{value[1]}"


class Size(msgspec.Struct, frozen=True):
    """WxH in pixels."""

    row: ClassVar[str] = "text"

    @property
    def allowed(self) -> str:
        return "WIDTHxHEIGHT in pixels, 320 to 7680 each, such as 1280x800"

    def read(self, text: str) -> tuple[int, int]:
        match = re.fullmatch(r"([0-9]{3,4})x([0-9]{3,4})", text)
        if not match or not all(320 <= int(side) <= 7680 for side in match.groups()):
            raise ValueError(text)
        return int(match[1]), int(match[2])

    def write(self, value: tuple[int, int]) -> str:
        return f"{value[0]}x{value[1]}"


# A name, an IPv4 address, or an IPv6 address in brackets; then a port.
HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])"
PORT = r"([0-9]{1,5})"


def fits_port(text: str | None) -> bool:
    return text is None or 1 <= int(text) <= 65535


class Address(msgspec.Struct, frozen=True):
    """HOST:PORT of a room."""

    row: ClassVar[str] = "text"

    @property
    def allowed(self) -> str:
        return "HOST:PORT, such as 192.168.1.20:40123"

    def read(self, text: str) -> str:
        match = re.fullmatch(f"{HOST}:{PORT}", text)
        if not match or not fits_port(match[1]):
            raise ValueError(text)
        return text

    def write(self, value: str) -> str:
        return value


class Urls(msgspec.Struct, frozen=True):
    """URLs of servers, separated by commas; the first pattern group, where there is one, is the port."""

    pattern: str
    example: str
    row: ClassVar[str] = "text"

    @property
    def allowed(self) -> str:
        return f"one or more URLs separated by commas, such as {self.example}"

    def read(self, text: str) -> tuple[str, ...]:
        urls = tuple(part.strip() for part in text.split(",")) if text.strip() else ()
        for url in urls:
            match = re.fullmatch(self.pattern, url)
            if not match or not fits_port(match[1]):
                raise ValueError(text)
        return urls

    def write(self, value: tuple[str, ...]) -> str:
        return ",".join(value)


class TurnServer(msgspec.Struct, frozen=True):
    """A TURN server with the name and password it asks for."""

    url: str
    user: str
    credential: str


class Turns(msgspec.Struct, frozen=True):
    """TURN servers, separated by semicolons."""

    row: ClassVar[str] = "text"

    @property
    def allowed(self) -> str:
        return "turn:HOST:PORT|USER|PASSWORD, several separated by semicolons"

    def read(self, text: str) -> tuple[TurnServer, ...]:
        return tuple(self._server(part.strip()) for part in text.split(";")) if text.strip() else ()

    @staticmethod
    def _server(text: str) -> TurnServer:
        match = re.fullmatch(rf"(turns?:{HOST}(?::{PORT})?(?:\?transport=(?:udp|tcp))?)\|([^|;]+)\|([^|;]+)", text)
        if not match or not fits_port(match[2]):
            raise ValueError(text)
        return TurnServer(match[1], match[3], match[4])

    def write(self, value: tuple[TurnServer, ...]) -> str:
        return ";".join(f"{each.url}|{each.user}|{each.credential}" for each in value)


class Folder(msgspec.Struct, frozen=True):
    """A folder by its full path, there already or not; empty for the program's own."""

    row: ClassVar[str] = "text"

    @property
    def allowed(self) -> str:
        return "the full path of a folder, or nothing for the program's own"

    def read(self, text: str) -> str:
        if text and (not Path(text).is_absolute() or Path(text).is_file() or "\0" in text):
            raise ValueError(text)
        return text

    def write(self, value: str) -> str:
        return value


class MadeFolder(msgspec.Struct, frozen=True):
    """A folder that is made when it is not there; relative to where the program was started."""

    row: ClassVar[str] = "text"

    @property
    def allowed(self) -> str:
        return "a folder, there already or to be made"

    def read(self, text: str) -> Path:
        if not text or "\0" in text or (Path(text).exists() and not Path(text).is_dir()):
            raise ValueError(text)
        return Path(text).absolute()

    def write(self, value: Path) -> str:
        return str(value)


class NewFile(msgspec.Struct, frozen=True):
    """A file to write, in a folder that is there; `suffix` is how its name must end."""

    suffix: str = ""
    row: ClassVar[str] = "text"

    @property
    def allowed(self) -> str:
        return f"a file{f' whose name ends in {self.suffix}' if self.suffix else ''} in a folder that exists"

    def read(self, text: str) -> Path:
        path = Path(text)
        if not text or "\0" in text or not text.endswith(self.suffix) or path.is_dir() or not path.parent.is_dir():
            raise ValueError(text)
        return path.absolute()

    def write(self, value: Path) -> str:
        return str(value)


TASK_SUFFIX = ".peerloom-task"


class TaskRef(msgspec.Struct, frozen=True):
    """A built-in task by its id, or a task file that exists, as its full path."""

    ids: tuple[str, ...]
    row: ClassVar[str] = "text"

    @property
    def allowed(self) -> str:
        return f"{', '.join(self.ids)}, or a {TASK_SUFFIX} file that exists"

    def read(self, text: str) -> str:
        if text in self.ids:
            return text
        if not text.endswith(TASK_SUFFIX) or "\0" in text or not Path(text).is_file():
            raise ValueError(text)
        return str(Path(text).absolute())

    def write(self, value: str) -> str:
        return value


class Source(msgspec.Struct, frozen=True):
    """The sample data, or a folder or file of one's own, as its full path."""

    row: ClassVar[str] = "text"

    @property
    def allowed(self) -> str:
        return "sample, or a folder or file that exists"

    def read(self, text: str) -> str:
        if text == "sample":
            return text
        if not text or "\0" in text or not Path(text).exists():
            raise ValueError(text)
        return str(Path(text).absolute())

    def write(self, value: str) -> str:
        return value


STUN = Urls(rf"stuns?:{HOST}(?::{PORT})?", "stun:stun.example.org:3478")
RELAY = Urls(rf"wss?://{HOST}(?::{PORT})?(?:/[!-~]*)?", "wss://relay.example.org")
NAME = Text("1 to 40 characters that can be seen", r".{1,40}", 40)

