"""The invitation to a room as a link: which room, its key, where to knock, and what is trained there."""

from __future__ import annotations

import base64
import ipaddress
import re
import secrets
from collections.abc import Mapping
from urllib.parse import quote, unquote

import msgspec

from desktop.errors import AddressError, LinkError

SCHEME = "peerloom"
KEY_BYTES = 16
KEY_TEXT = 26  # characters of base32
MOST_ADDRESSES = 16
MOST_TEXT = 16_384  # characters looked at; the longest valid link is far shorter
MOST_VALUE = 512
OPTION_KEYS = (
    "task", "batch", "lr", "precision", "local-steps", "local-epochs", "rounds", "weighting", "topology", "outer",
    "outer-lr", "outer-momentum", "late", "seed", "ice", "relay",
)

# What mail programs, chats and people put around and into a link, and what never occurs within one.
_CLUTTER = re.compile("[\\s<>\"'`´‘’‚‛“”„‟«»‹›「」\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]+")
_ROOM = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_HOST = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*\.?", re.IGNORECASE)


class Invite(msgspec.Struct, frozen=True):
    """All that is needed to join a room. Whoever holds it can join: show it only to those who may.

    `room` is the room's name (lower case words with dashes), `key` 16 bytes, `addresses` one or more "host:port"
    ("[host]:port" for IPv6), `options` text values for some of `OPTION_KEYS`, checked by those who use them.
    Raises LinkError when one of them cannot be.
    """

    room: str
    key: bytes
    addresses: tuple[str, ...]
    options: dict[str, str] = {}

    def __post_init__(self) -> None:
        check_room(self.room)
        if len(self.key) != KEY_BYTES:
            raise LinkError(why=f"its key has {len(self.key)} bytes instead of {KEY_BYTES}")
        if not self.addresses:
            raise LinkError(why="it names no address (at=...)")
        if len(self.addresses) > MOST_ADDRESSES:
            raise LinkError(why=f"it names more than {MOST_ADDRESSES} addresses")
        for address in self.addresses:
            try:
                split_address(address)
            except AddressError as error:
                raise LinkError(why=f"“{address[:80]}” is not an address: {error.details['why']}") from None
        for key, value in self.options.items():
            check_option(key, value)

    @classmethod
    def new(cls, room: str, addresses: tuple[str, ...], options: Mapping[str, str] | None = None) -> Invite:
        """An invitation to a new room, with a key of its own from the system's random source."""
        return cls(room, secrets.token_bytes(KEY_BYTES), addresses, dict(options or {}))

    def link(self) -> str:
        """The invitation as one line of ASCII: `peerloom://join?room=..&key=..&at=host:port&at=..&task=..`."""
        key = base64.b32encode(self.key).decode().rstrip("=").lower()
        pairs = [("room", self.room), ("key", key), *(("at", address) for address in self.addresses)]
        pairs += [(name, self.options[name]) for name in OPTION_KEYS if name in self.options]
        return f"{SCHEME}://join?" + "&".join(f"{name}={quote(value, safe=':/[],;')}" for name, value in pairs)

    @classmethod
    def parse(cls, text: str) -> Invite:
        """Reads a link, with whatever white space, line breaks, quotes and words before it came along with it.

        Raises LinkError, which says what is wrong.
        """
        fields = _fields(_query(text))
        for name in ("room", "key"):
            if name not in fields:
                raise LinkError(why=f"it has no {name}")
        addresses = tuple(fields.pop("at", ()))
        single = {name: values[0] for name, values in fields.items()}
        return cls(single.pop("room").lower(), _key(single.pop("key")), addresses, single)


def check_room(room: str) -> None:
    """Raises LinkError unless `room` can be the name of a room."""
    if len(room) > 40 or not _ROOM.fullmatch(room):
        raise LinkError(why=f"“{room[:60]}” is not the name of a room (small letters, digits and dashes)")


def check_option(name: str, value: str) -> None:
    """Raises LinkError unless the option may travel in a link."""
    if name == "turn":
        raise LinkError(why="it has “turn”, but passwords never travel in links; enter TURN servers in the settings")
    if name not in OPTION_KEYS:
        raise LinkError(why=f"“{name[:40]}” is not known")
    if not value or len(value) > MOST_VALUE:
        raise LinkError(why=f"{name} has no value" if not value else f"{name} is longer than {MOST_VALUE} characters")
    if _CLUTTER.search(value) or not value.isprintable():
        raise LinkError(why=f"{name} has white space or quotes in it")
    if name == "ice" and re.search(r"turns?:|[|@]", value, re.IGNORECASE):
        raise LinkError(why="ice names a TURN server, but passwords never travel in links; enter it in the settings")
    if name == "relay" and "@" in value:
        raise LinkError(why="relay has a password, and passwords never travel in links")


def split_address(address: str) -> tuple[str, int]:
    """("host", port) of "host:port" or "[IPv6]:port". Raises AddressError."""
    match = re.fullmatch(r"(?:\[([^\[\]]*)\]|([^\[\]:]*)):([0-9]{1,5})", address)
    if not match:
        if ":" not in address or address.endswith("]"):
            raise AddressError(address=address[:80], why="the port is missing")
        why = "IPv6 addresses need brackets" if address.count(":") > 2 and "[" not in address else "it is misspelt"
        raise AddressError(address=address[:80], why=why)
    six, host, port = match[1], match[2], int(match[3])
    if not 1 <= port <= 65535:
        raise AddressError(address=address[:80], why="the port must be from 1 to 65535")
    if six is not None:
        _check_ip(address, six, 6)
        return six, port
    if re.fullmatch(r"[0-9.]*\.?[0-9]+", host):
        _check_ip(address, host, 4)
    elif len(host) > 253 or not _HOST.fullmatch(host):
        raise AddressError(address=address[:80], why="the name has characters that names of computers cannot have")
    return host, port


def join_address(host: str, port: int) -> str:
    """The inverse of `split_address`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _check_ip(address: str, host: str, version: int) -> None:
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        ip = None
    if ip is None or ip.version != version or "%" in host:
        raise AddressError(address=address[:80], why=f"it is not an IPv{version} address")
    if ip.is_unspecified or ip.is_multicast:
        raise AddressError(address=address[:80], why="it stands for no single computer")


def _query(text: str) -> str:
    """The part of a link after the question mark, without what came along."""
    if len(text) > MOST_TEXT:
        raise LinkError(why="it is far too long")
    text = _CLUTTER.sub("", text).replace("&amp;", "&")
    if not text:
        raise LinkError(why="it is empty")
    match = re.search(rf"{SCHEME}:(?://)?([^?/]*)/?\?(.*)", text, re.IGNORECASE)
    if not match:
        why = "nothing follows its beginning" if SCHEME + ":" in text.lower() else f"it has no {SCHEME}://"
        raise LinkError(why=why)
    if match[1].lower() != "join":
        raise LinkError(why=f"it asks to “{match[1][:40]}”, and only “join” is known")
    return match[2]


def _fields(query: str) -> dict[str, list[str]]:
    fields: dict[str, list[str]] = {}
    for part in query.split("&"):
        name, equals, value = part.partition("=")
        try:
            name, value = unquote(name, errors="strict").lower(), unquote(value, errors="strict")
        except UnicodeDecodeError:
            raise LinkError(why=f"“{part[:40]}” is not text") from None
        if not equals:
            raise LinkError(why=f"“{name[:40]}” has no value" if name else "it has two & in a row, or one at its end")
        if name not in ("room", "key", "at"):
            check_option(name, value)
        if name in fields and name != "at":
            raise LinkError(why=f"it has {name} twice")
        fields.setdefault(name, []).append(value)
    return fields


def _key(text: str) -> bytes:
    if not re.fullmatch("[A-Za-z2-7]*", text):
        raise LinkError(why="its key is damaged")
    if len(text) != KEY_TEXT:
        raise LinkError(why=f"its key has {len(text)} characters instead of {KEY_TEXT}")
    return base64.b32decode(text.upper() + "=" * (-KEY_TEXT % 8))
