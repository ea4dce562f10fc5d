"""A message as large as the update of GPT-2 small, between two processes: byte for byte, within bounded memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.network import Network, why_not

GPT2_BYTES = 4 * 124_439_808  # float32
ROOT = Path(__file__).resolve().parents[2]


def transfer(
    size: int, packet_size: int = 64 * 1024, *, direct: bool, network: Network | None = None
) -> tuple[Any, Any]:
    """What the sender and the receiver tell; each on a machine of its own if there is a network."""
    ends = []
    try:
        for machine, sends in enumerate((True, False), 1):
            order = json.dumps({"size": size, "packet_size": packet_size, "direct": direct, "sends": sends,
                                "loopback": network is None})
            command = [*(network.inside(machine) if network else ()), sys.executable, "-m",
                       "tests.peers.large_process", order]
            ends.append(subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        sender, receiver = ends
        for giver, taker in ((sender, receiver), (receiver, sender)):
            assert giver.stdout is not None
            assert taker.stdin is not None
            taker.stdin.write(giver.stdout.readline())
            taker.stdin.flush()
        told = [json.loads(end.stdout.readline()) for end in ends if end.stdout is not None]
        assert [end.wait(20) for end in ends] == [0, 0]
        return told[0], told[1]
    finally:
        for end in ends:
            end.kill()
            end.wait()
            for pipe in (end.stdin, end.stdout):
                if pipe is not None:
                    pipe.close()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak of memory from /proc")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("direct", [True, pytest.param(False, marks=pytest.mark.long)])
def test_the_update_of_a_large_model_arrives_within_bounded_memory(direct: bool) -> None:
    sent, received = transfer(GPT2_BYTES, direct=direct)
    assert received["digest"] == sent["digest"]
    for told in (sent, received):
        assert told["peak"] - told["held"] <= 1.3 * GPT2_BYTES
        assert told["peak"] - told["held"] > 0.9 * GPT2_BYTES  # or the measurement would show nothing


@pytest.mark.timeout(120)
def test_ten_mebibytes_in_packets_of_a_kibibyte() -> None:
    sent, received = transfer(10 * 2**20, 1024, direct=False)
    assert received["digest"] == sent["digest"]


@pytest.mark.long
@pytest.mark.skipif(bool(why_not()), reason=why_not())
@pytest.mark.timeout(240)
@pytest.mark.parametrize("direct", [True, False])
def test_fifty_megabytes_over_a_way_that_carries_one_each_second(direct: bool) -> None:
    size = 50_000_000
    with Network(2, delay_s=0.005, rate=1_000_000) as network:
        sent, received = transfer(size, direct=direct, network=network)
    assert received["digest"] == sent["digest"]
    for told in (sent, received):  # in flight: the window of each lane and what its socket takes, on top of the message
        assert told["peak"] - told["held"] <= size + 16 * 2**20
