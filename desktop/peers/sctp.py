"""Adjustments of aiortc's SCTP that make a link faster; the other end may be plain aiortc or a browser.

aiortc's SCTP is Python, so a link is as fast as little is done for each packet. An adjustment is a class, explained
with its source; `adjust` gives them to one connection. As they build on the inside of aiortc, `adjust` looks first
whether that is the inside they were written for; if not, the connection stays as it is, and the log says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import aiortc
from aiortc import RTCSctpTransport, rtcsctptransport

if TYPE_CHECKING:
    from aiortc.rtcsctptransport import Chunk, DataChunk, SackChunk

log = logging.getLogger(__name__)

KNOWN = "1.16."  # versions of aiortc that begin so
SHAPE: dict[str, tuple[str, ...]] = {  # methods that are replaced or called, and their parameters
    "_data_channel_flush": ("self",),
    "_flight_size_decrease": ("self", "chunk"),
    "_flight_size_increase": ("self", "chunk"),
    "_mark_received": ("self", "tsn"),
    "_maybe_abandon": ("self", "chunk"),
    "_receive": ("self", "stream_id", "pp_id", "data"),
    "_receive_chunk": ("self", "chunk"),
    "_receive_data_chunk": ("self", "chunk"),
    "_receive_sack_chunk": ("self", "chunk"),
    "_reset_deferred_streams": ("self",),
    "_send": ("self", "stream_id", "pp_id", "user_data", "expiry", "max_retransmits", "ordered"),
    "_send_chunk": ("self", "chunk"),
    "_send_sack": ("self",),
    "_set_state": ("self", "state"),
    "_t3_cancel": ("self",),
    "_t3_expired": ("self",),
    "_t3_restart": ("self",),
    "_t3_start": ("self",),
    "_transmit": ("self",),
    "_update_advanced_peer_ack_point": ("self",),
    "_update_rto": ("self", "R"),
    "start": ("self", "remoteCaps", "remotePort"),
}
INSIDE = (
    "_advertised_rwnd", "_association_state", "_cwnd", "_data_channel_queue", "_fast_recovery_exit",
    "_fast_recovery_transmit", "_flight_size", "_forward_tsn_chunk", "_last_received_tsn", "_last_sacked_tsn",
    "_local_tsn", "_outbound_queue", "_outbound_stream_seq", "_partial_bytes_acked", "_reconfig_deferred",
    "_reconfig_queue", "_rto", "_rttvar", "_sack_duplicates", "_sack_misordered", "_sack_needed", "_sent_queue",
    "_srtt", "_t3_handle",
)
NAMES = ("DataChunk", "HeartbeatAckChunk", "HeartbeatChunk", "InboundStream", "SackChunk", "USERDATA_MAX_LENGTH")

DATA, SACK, HEARTBEAT_ACK = 0, 3, 5  # RFC 9260 section 3.2
LAST_FRAGMENT, FIRST_FRAGMENT, UNORDERED, SACK_IMMEDIATELY = 0x01, 0x02, 0x04, 0x08  # RFC 9260 section 3.3.1
DATA_HEADER = struct.Struct("!BBHLHHL")
HEARTBEAT_INFO = 1  # RFC 9260 section 3.3.5

SACK_DELAY_S = 0.2  # RFC 9260 section 6.2: within 200 ms
EACH_AT_FIRST = 256  # packets acknowledged one by one while the sender's window opens: it grows with each SACK
EACH_AFTER_LOSS = 64
MISSES = 3  # RFC 9260 section 7.2.4: what was so often reported missing is lost
BURST, BURST_IN_RECOVERY = 4, 2  # packets; RFC 9260 section 6.1 D, and what aiortc has in recovery
GROWTH = 2  # packets for each SACK in slow start; RFC 9260 section 7.2.1 refers to RFC 3465, which allows 2
WINDOW = 1 << 19  # bytes on their way at most
RTO_MIN_S = 0.4

CUBIC, DECREASE = 0.4, 0.7  # C, in packets per second cubed, and beta: RFC 9438 sections 5 and 4.6

LARGER = 1380  # bytes of user data in a packet
PROBES, PROBE_S = 3, 3.0
RECEIVE_BUFFER = 1 << 20  # bytes: the window that aiortc offers
IP_MTU_DISCOVER, ALWAYS_WHOLE, IF_IT_FITS, NEVER = 10, 2, 1, 0  # linux/in.h; not in Python's socket before 3.14


def ahead(tsn: int, other: int) -> int:
    """How far one number is ahead of the other, negative if behind: RFC 1982, 32 bits."""
    return (tsn - other + 0x8000_0000) % 0x1_0000_0000 - 0x8000_0000


def following(tsn: int) -> int:
    """The next number."""
    return (tsn + 1) % 0x1_0000_0000


class FewerAcknowledgements(RTCSctpTransport):
    """A SACK for every second packet, or after 200 ms, instead of one for each.

    RFC 9260 section 6.2: an acknowledgement should be generated for at least every second packet, and within 200 ms of
    the arrival of any unacknowledged DATA chunk; at once for duplicates (6.2), for gaps (6.7) and when the sender asks
    for it. The first packets, and those after a loss, are acknowledged one by one, as the sender's slow start (7.2.1)
    opens its window by one packet for each SACK and a window of one packet would wait for the 200 ms.
    """

    _each = EACH_AT_FIRST  # so many packets more are acknowledged at once
    _sack_owed = False
    _sack_timer: asyncio.TimerHandle | None = None

    async def _send_sack(self) -> None:
        if self._sack_misordered or self._sack_duplicates:
            self._each = max(self._each, EACH_AFTER_LOSS)
        if self._each > 0 or self._sack_owed or self._association_state is not self.State.ESTABLISHED:
            self._each -= self._each > 0
            self._sack_owed = False
            await super()._send_sack()
            return
        self._sack_owed = True
        self._sack_needed = False
        if self._sack_timer is None:
            self._sack_timer = asyncio.get_running_loop().call_later(SACK_DELAY_S, self._sack_due)

    def _sack_due(self) -> None:
        """At most 200 ms after a packet: the timer may have been started for an earlier one."""
        self._sack_timer = None
        if self._sack_owed and self._association_state is self.State.ESTABLISHED:
            asyncio.ensure_future(self._send_owed_sack())  # noqa: RUF006  (as aiortc's own timers do)

    async def _send_owed_sack(self) -> None:
        try:
            if self._sack_owed:
                await self._send_sack()
        except ConnectionError as error:
            log.info("no SACK on a connection that has ended: %r", error)

    async def _receive_data_chunk(self, chunk: DataChunk) -> None:
        if chunk.flags & SACK_IMMEDIATELY:
            self._each = max(self._each, 1)
        await super()._receive_data_chunk(chunk)


class QuickReception(RTCSctpTransport):
    """What comes in order is neither sorted, nor searched for whole messages before the last fragment of one.

    aiortc sorts and filters what it holds for each packet, and goes through all fragments of the message that is being
    put together, so that n fragments cost n*n steps. What comes out is the same (RFC 9260 sections 6.2 and 6.9).
    """

    def _mark_received(self, tsn: int) -> bool:
        """True: it was here before."""
        last, early = self._last_received_tsn, self._sack_misordered
        assert last is not None
        if ahead(tsn, last) <= 0 or tsn in early:
            self._sack_duplicates.append(tsn)
            return True
        if tsn != following(last):
            early.add(tsn)
            return False
        while early and following(tsn) in early:
            tsn = following(tsn)
            early.remove(tsn)
        self._last_received_tsn = tsn
        return False

    async def _receive_data_chunk(self, chunk: DataChunk) -> None:
        self._sack_needed = True
        in_order = not self._sack_misordered
        if self._mark_received(chunk.tsn):
            return
        stream = self._get_inbound_stream(chunk.stream_id)
        stream.add_chunk(chunk)
        self._advertised_rwnd -= len(chunk.user_data)
        if not in_order or self._sack_misordered or chunk.flags & LAST_FRAGMENT:  # else no message is whole by this
            for message in stream.pop_messages():
                self._advertised_rwnd += len(message[2])
                await self._receive(*message)
        if self._reconfig_deferred is not None:
            await self._reset_deferred_streams()


class Fragment:
    """What aiortc has a DataChunk for when it sends: with the same attributes, and made and packed faster."""

    type = DATA
    _abandoned = False
    _acked = False
    _expiry: float | None = None
    _in_flight = False
    _max_retransmits: int | None = None
    _misses = 0
    _retransmit = False
    _sent_count = 0
    _sent_time = 0.0

    def __init__(self, flags: int, tsn: int, stream_id: int, stream_seq: int, protocol: int, user_data: bytes) -> None:
        self.flags = flags
        self.tsn = tsn
        self.stream_id = stream_id
        self.stream_seq = stream_seq
        self.protocol = protocol
        self.user_data = user_data
        self._book_size = len(user_data)

    def __bytes__(self) -> bytes:
        length = DATA_HEADER.size + len(self.user_data)
        head = DATA_HEADER.pack(DATA, self.flags, length, self.tsn, self.stream_id, self.stream_seq, self.protocol)
        return head + self.user_data + bytes(-length % 4)


class QuickTransmission(RTCSctpTransport):
    """Nothing that was sent is looked through again for each acknowledgement, and no timer is made anew for each.

    aiortc goes through all that is on its way for each SACK, several times if there are gaps. Here a SACK costs what it
    says anew. What it decides is what RFC 9260 says, with these differences to aiortc:

    - A chunk is fast retransmitted once (7.2.4, 5); lost again is what was sent earlier, by a quarter of a round trip,
      than something that has arrived (RFC 8985 section 6.2), or is still missing after a round trip and that quarter.
      aiortc resends at every third report, mostly for nothing.
    - No more is on its way than the other end says it has room for (6.1 A), which aiortc ignores, nor than 512 KiB:
      what is more would wait in sockets, in front of what is urgent, or be lost there.
    - The first time-out comes after 400 ms at the least, as in browsers, instead of one second (RTO.Min in section 16
      can be set). Then the time doubles (6.3.3 E2), up to aiortc's, which does not double.
    - Slow start opens by up to two packets for each SACK (7.2.1 with RFC 3465), as a SACK may be for two.
    """

    _lost: deque[Any]  # to be sent again, as far as `_retransmit` still says so
    _blocks: dict[int, int]  # first and last TSN of the gap blocks of the last SACK
    _newest = 0.0  # when the latest of what has arrived was sent
    _patient_rto = 0.0  # aiortc's
    _payload = 1160
    _peer_window = RECEIVE_BUFFER
    _partly_reliable = False
    _t3_due = 0.0
    _timeouts = 0  # in a row

    async def _send(
        self, stream_id: int, pp_id: int, user_data: bytes, expiry: float | None = None,
        max_retransmits: int | None = None, ordered: bool = True,
    ) -> None:
        """Split a message into fragments and send what the window allows."""
        stream_seq = self._outbound_stream_seq.get(stream_id, 0) if ordered else 0
        size, length = self._payload, len(user_data)
        self._partly_reliable |= expiry is not None or max_retransmits is not None
        for place in range(0, length, size):
            flags = (0 if ordered else UNORDERED) | (0 if place else FIRST_FRAGMENT)
            if place + size >= length:
                flags |= LAST_FRAGMENT
            chunk: Any = Fragment(flags, self._local_tsn, stream_id, stream_seq, pp_id, user_data[place:place + size])
            if self._partly_reliable:
                chunk._expiry, chunk._max_retransmits = expiry, max_retransmits
            self._local_tsn = following(self._local_tsn)
            self._outbound_queue.append(chunk)
        if ordered:
            self._outbound_stream_seq[stream_id] = (stream_seq + 1) % 0x1_0000
        await self._transmit()

    async def _transmit(self) -> None:
        """RFC 9260 section 6.1: first what is lost, then what is new."""
        if self._forward_tsn_chunk is not None:
            await self._send_chunk(self._forward_tsn_chunk)
            self._forward_tsn_chunk = None
            if not self._t3_handle:
                self._t3_restart()
        burst = (BURST if self._fast_recovery_exit is None else BURST_IN_RECOVERY) * self._payload
        window = min(self._flight_size + burst, self._cwnd)
        while self._lost:
            chunk = self._lost[0]
            if chunk._retransmit:  # else it has arrived meanwhile, or was given up
                if self._fast_recovery_transmit:
                    self._fast_recovery_transmit = False
                elif self._flight_size >= window:
                    return
            self._lost.popleft()
            if chunk._retransmit:
                chunk._misses = 0
                chunk._retransmit = False
                await self._put_out(chunk)
                if self._sent_queue and chunk is self._sent_queue[0]:
                    self._t3_restart()
        window = min(window, WINDOW, max(self._peer_window, 1))  # with nothing on its way, one packet may try
        while self._outbound_queue and self._flight_size < window:
            chunk = self._outbound_queue.popleft()
            self._sent_queue.append(chunk)
            await self._put_out(chunk)
            if not self._t3_handle:
                self._t3_restart()

    async def _put_out(self, chunk: Any) -> None:
        self._flight_size_increase(chunk)
        chunk._sent_count += 1
        chunk._sent_time = time.monotonic()
        await self._send_chunk(chunk)

    async def _receive_sack_chunk(self, chunk: SackChunk) -> None:
        if ahead(self._last_sacked_tsn, chunk.cumulative_tsn) > 0:
            return
        self._peer_window = chunk.advertised_rwnd
        was_full = self._flight_size >= self._cwnd
        count, arrived = self._take_acknowledged(chunk.cumulative_tsn)
        lost = False
        if chunk.gaps and self._sent_queue:
            newly, lost = self._take_gaps(chunk)
            arrived += newly
        else:
            self._blocks.clear()
        self._adjust_window(chunk.cumulative_tsn, arrived if count and was_full else 0, lost)
        if not self._sent_queue:
            self._t3_cancel()
        elif count:
            self._t3_restart()
        if self._partly_reliable:
            self._update_advanced_peer_ack_point()
        if self._data_channel_queue or self._reconfig_queue:
            await self._data_channel_flush()
        await self._transmit()

    def _update_rto(self, R: float) -> None:
        """RFC 9260 section 6.3.1."""
        super()._update_rto(R)
        self._patient_rto = self._rto
        if self._srtt is not None and self._rttvar is not None:
            self._rto = min(self._rto, max(RTO_MIN_S, self._srtt + 4 * self._rttvar))

    def _take_acknowledged(self, tsn: int) -> tuple[int, int]:
        """All up to this one has arrived: how many chunks, and how many bytes that were not known to have."""
        self._last_sacked_tsn = tsn
        sent, count, size = self._sent_queue, 0, 0
        while sent and ahead(tsn, sent[0].tsn) >= 0:
            chunk: Any = sent.popleft()
            if not count and chunk._sent_count == 1:
                self._update_rto(time.monotonic() - chunk._sent_time)
            count += 1
            size += self._arrived(chunk)
        if count:
            self._timeouts = 0
        return count, size

    def _arrived(self, chunk: Any) -> int:
        """Bytes that were not known to have arrived."""
        chunk._retransmit = False
        self._flight_size_decrease(chunk)
        if chunk._acked:
            return 0
        chunk._acked = True
        if chunk._sent_count == 1:  # else it may be the first that has arrived
            self._newest = max(self._newest, chunk._sent_time)
        return int(chunk._book_size)

    def _take_gaps(self, sack: SackChunk) -> tuple[int, bool]:
        """Bytes that were not known to have arrived, and whether something is now known to be lost."""
        sent, known, size, highest = self._sent_queue, self._blocks, 0, -1
        first_tsn = sent[0].tsn
        begin = ahead(sack.cumulative_tsn, first_tsn)  # a chunk's place is its distance from the first
        places: list[tuple[int, int]] = []
        self._blocks = {}
        for first, last in sack.gaps:
            start, end = max(0, begin + first), min(begin + last, len(sent) - 1)
            if start > end:
                continue
            places.append((start, end))
            tsn = sent[start].tsn
            self._blocks[tsn] = sent[end].tsn
            new = max(start, ahead(known[tsn], first_tsn) + 1) if tsn in known else start
            for place in range(new, end + 1):
                if newly := self._arrived(sent[place]):
                    size += newly
                    highest = place
        return size, self._strike(places, highest)

    def _strike(self, arrived: list[tuple[int, int]], highest: int) -> bool:
        """One more report for all that is missing before the highest that has newly arrived: is something lost?"""
        lost, begin = False, 0
        now, patience = time.monotonic(), (self._srtt or 0.0) / 4
        for start, end in arrived:
            for place in range(begin, min(start, highest)):
                chunk: Any = self._sent_queue[place]
                if chunk._retransmit or chunk._abandoned:
                    continue
                chunk._misses += 1
                if chunk._sent_count == 1 or chunk._acked:  # (acknowledged, and missing again: RFC 9260 section 6.2.1)
                    is_lost = chunk._misses >= MISSES
                else:
                    is_lost = chunk._sent_time + patience < self._newest or chunk._sent_time + 5 * patience < now
                if is_lost:
                    chunk._misses = 0
                    chunk._acked = False
                    self._flight_size_decrease(chunk)
                    self._resend(chunk)
                    lost = True
            begin = end + 1
        return lost

    def _resend(self, chunk: Any) -> None:
        if not self._maybe_abandon(chunk):
            chunk._retransmit = True
            self._lost.append(chunk)

    def _adjust_window(self, tsn: int, arrived: int, lost: bool) -> None:
        """RFC 9260 section 7.2.4; `arrived`: bytes, if the window was full and the first on its way has arrived."""
        if self._fast_recovery_exit is not None:
            if ahead(tsn, self._fast_recovery_exit) >= 0:
                self._fast_recovery_exit = None
            return
        if arrived:
            self._grow(arrived)
        if lost:
            self._ssthresh = self._cwnd = self._shrunk()
            self._partial_bytes_acked = 0
            self._fast_recovery_exit = self._sent_queue[-1].tsn
            self._fast_recovery_transmit = True

    def _grow(self, arrived: int) -> None:
        """RFC 9260 sections 7.2.1, slow start, and 7.2.2, congestion avoidance."""
        if self._cwnd <= self._ssthresh:
            self._cwnd += min(arrived, GROWTH * self._payload)
            return
        self._partial_bytes_acked += arrived
        if self._partial_bytes_acked >= self._cwnd:
            self._partial_bytes_acked -= self._cwnd
            self._cwnd += self._payload

    def _shrunk(self) -> int:
        """The window after a loss, in bytes: RFC 9260 section 7.2.3."""
        return max(self._cwnd // 2, 4 * self._payload)

    def _t3_restart(self) -> None:
        """Put it off: a timer that runs already looks at `_t3_due` when it fires."""
        loop = asyncio.get_running_loop()
        self._t3_due = loop.time() + self._rto
        if self._t3_handle is not None and self._t3_handle.when() > self._t3_due:
            self._t3_cancel()
        if self._t3_handle is None:
            self._t3_handle = loop.call_at(self._t3_due, self._t3_expired)

    def _t3_start(self) -> None:
        self._t3_restart()

    def _t3_expired(self) -> None:
        self._t3_handle = None
        loop = asyncio.get_running_loop()
        if loop.time() < self._t3_due:
            self._t3_handle = loop.call_at(self._t3_due, self._t3_expired)
            return
        self._timed_out()
        asyncio.ensure_future(self._transmit())  # noqa: RUF006  (as aiortc does)

    def _timed_out(self) -> None:
        """RFC 9260 section 6.3.3: all that is not known to have arrived is lost; the second time in a row, all is."""
        self._timeouts += 1
        self._rto = max(self._rto, min(2 * self._rto, self._patient_rto))
        self._lost.clear()
        for chunk in list(self._sent_queue):
            if chunk._acked and self._timeouts < 2:
                continue
            chunk._acked = False
            self._flight_size_decrease(chunk)
            self._resend(chunk)
        self._blocks.clear()
        self._update_advanced_peer_ack_point()
        self._fast_recovery_exit = None
        self._partial_bytes_acked = 0
        self._ssthresh = self._shrunk()
        self._cwnd = self._payload


class CubicWindow(QuickTransmission):
    """After a loss the window grows as TCP's does on nearly all computers today: CUBIC, RFC 9438.

    A loss takes 30 % of the window instead of half (section 4.6). Then it follows the larger of a cubic function of the
    time, flat around the window at which something was lost (4.2), and of what is as fair as aiortc's own to others
    (4.3). All windows here are in bytes. Slow start is as before.
    """

    _since = 0.0  # when the window began to grow after the last loss; 0: it has not
    _peak = 0.0  # W_max
    _prior = 0.0  # cwnd_prior: the window when the last loss was seen
    _fair = 0.0  # W_est
    _reached_s = 0.0  # K: the time after which the peak is reached again

    def _shrunk(self) -> int:
        window = float(self._cwnd)
        self._peak = window * (1 + DECREASE) / 2 if window < self._peak else window  # section 4.7
        self._prior = window
        self._since = 0.0
        return max(int(window * DECREASE), 4 * self._payload)

    def _timed_out(self) -> None:
        super()._timed_out()
        self._peak = 0.0  # section 4.8

    def _grow(self, arrived: int) -> None:
        if self._cwnd < self._ssthresh:
            super()._grow(arrived)
            return
        now, packet, window = time.monotonic(), self._payload, float(self._cwnd)
        if not self._since:
            self._since = now
            self._peak = max(self._peak, window)
            self._reached_s = ((self._peak - window) / packet / CUBIC) ** (1 / 3)
            self._fair = window
        growth = 3 * (1 - DECREASE) / (1 + DECREASE) if self._fair < self._prior else 1.0
        self._fair += growth * packet * arrived / window
        elapsed = now - self._since
        if self._cubic(elapsed) < self._fair:
            self._cwnd = max(self._cwnd, int(self._fair))
        else:
            target = min(max(self._cubic(elapsed + (self._srtt or 0.0)), window), 1.5 * window)
            self._cwnd += int((target - window) * arrived / window)

    def _cubic(self, elapsed_s: float) -> float:
        """W_cubic, in bytes."""
        return float(CUBIC * (elapsed_s - self._reached_s) ** 3 * self._payload + self._peak)


class LargerPackets(QuickTransmission):
    """1380 bytes of data in a packet instead of 1160, where the path has been tried and carries it.

    A sixth fewer packets for the same data. 1380 bytes are, with 16 of the DATA chunk and 12 of SCTP (RFC 9260), at
    most 37 of DTLS with AES-GCM (RFC 6347, RFC 5288), 8 of UDP and 20 of IPv4, a packet of 1473 bytes, and 1493 with
    the 40 of IPv6: below Ethernet's 1500, and below the 1500 that aiortc's DTLS reads.

    RFC 8899 section 6.2: a HEARTBEAT of that size, which nobody may split, is sent up to three times; its
    acknowledgement, as large, says that the path carries it both ways. So VPNs and relays are no special cases. Two
    time-outs in a row: the path may have changed (section 4.3); it is as before, and what is on its way may be split.
    """

    _probes = 0
    _probe_info = b""
    _probe_timer: asyncio.TimerHandle | None = None

    def _set_state(self, state: RTCSctpTransport.State) -> None:
        super()._set_state(state)
        if state is self.State.ESTABLISHED and not self._probes:
            self._probe_info = os.urandom(8).ljust(LARGER + DATA_HEADER.size - 8, b"\0")
            self._probe()
        elif state is self.State.CLOSED and self._probe_timer is not None:
            self._probe_timer.cancel()

    def _probe(self) -> None:
        self._probe_timer = None
        if self._payload != LARGER and self._probes < PROBES:
            self._probes += 1
            asyncio.ensure_future(self._send_probe())  # noqa: RUF006  (as aiortc's own timers do)
            self._probe_timer = asyncio.get_running_loop().call_later(PROBE_S, self._probe)

    async def _send_probe(self) -> None:
        chunk = rtcsctptransport.HeartbeatChunk()
        chunk.params = [(HEARTBEAT_INFO, self._probe_info)]
        try:
            with _unsplit(_socket(self)):
                await self._send_chunk(chunk)
        except ConnectionError as error:
            log.info("no probe on a connection that has ended: %r", error)

    async def _receive_chunk(self, chunk: Chunk) -> None:
        """The most frequent kinds first."""
        if chunk.type == DATA:
            await self._receive_data_chunk(chunk)  # type: ignore[arg-type]
        elif chunk.type == SACK:
            await self._receive_sack_chunk(chunk)  # type: ignore[arg-type]
        elif chunk.type == HEARTBEAT_ACK and self._probe_info:
            if (HEARTBEAT_INFO, self._probe_info) in chunk.params:  # type: ignore[attr-defined]
                self._payload = LARGER
        else:
            await super()._receive_chunk(chunk)

    def _timed_out(self) -> None:
        super()._timed_out()
        if self._timeouts == 2 and self._payload == LARGER:
            log.info("packets of %d bytes do not come through any more", LARGER)
            self._payload = QuickTransmission._payload
            self._probe_info = b""
            _set_splitting(_socket(self), NEVER)


class LargerBuffer(RTCSctpTransport):
    """Room in the socket for the whole window that aiortc offers, as far as the system gives it.

    aioice asks for 256 KiB. What comes while the window's loop is busy and does not fit is lost, and each loss halves
    the sender's window.
    """

    async def start(self, remoteCaps: Any, remotePort: int) -> None:
        """ICE has chosen the path by now."""
        sock = _socket(self)
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER)
        await super().start(remoteCaps, remotePort)


class Adjusted(FewerAcknowledgements, QuickReception, CubicWindow, LargerPackets, LargerBuffer):
    """All of them."""


def adjust(sctp: RTCSctpTransport | None) -> bool:
    """Adjust a connection's SCTP before it starts. False: aiortc is not as known here, and it stays plain."""
    why = _unknown(sctp)
    if sctp is None or why:
        log.info("SCTP stays as aiortc has it: %s", why)
        return False
    sctp.__class__ = Adjusted
    assert isinstance(sctp, Adjusted)
    sctp._lost = deque()
    sctp._blocks = {}
    sctp._payload = rtcsctptransport.USERDATA_MAX_LENGTH
    return True


def _unknown(sctp: RTCSctpTransport | None) -> str:
    """What is not as known; empty if all is."""
    if type(sctp) is not RTCSctpTransport:
        return f"{type(sctp).__name__} is not aiortc's"
    if not aiortc.__version__.startswith(KNOWN):
        return f"version {aiortc.__version__} of aiortc"
    for name, parameters in SHAPE.items():
        method = getattr(RTCSctpTransport, name, None)
        if method is None or tuple(inspect.signature(method).parameters) != parameters:
            return f"method {name}"
    missing = [name for name in INSIDE if not hasattr(sctp, name)]
    missing += [name for name in NAMES if not hasattr(rtcsctptransport, name)]
    return f"no {missing[0]}" if missing else ""


def _socket(sctp: RTCSctpTransport) -> Any:
    """The socket of the path that ICE has chosen; None when there is none of its own (a relay), or aioice is other."""
    connection = getattr(sctp.transport.transport, "_connection", None)
    for pair in getattr(connection, "_nominated", {}).values():
        transport = getattr(pair.protocol, "transport", None)
        return transport.get_extra_info("socket") if transport is not None else None
    return None


@contextlib.contextmanager
def _unsplit(sock: Any) -> Iterator[None]:
    """Within, packets that are too large for the path are lost instead of split (where that can be said: Linux)."""
    _set_splitting(sock, ALWAYS_WHOLE)
    try:
        yield
    finally:
        _set_splitting(sock, IF_IT_FITS)  # as it comes


def _set_splitting(sock: Any, how: int) -> None:
    if sock is not None and sys.platform == "linux":
        with contextlib.suppress(OSError):  # an IPv6 socket
            sock.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, how)
