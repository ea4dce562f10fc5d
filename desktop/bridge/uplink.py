"""How fast a member can send: bytes that others took of it, over the time in which something was on its way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

LEAST_BYTES = 256 * 1024  # less than this fits into buffers on the way: it says nothing of the link
LEAST_S = 0.05
REMEMBERED = 4  # exchanges


class Uplink:
    """One member's uplink, all peers together. Times are what `clock` says, in seconds.

    What is told is the most of the latest measurements, as in BBR (Cardwell et al. 2016): what disturbs one, such as
    short bursts or a peer that is slow to take, always makes it too small.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._under_way = 0
        self._since = 0.0  # when something was first on its way, while it is
        self._busy_s = 0.0
        self._taken = 0
        self._rates: deque[float] = deque(maxlen=REMEMBERED)

    def handed(self, size: int) -> None:
        """So many bytes were handed over to be sent."""
        if not self._under_way:
            self._since = self._clock()
        self._under_way += size

    def taken(self, size: int) -> None:
        """The peer has them."""
        self._taken += size
        self.dropped(size)

    def dropped(self, size: int) -> None:
        """They are not under way any more; the peer is lost."""
        self._under_way -= size
        if not self._under_way:
            self._busy_s += self._clock() - self._since

    def measure(self) -> float:
        """Bytes per second, the most of the latest calls with enough to go by; 0 before the first of those."""
        now = self._clock()
        if self._under_way:
            self._busy_s += now - self._since
            self._since = now
        if self._taken >= LEAST_BYTES and self._busy_s >= LEAST_S:
            self._rates.append(self._taken / self._busy_s)
            self._taken, self._busy_s = 0, 0.0
        return max(self._rates, default=0.0)
