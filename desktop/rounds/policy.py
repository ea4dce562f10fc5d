"""When a round goes on: quorum, beat, a deadline that adapts to what rounds really take, and for whom nobody waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from desktop.rounds.messages import PeerId, Values

MISSES = 2  # deadlines in a row that a member may miss before nobody waits for it any more
REMEMBERED = 256  # members that missed something, the latest: one that comes back has not been forgotten
MOST_DOUBLINGS = 6  # of the time for which nobody waits for it
MOST_TIMES_USUAL = 10  # how much more than usual a member's samples may weigh when nothing else bounds them


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
    survey_rounds: int = 0  # so many first rounds train nothing: they agree on figures of all members' data

    def quorum(self, n: int) -> int:
        """Contributions without which a round does not go on: more than half of `n` members."""
        return n // 2 + 1


class Deadline:
    """How long a round waits for its members: twice the median + spread * MAD of the last arrivals, within bounds.

    The design says median + k * MAD. Alone that fails for arrivals that hardly vary: their deviation is near zero, so
    the member that is a moment behind the median would be late, half of them in every round. Hence the median once
    more: nobody is late who takes less than twice as long as usual. The median absolute deviation, and not the
    standard deviation, since one slow member must not stretch its own deadline.
    """

    def __init__(self, policy: RoomPolicy) -> None:
        self._policy = policy
        self._arrivals: deque[float] = deque(maxlen=64)

    def arrived(self, seconds: float) -> None:
        """A member was ready `seconds` after the announcement."""
        self._arrivals.append(seconds)

    def forget(self) -> None:
        """What was measured says nothing of the rounds that come: other values count from now on."""
        self._arrivals.clear()

    @property
    def seconds(self) -> float:
        """The deadline of the next round."""
        if not self._arrivals:
            return self._policy.first_deadline_s
        middle = median(self._arrivals)
        mad = median(abs(value - middle) for value in self._arrivals)
        wanted = 2 * middle + self._policy.spread * mad
        return min(max(wanted, self._policy.least_deadline_s), self._policy.most_deadline_s)

    def after_first(self, seconds: float, limit: float) -> float:
        """A round's deadline once its first member is ready, after so many seconds.

        Nobody is late who takes no more than twice as long: the round may be longer than what was measured before.
        """
        return max(limit, seconds + min(seconds, self._policy.most_deadline_s))


class Patience:
    """For whom nobody waits: members that missed deadlines are set aside, each time for twice as long.

    They stay in the view, get all results, and are in again when they are ready in time, or when their time is over.
    So a member that never comes costs the others a deadline now and then, and not one in each round.
    """

    def __init__(self) -> None:
        self._misses: dict[PeerId, int] = {}  # since the last round to which it contributed
        self._until: dict[PeerId, float] = {}
        self._late: set[PeerId] = set()  # set aside for being late, not for what it did not send

    def missed(self, peer: PeerId, now: float, deadline_s: float, *, late: bool, at_once: bool = False) -> bool:
        """It was late, or sent nothing; whether it is set aside for that (`at_once`: without a second chance)."""
        misses = self._misses.pop(peer, 0) + 1
        self._misses[peer] = misses
        if len(self._misses) > REMEMBERED:
            self.contributed(next(iter(self._misses)))
        if misses < MISSES and not at_once:
            return False
        self._until[peer] = now + deadline_s * 2.0 ** min(misses, MOST_DOUBLINGS)
        (self._late.add if late else self._late.discard)(peer)
        return True

    def came(self, peer: PeerId) -> bool:
        """It is ready; whether it may take part. Who was ready before and sent nothing has to wait its time."""
        if peer in self._until and peer in self._late:
            del self._until[peer]
        return peer not in self._until

    def contributed(self, peer: PeerId) -> None:
        """A round to which it contributed is committed: it begins anew."""
        self._misses.pop(peer, None)
        self._until.pop(peer, None)

    def aside(self, peer: PeerId) -> bool:
        """Whether nobody waits for it."""
        return peer in self._until

    def due(self, now: float) -> list[PeerId]:
        """Whose time is over."""
        return [peer for peer, until in self._until.items() if until <= now]

    def release(self, now: float) -> None:
        """They get another try."""
        for peer in self.due(now):
            del self._until[peer]


def weights(samples: Mapping[PeerId, int], most: int) -> dict[PeerId, int]:
    """What each member's update weighs: its samples, but never more than what it can have trained on.

    `most` is the samples of a round where the values fix them, 0 where they do not; then nobody weighs more than
    `MOST_TIMES_USUAL` times the (lower) median. A member that invents samples gains no more than that.
    """
    usual = sorted(samples.values())[(len(samples) - 1) // 2] if samples else 0
    bound = most or MOST_TIMES_USUAL * usual
    return {peer: min(count, bound) for peer, count in samples.items()}
