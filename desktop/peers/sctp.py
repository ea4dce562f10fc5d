"""Adjustments of aiortc's SCTP that make a link faster; the other end may be plain aiortc or a browser.

aiortc's SCTP is Python, so a link is as fast as little is done for each packet. Each adjustment is a class, explained
with its source; `adjust` gives them to one connection. They know the inside of aiortc, so `adjust` looks first
whether it is the inside they know; if not, the connection stays as it is, and the log says so.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from importlib.metadata import version

from aiortc import RTCSctpTransport
from aiortc.rtcsctptransport import (
    SCTP_DATA_LAST_FRAG,
    USERDATA_MAX_LENGTH,
    DataChunk,
    SackChunk,
    tsn_plus_one,
)

log = logging.getLogger(__name__)

KNOWN = "1.16."  # versions of aiortc that begin so
SHAPE: dict[str, tuple[str, ...]] = {  # methods that are replaced or called, and their parameters
    "_mark_received": ("self", "tsn"),
    "_receive_data_chunk": ("self", "chunk"),
    "_receive_sack_chunk": ("self", "chunk"),
    "_send_sack": ("self",),
    "_t3_expired": ("self",),
    "_t3_start": ("self",),
    "_transmit": ("self",),
    "_send_chunk": ("self", "chunk"),
    "_flight_size_increase": ("self", "chunk"),
    "_get_inbound_stream": ("self", "stream_id"),
    "_receive": ("self", "stream_id", "pp_id", "data"),
    "_reset_deferred_streams": ("self",),
}
INSIDE = (
    "_advertised_rwnd", "_association_state", "_cwnd", "_fast_recovery_exit", "_flight_size", "_forward_tsn_chunk",
    "_last_received_tsn", "_loop", "_outbound_queue", "_reconfig_deferred", "_sack_duplicates", "_sack_misordered",
    "_sack_needed", "_sent_queue", "_t3_handle",
)

SACK_DELAY_S = 0.2  # RFC 9260 section 6.2: within 200 ms
SACK_IMMEDIATELY = 0x08  # RFC 9260 section 3.3.1: the I bit, with which a sender asks for no delay
EACH_AT_FIRST = 256  # packets acknowledged one by one while the sender's window opens: it grows with each SACK
EACH_AFTER_LOSS = 64


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
            self._sack_timer = self._loop.call_later(SACK_DELAY_S, self._sack_due)

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


class NoRescans(RTCSctpTransport):
    """What came in order, and what was not lost, is not searched again for each packet.

    aiortc looks through all received fragments of a message for each one that comes, and through all chunks on their
    way for some to send again. The result is the same: a message ends with its last fragment (RFC 9260 section 6.9),
    and chunks are marked for sending again only by a SACK with gaps (7.2.4) or by the timer T3 (6.3.3).
    """

    _marked = False  # chunks may be marked for sending again

    def _mark_received(self, tsn: int) -> bool:
        if not self._sack_misordered and not self._sack_duplicates and tsn == tsn_plus_one(self._last_received_tsn):
            self._last_received_tsn = tsn
            return False
        return super()._mark_received(tsn)

    async def _receive_data_chunk(self, chunk: DataChunk) -> None:
        self._sack_needed = True
        if self._mark_received(chunk.tsn):
            return
        stream = self._get_inbound_stream(chunk.stream_id)
        stream.add_chunk(chunk)
        self._advertised_rwnd -= len(chunk.user_data)
        if chunk.flags & SCTP_DATA_LAST_FRAG or stream.reassembly[-1] is not chunk:
            for message in stream.pop_messages():
                self._advertised_rwnd += len(message[2])
                await self._receive(*message)
        await self._reset_deferred_streams()

    async def _receive_sack_chunk(self, chunk: SackChunk) -> None:
        self._marked = self._marked or bool(chunk.gaps)
        await super()._receive_sack_chunk(chunk)

    def _t3_expired(self) -> None:
        self._marked = True
        super()._t3_expired()

    async def _transmit(self) -> None:
        if self._marked or self._forward_tsn_chunk is not None:
            await super()._transmit()
            self._marked = any(chunk._retransmit for chunk in self._sent_queue)
            return
        # The rest of aiortc's, as it is.
        burst = (4 if self._fast_recovery_exit is None else 2) * USERDATA_MAX_LENGTH
        cwnd = min(self._flight_size + burst, self._cwnd)
        while self._outbound_queue and self._flight_size < cwnd:
            chunk = self._outbound_queue.popleft()
            self._sent_queue.append(chunk)
            self._flight_size_increase(chunk)
            chunk._sent_count += 1
            chunk._sent_time = time.time()
            await self._send_chunk(chunk)
            if not self._t3_handle:
                self._t3_start()


class Adjusted(FewerAcknowledgements, NoRescans):
    """All of them."""


def adjust(sctp: RTCSctpTransport | None, adjusted: type[RTCSctpTransport] = Adjusted) -> bool:
    """Adjust a connection's SCTP before it starts. False: aiortc is not as known here, and it stays plain."""
    why = _unknown(sctp)
    if sctp is None or why:
        log.info("SCTP stays as aiortc has it: %s", why)
        return False
    sctp.__class__ = adjusted
    return True


def _unknown(sctp: RTCSctpTransport | None) -> str:
    """What is not as known; empty if all is."""
    if type(sctp) is not RTCSctpTransport:
        return f"{type(sctp).__name__} is not aiortc's"
    if not (has := version("aiortc")).startswith(KNOWN):
        return f"version {has} of aiortc"
    for name, parameters in SHAPE.items():
        method = getattr(RTCSctpTransport, name, None)
        if method is None or tuple(inspect.signature(method).parameters) != parameters:
            return f"method {name}"
    missing = [name for name in INSIDE if not hasattr(sctp, name)]
    return f"no {missing[0]}" if missing else ""
