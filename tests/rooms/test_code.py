"""Short codes: typed by people, good for one try, and nothing without the right one."""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from typing import Any

import msgspec
import pytest
import spake2
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

from desktop.errors import (
    AddressError,
    CodeFormError,
    CodeRefusedError,
    RoomNotFoundError,
    RoomRefusedError,
    VersionError,
)
from desktop.rooms.channel import Channel
from desktop.rooms.code import MOST_FAILURES, CodeDesk, new_secret, redeem, split_code
from desktop.rooms.door import Refusal
from desktop.rooms.invite import Invite
from desktop.rooms.lan import LanHost, Limits, join
from desktop.rooms.messages import Given
from desktop.rooms.names import CODE_WORDS

from .test_seal import hkdf
from .tools import KEY, ROOM, closed_port, eventually, json, room, server, stranger

# -- what people type ------------------------------------------------------------------------------------


@pytest.mark.parametrize("typed", [
    "maple-otter-amber-falcon-42", "Maple Otter Amber Falcon 42", "  MAPLE-OTTER–AMBER—FALCON-42.\n",
    "maple otter amber falcon42", "maple_otter_amber_falcon_42", "maple, otter, amber, falcon, 42",
    "“maple-otter-amber-falcon-42”", "maple‑otter‑amber‑falcon‑４２",
])
def test_as_typed(typed: str) -> None:
    assert split_code(typed) == ("maple-otter", "amber-falcon-42")


@pytest.mark.parametrize("name", ["attic", "class-7b", "7b", "the-room-of-ann-and-bob", "room101"])
def test_rooms_may_have_names_of_their_own(name: str) -> None:
    assert split_code(f"{name}-amber-falcon-42") == (name, "amber-falcon-42")


@pytest.mark.parametrize(("typed", "why"), [
    ("", "some of it is missing"),
    ("maple-otter", "some of it is missing"),
    ("maple-otter-amber-falcon", "it does not end in a number of two digits"),
    ("maple-otter-amber-falcon-4", "it does not end in a number of two digits"),
    ("maple-otter-amber-falcon-421", "it does not end in a number of two digits"),
    ("maple-otter-ambr-falcon-42", "“ambr” is not a word that codes have; is it “amber”?"),
    ("maple-otter-amber-qqqqqq-42", "“qqqqqq” is not a word that codes have."),
    ("süß-otter-amber-falcon-42", "it does not begin with the name of a room"),
])
def test_mistyped(typed: str, why: str) -> None:
    with pytest.raises(CodeFormError) as caught:
        split_code(typed)
    assert why in caught.value.sentence
    assert "maple-otter-amber-falcon-42" in caught.value.sentence


@given(st.text())
def test_whatever_is_typed_gives_nothing_but_its_error(typed: str) -> None:
    with contextlib.suppress(CodeFormError):
        split_code(typed)


@given(st.integers())
def test_secrets_are_drawn_from_22_bits(seed: int) -> None:
    secret = new_secret(random.Random(seed))
    assert split_code(f"oak-yak-{secret}") == ("oak-yak", secret)
    assert len(CODE_WORDS) ** 2 * 90 > 2**22


# -- the desk --------------------------------------------------------------------------------------------


class Desk:
    """A CodeDesk with time moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.codes: list[str] = []
        self.desk = CodeDesk(ROOM, self.codes.append, random.Random(1), lambda: self.now)

    def fail(self) -> None:
        self.desk.take()
        self.desk.settle(False)


def test_each_try_uses_its_code_up_right_or_wrong() -> None:
    desk = Desk()
    for right in (True, False):
        code = desk.desk.code
        assert code == f"{ROOM}-{desk.desk.take()}"
        assert desk.desk.code not in ("", code)
        assert desk.codes[-1] == desk.desk.code  # the window hears of it
        desk.desk.settle(right)
    assert len(desk.codes) == 2


def test_one_try_at_a_time() -> None:
    desk = Desk()
    desk.desk.take()
    with pytest.raises(Refusal, match="wait"):
        desk.desk.take()
    desk.desk.settle(True)
    desk.desk.take()


def test_wrong_tries_wait_longer_and_longer_and_then_switch_codes_off() -> None:
    desk = Desk()
    for failures in range(1, MOST_FAILURES):
        desk.fail()
        desk.now += 2 ** (failures - 1) - 0.01
        with pytest.raises(Refusal, match="wait") as caught:
            desk.desk.take()
        assert caught.value.wait_s == pytest.approx(0.01)
        desk.now += 0.01
    desk.fail()
    assert desk.desk.code == ""
    assert desk.codes[-1] == ""
    desk.now += 1e6
    with pytest.raises(Refusal, match="no-code"):
        desk.desk.take()
    desk.desk.renew()
    assert desk.codes[-1] == desk.desk.code != ""
    desk.desk.take()


def test_a_right_try_forgives_the_wrong_ones() -> None:
    desk = Desk()
    for _ in range(5):
        desk.fail()
        desk.now += 1000
    desk.desk.take()
    desk.desk.settle(True)
    desk.desk.take()


# -- over the wire ---------------------------------------------------------------------------------------


def where(host: LanHost) -> str:
    return host.addresses[0]


def wrong(code: str) -> str:
    """The same code with another number."""
    number = int(code[-2:])
    return code[:-2] + str(number + 1 if number < 99 else 10)


async def test_a_code_becomes_the_invitation_and_that_lets_in() -> None:
    codes: list[str] = []
    async with room(options={"task": "digits"}, code_changed=codes.append) as host:
        code = host.code
        invite = await redeem(where(host), code.upper().replace("-", " "), "ann")
        assert invite == host.invite
        assert invite.options == {"task": "digits"}
        assert codes == [host.code] != [code]
        guest, _ = await join(invite, "ann")
        await guest.close()
        with pytest.raises(CodeRefusedError):  # it was good for one try
            await redeem(where(host), code, "bob")


async def test_the_address_that_answered_is_knocked_at_first() -> None:
    async with room() as host:
        invite = await redeem(f"localhost:{host.port}", host.code, "ann")
        assert invite.addresses == (f"localhost:{host.port}", *host.addresses)


async def test_a_wrong_code_is_refused_renewed_and_makes_the_next_wait() -> None:
    codes: list[str] = []
    async with room(code_changed=codes.append) as host:
        code = host.code
        with pytest.raises(CodeRefusedError):
            await redeem(where(host), wrong(code), "eve")
        assert codes == [host.code] != [code]
        with pytest.raises(RoomRefusedError, match="somebody tried a code a moment ago; try again in 1 s"):
            await redeem(where(host), host.code, "ann")
        assert codes == [host.code]  # who has to wait loses no code
        host.renew_code()
        assert await redeem(where(host), host.code, "ann") == host.invite


async def test_codes_are_switched_off_and_on_again() -> None:
    async with room() as host:
        host._desk._failures = MOST_FAILURES - 1
        with pytest.raises(CodeRefusedError):
            await redeem(where(host), wrong(host.code), "eve")
        assert host.code == ""
        with pytest.raises(RoomRefusedError, match="its code is switched off"):
            await redeem(where(host), f"{ROOM}-amber-falcon-42", "ann")
        guest, _ = await join(host.invite, "bob")  # links go on working
        await guest.close()
        host.renew_code()
        assert await redeem(where(host), host.code, "ann") == host.invite


async def test_another_rooms_code_uses_nothing_up() -> None:
    async with room() as host:
        code = host.code
        with pytest.raises(RoomRefusedError, match="another room is open at that address"):
            await redeem(where(host), f"oak-yak-{code[len(ROOM) + 1:]}", "ann")
        assert host.code == code


@pytest.mark.parametrize("end", ["at once", "after the share", "silent"])
async def test_a_try_that_is_broken_off_uses_the_code_up(end: str) -> None:
    async with room(limits=Limits(hello_s=0.3)) as host:
        code = host.code
        async with stranger(host) as websocket:
            await websocket.send(json(knock(share=spake2.SPAKE2_A(b"x").start())))
            if end != "at once":
                await websocket.recv()
            if end == "silent":
                with contextlib.suppress(ConnectionClosed):
                    await websocket.recv()
        await eventually(lambda: not host._desk._busy and host._desk._failures > 0)
        assert host.code != code
        assert host._desk._failures == 1


def knock(share: bytes) -> dict[str, Any]:
    return {"type": "hello", "protocol": 1, "version": "0.1.0", "way": "code", "room": ROOM, "peer": "eve",
            "share": share}


@pytest.mark.parametrize("share", [bytes(32), bytes(33), b"A" + bytes(32), b"A" + b"\xff" * 32, b"B" + os.urandom(32),
                                   b"A\x01" + bytes(31), b"A" * 64], ids=range(7))
async def test_shares_that_are_none(share: bytes) -> None:
    async with room() as host:
        code = host.code
        async with stranger(host) as websocket:
            await websocket.send(json(knock(share)))
            frames = []
            with contextlib.suppress(ConnectionClosed):
                while True:
                    frames.append(msgspec.json.decode(await websocket.recv()))
        assert frames[-1]["reason"] == "garbage"
        assert host.code != code


async def test_a_share_sent_back_to_its_sender() -> None:
    """A host that reflects the guest's own share, with the side's letter changed."""
    async def reflect(websocket: ServerConnection) -> None:
        hello = msgspec.json.decode(await websocket.recv())
        share = b"B" + msgspec.convert(hello["share"], bytes)[1:]
        await websocket.send(json({"type": "challenge", "protocol": 1, "version": "1", "peer": "host", "share": share}))
        with contextlib.suppress(ConnectionClosed):
            await websocket.recv()

    async with server(reflect) as address:
        with pytest.raises(RoomNotFoundError):
            await redeem(address, f"{ROOM}-amber-falcon-42", "ann", timeout_s=2)


async def test_a_host_without_the_code_learns_nothing_and_gives_nothing() -> None:
    proofs: list[bytes] = []

    async def pretend(websocket: ServerConnection) -> None:
        hello = msgspec.json.decode(await websocket.recv())
        theirs = msgspec.convert(hello["share"], bytes)
        spake = spake2.SPAKE2_B(b"amber-falcon-43", idA=b"guest", idB=ROOM.encode())
        share = spake.start()
        await websocket.send(json({"type": "challenge", "protocol": 1, "version": "1", "peer": "host", "share": share}))
        proofs.append(await websocket.recv())  # type: ignore[arg-type]
        false = Channel(websocket, "host", spake.finish(theirs), (theirs, share), ("code", ROOM, hello["peer"], "host"))
        await false.send(Given(Invite(ROOM, KEY, ("127.0.0.1:1",)).link()))

    async with server(pretend) as address:
        with pytest.raises(CodeRefusedError):
            await redeem(address, f"{ROOM}-amber-falcon-42", "ann", timeout_s=2)
    assert len(proofs) == 1


async def test_the_wire_by_hand() -> None:
    """A guest of its own making: HKDF from HMAC alone, records from the cipher alone."""
    async with room() as host, stranger(host) as websocket:
        spake = spake2.SPAKE2_A(host.code[len(ROOM) + 1 :].encode(), idA=b"guest", idB=ROOM.encode())
        mine = spake.start()
        await websocket.send(json(knock(mine)))
        theirs = msgspec.convert(msgspec.json.decode(await websocket.recv())["share"], bytes)
        salt = b"".join(len(each).to_bytes(4, "big") + each for each in (mine, theirs))
        info = b"".join(len(each).to_bytes(4, "big") + each
                        for each in (b"peerloom channel 1", b"code", ROOM.encode(), b"eve", b"host"))
        keys = hkdf(spake.finish(theirs), salt, info, 64)
        await websocket.send(ChaCha20Poly1305(keys[:32]).encrypt(bytes(12), b"\x81\xa4type\xa5ready", None))
        plain = ChaCha20Poly1305(keys[32:]).decrypt(bytes(12), await websocket.recv(), None)  # type: ignore[arg-type]
        assert Invite.parse(msgspec.msgpack.decode(plain)["link"]) == host.invite


async def test_nobody_there() -> None:
    address = f"127.0.0.1:{closed_port()}"
    begin = time.monotonic()
    with pytest.raises(RoomNotFoundError, match=address):
        await redeem(address, f"{ROOM}-amber-falcon-42", "ann")
    assert time.monotonic() - begin < 2


async def test_a_host_that_says_nothing() -> None:
    async def mute(websocket: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            await websocket.recv()
            await websocket.recv()

    async with server(mute) as address:
        begin = time.monotonic()
        with pytest.raises(RoomNotFoundError):
            await redeem(address, f"{ROOM}-amber-falcon-42", "ann", timeout_s=0.5)
        assert time.monotonic() - begin < 1.5


async def test_a_host_of_another_version() -> None:
    async def other(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(json({"type": "refused", "protocol": 2, "version": "2.0", "reason": "version"}))

    async with server(other) as address:
        with pytest.raises(VersionError, match="This window uses an older version"):
            await redeem(address, f"{ROOM}-amber-falcon-42", "ann")


async def test_what_is_no_address() -> None:
    with pytest.raises(AddressError, match="the port is missing"):
        await redeem("192.168.1.20", f"{ROOM}-amber-falcon-42", "ann")


def test_codes_do_not_repeat_themselves() -> None:
    desk = Desk()
    seen = {desk.desk.code}
    for _ in range(200):
        desk.desk.renew()
        seen.add(desk.desk.code)
    assert len(seen) > 199
    assert all(re.fullmatch(r"maple-otter-[a-z]+-[a-z]+-[1-9][0-9]", code) for code in seen)
