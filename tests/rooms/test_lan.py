"""Rooms on the LAN, over real sockets on 127.0.0.1."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import msgspec
import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from desktop.errors import PortInUseError, RoomNotFoundError, RoomOpenError, RoomRefusedError, VersionError
from desktop.rooms import channel as channels
from desktop.rooms.channel import PATH, Channel, ChannelError, TokenBucket
from desktop.rooms.invite import Invite
from desktop.rooms.lan import LanHost, Limits, join
from desktop.rooms.messages import MOST_PAYLOAD, Given, Ready, Seen, Send, Signal, Welcome
from desktop.rooms.seal import Sealer

from .tools import INFO, KEY, ROOM, Recorder, closed_port, eventually, invite_with, json, room, server, stranger

# -- as it should be ------------------------------------------------------------------------------------


async def test_guest_learns_the_room_and_payloads_pass_both_ways() -> None:
    async with room() as host:
        at_host = Recorder()
        host.subscribe(at_host)
        guest, info = await join(host.invite, "ann")
        at_guest = Recorder()
        guest.subscribe(at_guest)
        assert info == INFO
        await at_guest.until("seen", "host")
        await at_host.until("seen", "ann")
        assert (guest.peers, host.peers) == ({"host"}, {"ann"})

        assert guest.send("host", b"offer")
        await at_host.until("signal", "ann", b"offer")
        assert host.send("ann", b"answer")
        await at_guest.until("signal", "host", b"answer")
        await guest.close()
        await at_host.until("gone", "ann")
        assert at_guest.calls[-1] == ("closed", "this window left")


async def test_the_host_passes_sealed_payloads_between_guests_unread() -> None:
    async with room() as host:
        ann, _ = await join(host.invite, "ann")
        at_ann = Recorder()
        ann.subscribe(at_ann)
        bob, _ = await join(host.invite, "bob")
        at_bob = Recorder()
        bob.subscribe(at_bob)
        await at_ann.until("seen", "bob")
        assert bob.peers == {"host", "ann"}
        sealed = Sealer("ann", KEY, ROOM, ann.clock).seal("bob", b"offer")
        assert ann.send("bob", sealed)
        await at_bob.until("signal", "ann", sealed)
        assert Sealer("bob", KEY, ROOM, bob.clock).open("ann", sealed) == b"offer"
        await bob.close()
        await at_ann.until("gone", "bob")
        assert ann.peers == {"host"}
        await ann.close()


async def test_a_payload_of_the_largest_size_passes_and_a_larger_one_is_not_taken() -> None:
    async with room() as host:
        at_host = Recorder()
        host.subscribe(at_host)
        guest, _ = await join(host.invite, "ann")
        largest = os.urandom(MOST_PAYLOAD)
        assert guest.send("host", largest)
        await at_host.until("signal", "ann", largest)
        assert not guest.send("host", largest + b"x")
        assert not host.send("ann", largest + b"x")
        assert not guest.send("nobody", b"")
        assert not host.send("nobody", b"")
        await guest.close()
        assert not guest.send("host", b"")


async def test_signals_before_the_first_listener_are_kept_for_it() -> None:
    async with room() as host:
        guest, _ = await join(host.invite, "ann")
        for number in range(3):
            host.send("ann", bytes([number]))
        bob, _ = await join(host.invite, "bob")  # takes long enough for the three to arrive, in the same order
        at_bob, at_guest = Recorder(), Recorder()
        bob.subscribe(at_bob)
        guest.subscribe(at_guest)
        assert at_guest.calls == []  # never from within subscribe
        bob.send("ann", b"last")
        await at_guest.until("signal", "bob", b"last")
        signals = [call for call in at_guest.calls if call[0] == "signal"]
        assert signals == [("signal", "host", bytes([number])) for number in range(3)] + [("signal", "bob", b"last")]
        await guest.close()
        await bob.close()


@pytest.mark.allow_log("a listener of a rendezvous failed")
async def test_a_listener_that_fails_harms_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Recorder):
        def peer_seen(self, peer: str) -> None:
            raise RuntimeError("listener")

    async with room() as host:
        second = Recorder()
        host.subscribe(Failing())
        host.subscribe(second)
        guest, _ = await join(host.invite, "ann")
        await second.until("seen", "ann")
        assert "a listener of a rendezvous failed" in caplog.text
        await guest.close()


async def test_the_key_never_crosses_the_wire() -> None:
    async with room() as host, tap(host) as (port, seen):
        guest, _ = await join(invite_with(host.invite, addresses=(f"127.0.0.1:{port}",)), "ann")
        guest.send("host", b"secret words")
        at_host = Recorder()
        host.subscribe(at_host)
        await at_host.until("signal", "ann")
        await guest.close()
    wire = unmasked(bytes(seen))
    assert b"hello" in wire  # the tap reads what travels
    assert KEY not in wire
    assert b"digits" not in wire  # the task is for members only
    assert b"secret words" not in wire


def unmasked(frames: bytes) -> bytes:
    """What went from guest to host, after the HTTP head, with websocket masks (RFC 6455 5.3) taken off."""
    head, _, rest = frames.partition(b"\r\n\r\n")
    out = bytearray(head)
    while len(rest) >= 6:
        size, at = rest[1] & 0x7F, 2
        if size == 126:
            size, at = int.from_bytes(rest[2:4], "big"), 4
        mask, body = rest[at : at + 4], rest[at + 4 : at + 4 + size]
        out += bytes(byte ^ mask[i % 4] for i, byte in enumerate(body))
        rest = rest[at + 4 + size :]
    return bytes(out)


@contextlib.asynccontextmanager
async def tap(host: LanHost) -> AsyncIterator[tuple[int, bytearray]]:
    """A wire to the host that keeps what guests send through it."""
    seen = bytearray()
    ended = asyncio.Event()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keep: bool) -> None:
        while data := await reader.read(65536):
            if keep:
                seen.extend(data)
            writer.write(data)
        writer.close()

    async def wire(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", host.port)
        await asyncio.gather(pipe(reader, far_writer, True), pipe(far_reader, writer, False))
        await asyncio.gather(shut(far_writer), shut(writer))
        ended.set()

    server = await asyncio.start_server(wire, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], seen
        await ended.wait()
    finally:
        server.close()
        await server.wait_closed()


async def shut(writer: asyncio.StreamWriter) -> None:
    """Closes, and waits until it is closed."""
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


async def test_ten_come_in_the_same_second() -> None:
    async with room() as host:
        guests = [guest for guest, _ in await asyncio.gather(*(join(host.invite, f"g{n}") for n in range(10)))]
        listeners = [Recorder() for _ in guests]
        for guest, listener in zip(guests, listeners, strict=True):
            guest.subscribe(listener)
        everyone = {"host", *(f"g{n}" for n in range(10))}
        for n, listener in enumerate(listeners):
            await listener.until_true(lambda n=n: guests[n].peers == everyone - {f"g{n}"}, "all others")
        await asyncio.gather(*(guest.close() for guest in guests))


@pytest.mark.parametrize("wrong_s", [0, 600, -86_400])
async def test_a_guest_learns_the_clock_of_the_host(wrong_s: float) -> None:
    async with room(clock=lambda: time.time() + wrong_s) as host:
        guest, _ = await join(host.invite, "ann")
        assert abs(guest.clock_ahead_s - wrong_s) < 2
        # So what the two seal is fresh for each other, however wrong a clock is.
        sealed = Sealer("ann", KEY, ROOM, guest.clock).seal("host", b"offer")
        assert Sealer("host", KEY, ROOM, lambda: time.time() + wrong_s).open("ann", sealed) == b"offer"
        await guest.close()


# -- ends -----------------------------------------------------------------------------------------------


async def test_host_closes_its_window() -> None:
    async with room() as host:
        guest, _ = await join(host.invite, "ann")
        at_guest, at_host = Recorder(), Recorder()
        guest.subscribe(at_guest)
        host.subscribe(at_host)
        await at_guest.until("seen", "host")
        await at_host.until("seen", "ann")
        begin = time.monotonic()
        await host.close()
        assert time.monotonic() - begin < 1
        await at_guest.until("closed", "the host closed its window")
        await at_host.until("closed", "this window closed the room")
        await guest.close()
        await guest.close()
        await host.close()
        assert [call[0] for call in at_guest.calls].count("closed") == 1
        assert [call[0] for call in at_host.calls].count("closed") == 1
        assert (guest.peers, host.peers) == (frozenset(), frozenset())
        late = Recorder()
        guest.subscribe(late)
        await late.until("closed", "the host closed its window")
        with pytest.raises(RoomNotFoundError):
            await join(host.invite, "bob")


async def test_host_vanishes_without_a_word() -> None:
    async with room() as host:
        guest, _ = await join(host.invite, "ann")
        at_guest = Recorder()
        guest.subscribe(at_guest)
        host._guests["ann"].channel.websocket.transport.abort()
        await at_guest.until("closed", "the connection to the host was lost")
        await guest.close()
        assert [call[0] for call in at_guest.calls].count("closed") == 1


async def test_guest_vanishes_without_a_word() -> None:
    async with room() as host:
        at_host = Recorder()
        host.subscribe(at_host)
        guest, _ = await join(host.invite, "ann")
        guest._channel.websocket.transport.abort()
        await at_host.until("gone", "ann")
        assert host.peers == frozenset()
        await guest.close()


async def test_a_silent_guest_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("ping_interval", "ping_timeout"):
        monkeypatch.setitem(channels.WEBSOCKET, key, 0.1)
    async with room() as host:
        at_host = Recorder()
        host.subscribe(at_host)
        guest, _ = await join(host.invite, "ann")
        guest._channel.websocket.transport.pause_reading()  # as a computer that went to sleep
        await at_host.until("gone", "ann")
        await guest.close()


async def test_closing_waits_for_nobody_at_the_door() -> None:
    async with room() as host:
        _, silent = await asyncio.open_connection("127.0.0.1", host.port)  # says nothing
        async with stranger(host):  # neither
            begin = time.monotonic()
            await host.close()
            assert time.monotonic() - begin < 1.5
        await shut(silent)


# -- who is not let in ----------------------------------------------------------------------------------


async def test_wrong_key() -> None:
    async with room() as host:
        at_host = Recorder()
        host.subscribe(at_host)
        with pytest.raises(RoomRefusedError, match="the link is not of this room"):
            await join(invite_with(host.invite, key=bytes(16)), "ann")
        assert at_host.calls == []


async def test_another_room_at_that_address() -> None:
    async with room() as host:
        with pytest.raises(RoomRefusedError, match="another room is open at that address"):
            await join(invite_with(host.invite, room="oak-yak"), "ann")


async def test_a_host_that_does_not_know_the_key_gets_no_guest() -> None:
    """A stranger that answers every hello, and has a welcome ready."""
    async def pretend(websocket: ServerConnection) -> None:
        hello = msgspec.json.decode(await websocket.recv())
        share = os.urandom(32)
        await websocket.send(json({"type": "challenge", "protocol": 1, "version": "0", "peer": "host", "share": share}))
        shares = (msgspec.convert(hello["share"], bytes), share)
        false = Channel(websocket, "host", bytes(16), shares, ("key", ROOM, hello["peer"], "host"))
        await websocket.recv()
        await false.send(Welcome(info=INFO, peers=[], time=0.0))

    async with server(pretend) as address:
        with pytest.raises(RoomRefusedError):
            await join(Invite(ROOM, KEY, (address,)), "ann")


async def test_the_same_window_twice() -> None:
    async with room() as host:
        guest, _ = await join(host.invite, "ann")
        with pytest.raises(RoomRefusedError, match="this window is in it already"):
            await join(host.invite, "ann")
        with pytest.raises(RoomRefusedError, match="this window is in it already"):
            await join(host.invite, "host")
        assert host.peers == {"ann"}
        await guest.close()


async def test_a_window_that_comes_back_before_its_loss_was_noticed() -> None:
    async with room(limits=Limits(hello_s=1.0)) as host:
        at_host = Recorder()
        host.subscribe(at_host)
        earlier, _ = await join(host.invite, "ann")
        earlier._channel.websocket.transport.pause_reading()
        again, _ = await join(host.invite, "ann")
        await at_host.until_true(lambda: at_host.calls == [("seen", "ann"), ("gone", "ann"), ("seen", "ann")])
        assert again.send("host", b"x")
        await at_host.until("signal", "ann", b"x")
        await earlier.close()
        await again.close()


async def test_full() -> None:
    async with room(limits=Limits(guests=1)) as host:
        guest, _ = await join(host.invite, "ann")
        with pytest.raises(RoomRefusedError, match="no more connections"):
            await join(host.invite, "bob")
        await guest.close()


async def test_a_crowd_at_the_door_is_bounded_and_goes() -> None:
    async with room(limits=Limits(strangers=2, hello_s=0.5)) as host, contextlib.AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(stranger(host))
        with pytest.raises(RoomRefusedError, match="no more connections"):
            await join(host.invite, "ann")
        mute = [await asyncio.open_connection("127.0.0.1", host.port) for _ in range(6)]
        ends = await asyncio.gather(*(reader.read() for reader, _ in mute), return_exceptions=True)
        assert len(ends) == 6  # all were closed: some at once, some when they kept silent for too long
        for _, writer in mute:
            await shut(writer)
        await eventually(lambda: not host._strangers)
        guest, _ = await join(host.invite, "ann")
        await guest.close()


@pytest.mark.parametrize(("protocol", "older"), [(0, "The host"), (2, "This window")])
async def test_a_host_of_another_version(protocol: int, older: str) -> None:
    async def other(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(json({"type": "novelty", "protocol": protocol, "version": "7.5.0", "more": [1]}))

    async with server(other) as address:
        with pytest.raises(VersionError) as caught:
            await join(Invite(ROOM, KEY, (address,)), "ann")
    assert caught.value.details["older"] == older
    assert "7.5.0" in caught.value.sentence
    assert "0.1.0" in caught.value.sentence


async def test_a_guest_of_another_version_is_told_the_hosts() -> None:
    async with room() as host, stranger(host) as websocket:
        await websocket.send(json({"type": "novelty", "protocol": 2, "version": "7.5.0"}))
        answer = msgspec.json.decode(await websocket.recv())
        assert (answer["reason"], answer["protocol"], answer["version"]) == ("version", 1, "0.1.0")


# -- garbage --------------------------------------------------------------------------------------------


HELLO = {"type": "hello", "protocol": 1, "version": "0.1.0", "way": "key", "room": ROOM, "peer": "eve",
         "share": bytes(32)}


@pytest.mark.parametrize("frame", [
    "", "{", "null", "[]", '{"type":"hello"}', b"", b"\x00", os.urandom(100), "x" * 200_000, "[" * 100_000,
    json({**HELLO, "peer": ""}), json({**HELLO, "peer": "e" * 65}), json({**HELLO, "peer": "e v e"}),
    json({**HELLO, "share": bytes(31)}), json({**HELLO, "share": bytes(65)}), json({**HELLO, "way": "window"}),
    json({**HELLO, "protocol": "1"}), json({**HELLO, "type": "refused", "reason": "key"}),
], ids=range(18))
async def test_garbage_at_the_door(frame: str | bytes) -> None:
    async with room() as host, stranger(host) as websocket:
        await websocket.send(frame)
        assert msgspec.json.decode(await websocket.recv())["reason"] == "garbage"
        with pytest.raises(ConnectionClosed):
            await websocket.recv()
        guest, _ = await join(host.invite, "ann")
        await guest.close()


async def test_frames_that_are_too_large_end_the_connection() -> None:
    async with room() as host, stranger(host) as websocket:
        with contextlib.suppress(ConnectionClosed):
            await websocket.send(b"x" * 300_000)
        with pytest.raises(ConnectionClosed):
            await websocket.recv()


async def test_what_is_no_websocket() -> None:
    tls = b"\x16\x03\x01\x02\x00" + bytes(range(256)) * 2
    async with room(limits=Limits(hello_s=0.5)) as host:  # the first has no line's end: it is cut off after this time
        for noise in (tls, b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
            writer.write(noise)
            async with asyncio.timeout(2):
                with contextlib.suppress(ConnectionError):
                    await reader.read()
            await shut(writer)
        guest, _ = await join(host.invite, "ann")
        await guest.close()


async def test_web_pages_and_other_paths_are_turned_away() -> None:
    async with room() as host:
        for path, origin, status in ((PATH, "http://evil.example", 403), ("/other", None, 404)):
            with pytest.raises(InvalidStatus) as caught:
                await connect(f"ws://127.0.0.1:{host.port}{path}", proxy=None, origin=origin)  # type: ignore[arg-type]
            assert caught.value.response.status_code == status


Misdeed = Callable[[Any], Awaitable[None]]


async def send_text(channel: Channel) -> None:
    await channel.websocket.send("text")


async def send_unsealed(channel: Channel) -> None:
    await channel.websocket.send(os.urandom(80))


async def send_twice(channel: Channel) -> None:
    record = channel._seal(Send("host", b"once"))
    await channel.websocket.send(record)
    await channel.websocket.send(record)


async def send_for_hosts(channel: Channel) -> None:
    await channel.send(Seen("mallory"))


async def send_oversized(channel: Channel) -> None:
    await channel.send(Send("host", bytes(MOST_PAYLOAD + 1)))


async def send_nonsense(channel: Channel) -> None:
    channel._seal(Ready())  # keeps the count
    await channel.websocket.send(channel._out.encrypt((channel._sealed - 1).to_bytes(12, "big"), b"\xc1", None))


async def send_flood(channel: Channel) -> None:
    with contextlib.suppress(ConnectionClosed):
        for _ in range(1000):
            await channel.send(Send("host", b"flood"))


@pytest.mark.parametrize("misdeed", [send_text, send_unsealed, send_twice, send_for_hosts, send_oversized,
                                     send_nonsense, send_flood])
async def test_a_guest_that_breaks_the_protocol_is_dropped_and_harms_nobody(misdeed: Misdeed) -> None:
    async with room() as host:
        at_host, at_eve, at_ann = Recorder(), Recorder(), Recorder()
        host.subscribe(at_host)
        eve, _ = await join(host.invite, "eve")
        ann, _ = await join(host.invite, "ann")
        eve.subscribe(at_eve)
        ann.subscribe(at_ann)
        await misdeed(eve._channel)
        await at_ann.until("gone", "eve")
        await at_host.until("gone", "eve")
        await at_eve.until("closed", "the connection to the host was lost")
        assert len([call for call in at_host.calls if call[0] == "signal"]) < 500
        ann.send("host", b"well")
        await at_host.until("signal", "ann", b"well")
        await asyncio.gather(eve.close(), ann.close())


@pytest.mark.parametrize("message", [Ready(), Given("peerloom://join"), Send("ann", b""),
                                     Signal("host", bytes(MOST_PAYLOAD + 1))], ids=range(4))
async def test_a_host_that_breaks_the_protocol_is_left(message: Any) -> None:
    async with room() as host:
        guest, _ = await join(host.invite, "ann")
        at_guest = Recorder()
        guest.subscribe(at_guest)
        host._guests["ann"].channel.post(message)
        await at_guest.until("closed")
        assert at_guest.calls[-1][1].startswith("the host was not understood: ")
        await guest.close()


@pytest.mark.parametrize("answer", ["", "{", b"\x00", json({"type": "refused", "protocol": 1, "version": "1"}),
                                    json({"type": "ready"})], ids=range(5))
async def test_garbage_from_a_host_is_a_room_not_found(answer: str | bytes) -> None:
    async def other(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(answer)

    async with server(other) as address:
        with pytest.raises(RoomNotFoundError, match=address):
            await join(Invite(ROOM, KEY, (address,)), "ann", timeout_s=2)


async def test_a_refusal_shows_only_sentences_of_our_own() -> None:
    async def other(websocket: ServerConnection) -> None:
        await websocket.recv()
        await websocket.send(json({"type": "refused", "protocol": 1, "version": "1", "reason": "call 555-1234"}))

    async with server(other) as address:
        with pytest.raises(RoomRefusedError, match="it gave no reason that is known here"):
            await join(Invite(ROOM, KEY, (address,)), "ann")


async def test_a_guest_that_reads_slowly_costs_bounded_memory_and_is_dropped() -> None:
    async with room() as host:
        at_host = Recorder()
        host.subscribe(at_host)
        slow, _ = await join(host.invite, "slow")
        slow._channel.websocket.transport.pause_reading()
        channel = host._guests["slow"].channel
        taken = 0
        for _ in range(1000):
            if not host.send("slow", bytes(MOST_PAYLOAD)):
                break
            taken += 1
            await asyncio.sleep(0)  # lets the pump fill the system's own buffers
            assert channel._unsent_bytes <= channels.MOST_UNSENT
        assert taken < 1000
        await at_host.until("gone", "slow")
        assert not channel._unsent
        await slow.close()


def test_token_bucket() -> None:
    now = [0.0]
    bucket = TokenBucket(2, 3, lambda: now[0])
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    now[0] += 1
    assert [bucket.take() for _ in range(3)] == [True, True, False]
    now[0] += 100
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]


# -- addresses, ports, time ------------------------------------------------------------------------------


async def test_port_in_use() -> None:
    async with room() as host:
        with pytest.raises(PortInUseError, match=f"Port {host.port} is already used"):
            await LanHost.open(ROOM, KEY, "other", lambda: INFO, port=host.port, loopback=True)
    async with room(port=host.port) as again:  # free as soon as it is closed
        assert again.port == host.port


async def test_a_port_that_does_not_exist() -> None:
    with pytest.raises(RoomOpenError, match="there is no port 70000"):
        await LanHost.open(ROOM, KEY, "host", lambda: INFO, port=70_000, loopback=True)


async def test_on_all_addresses() -> None:
    host = await LanHost.open(ROOM, KEY, "host", lambda: INFO)
    try:
        for address in (*host.addresses, f"[::1]:{host.port}" if socket.has_ipv6 else f"127.0.0.1:{host.port}"):
            guest, _ = await join(invite_with(host.invite, addresses=(address,)), "ann")
            await guest.close()
    finally:
        await host.close()


async def test_nobody_there() -> None:
    port = closed_port()
    with pytest.raises(RoomNotFoundError, match=f"No room answers at 127.0.0.1:{port} or localhost:{port}"):
        await join(Invite(ROOM, KEY, (f"127.0.0.1:{port}", f"localhost:{port}")), "ann")


async def test_dead_addresses_do_not_keep_from_the_live_one() -> None:
    async with room() as host:
        with silent_port() as silent:
            addresses = (f"127.0.0.1:{silent}", f"127.0.0.1:{closed_port()}", f"localhost:{host.port}")
            begin = time.monotonic()
            guest, _ = await join(invite_with(host.invite, addresses=addresses), "ann")
        assert time.monotonic() - begin < 2
        assert guest.address == f"localhost:{host.port}"
        await guest.close()


async def test_several_addresses_of_one_host_make_one_guest() -> None:
    async with room() as host:
        at_host = Recorder()
        host.subscribe(at_host)
        guest, _ = await join(invite_with(host.invite, addresses=host.addresses * 8), "ann")
        assert guest.send("host", b"here")
        await at_host.until("signal", "ann", b"here")
        assert host.peers == {"ann"}
        await guest.close()


@contextlib.contextmanager
def silent_port() -> Iterator[int]:
    """A port that takes connections and says nothing."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield int(sock.getsockname()[1])


async def test_an_address_that_accepts_and_says_nothing() -> None:
    with silent_port() as port:
        begin = time.monotonic()
        with pytest.raises(RoomNotFoundError, match=f"127.0.0.1:{port}"):
            await join(Invite(ROOM, KEY, (f"127.0.0.1:{port}",)), "ann", timeout_s=0.5)
        assert time.monotonic() - begin < 1.5


async def test_a_name_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: answered.wait(10) and [])
    begin = time.monotonic()
    with pytest.raises(RoomNotFoundError, match=r"anns-laptop\.local:1"):
        await join(Invite(ROOM, KEY, ("anns-laptop.local:1",)), "ann", timeout_s=0.3)
    assert time.monotonic() - begin < 1.5
    answered.set()


async def test_an_ip_address_is_never_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("looked up")

    async with room() as host:
        monkeypatch.setattr(socket, "getaddrinfo", never)
        guest, _ = await join(host.invite, "ann")
        await guest.close()


async def test_joining_can_be_given_up_at_any_moment() -> None:
    async with room() as host:
        for delay in (0.0, 0.001, 0.003, 0.01, 0.03):
            task = asyncio.create_task(join(host.invite, f"ann{delay}"))
            await asyncio.sleep(delay)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                guest, _ = await task
                await guest.close()
        at_host = Recorder()
        host.subscribe(at_host)
        bob, _ = await join(host.invite, "bob")
        await at_host.until_true(lambda: host.peers == {"bob"}, "those who gave up to be gone")
        await bob.close()


def test_a_channel_refuses_what_is_out_of_order() -> None:
    class Socket:
        pass

    async def check() -> None:
        shares = (bytes(32), bytes(32))
        guest = Channel(Socket(), "guest", KEY, shares, ("a",))  # type: ignore[arg-type]
        records = [guest._seal(Send("x", bytes([n]))) for n in range(3)]
        for order in ([1], [0, 0], [0, 2]):
            host = Channel(Socket(), "host", KEY, shares, ("a",))  # type: ignore[arg-type]
            for n in order[:-1]:
                host.open(records[n])
            with pytest.raises(ChannelError):
                host.open(records[order[-1]])
        with pytest.raises(ChannelError):  # sent back to where it came from
            guest.open(records[0])

    asyncio.run(check())


async def test_what_websockets_says_of_broken_guests_is_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    async with room(limits=Limits(hello_s=0.2)) as host:
        reader, writer = await asyncio.open_connection("127.0.0.1", host.port)
        writer.write(b"no HTTP at all\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            await reader.read()
        await shut(writer)
    assert [record.name for record in caplog.records if record.levelname != "DEBUG"] == []
