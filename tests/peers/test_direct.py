"""Direct lanes between two real sockets: what they carry, whom they refuse, and how they end."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import itertools
import json
import os
import random
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtWidgets import QApplication

from desktop.peers import direct
from desktop.peers.direct import HELLO, DirectError, DirectLane, Identity, Listener, dial, listen
from desktop.peers.eventloop import make_loop
from desktop.peers.lane import Lane
from tests.conftest import run_async
from tests.peers.direct_doubles import HOST, LaneRecorder, Pump, opened_pair

ROOT = Path(__file__).resolve().parents[2]
FRAME = 256 * 1024 + 128  # the longest packet
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def frame(packet: bytes) -> bytes:
    return len(packet).to_bytes(4, "big") + packet


# -- what it carries ------------------------------------------------------------------------------------


async def test_packets_arrive_byte_for_byte_both_ways() -> None:
    sizes = [1, 2, 10, 10, 16_383, 16_384, 16_385, 65_536, 65_546, FRAME - 1, FRAME, 1]
    async with opened_pair() as pair:
        there, back = ([os.urandom(size) for size in sizes] for _ in range(2))
        pair.heard_a.send(pair.a, there)
        pair.heard_b.send(pair.b, back)
        await pair.heard_b.until(lambda: len(pair.heard_b.packets) == len(there))
        await pair.heard_a.until(lambda: len(pair.heard_a.packets) == len(back))
        assert pair.heard_b.packets == there
        assert pair.heard_a.packets == back
    for heard in (pair.heard_a, pair.heard_b):
        assert heard.calls[0] == "opened"
        assert heard.calls[-1] == "closed"
        assert heard.calls.count("opened") == heard.calls.count("closed") == 1


class Hashing(Pump):
    """Keeps no data."""

    def __init__(self) -> None:
        super().__init__()
        self.digest = hashlib.sha256()

    def lane_packet(self, lane: Lane, packet: bytes | memoryview) -> None:
        self.digest.update(packet)
        self.received += len(packet)
        self.changed()


async def much_both_ways() -> None:
    chance = random.Random(3)
    there, back = ([chance.randbytes(chance.choice((40, 5_000, 65_536, 200_000))) for _ in range(500)] for _ in "ab")
    async with opened_pair(make=Hashing) as pair:
        for heard, lane, packets in ((pair.heard_a, pair.a, there), (pair.heard_b, pair.b, back)):
            heard.send(lane, packets)
        for heard, packets in ((pair.heard_b, there), (pair.heard_a, back)):
            whole = b"".join(packets)
            await heard.until(partial(heard.has, len(whole)), 30)
            assert isinstance(heard, Hashing)
            assert heard.digest.digest() == hashlib.sha256(whole).digest()


async def test_much_traffic_both_ways() -> None:
    await much_both_ways()


def test_it_runs_on_the_loop_of_the_window(qapp: QApplication) -> None:
    lost: list[dict[str, Any]] = []
    with asyncio.Runner(loop_factory=lambda: make_loop(qapp)) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: lost.append(context))
        runner.run(much_both_ways())
        runner.run(a_refused_one_and_the_right_one())
    assert lost == []


async def test_a_slow_reader_makes_the_writer_wait() -> None:
    async with opened_pair() as pair:
        assert pair.a._transport is not None
        assert pair.b._transport is not None
        pair.b._transport.pause_reading()
        packets = [bytes([number % 256]) * 60_000 for number in range(500)]  # far more than the system takes
        pair.heard_a.send(pair.a, packets)
        last = -1
        while len(pair.heard_a.to_send) != last:  # the system's buffers fill up
            last = len(pair.heard_a.to_send)
            await asyncio.sleep(0.1)
        assert not pair.a.writable
        assert last > 0
        held = pair.a._transport.get_write_buffer_size() + pair.a._outgoing.pending
        assert held < direct.HIGH_WATER + 2 * direct.TURN_BYTES + 60_000
        pair.b._transport.resume_reading()
        await pair.heard_b.until(lambda: pair.heard_b.received == 500 * 60_000)
        assert pair.heard_b.packets == packets
        assert "writable" in pair.heard_a.calls
        assert pair.a.writable


async def test_who_sends_but_never_reads_is_left() -> None:
    async with opened_pair() as pair:
        assert pair.b._transport is not None
        pair.b._transport.pause_reading()
        sent = 0
        while not pair.a.reason:
            pair.a.send(bytes(60_000))  # without asking whether it is writable
            sent += 60_000
            await asyncio.sleep(0)
            assert sent < 100_000_000
        assert pair.heard_a.calls[-1] == "closed"
        assert pair.heard_a.reason == "the other side does not read what is sent to it"


async def test_the_loop_has_its_turn_between_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "SLICE_S", 0.0)
    async with opened_pair() as pair:
        turns = [0]
        loop = asyncio.get_running_loop()

        def turn() -> None:
            turns.append(len(pair.heard_b.packets))
            if len(pair.heard_b.packets) < 100:
                loop.call_soon(turn)

        pair.heard_a.send(pair.a, [bytes([number]) for number in range(100)])
        turn()
        await pair.heard_b.until(lambda: len(pair.heard_b.packets) == 100)
        await asyncio.sleep(0.01)
        assert max(later - sooner for sooner, later in itertools.pairwise(turns)) <= 2
        assert pair.heard_b.packets == [bytes([number]) for number in range(100)]


async def test_a_packet_of_a_size_that_cannot_be_is_refused_at_once() -> None:
    async with opened_pair() as pair:
        for size in (0, FRAME + 1):
            with pytest.raises(ValueError):
                pair.a.send(bytes(size))
        assert pair.a.writable


async def test_a_key_encrypts_only_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "MOST_RECORDS", 20)
    async with opened_pair() as pair:
        pair.heard_a.send(pair.a, [bytes(60_000)] * 20)
        assert await pair.heard_a.until_closed() == "its key has encrypted as much as one key may"


# -- any cutting of the stream --------------------------------------------------------------------------


class Cable(asyncio.Transport):
    """A transport whose bytes the test carries itself."""

    def __init__(self) -> None:
        super().__init__({"socket": None})
        self.written = bytearray()
        self.gone = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def is_closing(self) -> bool:
        return self.gone

    def close(self) -> None:
        self.gone = True

    abort = close

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


ANYONE, OTHER = Identity(), Identity()
SIZES = st.one_of(st.integers(1, 40), st.sampled_from([16_379, 16_380, 16_384, 65_546, FRAME]))


def carry(cable: Cable, to: DirectLane, cuts: Iterator[int]) -> None:
    data, cable.written = bytes(cable.written), bytearray()
    place = 0
    while place < len(data):
        room = to.get_buffer(-1)
        size = min(next(cuts), len(room), len(data) - place)
        room[:size] = data[place:place + size]
        to.buffer_updated(size)
        place += size


async def cut_and_carried(sizes: list[int], cuts: list[int]) -> None:
    heard_a, heard_b = LaneRecorder(), LaneRecorder()
    a = DirectLane(2, heard_a, ANYONE.server_context(OTHER.certificate), OTHER.certificate, server=True,
                   take=lambda _: True, settled=lambda _: None)
    b = DirectLane(2, heard_b, OTHER.client_context(ANYONE.certificate), ANYONE.certificate, server=False,
                   take=lambda _: True, settled=lambda _: None)
    cable_a, cable_b = Cable(), Cable()
    a.connection_made(cable_a)
    b.connection_made(cable_b)
    sizes_of_segments = (cut for _ in iter(int, 1) for cut in cuts)
    packets = [random.Random(size).randbytes(size) for size in sizes]

    async def carry_all() -> None:
        while cable_a.written or cable_b.written:
            carry(cable_b, a, sizes_of_segments)
            carry(cable_a, b, sizes_of_segments)
            await asyncio.sleep(0)

    await carry_all()
    assert (heard_a.calls, heard_b.calls) == (["opened"], ["opened"])
    for packet in packets:
        b.send(packet)
    await asyncio.sleep(0)
    await carry_all()
    await heard_a.until(lambda: heard_a.received == sum(sizes))  # it goes on in the next slice
    assert heard_a.packets == packets
    for lane in (a, b):
        lane.close("")
        lane.connection_lost(None)
    assert heard_a.calls == ["opened", "closed"]


@settings(max_examples=60)
@given(st.lists(SIZES, max_size=6), st.lists(st.one_of(st.integers(1, 50), st.integers(1, 300_000)), min_size=1))
def test_any_cutting_of_the_stream_gives_the_same_packets(sizes: list[int], cuts: list[int]) -> None:
    run_async(cut_and_carried(sizes, cuts if max(cuts) > 50 else [*cuts, 5_000]))


# -- who is refused -------------------------------------------------------------------------------------


class Door:
    """A listener that waits for `friend`, and what it told."""

    def __init__(self) -> None:
        self.me, self.friend = Identity(), Identity()
        self.heard = Pump()
        self.lanes: list[DirectLane] = []
        self.listener: Listener

    @property
    def port(self) -> int:
        return self.listener.port

    async def dial(self, identity: Identity, heard: LaneRecorder | None = None) -> DirectLane:
        return await dial(identity, self.me.certificate, HOST, self.port, heard or LaneRecorder(), 2)

    async def is_open_to_the_friend(self) -> None:
        """Nothing that came before has kept the right one out, or was told as a lane."""
        assert self.heard.calls == []
        lane = await self.dial(self.friend)
        await self.heard.until(lambda: bool(self.lanes))
        lane.send(b"I am here")
        await self.heard.until(lambda: bool(self.heard.packets))
        assert self.heard.packets == [b"I am here"]
        lane.close("enough")
        await lane.ended()
        assert await self.heard.until_closed() == "the other side closed it"
        assert self.heard.calls == ["opened", "closed"]


@contextlib.asynccontextmanager
async def door(limit_s: float = 10.0) -> AsyncIterator[Door]:
    made = Door()
    made.listener = await listen(made.me, made.friend.certificate, HOST, made.lanes.append, made.heard, 2, limit_s)
    try:
        yield made
    finally:
        made.listener.close()
        for lane in made.lanes:
            lane.close("the test is over")
        await asyncio.gather(made.listener.ended(), *(lane.ended() for lane in made.lanes))


async def a_refused_one_and_the_right_one() -> None:
    async with door() as it:
        for _ in range(3):
            with pytest.raises(DirectError, match="alert"):
                await it.dial(Identity())
        await it.is_open_to_the_friend()


async def test_whoever_has_another_certificate_is_refused() -> None:
    await a_refused_one_and_the_right_one()


async def test_a_listener_with_another_certificate_is_refused() -> None:
    async with door() as it:
        with pytest.raises(DirectError, match="certificate verify failed"):
            await dial(it.friend, Identity().certificate, HOST, it.port, LaneRecorder(), 2)
        await it.is_open_to_the_friend()


class Signed(Identity):
    """Has a certificate that a key which is agreed on has signed, and is not the one agreed on."""

    def __init__(self) -> None:
        super().__init__()
        authority = ec.generate_private_key(ec.SECP256R1())
        names = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("authority", "member")]
        made = []
        for name, key, is_authority in ((names[0], authority, True), (names[1], self._key, False)):
            made.append(
                x509.CertificateBuilder().subject_name(name).issuer_name(names[0]).public_key(key.public_key())
                .serial_number(x509.random_serial_number()).not_valid_before(datetime.datetime(2000, 1, 1))
                .not_valid_after(datetime.datetime(2100, 1, 1))
                .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
                .sign(authority, hashes.SHA256())
            )
        self.authority = made[0].public_bytes(serialization.Encoding.DER)
        self._certificate = made[1]


async def test_a_certificate_signed_by_the_one_agreed_on_is_another_one() -> None:
    signed, me = Signed(), Identity()
    heard = LaneRecorder()
    listener = await listen(me, signed.authority, HOST, lambda _: None, heard, 2, 10)
    with pytest.raises(DirectError):
        await dial(signed, me.certificate, HOST, listener.port, heard, 2)
    listener.close()
    await listener.ended()
    listener = await listen(signed, me.certificate, HOST, lambda _: None, heard, 2, 10)
    with pytest.raises(DirectError, match="another certificate than the one agreed on"):
        await dial(me, signed.authority, HOST, listener.port, heard, 2)
    listener.close()
    await listener.ended()
    assert heard.calls == []


@contextlib.asynccontextmanager
async def connected(port: int, context: ssl.SSLContext | None = None) -> AsyncIterator[Streams]:
    """Somebody who speaks as the test says."""
    named: dict[str, Any] = {"ssl": context, "server_hostname": ""} if context else {}
    reader, writer = await asyncio.open_connection(HOST, port, **named)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def until_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), 5)
    except ConnectionError:
        return b""


async def test_plain_text_is_refused() -> None:
    async with door() as it:
        for text in (b"GET / HTTP/1.1\r\nHost: me\r\n\r\n", frame(HELLO) + frame(b"packet"), bytes(100_000)):
            async with connected(it.port) as (reader, writer):
                writer.write(text)
                assert len(await until_end(reader)) < 20  # an alert at most
        await it.is_open_to_the_friend()


async def test_tls_1_2_is_refused() -> None:
    async with door() as it:
        old = it.friend.client_context(it.me.certificate)
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(ssl.SSLError, match="version"):
            async with connected(it.port, old):
                pass
        await it.is_open_to_the_friend()


async def test_without_a_certificate_nobody_comes_in() -> None:
    async with door() as it:
        bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        bare.check_hostname = False
        bare.verify_mode = ssl.CERT_NONE
        with contextlib.suppress(ssl.SSLError):
            async with connected(it.port, bare) as (reader, writer):
                writer.write(frame(HELLO))
                assert await until_end(reader) == b""
        await it.is_open_to_the_friend()


def client_hello(it: Door) -> bytes:
    outgoing = ssl.MemoryBIO()
    tls = it.friend.client_context(it.me.certificate).wrap_bio(ssl.MemoryBIO(), outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("words", ["none", "half", "first"])
async def test_half_open_connections_end_and_keep_nobody_out(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "HANDSHAKE_S", 0.3)
    async with door() as it, contextlib.AsyncExitStack() as stack:
        hello = client_hello(it)
        begun = time.monotonic()
        readers = []
        for _ in range(3):
            reader, writer = await stack.enter_async_context(connected(it.port))
            writer.write({"none": b"", "half": hello[:40], "first": hello}[words])
            readers.append(reader)
        for reader in readers:
            await until_end(reader)
        assert 0.2 < time.monotonic() - begun < 3
        await it.is_open_to_the_friend()


async def test_many_half_open_connections_keep_nobody_out() -> None:
    async with door() as it, contextlib.AsyncExitStack() as stack:
        readers = [(await stack.enter_async_context(connected(it.port)))[0] for _ in range(3 * direct.HANDSHAKES)]
        await until_end(readers[0])  # long before the limit of a handshake
        assert len(it.listener._meeting) <= direct.HANDSHAKES
        await it.is_open_to_the_friend()
        for reader in readers:
            await until_end(reader)


@pytest.mark.parametrize(("words", "reason"), [
    (frame(HELLO) + b"\xff\xff\xff\xff", "a packet of 4294967295 bytes was announced"),
    (frame(HELLO) + (FRAME + 1).to_bytes(4, "big"), f"a packet of {FRAME + 1} bytes was announced"),
    (frame(HELLO) + frame(b""), "a packet of 0 bytes was announced"),
])
async def test_a_length_that_cannot_be_ends_the_lane(words: bytes, reason: str) -> None:
    async with door() as it:
        async with connected(it.port, it.friend.client_context(it.me.certificate)) as (reader, writer):
            writer.write(words)
            assert await it.heard.until_closed() == reason
            assert await until_end(reader) == frame(HELLO)
        assert it.heard.calls == ["opened", "closed"]
        assert it.heard.packets == []


@pytest.mark.parametrize("words", [frame(b"peerloom direct lane 9"), frame(b"hello"), frame(b""), b"\xff\xff\xff\xff"])
async def test_who_greets_otherwise_is_refused(words: bytes) -> None:
    async with door() as it:
        async with connected(it.port, it.friend.client_context(it.me.certificate)) as (reader, writer):
            writer.write(words)
            assert await until_end(reader) == b""
        await it.is_open_to_the_friend()


async def test_of_two_connections_one_is_taken() -> None:
    async with door() as it:
        heard = [LaneRecorder() for _ in range(4)]
        results = await asyncio.gather(*(it.dial(it.friend, each) for each in heard), return_exceptions=True)
        lanes = [result for result in results if isinstance(result, DirectLane)]
        assert len(lanes) == len(it.lanes) == 1
        assert sorted(each.calls for each in heard) == [[], [], [], ["opened"]]
        assert all(isinstance(result, DirectLane | DirectError) for result in results)
        lanes[0].close("enough")
        await lanes[0].ended()


# -- how it ends ----------------------------------------------------------------------------------------


def other_process() -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "tests.peers.direct_process"], cwd=ROOT, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


async def test_a_killed_peer_closes_the_lane_once() -> None:
    me, heard = Identity(), Hashing()
    lanes: list[DirectLane] = []
    with other_process() as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        certificate = bytes.fromhex(json.loads(peer.stdout.readline()))
        listener = await listen(me, certificate, HOST, lanes.append, heard, 2, 10)
        peer.stdin.write(json.dumps([me.certificate.hex(), listener.port]) + "\n")
        peer.stdin.flush()
        await heard.until(lambda: heard.received > 5_000_000)
        peer.kill()
        reason = await heard.until_closed()
    await asyncio.gather(lanes[0].ended(), listener.ended())
    assert heard.calls == ["opened", "closed"]
    assert "connection" in reason


async def test_closing_is_told_within_the_call_and_once() -> None:
    async with opened_pair() as pair:
        pair.a.close("enough")
        assert pair.heard_a.calls == ["opened", "closed"]
        assert pair.heard_a.reason == "enough"
        pair.a.close("again")
        pair.a.send(b"nobody hears this")
        assert not pair.a.writable
        await pair.a.ended()
        pair.a.close("and again")
        assert await pair.heard_b.until_closed() == "the other side closed it"
        assert pair.heard_a.calls == pair.heard_b.calls == ["opened", "closed"]


async def test_what_was_sent_before_closing_arrives_when_there_is_room() -> None:
    async with opened_pair() as pair:
        pair.a.send(b"the last one")
        pair.a.close("enough")
        await pair.heard_b.until_closed()
        assert pair.heard_b.packets == [b"the last one"]


async def test_closing_does_not_wait_for_who_does_not_read() -> None:
    async with opened_pair() as pair:
        assert pair.b._transport is not None
        pair.b._transport.pause_reading()
        while pair.a.writable or await asyncio.sleep(0.05, pair.a.writable):
            pair.a.send(bytes(60_000))
        pair.a.close("enough")
        await asyncio.wait_for(pair.a.ended(), 1)


class Closing(Pump):
    """Closes the lane as soon as `call` comes."""

    call = ""

    def _note(self, call: str) -> None:
        super()._note(call)
        if call == self.call:
            self.lane.close(f"closed when {call}")

    def lane_opened(self, lane: Lane) -> None:
        self.lane = lane
        super().lane_opened(lane)

    def lane_packet(self, lane: Lane, packet: bytes | memoryview) -> None:
        super().lane_packet(lane, packet)
        self._note("packet")


@pytest.mark.parametrize("call", ["opened", "packet", "writable", "closed"])
async def test_closing_from_any_event(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Closing, "call", call)
    mine, theirs = Identity(), Identity()
    heard_a, heard_b = Closing(), Closing()
    lanes: list[DirectLane] = []
    listener = await listen(mine, theirs.certificate, HOST, lanes.append, heard_a, 2, 10)
    with contextlib.suppress(DirectError):  # closed by the listening side before it could say hello
        lanes.append(await dial(theirs, mine.certificate, HOST, listener.port, heard_b, 2))
    await heard_a.until(lambda: "opened" in heard_a.calls)
    for lane, heard in ((lane, heard) for lane in lanes for heard in (heard_a, heard_b) if heard.lane is lane):
        heard.send(lane, [bytes(60_000)] * 20)
    if call == "closed":
        lanes[0].close("enough")
    for heard in (heard_a, heard_b):
        if heard.calls:
            await heard.until_closed()
    await asyncio.gather(listener.ended(), *(lane.ended() for lane in lanes))
    for heard in (heard_a, heard_b):
        assert heard.calls.count("closed") == heard.calls.count("opened") <= 1
        assert heard.calls[-1:] in (["closed"], [])
    assert call != "packet" or len(heard_a.packets) <= 1


@contextlib.asynccontextmanager
async def silent_server(words: bytes = b"") -> AsyncIterator[int]:
    """Accepts, and says no more than that. Gives the port."""
    writers: list[asyncio.StreamWriter] = []

    async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(words)

    server = await asyncio.start_server(met, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def test_dialling_somebody_silent_ends_in_time() -> None:
    heard = LaneRecorder()
    async with silent_server() as port:
        begun = time.monotonic()
        with pytest.raises(DirectError, match=r"^no answer within 0\.3 s$") as caught:
            await dial(Identity(), Identity().certificate, HOST, port, heard, 2, limit_s=0.3)
        assert 0.25 < time.monotonic() - begun < 2
        assert caught.value.reason == "no answer within 0.3 s"
    assert heard.calls == []


async def test_dialling_where_nothing_speaks_tls_fails_at_once() -> None:
    async with silent_server(b"220 ready\r\n") as port:
        with pytest.raises(DirectError, match="handshake failed"):
            await dial(Identity(), Identity().certificate, HOST, port, LaneRecorder(), 2)
    with pytest.raises(DirectError):  # nobody listens there any more
        await dial(Identity(), Identity().certificate, HOST, port, LaneRecorder(), 2)


async def test_a_full_queue_of_connections_ends_in_time() -> None:
    """As a firewall that drops silently: the system answers no further connection."""
    with socket.socket() as listening, contextlib.ExitStack() as stack:
        listening.bind((HOST, 0))
        listening.listen(0)
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        begun = time.monotonic()
        with pytest.raises(DirectError, match="no answer within"):
            await dial(Identity(), Identity().certificate, HOST, listening.getsockname()[1], LaneRecorder(), 2, 0.3)
        assert time.monotonic() - begun < 2


async def test_dialling_can_be_stopped() -> None:
    heard = LaneRecorder()
    async with silent_server() as port:
        task = asyncio.create_task(dial(Identity(), Identity().certificate, HOST, port, heard, 2))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert heard.calls == []


@pytest.mark.parametrize("turns", range(12))
async def test_dialling_can_be_stopped_at_any_moment(turns: int) -> None:
    async with door() as it:
        heard = LaneRecorder()
        task = asyncio.create_task(it.dial(it.friend, heard))
        for _ in range(turns):
            await asyncio.sleep(0.0005)
        task.cancel()
        try:
            lane = await task
        except asyncio.CancelledError:
            assert heard.calls in ([], ["opened", "closed"])
        else:
            lane.close("enough")
            await lane.ended()
            assert heard.calls == ["opened", "closed"]


async def test_a_listener_ends_by_itself() -> None:
    async with door(limit_s=0.2) as it:
        async with connected(it.port) as (reader, _):
            await until_end(reader)  # in the middle of a handshake
        await asyncio.wait_for(it.listener.ended(), 5)
        with pytest.raises(DirectError):
            await it.dial(it.friend)
        it.listener.close()
    assert it.heard.calls == []


async def test_a_listener_that_has_a_lane_listens_no_more() -> None:
    async with door() as it:
        lane = await it.dial(it.friend)
        await it.heard.until(lambda: bool(it.lanes))
        await it.listener.ended()
        with pytest.raises(DirectError):
            await it.dial(it.friend)
        it.listener.close()
        assert it.lanes[0].writable
        lane.close("enough")
        await lane.ended()


async def test_closing_a_listener_while_connections_come(monkeypatch: pytest.MonkeyPatch) -> None:
    for turns in range(6):
        async with door() as it:
            dials = [asyncio.create_task(it.dial(Identity())) for _ in range(4)]
            for _ in range(turns):
                await asyncio.sleep(0)
            it.listener.close()
            results = await asyncio.gather(*dials, return_exceptions=True)
            assert all(isinstance(result, DirectError) for result in results)
        assert it.heard.calls == []


@pytest.mark.parametrize("turns", range(6))
async def test_listening_can_be_stopped_at_any_moment(turns: int) -> None:
    task = asyncio.create_task(listen(ANYONE, OTHER.certificate, HOST, lambda _: None, LaneRecorder(), 2, 10))
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        listener = await task
        listener.close()
        await listener.ended()


async def test_the_system_watches_a_path_that_may_die_unnoticed() -> None:
    async with opened_pair() as pair:
        for lane in (pair.a, pair.b):
            assert lane._transport is not None
            sock = lane._transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 8000


async def test_what_cannot_be_is_said() -> None:
    me, peer, heard = Identity(), Identity(), LaneRecorder()
    for wrong in (b"", b"no certificate", peer.certificate[:-1], bytes(5000)):
        with pytest.raises(DirectError, match="certificate cannot be read"):
            await dial(me, wrong, HOST, 9, heard, 2)
        with pytest.raises(DirectError, match="certificate cannot be read"):
            await listen(me, wrong, HOST, lambda _: None, heard, 2, 1)
    for port in (0, -1, 70_000):
        with pytest.raises(DirectError, match="no port"):
            await dial(me, peer.certificate, HOST, port, heard, 2)
    with pytest.raises(DirectError):
        await listen(me, peer.certificate, "192.0.2.1", lambda _: None, heard, 2, 1)  # not an address of this computer


# -- certificates ---------------------------------------------------------------------------------------


def test_no_key_is_left_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    seen: list[tuple[int, bytes]] = []
    load: Callable[..., None] = ssl.SSLContext.load_cert_chain

    def looking(self: ssl.SSLContext, file: Path, **named: Any) -> None:
        seen.append((file.parent.stat().st_mode & 0o777, file.read_bytes()))
        load(self, file, **named)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", looking)
    identity = Identity()
    identity.server_context(OTHER.certificate)
    identity.client_context(OTHER.certificate)
    assert list(tmp_path.iterdir()) == []
    assert [mode for mode, _ in seen] == [0o700, 0o700]
    for _, text in seen:
        assert b"-----BEGIN ENCRYPTED PRIVATE KEY-----" in text
        assert b"-----BEGIN PRIVATE KEY-----" not in text


def test_each_identity_is_its_own() -> None:
    assert ANYONE.certificate != OTHER.certificate
    assert ANYONE.fingerprint == hashlib.sha256(ANYONE.certificate).hexdigest()
    read = x509.load_der_x509_certificate(ANYONE.certificate)
    assert isinstance(read.public_key(), ec.EllipticCurvePublicKey)
    assert read.fingerprint(hashes.SHA256()).hex() == ANYONE.fingerprint
    assert len(ANYONE.certificate) < 1000
