"""When a round goes on: quorum, beat, and a deadline that adapts to what rounds really take."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from desktop.rounds.messages import Values


@dataclass(frozen=True, slots=True)
class RoomPolicy:
    """What a room fixes before it starts. Times in seconds."""

    values: Values = field(default_factory=Values)
    start_members: int = 2  # the first round waits for this many
    min_members: int = 2  # below this, training pauses
    beat_s: float = 0.5
    first_deadline_s: float = 60.0  # until something has been measured
    least_deadline_s: float = 10.0
    most_deadline_s: float = 600.0
    spread: float = 6.0  # how many median absolute deviations after twice the median a member is late
    silent_s: float = 20.0  # a leader that says nothing for this long is taken for lost

    def quorum(self, n: int) -> int:
        """Contributions without which a round does not go on: more than half of `n` members."""
        return n // 2 + 1


class Deadline:
    """How long a round waits for its members: twice the median + spread * MAD of the last arrivals, within bounds.

    Twice, since arrivals that hardly vary leave no deviation to be late by. The median absolute deviation is used
    because one slow member must not stretch its own deadline.
    """

    def __init__(self, policy: RoomPolicy) -> None:
        self._policy = policy
        self._arrivals: deque[float] = deque(maxlen=64)

    def arrived(self, seconds: float) -> None:
        """A member was ready `seconds` after the announcement."""
        self._arrivals.append(seconds)

    @property
    def seconds(self) -> float:
        """The deadline of the next round."""
        if not self._arrivals:
            return self._policy.first_deadline_s
        middle = median(self._arrivals)
        mad = median(abs(value - middle) for value in self._arrivals)
        wanted = 2 * middle + self._policy.spread * mad
        return min(max(wanted, self._policy.least_deadline_s), self._policy.most_deadline_s)
