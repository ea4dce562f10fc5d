"""How fast one link is, in MB/s: two processes, against plain aiortc on plain qasync in the same run.

On loopback; with the direct lane; and between two network namespaces joined by a relay that delays and loses packets
(Linux, root; else those cases are left out, and the line says why). Runs alternate, so that what else the computer does
meets both; medians are given. The lag is that of the sender's loop, which is the window's loop, in ms.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from tests.bench.line import print_line
from tests.bench.link_ends import LIMIT_S, Order
from tests.network import Network, why_not

ROOT = Path(__file__).resolve().parents[2]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One way between the two ends."""

    name: str
    rtt_s: float = 0.0
    loss: float = 0.0  # of the packets of each direction, 0..1
    direct: bool = False  # the link may open a TLS lane
    network: bool = False  # between two namespaces; else on loopback
    warm_s: float = 2.0
    measure_s: float = 4.0


def far(rtt_ms: int, loss_percent: float) -> Case:
    """A case between two namespaces. The lanes, and SCTP's windows, need their time to grow."""
    return Case(name=f"{rtt_ms} ms, {loss_percent:g} %", rtt_s=rtt_ms / 1000, loss=loss_percent / 100, network=True,
                warm_s=14.0, measure_s=12.0)


NEAR = (Case(name="loopback"), Case(name="direct lane", direct=True))
CASES = (*NEAR, far(20, 0), far(20, 0.1), far(20, 1), far(50, 0), far(50, 0.1), far(50, 1))
QUICK, FULL = 2, 3  # repeats


def transfer(kind: str, case: Case) -> dict[str, Any]:
    """One transfer between two new processes: what the receiver counted, the lag and the lanes of the sender."""
    with contextlib.ExitStack() as stack:
        network = None
        if case.network:
            network = stack.enter_context(Network(2, delay_s=case.rtt_s / 2, loss=case.loss))

        def start(end: str, machine: int) -> subprocess.Popen[str]:
            order = Order(end=f"{kind}-{end}", warm_s=case.warm_s, measure_s=case.measure_s, direct=case.direct,
                          loopback=not case.network)
            command = [sys.executable, "-m", "tests.bench.link_ends", msgspec.json.encode(order).decode()]
            named: dict[str, Any] = {"cwd": ROOT, "env": {**os.environ, "QT_QPA_PLATFORM": "offscreen"},
                                     "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            process = network.start(machine, command, **named) if network else subprocess.Popen(command, **named)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        return exchange(start("sender", 1), start("receiver", 2))


def exchange(sender: subprocess.Popen[str], receiver: subprocess.Popen[str]) -> dict[str, Any]:
    """Hand both descriptions over, and wait for the results."""
    for giver, taker in ((sender, receiver), (receiver, sender)):
        assert giver.stdout is not None
        assert taker.stdin is not None
        taker.stdin.write(giver.stdout.readline())
        taker.stdin.flush()
    assert receiver.stdout is not None
    assert sender.stdout is not None
    counted = json.loads(receiver.stdout.readline())
    sent = json.loads(sender.stdout.readline())
    for process in (sender, receiver):
        process.wait(LIMIT_S)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
    return {**sent, "mb_per_s": counted["mb_per_s"], "receiver_lag_p99": counted["lag_p99"]}


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians; of the sender's lag the largest too."""
    return {
        "mb_per_s": round(statistics.median(each["mb_per_s"] for each in results), 2),
        "each": [round(each["mb_per_s"], 2) for each in results],
        "lag_p99_ms": round(statistics.median(each["lag_p99"] for each in results), 2),
        "lag_max_ms": round(max(each["lag_max"] for each in results), 2),
        "receiver_lag_p99_ms": round(statistics.median(each["receiver_lag_p99"] for each in results), 2),
        "lanes": results[-1]["lanes"],
    }


def measure(case: Case, repeats: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures and baseline of one case."""
    links, plains = [], []
    for _ in range(repeats):
        plains.append(transfer("plain", case))
        links.append(transfer("link", case))
    figures, baseline = summary(links), summary(plains)
    return {**figures, "ratio": round(figures["mb_per_s"] / baseline["mb_per_s"], 2)}, baseline


def main() -> None:
    """Prints the line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="stay under a minute: loopback and the direct lane alone")
    parser.add_argument("--case", action="append", help="only the cases of this name")
    asked = parser.parse_args()
    cases = [case for case in (NEAR if asked.quick else CASES) if not asked.case or case.name in asked.case]
    missing = why_not()
    measured = {case.name: measure(case, QUICK if asked.quick else FULL)
                for case in cases if not (case.network and missing)}
    figures = {"unit": "MB/s", "cores": os.cpu_count(), **{name: each[0] for name, each in measured.items()}}
    if missing:
        figures["left_out"] = f"ways with delay and loss: {missing}"
    baseline = {"what": "plain aiortc on plain qasync", **{name: each[1] for name, each in measured.items()}}
    first = next(iter(measured.values()))[0]
    print_line("link_goodput", figures, baseline, first["ratio"])


if __name__ == "__main__":
    main()
