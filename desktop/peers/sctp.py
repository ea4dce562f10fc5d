"""Adjustments of aiortc's SCTP that make a link faster; the other end may be plain aiortc or a browser.

aiortc's SCTP is Python, so a link is as fast as little is done for each packet. An adjustment is a class, explained
with its source; `adjust` gives it to one connection. As it builds on the inside of aiortc, `adjust` looks first whether
that is the inside it was written for; if not, the connection stays as it is, and the log says so.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING

import aiortc
from aiortc import RTCSctpTransport

if TYPE_CHECKING:
    from aiortc.rtcsctptransport import DataChunk

log = logging.getLogger(__name__)

KNOWN = "1.16."  # versions of aiortc that begin so
SHAPE: dict[str, tuple[str, ...]] = {  # methods that are replaced, and their parameters
    "_receive_data_chunk": ("self", "chunk"),
    "_send_sack": ("self",),
}
INSIDE = ("_association_state", "_sack_duplicates", "_sack_misordered", "_sack_needed")

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


def adjust(sctp: RTCSctpTransport | None) -> bool:
    """Adjust a connection's SCTP before it starts. False: aiortc is not as known here, and it stays plain."""
    why = _unknown(sctp)
    if sctp is None or why:
        log.info("SCTP stays as aiortc has it: %s", why)
        return False
    sctp.__class__ = FewerAcknowledgements
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
    return f"no {missing[0]}" if missing else ""
