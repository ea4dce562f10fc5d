"""All messages between two members, both ways, over whatever lanes there are; outlives a link. Pure: no network.

::

    the sender's chunk    waits --next_packet--> on its way over a lane --GOT--> confirmed
                            ^                          |
                            +---- detach: the lane -----+
                                  died; to the front

    the sender's message  all chunks confirmed --ACK--> Acknowledged, let go of
                            |    ^
                            +----+ attach(0): a new link. The ACK may have died with the old one, so chunk 0 goes again

    at the receiver       unknown --first chunk--> half --last chunk--> Whole --taken--> ACK owed
                                                                                 |    ^
                                                                                 +----+ any chunk of it again

GOT says what has come over one lane, so that a lane can be kept full and no fuller, and a dead one repaired. ACK says
that the receiving program has the message. A message of kind LINK is about one link and dies with it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from desktop.bridge.transport import Buffer
from desktop.peers.packet import (
    CHUNKED,
    MAX_MESSAGE_ID,
    Cut,
    Kind,
    Limits,
    Packet,
    Problem,
    Reassembler,
    Repeated,
    Short,
    Whole,
    cut,
    read,
    short,
)

CONTROL_LANE = 0
GOT_BYTES = 256 * 1024  # received over a lane, after which that is confirmed at the latest
OWED_ACKS = 10_000  # for a peer that sends but does not read
UNTAKEN = 65_536  # whole messages that this program has not taken yet
PROGRESS_BYTES = 256 * 1024  # of smaller messages no progress is told


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The peer's program has taken this message. `token` is what `send` was given."""

    token: int | None
    message: int


Event = Whole | Short | Acknowledged | Problem


class Progress(NamedTuple):
    """How far a large message is: bytes confirmed (outgoing) or arrived; `since` its first packet, by the clock (before
    that: since it was handed over)."""

    message: int
    outgoing: bool
    done: int
    total: int
    since: float


@dataclass(slots=True, eq=False)
class _Outgoing:
    """A message handed over and not acknowledged yet."""

    cut: Cut
    bulk: bool
    token: int | None
    since: float
    fresh: int = 0  # chunks from here on have never been given to a lane
    away: int = 0  # chunks on their way, or waiting to be sent again
    done: int = 0  # bytes confirmed
    opened: set[int] = field(default_factory=set)  # lanes on which its long header went

    @property
    def all_confirmed(self) -> bool:
        return self.away == 0 and self.fresh == self.cut.count


@dataclass(slots=True)
class _Queue:
    """What waits for a lane: (message, chunk) to be sent again, then messages in the order they were handed over.

    Entries of messages that are acknowledged meanwhile are skipped when their turn comes.
    """

    again: deque[tuple[int, int]] = field(default_factory=deque)
    fresh: deque[int] = field(default_factory=deque)


@dataclass(slots=True)
class _Lane:
    """What both sides know of one lane. Counts are of chunk packets, bytes of their payload."""

    window: int
    away: deque[tuple[int, int, int]] = field(default_factory=deque)  # message, chunk, bytes: given, not confirmed
    unconfirmed: int = 0  # bytes of these
    confirmed: int = 0  # bytes
    confirmed_count: int = 0
    got_count: int = 0
    told_count: int = 0  # of got_count, the peer has been told
    untold: int = 0  # bytes
    due: bool = False  # tell it with the next packet


class Transfer:
    """Messages to and from one member. Never raises on what the peer sends, never holds more than `limits`.

    The lanes' owner asks `next_packet` for each lane that takes packets and gives `receive` what comes.
    Every message arrives exactly once, though its chunks may be sent again and its ACK may be lost.
    """

    def __init__(self, ident: str, packet_size: int, limits: Limits, clock: Callable[[], float]) -> None:
        self.ident = ident
        self.packet_size = packet_size
        self.unsent = 0  # bytes of messages with a token that are not acknowledged
        self.confirmed_bytes = 0  # payload bytes of all chunks confirmed since the start
        self.repeated = 0  # chunks that came again
        self._limits = limits
        self._clock = clock
        self._lanes: dict[int, _Lane] = {}
        self._dark_since = clock()  # without any lane
        self._last_message = 0
        self._outgoing: dict[int, _Outgoing] = {}
        self._control = _Queue()
        self._bulk = _Queue()
        self._begun: dict[int, int] = {}  # bulk messages of several chunks, begun and not all confirmed: bytes
        self._reassembler = Reassembler(limits, clock)
        self._untaken: set[int] = set()
        self._acks: OrderedDict[int, None] = OrderedDict()  # owed, in order

    # -- lanes --------------------------------------------------------------------------------------

    def attach(self, lane: int, window: int) -> None:
        """A lane is open; it may have `window` bytes of bulk chunks on their way. To be called before its first packet
        is sent or received. The control lane is the beginning of a new link: lanes of an old one are detached."""
        for old in list(self._lanes) if lane == CONTROL_LANE else [lane]:
            self.detach(old)
        if not self._lanes:
            self._reassembler.excuse(self._clock() - self._dark_since)
        self._lanes[lane] = _Lane(window)
        if lane == CONTROL_LANE:
            self._acks.clear()  # asked for again by the peer's probes
            self._probe()

    def detach(self, lane: int) -> None:
        """A lane died, or was replaced: what it did not confirm is sent again. The control lane takes the whole link
        with it, and so all lanes. An unknown lane: nothing."""
        if lane not in self._lanes:
            return
        if lane == CONTROL_LANE:
            self._drop_link_messages()
        for number in list(self._lanes) if lane == CONTROL_LANE else [lane]:
            self._send_again(self._lanes.pop(number))
            for it in self._outgoing.values():
                it.opened.discard(number)  # which may be used again
        if not self._lanes:
            self._dark_since = self._clock()

    def _send_again(self, gone: _Lane) -> None:
        for queue in (self._control, self._bulk):
            queue.again.extendleft(reversed([
                (message, chunk)
                for message, chunk, _ in gone.away
                if (it := self._outgoing.get(message)) is not None and self._queue(it) is queue
            ]))

    def _probe(self) -> None:
        """The ACKs of messages that the peer has all of may have died with the last link: ask for them."""
        for message, it in self._outgoing.items():
            if it.all_confirmed:
                it.away += 1
                self._queue(it).again.append((message, 0))

    def _drop_link_messages(self) -> None:
        for message in [message for message, it in self._outgoing.items() if it.cut.kind is Kind.LINK]:
            self._let_go(message)
        self._reassembler.drop(Kind.LINK)

    # -- sending ------------------------------------------------------------------------------------

    def send(
        self, kind: Kind, data: Buffer, digest: bytes, *, bulk: bool = False, token: int | None = None
    ) -> int:
        """Hand over a message; its number is returned. `data` is viewed until it is acknowledged: do not change it.

        Raises ValueError when it cannot be framed or is longer than any message may be, OverflowError when all
        2^32 - 1 numbers are used up.
        """
        if self._last_message >= MAX_MESSAGE_ID:
            raise OverflowError("no message numbers are left")
        made = cut(kind, self._last_message + 1, data, digest, self.packet_size)
        if len(made.view) > self._limits.message_bytes:
            raise ValueError(f"a message of {len(made.view)} bytes; at most {self._limits.message_bytes} are taken")
        it = _Outgoing(made, bulk, token, self._clock())
        self._last_message = made.message  # only now: the receiver takes a number that never comes for a gap
        self._outgoing[made.message] = it
        self._queue(it).fresh.append(made.message)
        if token is not None:
            self.unsent += len(made.view)
        return made.message

    def next_packet(self, lane: int, *, control: bool, bulk: bool) -> bytes | None:
        """What this lane is to send next; None: nothing now.

        A GOT that is due on it; with `control` (the control lane) ACKs that are owed, then chunks of control messages,
        whatever the window; with `bulk` chunks of bulk messages as long as the window is not full.
        """
        it = self._lanes.get(lane)
        if it is None:
            return None
        if it.due:
            it.due, it.untold, it.told_count = False, 0, it.got_count
            return short(Kind.GOT, it.got_count)
        if control:
            if self._acks:
                return short(Kind.ACK, self._acks.popitem(last=False)[0])
            if (head := self._head(self._control)) is not None:
                return self._give(lane, it, self._control, *head)
        if bulk and (head := self._head(self._bulk)) is not None and self._may_go(it, *head):
            return self._give(lane, it, self._bulk, *head)
        return None

    def _queue(self, it: _Outgoing) -> _Queue:
        return self._bulk if it.bulk else self._control

    def _head(self, queue: _Queue) -> tuple[_Outgoing, int] | None:
        """The first chunk that waits in it."""
        while queue.again:
            message, chunk = queue.again[0]
            if (it := self._outgoing.get(message)) is not None:
                return it, chunk
            queue.again.popleft()
        while queue.fresh:
            it = self._outgoing.get(queue.fresh[0])
            if it is not None and it.fresh < it.cut.count:
                return it, it.fresh
            queue.fresh.popleft()
        return None

    def _may_go(self, lane: _Lane, it: _Outgoing, chunk: int) -> bool:
        """Whether the window has room for a bulk chunk, and the peer (which has the same limits) for its message."""
        if lane.away and lane.unconfirmed + it.cut.chunk_bytes(chunk) > lane.window:
            return False
        if it.fresh > 0 or it.cut.count == 1 or not self._begun:
            return True
        if len(self._begun) >= self._limits.half_messages // 2:  # the others are for control messages
            return False
        return sum(self._begun.values()) + len(it.cut.view) <= self._limits.half_bytes

    def _give(self, number: int, lane: _Lane, queue: _Queue, it: _Outgoing, chunk: int) -> bytes:
        message = it.cut.message
        if queue.again:
            queue.again.popleft()
        else:
            if it.fresh == 0:
                it.since = self._clock()
                if it.bulk and it.cut.count > 1:
                    self._begun[message] = len(it.cut.view)
            it.fresh += 1
            it.away += 1
        size = it.cut.chunk_bytes(chunk)
        lane.away.append((message, chunk, size))
        lane.unconfirmed += size
        opens = number not in it.opened
        it.opened.add(number)
        return it.cut.packet(chunk, opens)

    def _let_go(self, message: int) -> _Outgoing:
        it = self._outgoing.pop(message)
        self._begun.pop(message, None)
        if it.token is not None:
            self.unsent -= len(it.cut.view)
        return it

    # -- receiving ----------------------------------------------------------------------------------

    def receive(self, lane: int, packet: Buffer) -> Event | None:
        """Take a packet that came over this lane; its memory is not needed after the call.

        Over a lane that is not attached only hello, ping, pong and goodbye count. None: nothing to tell.
        """
        it = read(packet)
        if isinstance(it, Problem):
            return it
        if it.kind not in CHUNKED and it.kind not in (Kind.GOT, Kind.ACK):
            return Short(it.kind, it.message, bytes(it.payload))
        known = self._lanes.get(lane)
        if known is None:
            return None
        if it.kind is Kind.GOT:
            return self._confirmed(known, it.message)
        if it.kind is Kind.ACK:
            return self._acknowledged(it.message)
        return self._chunk(known, it)

    def taken(self, message: int) -> None:
        """This program has taken a whole message: the peer is told. Any other number: nothing."""
        if message in self._untaken:
            self._untaken.remove(message)
            self._acks[message] = None

    @property
    def owes_got(self) -> bool:
        """Whether chunks have come over some lane that the peer has not been told of."""
        return any(lane.got_count != lane.told_count for lane in self._lanes.values())

    def hurry(self) -> None:
        """Every GOT that is owed is due now."""
        for lane in self._lanes.values():
            lane.due = lane.got_count != lane.told_count

    def _chunk(self, lane: _Lane, packet: Packet) -> Whole | Problem | None:
        lane.got_count = (lane.got_count + 1) % 2**32
        lane.untold += len(packet.payload)
        if lane.untold >= min(lane.window // 4, GOT_BYTES):
            lane.due = True
        if len(self._acks) >= OWED_ACKS:
            return Problem("bound", "it sends without reading")
        if len(self._untaken) >= UNTAKEN:
            return Problem("bound", f"more than {UNTAKEN} messages wait to be taken")
        event = self._reassembler.take(packet)
        if isinstance(event, Repeated):
            self.repeated += 1
            if event.whole and event.message not in self._untaken:
                self._acks[event.message] = None  # the last one may have been lost
            return None
        if isinstance(event, Whole):
            lane.due = True
            self._untaken.add(event.message)
        return event

    def _confirmed(self, lane: _Lane, count: int) -> Problem | None:
        more = (count - lane.confirmed_count) % 2**32
        if more > len(lane.away):
            return Problem("range", f"it confirms {more} packets of {len(lane.away)} on their way")
        lane.confirmed_count = count
        for _ in range(more):
            message, _chunk, size = lane.away.popleft()
            lane.unconfirmed -= size
            lane.confirmed += size
            self.confirmed_bytes += size
            if (it := self._outgoing.get(message)) is not None:
                it.away -= 1
                it.done = min(it.done + size, len(it.cut.view))  # a probe confirms what was confirmed
                if it.all_confirmed:
                    self._begun.pop(message, None)
        return None

    def _acknowledged(self, message: int) -> Acknowledged | Problem | None:
        it = self._outgoing.get(message)
        if it is None:
            if 0 < message <= self._last_message:
                return None  # a repeated one
            return Problem("range", f"it acknowledges message {message}, which was never sent")
        if it.fresh < it.cut.count:
            return Problem("range", f"it acknowledges message {message}, which was not sent whole")
        self._let_go(message)
        return Acknowledged(it.token, message)

    # -- the end ------------------------------------------------------------------------------------

    def excuse(self, seconds: float) -> None:
        """So much time does not count as the peer's silence, as this program stood still."""
        self._reassembler.excuse(seconds)

    def expire(self) -> list[Problem]:
        """Half-received messages without a packet for `expire_s` are lost. Time without a lane does not count."""
        return self._reassembler.expire() if self._lanes else []

    def fail(self) -> list[int]:
        """Give everything up: the tokens of messages not acknowledged, in order. Nothing is held afterwards."""
        tokens = [it.token for it in self._outgoing.values() if it.token is not None]
        for message in list(self._outgoing):
            self._let_go(message)
        self._control, self._bulk = _Queue(), _Queue()
        self._reassembler.clear()
        self._untaken.clear()
        self._acks.clear()
        return tokens

    # -- facts --------------------------------------------------------------------------------------

    @property
    def outstanding(self) -> int:
        """Outgoing messages not acknowledged, of any kind."""
        return len(self._outgoing)

    def has_bulk(self) -> bool:
        """Whether bulk chunks wait for a lane."""
        return self._head(self._bulk) is not None

    def unconfirmed(self, lane: int) -> int:
        """Bytes on their way over this lane; 0 for an unknown one."""
        return self._lanes[lane].unconfirmed if lane in self._lanes else 0

    def confirmed(self, lane: int) -> int:
        """Bytes confirmed over this lane since it was attached; 0 for an unknown one."""
        return self._lanes[lane].confirmed if lane in self._lanes else 0

    def progress(self) -> tuple[Progress, ...]:
        """How far the large messages are, outgoing ones first."""
        sent = [
            Progress(message, True, it.done, len(it.cut.view), it.since)
            for message, it in self._outgoing.items()
            if len(it.cut.view) >= PROGRESS_BYTES
        ]
        coming = [
            Progress(message, False, half.arrived, len(half.data), half.since)
            for message, half in self._reassembler.halves().items()
            if len(half.data) >= PROGRESS_BYTES
        ]
        return (*sent, *coming)
