"""Rooms nearby: real multicast DNS between two instances on 127.0.0.1."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import secrets
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import ifaddr
import pytest
import zeroconf
from zeroconf import ServiceInfo

from desktop.rooms import adapters, nearby
from desktop.rooms.adapters import is_near, local_addresses, near_first
from desktop.rooms.nearby import SERVICE, Announcer, Browser, read_room
from desktop.state import NearbyRoom

from .tools import KEY, eventually, room


@pytest.fixture
def name() -> str:
    """A room's name that no other test running at the same time uses."""
    return f"test-{secrets.token_hex(4)}"


class Seen:
    """A browser, and what it called for one room."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[tuple[NearbyRoom, ...]] = []
        self.troubles: list[str] = []
        self.browser = Browser(self._changed, loopback=True, trouble=self.troubles.append)

    def _changed(self, rooms: tuple[NearbyRoom, ...]) -> None:
        mine = tuple(each for each in rooms if each.room == self.name)
        if not self.calls or self.calls[-1] != mine:
            self.calls.append(mine)

    @property
    def rooms(self) -> tuple[NearbyRoom, ...]:
        return self.calls[-1] if self.calls else ()


@contextlib.asynccontextmanager
async def looking(name: str) -> AsyncIterator[Seen]:
    seen = Seen(name)
    await seen.browser.open()
    try:
        yield seen
    finally:
        await seen.browser.close()


def announcer(name: str, **changes: Any) -> Announcer:
    fields = {"room": name, "host": "Quiet Heron", "task": "Handwritten digits", "members": 1, "version": "0.1.0",
              "port": 41234, "loopback": True, **changes}
    return Announcer(**fields)


async def test_a_room_is_seen_changed_and_gone(name: str) -> None:
    troubles: list[str] = []
    async with looking(name) as seen:
        announced = announcer(name, trouble=troubles.append)
        await announced.open()
        await eventually(lambda: bool(seen.rooms))
        expected = NearbyRoom(room=name, host="Quiet Heron", task="Handwritten digits", members=1,
                              address="127.0.0.1:41234")
        assert seen.rooms == (expected,)
        assert expected in seen.browser.rooms
        for members in (2, 3, 4):
            announced.set_members(members)
        await eventually(lambda: seen.rooms[0].members == 4)
        begin = time.monotonic()
        await announced.close()
        await announced.close()
        assert time.monotonic() - begin < 1
        await eventually(lambda: seen.rooms == ())
        assert len(seen.calls) <= 4  # three changes at once make one or two calls
    assert troubles == seen.troubles == []


async def test_a_room_opened_before_anybody_looked_is_seen(name: str) -> None:
    announced = announcer(name)
    await announced.open()
    async with looking(name) as seen:
        await eventually(lambda: bool(seen.rooms))
    await announced.close()


async def test_two_rooms_of_one_name_are_two(name: str) -> None:
    first, second = announcer(name, port=1001), announcer(name, port=1002, host="Brisk Otter")
    await asyncio.gather(first.open(), second.open())
    async with looking(name) as seen:
        await eventually(lambda: len(seen.rooms) == 2)
        assert [(each.host, each.address) for each in seen.rooms] == [
            ("Brisk Otter", "127.0.0.1:1002"), ("Quiet Heron", "127.0.0.1:1001")]
        await second.close()
        await eventually(lambda: len(seen.rooms) == 1)
    await first.close()


async def test_neither_key_nor_code_is_announced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packets: list[bytes] = []
    real = zeroconf._core.async_send_with_transport

    def tap(log_debug: bool, transport: Any, packet: bytes, *rest: Any) -> None:
        packets.append(packet)
        real(log_debug, transport, packet, *rest)

    monkeypatch.setattr(zeroconf._core, "async_send_with_transport", tap)
    async with room(name=name) as host:
        announced = announcer(name, port=host.port)
        await announced.open()
        announced.set_members(2)
        await announced.close()
        wire = b"".join(packets)
        assert name.encode() in wire
        secret = host.code[len(name) + 1 :]
        for hidden in (KEY, KEY.hex().encode(), host.invite.link().partition("key=")[2][:26].encode(),
                       secret.encode(), *(word.encode() for word in secret.split("-")[:2])):
            assert hidden not in wire


async def test_long_and_foreign_names(name: str) -> None:
    announced = announcer(name, host="Üma 猫 " + "é" * 200, task="a\nb\x00c" + "ß" * 300)
    await announced.open()
    async with looking(name) as seen:
        await eventually(lambda: bool(seen.rooms))
        assert seen.rooms[0].host.startswith("Üma 猫 é")
        assert seen.rooms[0].task.startswith("a b c")
        assert len(seen.rooms[0].host) == 60
    await announced.close()


def refuse_multicast(monkeypatch: pytest.MonkeyPatch, refusal: OSError, address: str = "") -> None:
    """Lets the system refuse multicast, at one address or at all."""
    class Refusing(socket.socket):
        def setsockopt(self, level: int, option: int, value: Any) -> None:  # type: ignore[override]
            joins = (level, option) == (socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP)
            if joins and (not address or value.endswith(socket.inet_aton(address))):
                raise refusal
            super().setsockopt(level, option, value)

    monkeypatch.setattr(socket, "socket", Refusing)


@pytest.mark.parametrize("refusal", [OSError(errno.ENETDOWN, "Network is down"),
                                     OSError(errno.EPERM, "Operation not permitted")])
async def test_a_network_that_refuses_is_said_and_nothing_raises(
        name: str, refusal: OSError, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_multicast(monkeypatch, refusal)
    await check_trouble(name, refusal.strerror)


@pytest.mark.allow_log("zeroconf: Address in use")
async def test_a_program_that_keeps_the_port_is_said(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Taken(socket.socket):
        def bind(self, address: Any) -> None:
            if address[1] == 5353:
                self.close()
                raise OSError(errno.EADDRINUSE, "Address already in use")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", Taken)
    await check_trouble(name, "another program keeps the port of multicast DNS (5353) for itself")


async def check_trouble(name: str, why: str) -> None:
    troubles: list[str] = []
    announced = announcer(name, trouble=troubles.append)
    async with looking(name) as seen:
        await announced.open()
        announced.set_members(2)
        assert len(troubles) == len(seen.troubles) == 1
        for sentence in (troubles[0], seen.troubles[0]):
            assert sentence.startswith("Rooms nearby cannot be announced or seen: ")
            assert why in sentence
        await announced.close()


async def test_one_adapter_that_refuses_does_not_silence_the_others(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_multicast(monkeypatch, OSError(errno.ENETDOWN, "Network is down"), "192.0.2.77")
    monkeypatch.setattr(nearby, "local_addresses", lambda loopback: ("192.0.2.77", "127.0.0.1"))
    troubles: list[str] = []
    announced = announcer(name, trouble=troubles.append)
    await announced.open()
    async with looking(name) as seen:
        await eventually(lambda: bool(seen.rooms))
    await announced.close()
    assert troubles == []


async def test_closing_at_any_moment(name: str) -> None:
    for delay in (None, 0.0, 0.005, 0.05):
        seen, announced = Seen(name), announcer(name)
        opening = asyncio.gather(seen.browser.open(), announced.open())
        if delay is None:
            await opening
        else:
            await asyncio.sleep(delay)
        begin = time.monotonic()
        await asyncio.gather(seen.browser.close(), announced.close())
        await opening
        await asyncio.gather(seen.browser.close(), announced.close())
        assert time.monotonic() - begin < 1.5


async def test_closing_without_opening(name: str) -> None:
    await announcer(name).close()
    await Seen(name).browser.close()


# -- what strangers announce -----------------------------------------------------------------------------


def said(**changes: Any) -> ServiceInfo:
    texts = {"room": "oak-yak", "host": "Ann", "task": "Digits", "members": "2", "version": "0.1.0",
             **changes.pop("texts", {})}
    fields = {"port": 80, "parsed_addresses": ["127.0.0.1"], **changes}
    return ServiceInfo(SERVICE, f"x.{SERVICE}", properties=texts, **fields)


def test_an_announcement_is_read() -> None:
    assert read_room(said()) == NearbyRoom(room="oak-yak", host="Ann", task="Digits", members=2, address="127.0.0.1:80")


@pytest.mark.parametrize("nonsense", [
    said(texts={"room": "Oak Yak!"}), said(texts={"room": ""}), said(texts={"room": "a" * 41}),
    said(texts={"members": "many"}), said(texts={"members": "-1"}), said(texts={"members": "99999999999999999999"}),
    said(port=0), said(parsed_addresses=[]),
    ServiceInfo(SERVICE, f"x.{SERVICE}", port=80, parsed_addresses=["127.0.0.1"], properties=b"\x04room\xff"),
], ids=range(9))
def test_nonsense_is_not_shown(nonsense: ServiceInfo) -> None:
    assert read_room(nonsense) is None


def test_text_of_strangers_stays_on_its_line() -> None:
    room = read_room(said(texts={"host": "A\nn\u202en", "task": b"\xff\xfe"}))
    assert room is not None
    assert room.host == "A n n"
    assert room.task.isprintable()


# -- addresses -------------------------------------------------------------------------------------------


def adapter(name: str, *ips: str, index: int = 1) -> ifaddr.Adapter:
    rows = []
    for each in ips:
        ip, _, prefix = each.partition("/")
        rows.append(ifaddr.IP((ip, 0, 0) if ":" in ip else ip, int(prefix), name))
    return ifaddr.Adapter(name, name, rows, index=index)


def test_own_addresses_in_the_order_of_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters.ifaddr, "get_adapters", lambda: [
        adapter("lo", "127.0.0.1/8", "::1/128"),
        adapter("docker0", "172.17.0.1/16"),
        adapter("wlan0", "fe80::1/64", "fd00::5/64", "169.254.7.7/16", "192.168.1.20/24"),
        adapter("tun0", "10.8.0.2/24"),
    ])
    assert local_addresses() == ("192.168.1.20", "10.8.0.2", "fd00::5", "169.254.7.7")
    assert local_addresses(loopback=True) == ("127.0.0.1",)
    assert near_first(["203.0.113.9", "fd00::9", "10.8.0.9"]) == ["10.8.0.9", "fd00::9", "203.0.113.9"]


@pytest.mark.parametrize(("host", "near"), [
    ("192.168.7.1", True), ("127.0.0.1", True), ("fe80::1%3", True), ("fd00::1", True), ("100.64.0.9", True),
    ("1.1.1.1", False), ("2606:4700::1", False), ("2600:1f00::99", True), ("5.5.5.200", True), ("5.5.6.1", False),
    ("lab-3", True), ("lab-3.local", True), ("room.example.org", False),
])
def test_what_is_on_this_network(monkeypatch: pytest.MonkeyPatch, host: str, near: bool) -> None:
    monkeypatch.setattr(adapters.ifaddr, "get_adapters",
                        lambda: [adapter("eth0", "5.5.5.20/24", "2600:1f00::5/64", "192.168.1.20/24")])
    assert is_near(host) == near


def test_without_a_network_there_is_this_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters.ifaddr, "get_adapters", lambda: [adapter("lo", "127.0.0.1/8")])
    assert local_addresses() == ("127.0.0.1",)


def test_own_addresses_of_this_computer_are_addresses() -> None:
    addresses = local_addresses()
    assert 1 <= len(addresses) <= 6
    assert all(ipaddress.ip_address(each) for each in addresses)
