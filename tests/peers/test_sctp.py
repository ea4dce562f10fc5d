"""Adjusted SCTP against plain aiortc: it gives the same bytes both ways, with and without loss, and says less."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiortc import RTCPeerConnection, RTCSctpTransport
from aiortc.rtcsctptransport import DataChunk, SackChunk, tsn_minus_one

from desktop.peers import sctp as adjustments
from desktop.peers.sctp import FewerAcknowledgements, adjust
from tests.peers.doubles import lane_of, make_link
from tests.peers.plain import PlainEnd

PLAIN, ADJUSTED = RTCSctpTransport, FewerAcknowledgements
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

    def _take(self, data: bytes) -> None:
        self.data += data
        super()._take(data)

    def lose(self, choose: Callable[[], bool]) -> None:
        """Of what it sends from now on, what is chosen is lost."""
        dtls = self.sctp.transport
        send = dtls._send_data

        async def lossy(data: bytes) -> None:
            if not choose():
                await send(data)

        dtls._send_data = lossy  # type: ignore[method-assign]


@asynccontextmanager
async def pair(kind_a: type[RTCSctpTransport], kind_b: type[RTCSctpTransport]) -> AsyncIterator[tuple[End, End]]:
    a, b = End(kind_a), End(kind_b)
    await b.take(await a.describe())
    await a.take(await b.describe())
    for end in (a, b):
        await end.until(lambda end=end: end.channel.readyState == "open")
    yield a, b
    await asyncio.gather(a.connection.close(), b.connection.close())
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
        await asyncio.gather(exchange(a, b, 5_000_000), exchange(b, a, 5_000_000))


@MIXED
async def test_the_same_bytes_with_loss(kind_a: type[RTCSctpTransport], kind_b: type[RTCSctpTransport]) -> None:
    async with pair(kind_a, kind_b) as (a, b):
        for seed, end in enumerate((a, b)):
            chance = random.Random(seed)
            end.lose(lambda chance=chance: chance.random() < 0.01)
        await asyncio.gather(exchange(a, b, 1_000_000), exchange(b, a, 1_000_000))


async def test_half_the_acknowledgements() -> None:
    async with pair(PLAIN, PLAIN) as (a, b):
        await exchange(a, b, 3_000_000)
        plain = b.sacks
    async with pair(PLAIN, ADJUSTED) as (a, b):
        await exchange(a, b, 3_000_000)
        fewer = b.sacks
    assert plain >= 3_000_000 // 1200
    assert plain * 0.4 < fewer < plain * 0.7


def received(transport: FewerAcknowledgements, told: asyncio.Event) -> list[SackChunk]:
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


async def take(transport: FewerAcknowledgements, tsn: int, flags: int = 0) -> None:
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


@pytest.mark.parametrize("change", ["version", "method", "attribute"])
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
    else:
        monkeypatch.delattr(transport, "_sack_needed")
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
