"""How long an exchange takes over what its bytes take: windows of a room, against the same windows sending bytes alone.

An exchange lasts from the leader's plan until the last member holds every result. Before each one the same processes
send each other the same number of bytes over the same links, with nothing to wait for and nothing to compute; its time
over that is the ratio. Where the network is the limit, each window is on a machine of its own (a network namespace;
Linux, root) with an uplink of a given rate; on loopback, where the processor is the limit, the ratio says little, since
all windows share its cores. With one uplink that is a tenth of the others', the seconds of an exchange in which all
reduce alike, in which they reduce what their links can carry, and of a star.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.line import is_quick, print_line
from tests.bench.rooms import LOCAL_STEPS, ends, load
from tests.bench.round_time_window import Order
from tests.e2e.windows import Window, Windows
from tests.network import Network, why_not

LONGEST_S = 900.0
MB = 1_000_000
SLOWER = 10  # how much less the uplink of one member carries


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A room."""

    name: str
    size: str
    members: int = 4
    buckets: int = 12
    rounds: int = 3
    uplink: float = 0.0  # bytes per second of each member; 0: all on this computer
    narrow: bool = False  # the last one's is a tenth of that
    equal: bool = False
    topology: str = "butterfly"


QUICK = (Case(name="network", size="1m", uplink=2 * MB), Case(name="loopback", size="1m"))
FULL = (
    Case(name="network", size="10m", uplink=4 * MB),
    Case(name="loopback", size="10m"),
    Case(name="one narrow, all alike", size="1m", uplink=2 * MB, narrow=True, equal=True),
    Case(name="one narrow, by uplink", size="1m", uplink=2 * MB, narrow=True, rounds=4),
    Case(name="one narrow, star", size="1m", uplink=2 * MB, narrow=True, topology="star"),
)


@contextlib.contextmanager
def machines(case: Case) -> Iterator[Network | None]:
    """A network with one machine per member, or none where all are on this computer."""
    if not case.uplink:
        yield None
        return
    with Network(case.members, delay_s=0.005) as network:
        for machine in network.machines:
            narrow = case.narrow and machine == case.members
            network.limit(machine, case.uplink / SLOWER if narrow else case.uplink)
        yield network


def room(windows: Windows, network: Network | None, case: Case) -> list[Window]:
    """Its windows, which train and exchange."""
    def start(number: int, *options: str) -> Window:
        where: dict[str, Any] = {"inside": network.inside(number)} if network else {}
        near = () if network else ("--loopback",)
        return windows.start(f"member-{number}", *options, *near, "--data", "sample", "--share",
                             f"{number}/{case.members}", "--start", **where)

    host = start(1, "--host", "--members", str(case.members), "--task", "digits", "--rounds", str(case.rounds),
                 "--local-steps", str(LOCAL_STEPS), "--batch", "8", "--topology", case.topology)
    link = windows.link(host)
    return [host, *(start(number, link) for number in range(2, case.members + 1))]


def measure(case: Case) -> dict[str, Any]:
    """Figures of one room; of what is in seconds each round's, and the median."""
    with tempfile.TemporaryDirectory(prefix="peerloom-bench-") as name, machines(case) as network:
        folder = Path(name)
        order = Order(size=case.size, buckets=case.buckets, folder=name, bare=not case.narrow, equal=case.equal)
        program = ("tests.bench.round_time_window", msgspec.json.encode(order).decode())
        with Windows(folder, settings={}, program=program) as windows:
            ends(room(windows, network, case), LONGEST_S)
        return figures(case, [read(path) for path in folder.glob("*.times")])


Times = dict[tuple[int, str], float]


def read(path: Path) -> Times:
    """When what happened, by round; of what happened again (a new attempt) the last time."""
    return {(round_, what): at for round_, what, at in map(json.loads, path.read_text().splitlines())}


def figures(case: Case, members: list[Times]) -> dict[str, Any]:
    """What a room's members wrote down, as figures."""
    def span(round_: int, begin: str, end: str) -> float:
        begins, ends = ([each[round_, what] for each in members] for what in (begin, end))
        return max(ends) - min(begins)

    rounds = range(1, case.rounds + 1)
    exchange = [span(round_, "plan", "all results") for round_ in rounds]
    found: dict[str, Any] = {
        "size": case.size, "members": case.members, "uplink_mb_per_s": case.uplink / MB, "load": load(),
        "exchange_s": [round(each, 2) for each in exchange], "median_s": round(statistics.median(exchange), 2),
        "until_applied_s": [round(span(round_, "plan", "applied"), 2) for round_ in rounds],
        "shares": [next(what.removeprefix("shares ") for number, what in members[0]
                        if number == round_ and what.startswith("shares ")) for round_ in rounds],
    }
    if not case.narrow:
        bare = [span(round_, "bare begins", "bare ends") for round_ in rounds]
        ratios = [a / b for a, b in zip(exchange, bare, strict=True)]
        found |= {"bytes_s": [round(each, 2) for each in bare], "ratios": [round(each, 2) for each in ratios],
                  "ratio": round(statistics.median(ratios), 2)}
    return found


def main() -> None:
    """Prints the line."""
    cases = QUICK if is_quick(__doc__ or "") else FULL
    missing = why_not()
    measured = {case.name: measure(case) for case in cases if not (case.uplink and missing)}
    found: dict[str, Any] = {"unit": "s", **measured}
    if missing:
        found["left_out"] = f"machines with an uplink: {missing}"
    baseline = {"what": "the same processes send the same bytes, with nothing to wait for",
                **{name: statistics.median(each["bytes_s"]) for name, each in measured.items() if "bytes_s" in each}}
    print_line("round_time", found, baseline, measured["loopback" if missing else "network"]["ratio"])


if __name__ == "__main__":
    main()
