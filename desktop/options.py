"""Command-line options and peerloom:// links, checked, as one frozen `Options`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from desktop.errors import (
    MissingValueError,
    OptionError,
    OptionNeedsError,
    OptionsClashError,
    RepeatedOptionError,
    UnknownOptionError,
)
from desktop.rooms.invite import OPTION_KEYS, Invite
from desktop.settings import declared
from desktop.values import (
    NAME,
    RELAY,
    TASK_SUFFIX,
    Address,
    Choice,
    Kind,
    MadeFolder,
    NewFile,
    Real,
    Share,
    Size,
    Source,
    TaskRef,
    Text,
    TurnServer,
    Whole,
    checked,
)

# The ids of tasks.builtin, which a start without --task need not import.
TASKS = ("digits", "penguins", "shakespeare", "images", "table", "text", "mnist", "mnist-mlp", "lus_covid", "cifar10",
         "simple_face", "titanic", "wikitext")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What this start was asked for. None: not given, the task or the setting decides."""

    link: str = ""  # peerloom://..., as it was given
    task: str | None = None
    data: str | None = None  # "sample" or the full path of a folder or file
    share: tuple[int, int] = (1, 1)
    room: str | None = None  # a room's code
    at: str | None = None  # where that room is, "host:port"
    host: bool = False
    members: int | None = None
    loopback: bool = False
    backend: str = "auto"
    batch: int | None = None
    lr: float | None = None
    local_steps: int | None = None
    local_epochs: float | None = None
    rounds: int | None = None
    precision: str | None = None
    weighting: str | None = None
    topology: str | None = None
    outer: str | None = None
    outer_lr: float | None = None
    outer_momentum: float | None = None
    late: str | None = None
    seed: int | None = None
    ice: tuple[str, ...] | None = None
    turn: tuple[TurnServer, ...] | None = None
    reach: str | None = None
    relay: tuple[str, ...] | None = None
    start: bool = False
    demo: int | None = None
    report: Path | None = None
    screenshot: Path | None = None
    quit_when_done: bool = False
    name: str | None = None
    port: int | None = None
    theme: str | None = None
    profile: Path | None = None
    new_instance: bool = False
    window_size: tuple[int, int] | None = None
    version: bool = False
    help: bool = False
    link_values: dict[str, Any] = {}  # what the link holds besides the room, by key, checked

    @classmethod
    def parse(cls, arguments: Sequence[str]) -> Options:
        """Reads what follows the program's name; every refusal is an error of errors.py with its sentence."""
        if {"-h", "--help"} & set(arguments):
            return cls(help=True)
        texts = split(arguments)
        refuse_clashes(texts)
        link = texts.pop("link", "")
        fields: dict[str, Any] = {"link": link, "link_values": link_values(link) if link else {}}
        for key, text in texts.items():
            kind = OPTIONS[key].kind
            fields[key.replace("-", "_")] = checked(f"--{key}", text, kind) if kind else True
        return cls(**fields)

    def settings(self) -> dict[str, str]:
        """The settings that these options replace for this start, as text for `Settings.override`."""
        given = {key: getattr(self, option) for key, option in SETTINGS.items()}
        return {key: declared(key).kind.write(value) for key, value in given.items() if value is not None}


class Declared(msgspec.Struct, frozen=True):
    """One option: its kind (None: a switch), what it is called in --help, and what it does."""

    kind: Kind[Any] | None
    value: str
    text: str  # "" keeps it out of --help


OPTIONS: dict[str, Declared] = {
    "task": Declared(TaskRef(TASKS), "ID|FILE",
                     "what to train: digits, penguins, shakespeare, another built-in task, a task file"),
    "data": Declared(Source(), "PATH|sample", "a folder of pictures or text, a table, a text file, or sample"),
    "share": Declared(Share(), "I/N", "take the I-th of N equal parts of the sample data"),
    "host": Declared(None, "", "open a room"),
    "members": Declared(Whole(1, 256), "N", "with a room of one's own: it starts when N members are ready"),
    "room": Declared(Text("the code that the host's window shows", r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", 64), "CODE",
                     "join a room by its code"),
    "at": Declared(Address(), "HOST:PORT", "with --room: where the room is, when it is not found nearby"),
    "loopback": Declared(None, "", "a room on this computer only"),
    "backend": Declared(Choice(("auto", "cpu", "cuda", "mps")), "NAME", "train on auto, cpu, cuda or mps"),
    "batch": Declared(Whole(1, 65536), "N", "samples per step"),
    "lr": Declared(Real(0, 10, open_low=True), "X", "learning rate"),
    "local-steps": Declared(Whole(1, 100_000), "H", "steps between two exchanges"),
    "local-epochs": Declared(Real(0, 1000), "E",
                             "the same counted by passes through a member's data"),
    "rounds": Declared(Whole(1, 1_000_000), "N", "how many rounds to train"),
    "precision": Declared(Choice(("f32", "f16", "int8")), "P", "what travels: f32, f16 or int8"),
    "weighting": Declared(Choice(("samples", "equal")), "W", "members weigh by their samples, or equal"),
    "topology": Declared(Choice(("butterfly", "star")), "T",
                         "butterfly: all add up; star: the leader does, if it alone has a fast link"),
    "outer": Declared(Choice(("none", "momentum", "nesterov")), "O",
                      "outer optimiser on the members' mean: none, momentum or nesterov (DiLoCo)"),
    "outer-lr": Declared(Real(0, 10, open_low=True), "X", "learning rate of the outer optimiser, 0.7 if not given"),
    "outer-momentum": Declared(Real(0, 0.999), "X", "momentum of the outer optimiser, 0.9 if not given"),
    "late": Declared(Choice(("drop", "carry")), "L",
                     "work that misses its round: drop it, or carry it into a later one"),
    "seed": Declared(declared("seed").kind, "N", "where chance begins"),
    "ice": Declared(declared("ice_servers").kind, "URL,...", "STUN servers"),
    "turn": Declared(declared("turn").kind, "'turn:HOST:PORT|USER|PASSWORD;...'", "TURN servers"),
    "reach": Declared(declared("reach").kind, "R", "which servers may help: auto, network (none), internet, or relay "
                                                   "(TURN alone)"),
    "relay": Declared(RELAY, "URL,...", "Nostr relays to meet through"),
    "start": Declared(None, "", "press Start"),
    "demo": Declared(Whole(2, 8), "N", "open N windows on this computer, join them in one room and train"),
    "report": Declared(NewFile(), "FILE", "append the session's state as a JSON line each second and at each event"),
    "screenshot": Declared(NewFile(".png"), "FILE", "save a picture of the window at the end"),
    "quit-when-done": Declared(None, "", "close the window when training has ended"),
    "name": Declared(NAME, "NAME", "what the others call this window"),
    "port": Declared(declared("port").kind, "N", "where to listen when hosting; 0: any free one"),
    "theme": Declared(declared("theme").kind, "T", "light, dark or system"),
    "profile": Declared(MadeFolder(), "DIR", "keep settings, models and identity in DIR"),
    "new-instance": Declared(None, "", "open a window of its own even when one is open"),
    "window-size": Declared(Size(), "WxH", ""),
    "version": Declared(None, "", "say the version"),
}

# What the host of a room decides for all members.
TRAINING_KEYS = ("task", "batch", "lr", "local-steps", "local-epochs", "rounds", "precision", "weighting", "topology",
                 "outer", "outer-lr", "outer-momentum", "late", "seed")
# Settings that an option replaces for this start, with the option's field.
SETTINGS = {"name": "name", "theme": "theme", "seed": "seed", "port": "port", "ice_servers": "ice", "turn": "turn",
            "reach": "reach", "min_members": "members"}
# Pairs that contradict each other, and why.
ROOM_DECIDES = "the room's host decides it for all members"
ONE_WAY = "a window is in one room"
CLASHES = [
    ("local-epochs", "local-steps", "local steps are counted one way or the other"),
    ("host", "link", ONE_WAY), ("host", "room", ONE_WAY), ("room", "link", ONE_WAY), ("at", "link", ONE_WAY),
    *(("demo", other, "the demo opens a room of its own") for other in ("link", "room", "host", "share", "members")),
    *((key, other, ROOM_DECIDES) for key in (*TRAINING_KEYS, "members") for other in ("link", "room")),
]


def validate(key: str, text: str) -> Any:
    """The value of a key that a room or its link holds, such as ("batch", "32"); OptionError, UnknownOptionError."""
    if key not in OPTION_KEYS:
        raise UnknownOptionError(key=key)
    kind = OPTIONS[key].kind
    assert kind is not None
    return checked(key, text, kind)


def link_values(link: str) -> dict[str, Any]:
    """The checked values that a room's link holds besides the room itself; LinkError, OptionError."""
    return {key: validate(key, text) for key, text in Invite.parse(link).options.items()}


def split(arguments: Iterable[str]) -> dict[str, str]:
    """Cuts `--key value`, `--key=value`, switches and the link apart; keys without dashes, the link as "link"."""
    texts: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        key, text = "task" if argument.endswith(TASK_SUFFIX) else "link", argument
        if argument.startswith("-"):
            flag, equals, text = argument.partition("=")
            key = flag.removeprefix("--")
            if key not in OPTIONS or not flag.startswith("--"):
                raise UnknownOptionError(key=flag)
            kind = OPTIONS[key].kind
            if kind is None and equals:
                raise OptionError(key=flag, value=text, allowed=f"no value, only {flag}")
            if kind is not None and not equals:
                text = next(rest, "--")
                if text.startswith("--"):
                    raise MissingValueError(key=flag, allowed=kind.allowed)
        if key in texts:
            raise RepeatedOptionError(key="The link" if key == "link" else f"--{key}")
        texts[key] = text
    return texts


def refuse_clashes(texts: dict[str, str]) -> None:
    """Refuses options of which one would silently do nothing."""
    for key, other, why in CLASHES:
        if key in texts and other in texts:
            raise OptionsClashError(key=f"--{key}", other="a link" if other == "link" else f"--{other}", why=why)
    if "at" in texts and "room" not in texts:
        raise OptionNeedsError(key="--at", other="--room")
    for key in ("outer-lr", "outer-momentum"):
        if key in texts and texts.get("outer", "none") == "none":
            raise OptionNeedsError(key=f"--{key}", other="--outer momentum or --outer nesterov")
    if "share" in texts and texts.get("data") != "sample":
        raise OptionNeedsError(key="--share", other="--data sample")
    if "demo" in texts and texts.get("data", "sample") != "sample":
        raise OptionsClashError(key="--demo", other=f"--data {texts['data']}", why="the demo trains on the sample data")


def help_text() -> str:
    """What --help prints."""
    rows = [(f"--{key} {each.value}".rstrip(), each.text) for key, each in OPTIONS.items() if each.text]
    lines = [f"  {left:<28}{text}" if len(left) < 28 else f"  {left}\n{'':30}{text}" for left, text in rows]
    return "\n".join(["usage: peerloom [LINK|FILE] [options]", "",
                      "Train one model together with others, each with data of their own that stays with them.", "",
                      f"  {'LINK':<28}a room's peerloom:// link: join that room",
                      f"  {'FILE':<28}a {TASK_SUFFIX} file: take that task", *lines, ""])


def refuse(error: Exception) -> int:
    """Says the sentence of a refusal on stderr; the exit code for it."""
    print(f"peerloom: {error}", file=sys.stderr)
    return 2
