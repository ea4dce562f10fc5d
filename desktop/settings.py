"""Every setting, declared once: key, kind, default, title and sentence; and the file that keeps them."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from pathlib import Path
from typing import Any, Generic, TypeVar, cast, overload

from desktop.errors import OptionError, PeerloomError, SettingsFileError, SettingsSaveError, UnknownSettingError
from desktop.state import SettingRow
from desktop.values import STUN, Choice, Folder, Kind, Real, Text, Turns, TurnServer, Whole, checked

log = logging.getLogger(__name__)
T = TypeVar("T")


class Setting(Generic[T]):
    """One setting, as an attribute of `Settings` that is checked when it is set."""

    def __init__(self, kind: Kind[T], default: T, title: str, text: str) -> None:
        self.kind, self.default, self.title, self.text = kind, default, title, text

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = name

    @overload
    def __get__(self, settings: None, owner: type) -> Setting[T]: ...
    @overload
    def __get__(self, settings: Settings, owner: type) -> T: ...
    def __get__(self, settings: Settings | None, owner: type) -> Setting[T] | T:
        if settings is None:
            return self
        return cast(T, settings.values.get(self.key, self.default))

    def __set__(self, settings: Settings, value: T) -> None:
        settings.set(self.key, self.kind.write(value))


def cores() -> int:
    """Processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Settings:
    """All settings. `settings.port` reads one, `settings.set("port", "7000")` checks and sets one.

    What an option of this start says (`override`) holds for this start only and is not saved.
    """

    name = Setting(Text("up to 40 characters that can be seen, or nothing for a new one", r".{0,40}", 40), "",
                   "Name", "What the others in a room call this window. Empty: two words are drawn.")
    theme = Setting(Choice(("system", "light", "dark")), "system", "Theme", "Light or dark, or as the system says.")
    cpu_share = Setting(Whole(1, cores()), max(1, cores() - 1),
                        "CPU share", "Processor cores that training may use. One core left over keeps windows fluid.")
    seed = Setting(Whole(0, 2**32 - 1), 42, "Seed", "Where chance begins: the same seed shuffles and starts alike.")
    min_members = Setting(Whole(1, 256), 2, "Members to start with", "A room starts when this many members are ready.")
    models_folder = Setting(Folder(), "", "Models folder", "Where models are saved. Empty: the program's own folder.")
    port = Setting(Whole(1024, 65535, (0, "any free one")), 0,
                   "Port", "Where this window listens when it hosts a room. 0: any free one.")
    reach = Setting(Choice(("auto", "network", "internet", "relay")), "auto", "Reach",
                    "Which servers help to find members, from the next room on. auto: those below, but none in a room "
                    "on this network. network: none, ever. internet: those below. relay: TURN carries all packets.")
    ice_servers = Setting(STUN, ("stun:stun.cloudflare.com:3478", "stun:stun.l.google.com:19302"), "STUN servers",
                          "Servers that tell a window its address on the internet. The quickest to answer is used.")
    turn = Setting(Turns(), cast(tuple[TurnServer, ...], ()),
                   "TURN servers", "Servers that pass packets on where no direct way is open.")
    heartbeat_s = Setting(Real(0.2, 60), 2.0, "Heartbeat, s", "How often members show each other that they are there.")
    silent_s = Setting(Real(1, 600), 8.0, "Silent, s", "A member that is silent for so long counts as lost.")
    stop_timeout_s = Setting(Real(1, 600), 10.0,
                             "Stop time-out, s", "Training that has not stopped after so long is ended by force.")
    log_level = Setting(Choice(("debug", "info", "warning")), "info", "Log level", "How much the log tells.")

    __slots__ = ("file", "overridden", "problems", "unknown", "values")  # so that a mistyped setting raises

    def __init__(self, file: Path | None = None) -> None:
        """The defaults; `load` reads a file. Without a file nothing is kept."""
        self.file = file
        self.values: dict[str, Any] = {}  # what was set
        self.unknown: dict[str, Any] = {}  # of another version of the program, kept as it was
        self.overridden: dict[str, Any] = {}  # what to save where an option holds for this start only
        self.problems: list[PeerloomError] = []  # what could not be used on loading, to be shown

    @classmethod
    def load(cls, file: Path) -> Settings:
        """Reads the file. What cannot be used is left at its default, said in `problems` and logged."""
        settings = cls(file)
        for key, value in settings._read().items():
            if key not in DECLARED:
                settings.unknown[key] = value
                log.info("%s holds %s, which this version does not know; it is kept", file, key)
                continue
            try:
                settings._put(key, value if isinstance(value, str) else json.dumps(value))
            except OptionError as problem:
                settings._note(problem)
        try:
            settings._agree()
        except OptionError as problem:
            settings._note(problem)
            settings.values.pop("heartbeat_s", None)
            settings.values.pop("silent_s", None)
        return settings

    def set(self, key: str, text: str) -> None:
        """Sets one from text; OptionError with what is allowed, UnknownSettingError. `save` keeps it."""
        before = dict(self.values)
        self._put(key, text)
        try:
            self._agree()
        except OptionError:
            self.values = before
            raise
        self.overridden.pop(key, None)

    def override(self, key: str, text: str) -> None:
        """Sets one for this start only."""
        saved = self.overridden.get(key, getattr(self, declared(key).key))
        self.set(key, text)
        self.overridden[key] = saved

    def save(self) -> None:
        """Writes what differs from the defaults, aside first, then in place; SettingsSaveError."""
        if self.file is None:
            return
        tree = dict(self.unknown)
        for key, value in {**self.values, **self.overridden}.items():
            if value != declared(key).default:
                tree[key] = value if isinstance(value, str | int | float) else declared(key).kind.write(value)
        aside = self.file.with_name(f"{self.file.name}.{os.getpid()}.part")
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with aside.open("w", encoding="utf-8") as stream:
                json.dump(tree, stream, indent=2, ensure_ascii=False)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(aside, self.file)
        except OSError as error:
            raise SettingsSaveError(place=self.file, why=error.strerror or str(error)) from error
        finally:
            with contextlib.suppress(OSError):
                aside.unlink(missing_ok=True)

    def rows(self) -> tuple[SettingRow, ...]:
        """All settings with their values, in the order of their declaration."""
        return tuple(
            SettingRow(key=key, title=each.title, text=each.text, value=each.kind.write(getattr(self, key)),
                       kind=each.kind.row, choices=getattr(each.kind, "choices", ()),
                       default=each.kind.write(each.default))
            for key, each in DECLARED.items()
        )

    def _put(self, key: str, text: str) -> None:
        self.values[key] = checked(key, text, declared(key).kind)

    def _agree(self) -> None:
        """Between two heartbeats nobody may count as lost."""
        if self.silent_s < 2 * self.heartbeat_s:
            raise OptionError(key="silent_s", value=f"{self.silent_s:g}",
                              allowed=f"at least twice heartbeat_s, which is {self.heartbeat_s:g}")

    def _note(self, problem: PeerloomError) -> None:
        self.problems.append(problem)
        log.warning("%s in %s", problem.sentence, self.file)

    def _read(self) -> dict[str, Any]:
        """What the file holds; nothing when it cannot be read, which is said. A broken file is put aside."""
        assert self.file is not None
        kept = self.file
        try:
            tree = json.loads(self.file.read_text("utf-8"))
            if not isinstance(tree, dict):
                raise ValueError("it is not a table of keys and values")
            return tree
        except FileNotFoundError:
            return {}
        except OSError as error:
            why = error.strerror or str(error)
        except ValueError as error:  # JSON's and the encoding's errors too
            why = str(error)
            kept = self.file.with_name("settings.broken.json")
            with contextlib.suppress(OSError):  # then the next save writes over it, as it would have to anyway
                os.replace(self.file, kept)
        self._note(SettingsFileError(place=self.file, why=why, kept=kept))
        return {}


DECLARED: dict[str, Setting[Any]] = {key: each for key, each in vars(Settings).items() if isinstance(each, Setting)}


def declared(key: str) -> Setting[Any]:
    """The declaration of a setting; UnknownSettingError."""
    if key not in DECLARED:
        raise UnknownSettingError(key=key)
    return DECLARED[key]
