"""Which member reduces which bucket: as much as its link can carry, or the leader everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from statistics import median

from desktop.rounds.messages import PeerId

MOST_TIMES_MEDIAN = 8.0  # what a member says of its link counts no more than so many times the median
ALIKE = 1.25  # who is this close to the median counts as the median: noise must not move buckets about
FASTEST = 1e12  # bytes per second; what is more is no measurement


def uplinks(said: Mapping[PeerId, float]) -> dict[PeerId, float]:
    """What counts of what members say of their uplinks, in bytes per second; 0 and nonsense say "not known".

    Who is not known counts as the median of those that are. All 1 when nobody is.
    """
    known = {peer: rate for peer, rate in said.items() if isfinite(rate) and 0 < rate <= FASTEST}
    middle = median(known.values()) if known else 1.0
    counted = {}
    for peer in said:
        rate = min(known.get(peer, middle), MOST_TIMES_MEDIAN * middle)
        counted[peer] = middle if middle / ALIKE <= rate <= middle * ALIKE else rate
    return counted


def shares(rates: Mapping[PeerId, float], members: int) -> dict[PeerId, float]:
    """The part of all buckets that each reduces, so that all have sent everything at about the same time.

    Of a model of size 1, who reduces the part r sends 1 - r to other reducers and r to each of `members - 1` others:
    1 + r * (members - 2) in all. So r = (T * rate - 1) / (members - 2), 0 where that is negative, with the time T for
    which all r sum to 1. Links down are not looked at: they are seldom what is narrow. With two members each sends the
    model once, whoever reduces.
    """
    copies = members - 2
    if copies <= 0:
        return dict.fromkeys(rates, 1 / len(rates))
    takers = sorted(rates, key=lambda peer: (-rates[peer], peer))
    while rates[takers[-1]] * _time(rates, takers, copies) < 1:
        takers.pop()  # it has no more than time to send its own update
    time = _time(rates, takers, copies)
    return {peer: (time * rates[peer] - 1) / copies if peer in takers else 0.0 for peer in rates}


def _time(rates: Mapping[PeerId, float], takers: Sequence[PeerId], copies: int) -> float:
    """T of `shares` if exactly these reduce."""
    return (copies + len(takers)) / sum(rates[peer] for peer in takers)


def reducers(parts: Mapping[PeerId, float], buckets: int, turn: int) -> tuple[PeerId, ...]:
    """Who reduces each bucket: always who is furthest behind its part; of those alike, first the `turn`-th.

    So the buckets of each are spread evenly. Who has no part is never furthest behind.
    """
    order = list(parts)
    start = turn % len(order)
    order = order[start:] + order[:start]
    given = dict.fromkeys(order, 0)
    chosen = []
    for bucket in range(1, buckets + 1):
        peer = max(order, key=lambda peer: bucket * parts[peer] - given[peer])
        given[peer] += 1
        chosen.append(peer)
    return tuple(chosen)
