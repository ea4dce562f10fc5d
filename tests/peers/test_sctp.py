"""Adjusted SCTP against plain aiortc: it gives the same bytes both ways, with and without loss, and says less."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiortc import RTCPeerConnection, RTCSctpTransport, rtcsctptransport
from aiortc.rtcsctptransport import DataChunk, SackChunk, tsn_minus_one

from desktop.peers import sctp as adjustments
from desktop.peers.sctp import LARGER, RECEIVE_BUFFER, Adjusted, adjust
from tests.peers.doubles import lane_of, make_link
from tests.peers.plain import PlainEnd

PLAIN, ADJUSTED = RTCSctpTransport, Adjusted
PACKET = 1160  # bytes of data, as aiortc sends it
MIXED = pytest.mark.parametrize(
    ("kind_a", "kind_b"), [(PLAIN, ADJUSTED), (ADJUSTED, PLAIN), (ADJUSTED, ADJUSTED)],
    ids=["plain-adjusted", "adjusted-plain", "both adjusted"],
)


class End(PlainEnd):
    """Keeps what it received, and counts the acknowledgements that it sent."""

    def __init__(self, kind: type[RTCSctpTransport]) -> None:
        super().__init__()
        self.data = bytearray()
        self.sacks = 0
        assert self.connection.sctp is not None
        self.sctp = self.connection.sctp
        if kind is ADJUSTED:
            assert adjust(self.sctp)
        send = self.sctp._send_chunk

        async def counted(chunk: Any) -> None:
            self.sacks += isinstance(chunk, SackChunk)
            await send(chunk)

        self.sctp._send_chunk = counted  # type: ignore[method-assign]
        self.sizes: list[int] = []  # of datagrams
        self.widest = 65_536
        self.timers: list[asyncio.TimerHandle] = []
        self.late: list[asyncio.Task[None]] = []
        ice = self.sctp.transport.transport
        put_out = ice._send

        async def measured(data: bytes) -> None:
            self.sizes.append(len(data))
            if len(data) <= self.widest:
                await put_out(data)

        ice._send = measured  # type: ignore[method-assign]

    def _take(self, data: bytes) -> None:
        self.data += data
        super()._take(data)

    def disturb(self, seed: int) -> None:
        """Of what it sends from now on, 1 % is lost, 1 % comes twice and 1 % comes later than what follows."""
        dtls, chance = self.sctp.transport, random.Random(seed)
        send, loop = dtls._send_data, asyncio.get_running_loop()

        async def disturbed(data: bytes) -> None:
            what = chance.random()
            if what < 0.01 and self.sctp._association_state is self.sctp.State.ESTABLISHED:
                self.timers.append(loop.call_later(0.003, lambda: self.late.append(asyncio.ensure_future(late(data)))))
            elif what >= 0.02:
                await send(data)
                if what < 0.03:
                    await send(data)

        async def late(data: bytes) -> None:
            with contextlib.suppress(ConnectionError):
                await send(data)

        dtls._send_data = disturbed  # type: ignore[method-assign]

    async def close(self) -> None:
        for timer in self.timers:
            timer.cancel()
        await asyncio.gather(*self.late)
        await self.connection.close()


@asynccontextmanager
async def pair(
    kind_a: type[RTCSctpTransport], kind_b: type[RTCSctpTransport], widest: int = 65_536
) -> AsyncIterator[tuple[End, End]]:
    """Two ends; datagrams of more than `widest` bytes do not come through."""
    a, b = End(kind_a), End(kind_b)
    a.widest = b.widest = widest
    await b.take(await a.describe())
    await a.take(await b.describe())
    for end in (a, b):
        await end.until(lambda end=end: end.channel.readyState == "open")
    yield a, b
    await asyncio.gather(a.close(), b.close())
    await asyncio.sleep(0)


async def exchange(giver: End, taker: End, size: int, limit_s: float = 30) -> None:
    data = os.urandom(size)
    before = len(taker.data)
    await giver.send(data)
    await taker.until(lambda: len(taker.data) - before >= size, limit_s)
    assert bytes(taker.data[before:]) == data


@MIXED
async def test_the_same_bytes_both_ways(kind_a: type[RTCSctpTransport], kind_b: type[RTCSctpTransport]) -> None:
    async with pair(kind_a, kind_b) as (a, b):
        await asyncio.gather(exchange(a, b, 2_000_000), exchange(b, a, 2_000_000))


@MIXED
async def test_the_same_bytes_over_a_bad_path(
    kind_a: type[RTCSctpTransport], kind_b: type[RTCSctpTransport]
) -> None:
    async with pair(kind_a, kind_b) as (a, b):
        for seed, end in enumerate((a, b)):
            end.disturb(seed)
        await asyncio.gather(exchange(a, b, 1_000_000), exchange(b, a, 1_000_000))


async def test_half_the_acknowledgements() -> None:
    counts = []
    for kind in (PLAIN, ADJUSTED):
        async with pair(PLAIN, kind) as (a, b):
            for _ in range(30):  # so little at once that no socket loses some of it
                await exchange(a, b, 100_000)
            counts.append(b.sacks)
    plain, fewer = counts
    assert plain >= 3_000_000 // PACKET
    assert plain * 0.4 < fewer < plain * 0.7


def received(transport: RTCSctpTransport, told: asyncio.Event) -> list[SackChunk]:
    """Lets it take DATA without a network: the SACKs that it would send are kept."""
    sent: list[SackChunk] = []

    async def keep(chunk: Any) -> None:
        assert isinstance(chunk, SackChunk)
        sent.append(chunk)
        told.set()

    transport._send_chunk = keep  # type: ignore[method-assign, assignment]
    transport._last_received_tsn = tsn_minus_one(0)
    transport._association_state = transport.State.ESTABLISHED
    return sent


async def take(transport: RTCSctpTransport, tsn: int, flags: int = 0) -> None:
    """One packet with one fragment, as `_handle_data` does it."""
    chunk = DataChunk(flags=flags)
    chunk.tsn, chunk.user_data = tsn, b"x"
    await transport._receive_chunk(chunk)
    if transport._sack_needed:
        await transport._send_sack()


async def test_when_an_acknowledgement_is_sent() -> None:
    connection = RTCPeerConnection()
    connection.createDataChannel("test", negotiated=True, id=0)
    transport: Any = connection.sctp
    assert adjust(transport)
    told = asyncio.Event()
    sent = received(transport, told)
    for tsn in range(adjustments.EACH_AT_FIRST):
        await take(transport, tsn)
    assert len(sent) == adjustments.EACH_AT_FIRST
    sent.clear()
    tsn = adjustments.EACH_AT_FIRST
    for number in range(10):
        await take(transport, tsn + number)
    assert [sack.cumulative_tsn for sack in sent] == [tsn + number for number in (1, 3, 5, 7, 9)]

    sent.clear()  # one packet alone: within 200 ms
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await take(transport, tsn + 10)
    assert sent == []
    told.clear()
    await asyncio.wait_for(told.wait(), 5)
    assert [sack.cumulative_tsn for sack in sent] == [tsn + 10]
    assert loop.time() - begun < 1

    sent.clear()  # the sender asks for it
    await take(transport, tsn + 11, flags=0x08)
    assert [sack.cumulative_tsn for sack in sent] == [tsn + 11]

    sent.clear()  # a duplicate: at once, and it is told
    await take(transport, tsn + 11)
    assert [(sack.cumulative_tsn, sack.duplicates) for sack in sent] == [(tsn + 11, [tsn + 11])]

    sent.clear()  # a gap, and what fills it: at once
    await take(transport, tsn + 13)
    await take(transport, tsn + 12)
    assert [(sack.cumulative_tsn, sack.gaps) for sack in sent] == [(tsn + 11, [(2, 2)]), (tsn + 13, [])]
    transport._association_state = transport.State.CLOSED
    await connection.close()


def fragments(chance: random.Random) -> list[DataChunk]:
    """Some messages of up to five fragments, on two streams, one in four unordered."""
    chunks: list[DataChunk] = []
    sequence = [0, 0]
    for _ in range(chance.randrange(1, 12)):
        stream, count = chance.randrange(2), chance.randrange(1, 6)
        unordered = chance.random() < 0.25
        for number in range(count):
            chunk = DataChunk(flags=(4 if unordered else 0) | (2 if number == 0 else 0) | (number == count - 1))
            chunk.tsn, chunk.stream_id, chunk.stream_seq = len(chunks), stream, 0 if unordered else sequence[stream]
            chunk.user_data = b"%d" % len(chunks)
            chunks.append(chunk)
        sequence[stream] += not unordered
    return chunks


def out_of_order(chunks: list[DataChunk], chance: random.Random) -> list[DataChunk]:
    """Each at most a few places away from its own, some twice."""
    places = [(place + chance.choice([0, 0, 0, 1, 4, 9]), chunk) for place, chunk in enumerate(chunks)]
    places += [(place + 3, chunk) for place, chunk in places if chance.random() < 0.1]
    return [chunk for _, chunk in sorted(places, key=lambda each: each[0])]


async def test_what_is_received_is_what_plain_aiortc_receives() -> None:
    connections = [RTCPeerConnection() for _ in range(2)]
    transports: list[Any] = []
    for connection in connections:
        connection.createDataChannel("test", negotiated=True, id=0)
        transports.append(connection.sctp)
    assert adjust(transports[1])
    for seed in range(200):
        chunks = out_of_order(fragments(random.Random(seed)), random.Random(seed))
        seen = []
        for transport in transports:
            received(transport, asyncio.Event())
            transport._inbound_streams.clear()
            messages: list[Any] = []

            async def note(*message: Any, messages: list[Any] = messages) -> None:
                messages.append(message)

            transport._receive = note
            states = []
            for chunk in chunks:
                await transport._receive_data_chunk(chunk)
                states.append((transport._last_received_tsn, set(transport._sack_misordered),
                               transport._advertised_rwnd, list(messages)))
            seen.append(states)
        assert seen[0] == seen[1]
        assert seen[0][-1][:3] == (max(chunk.tsn for chunk in chunks), set(), 1 << 20)
    for transport, connection in zip(transports, connections, strict=True):
        transport._association_state = transport.State.CLOSED
        await connection.close()


class Sender:
    """An adjusted association without a network: what it sends is kept, what it is told is made up."""

    def __init__(self, window: int) -> None:
        self.connection = RTCPeerConnection()
        self.connection.createDataChannel("test", negotiated=True, id=0)
        self.sctp: Any = self.connection.sctp
        assert adjust(self.sctp)
        self.sent: list[int] = []  # numbers of chunks, from 0
        self.first = self.sctp._local_tsn

        async def keep(chunk: Any) -> None:
            self.sent.append((chunk.tsn - self.first) % 2**32)

        self.sctp._send_chunk = keep
        self.sctp._association_state = self.sctp.State.ESTABLISHED
        self.sctp._ssthresh = 1 << 20
        self.sctp._cwnd = window * PACKET

    async def send(self, packets: int) -> None:
        await self.sctp._send(0, 53, bytes(packets * PACKET))

    async def told(self, upto: int, *gaps: tuple[int, int], room: int = 1 << 20) -> list[int]:
        """A SACK: all before `upto` has come, and from the first to the last of each gap block. What is sent then."""
        self.sent.clear()
        chunk = SackChunk()
        chunk.cumulative_tsn = (self.first + upto - 1) % 2**32
        chunk.advertised_rwnd = room
        chunk.gaps = [(first - upto + 1, last - upto + 1) for first, last in gaps]
        await self.sctp._receive_sack_chunk(chunk)
        return self.sent[:]

    async def time_out(self) -> list[int]:
        self.sent.clear()
        self.sctp._t3_cancel()
        self.sctp._t3_due = 0.0
        self.sctp._t3_expired()
        await asyncio.sleep(0)
        return self.sent[:]

    async def close(self) -> None:
        self.sctp._t3_cancel()
        self.sctp._association_state = self.sctp.State.CLOSED
        await self.connection.close()


@asynccontextmanager
async def sender(window: int) -> AsyncIterator[Sender]:
    it = Sender(window)
    yield it
    await it.close()


async def test_what_is_reported_missing_three_times_is_sent_again_once() -> None:
    async with sender(window=20) as it:
        await it.send(20)
        assert it.sent == [0, 1, 2, 3]  # RFC 9260 section 6.1 D: a burst of 4
        for _ in range(4, 20):
            it.sctp._flight_size = 0
            await it.sctp._transmit()
        it.sctp._flight_size = 20 * PACKET
        assert it.sent == list(range(20))
        assert await it.told(2) == []
        it.sctp._srtt = 10.0  # so that the round trip of the second one is not over in this test
        assert await it.told(2, (3, 3)) == []
        assert await it.told(2, (3, 4)) == []
        assert await it.told(2, (3, 5)) == [2]
        assert it.sctp._cwnd == it.sctp._ssthresh == int(22 * PACKET * 0.7)  # RFC 9438 section 4.6; 22 by slow start
        for number in range(6, 20):
            assert await it.told(2, (3, number)) == []
        assert await it.told(20) == []
        assert it.sctp._flight_size == 0
        assert it.sctp._fast_recovery_exit is None


async def test_what_is_lost_again_is_sent_again_when_later_ones_have_come() -> None:
    async with sender(window=4) as it:
        await it.send(30)
        assert it.sent == [0, 1, 2, 3]
        await it.told(0, (1, 1))
        await it.told(0, (1, 2))
        assert (await it.told(0, (1, 3)))[0] == 0
        later = it.sctp._sent_queue[-1].tsn - it.first
        assert later > 3  # sent after 0 was sent again
        it.sctp._srtt = 0.0
        assert 0 in await it.told(0, (1, later))


async def test_a_time_out_sends_again_what_is_not_known_to_have_come() -> None:
    async with sender(window=4) as it:
        await it.send(4)
        await it.told(1, (2, 2))
        assert await it.time_out() == [1]
        assert it.sctp._cwnd == PACKET  # RFC 9260 section 7.2.3
        assert it.sctp._ssthresh == int(6 * PACKET * 0.7)  # RFC 9438 section 4.8; 6 by slow start
        assert await it.told(3) == [3]
        assert await it.told(4) == []
        assert it.sctp._t3_handle is None


async def test_the_second_time_out_in_a_row_sends_again_everything() -> None:
    """The other end may have thrown away what it had (RFC 9260 section 6.2)."""
    async with sender(window=4) as it:
        await it.send(4)
        await it.told(1, (2, 3))
        assert await it.time_out() == [1]
        assert await it.time_out() == [1]
        assert await it.told(2) == [2, 3]  # slow start


async def test_the_window_grows_as_cubic_says() -> None:
    """RFC 9438 with C = 0.4, beta = 0.7: from 70 packets, 100 are reached after the cube root of 30 / 0.4, 4.217 s."""
    async with sender(window=100) as it:
        it.sctp._srtt = 0.0
        it.sctp._cwnd = it.sctp._ssthresh = it.sctp._shrunk()
        assert it.sctp._cwnd == 70 * PACKET
        for _ in range(70):  # one window: as fair as Reno with alpha = 3 * 0.3 / 1.7 = 0.529
            it.sctp._grow(PACKET)
        assert it.sctp._cwnd == pytest.approx(70.529 * PACKET, abs=0.01 * PACKET)
        it.sctp._since -= 4.217
        it.sctp._grow(it.sctp._cwnd)
        assert it.sctp._cwnd == pytest.approx(100 * PACKET, abs=0.1 * PACKET)
        it.sctp._since -= 4.217  # as far beyond, it is as far above
        it.sctp._grow(it.sctp._cwnd)
        assert it.sctp._cwnd == pytest.approx(130 * PACKET, abs=0.5 * PACKET)
        it.sctp._cwnd = 90 * PACKET  # lost before the peak: room for others
        it.sctp._shrunk()
        assert it.sctp._peak == pytest.approx(90 * PACKET * 0.85)


async def test_no_more_is_on_its_way_than_the_other_end_has_room_for() -> None:
    async with sender(window=4) as it:
        await it.send(30)
        assert await it.told(4, room=2 * PACKET) == [4, 5]
        assert await it.told(6, room=0) == [6]  # RFC 9260 section 6.1 A: one packet may try
        assert await it.told(7, room=10 * PACKET) == [7, 8, 9, 10]


async def test_no_more_than_half_a_mebibyte_is_on_its_way() -> None:
    async with sender(window=1000) as it:
        await it.send(1000)
        for upto in range(1, 200):
            await it.told(upto)
        assert 1 << 19 <= it.sctp._flight_size < (1 << 19) + PACKET


async def test_time_outs_come_after_400_ms_then_after_up_to_a_second() -> None:
    async with sender(window=4) as it:
        await it.send(8)
        await it.told(1)
        assert it.sctp._rto == 0.4  # less was measured
        waits = []
        for _ in range(3):
            await it.time_out()
            waits.append(it.sctp._rto)
        assert waits == [0.8, 1.0, 1.0]  # RFC 9260 section 6.3.3 E2, and aiortc's RTO.Min
        it.sctp._update_rto(2.0)
        assert it.sctp._rto == it.sctp._srtt + 4 * it.sctp._rttvar > 1


async def test_acknowledgements_do_not_start_timers() -> None:
    async with sender(window=4) as it:
        await it.send(30)
        await it.told(1)
        timer = it.sctp._t3_handle
        await it.told(2)
        assert it.sctp._t3_handle is timer
        assert not timer.cancelled()
        assert it.sctp._t3_due > timer.when() - it.sctp._rto
        it.sent.clear()
        it.sctp._t3_cancel()
        it.sctp._t3_expired()  # when the timer fires, the time has been put off
        await asyncio.sleep(0)
        assert it.sent == []
        assert it.sctp._t3_handle.when() == pytest.approx(it.sctp._t3_due)


@pytest.mark.parametrize("other", [PLAIN, ADJUSTED], ids=["plain", "adjusted"])
async def test_packets_are_larger_where_the_path_carries_them(other: type[RTCSctpTransport]) -> None:
    async with pair(ADJUSTED, other) as (a, b):
        await exchange(a, b, 500_000)
        a.sizes.clear()
        await exchange(a, b, 500_000)
        assert LARGER + 28 < max(a.sizes) <= 1500 - 28  # what IPv4 and UDP leave of Ethernet's packet
        assert len(a.sizes) < 500_000 / PACKET


async def test_packets_stay_small_where_larger_ones_are_lost() -> None:
    async with pair(ADJUSTED, ADJUSTED, widest=1300) as (a, b):
        await asyncio.gather(exchange(a, b, 500_000), exchange(b, a, 500_000))
        assert max(a.sizes) > 1300  # the probe
        assert a.sctp._payload == b.sctp._payload == PACKET  # type: ignore[attr-defined]


async def test_packets_are_small_again_when_larger_ones_come_through_no_more() -> None:
    async with pair(ADJUSTED, PLAIN) as (a, b):
        await exchange(a, b, 100_000)
        sctp: Any = a.sctp
        assert sctp._payload == LARGER
        sctp._timed_out()
        assert sctp._payload == LARGER
        sctp._timed_out()
        a.widest = 1300
        await exchange(a, b, 100_000)
        if sys.platform == "linux":  # and what is on its way already may be split
            sock = adjustments._socket(sctp)
            assert sock.getsockopt(socket.IPPROTO_IP, adjustments.IP_MTU_DISCOVER) == adjustments.NEVER


async def test_a_probe_is_not_split() -> None:
    async with pair(ADJUSTED, PLAIN) as (a, _):
        sock: Any = adjustments._socket(a.sctp)
        before = sock.getsockopt(socket.IPPROTO_IP, adjustments.IP_MTU_DISCOVER)
        with adjustments._unsplit(sock):
            assert sock.getsockopt(socket.IPPROTO_IP, adjustments.IP_MTU_DISCOVER) == adjustments.ALWAYS_WHOLE
        assert sock.getsockopt(socket.IPPROTO_IP, adjustments.IP_MTU_DISCOVER) == before


async def test_the_socket_has_more_room() -> None:
    async with pair(ADJUSTED, PLAIN) as (a, b):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:  # as much as the system gives
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
            most = asked.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
        sizes = [adjustments._socket(end.sctp).getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) for end in (a, b)]
        assert sizes[0] == most
        assert sizes[1] <= most


@pytest.mark.parametrize("change", ["version", "method", "attribute", "class"])
async def test_an_unknown_aiortc_stays_plain(
    change: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connection = RTCPeerConnection()
    connection.createDataChannel("test", negotiated=True, id=0)
    transport = connection.sctp
    assert transport is not None
    if change == "version":
        monkeypatch.setattr("aiortc.__version__", "1.17.0")
    elif change == "method":
        monkeypatch.setattr(RTCSctpTransport, "_send_sack", lambda self, more: None)
    elif change == "attribute":
        monkeypatch.delattr(transport, "_sack_needed")
    else:
        monkeypatch.delattr(rtcsctptransport, "HeartbeatChunk")
    with caplog.at_level(logging.INFO, "desktop.peers.sctp"):
        assert not adjust(transport)
    assert type(transport) is RTCSctpTransport
    assert len(caplog.records) == 1
    assert caplog.records[0].levelno == logging.INFO
    monkeypatch.undo()
    await connection.close()


async def test_links_are_adjusted() -> None:
    link, _ = make_link()
    await lane_of(link).offer()
    connection = lane_of(link)._connection
    assert connection is not None
    assert type(connection.sctp) is ADJUSTED
    await link.close("test over")
