"""Windows on different machines (network namespaces), some of which cannot reach each other."""

from __future__ import annotations

import pytest

from tests.e2e.test_room import assert_same_weights
from tests.e2e.windows import Window, Windows
from tests.network import Network, why_not

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(240),
    pytest.mark.skipif(bool(why_not()), reason=why_not()),
]
NAMES = ("Ada", "Grace", "Emmy")


def start_room(windows: Windows, network: Network, *options: str) -> list[Window]:
    """A window on each machine, in one room; the first one hosts."""
    def start(machine: int, *more: str) -> Window:
        return windows.start(f"machine-{machine}", "--name", NAMES[machine - 1], "--data", "sample",
                             "--share", f"{machine}/3", "--start", *more, inside=network.inside(machine))

    host = start(1, "--host", "--members", "3", "--task", "digits", *options)
    link = windows.link(host)
    assert f"at={network.address(1)}" in link
    return [host, start(2, link, "--quit-when-done"), start(3, link, "--quit-when-done")]


def ways(window: Window) -> dict[str, str]:
    """How a window reaches the others, by name."""
    return {member["name"]: member["link"] for member in window.report.last["members"] if not member["you"]}


def test_two_who_cannot_reach_each_other_train_through_the_third(windows: Windows) -> None:
    with Network(3, delay_s=0.005) as network:
        network.block(2, 3)
        host, second, third = start_room(windows, network, "--rounds", "12", "--quit-when-done")
        second.report.wait(lambda line: line["round"] >= 2, "it trains")
        assert ways(second) == {"Ada": "direct", "Emmy": "via Ada"}
        assert ways(third) == {"Ada": "direct", "Grace": "via Ada"}
        assert ways(host) == {"Grace": "direct", "Emmy": "direct"}
        assert [window.exit_code() for window in (host, second, third)] == [0, 0, 0]
        assert_same_weights(host.report, second.report, third.report)
        assert network.counts()[2, 3]["blocked"] > 0


def test_direct_again_when_the_wall_is_gone(windows: Windows) -> None:
    with Network(3, delay_s=0.005) as network:
        network.block(2, 3)
        host, second, third = start_room(windows, network, "--rounds", "1000000")
        second.report.wait(lambda line: line["round"] >= 1 and ways(second).get("Emmy") == "via Ada", "through Ada")
        network.unblock(2, 3)
        second.report.wait(lambda line: ways(second).get("Emmy") == "direct", "direct again", 90)
        third.report.wait(lambda line: ways(third).get("Grace") == "direct", "direct again", 10)
        at = host.report.last["round"]
        host.report.wait(lambda line: line["round"] > at + 1, "it goes on")
        lost = [text for window in (host, second, third) for text in window.report.faults() if "lost" in text]
        assert lost == []
