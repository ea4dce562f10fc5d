"""The machines of network.py: what was asked of the way between them is what a program in them meets."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.network import Gate, Network, Way, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

ECHO = """
import socket, threading
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
u.bind(("0.0.0.0", 7000))
t = socket.create_server(("0.0.0.0", 7000))
print("up", flush=True)
def udp():
    while True:
        u.sendto(*u.recvfrom(2000))
threading.Thread(target=udp).start()
while True:
    c = t.accept()[0]
    while data := c.recv(65536):
        c.sendall(data)
"""
PING = """
import socket, sys, time
address, count, wait = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(wait)
for number in range(count):
    begun = time.monotonic()
    s.sendto(b"%d" % number, (address, 7000))
    try:
        assert s.recv(2000) == b"%d" % number
    except TimeoutError:
        print("lost")
    else:
        print(time.monotonic() - begun)
"""
FLOOD = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for number in range(int(sys.argv[2])):
    s.sendto(b"x" * int(sys.argv[3]), (sys.argv[1], 9))
"""
TCP = """
import hashlib, os, socket, sys, threading
data = os.urandom(2_000_000)
s = socket.create_connection((sys.argv[1], 7000), 10)
threading.Thread(target=s.sendall, args=(data,)).start()
back = b""
while len(back) < len(data):
    back += s.recv(1 << 20)
print(back == data)
"""


def start_echo(network: Network, machine: int) -> None:
    process = network.start(machine, [sys.executable, "-c", ECHO], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"


def ping(network: Network, machine: int, to: int, count: int = 1, wait: float = 0.3) -> list[str]:
    """Round trips in s, or “lost”."""
    command = [sys.executable, "-c", PING, network.address(to), str(count), str(wait)]
    return network.run(machine, command).split()


@pytest.fixture
def three() -> Iterator[Network]:
    with Network(3) as network:
        start_echo(network, 1)
        start_echo(network, 2)
        yield network


def test_round_trips_take_what_was_asked(three: Network) -> None:
    for delay_s in (0.0, 0.025):
        three.change(delay_s=delay_s)
        fastest = min(float(each) for each in ping(three, 1, 2, 10))
        assert 2 * delay_s <= fastest < 2 * delay_s + 0.010
    three.change((2, 1), delay_s=0.075)
    assert min(float(each) for each in ping(three, 1, 2, 3)) >= 0.1


def lost(seed: str) -> list[int]:
    way = Way(seed)
    way.loss = 0.1
    for number in range(200):
        way.take(bytes([number]), 0.0)
    return sorted(set(range(200)) - {packet[0] for _, packet in way.packets})


def test_the_same_seed_loses_the_same() -> None:
    assert lost("1") == lost("1") != lost("2")


def test_about_the_share_that_was_asked_is_lost(three: Network) -> None:
    three.change(loss=0.01)
    three.change((2, 1), loss=0.0)
    three.run(1, [sys.executable, "-c", FLOOD, three.address(2), "3000", "100"])
    end = time.monotonic() + 5
    while sum((count := three.counts()[1, 2]).values()) < 3000 and time.monotonic() < end:
        time.sleep(0.01)
    assert sum(count.values()) == 3000  # none lost that was not meant to be
    assert 15 <= count["lost"] <= 45  # 30 expected, the standard deviation is 5.4
    assert three.counts()[1, 3] == {"carried": 0, "lost": 0, "blocked": 0}


def test_who_is_blocked_is_out_of_reach_and_the_third_reaches_both(three: Network) -> None:
    three.block(1, 2)
    assert ping(three, 1, 2) == ["lost"]
    assert "lost" not in ping(three, 3, 1) + ping(three, 3, 2)
    assert three.counts()[1, 2]["blocked"] == 1
    three.unblock(1, 2)
    assert "lost" not in ping(three, 1, 2)
    three.block(2, 1, both=False)
    assert ping(three, 1, 2) == ["lost"]
    assert three.counts()[1, 2]["carried"] == 2  # it arrives, the answer does not
    assert three.counts()[2, 1]["blocked"] == 1


def test_tcp_with_delay_and_loss(three: Network) -> None:
    three.change(delay_s=0.002, loss=0.002)
    assert three.run(1, [sys.executable, "-c", TCP, three.address(2)]) == "True\n"


@pytest.mark.parametrize("how", ["rate", "limit"])
def test_no_more_bytes_a_second_than_asked(three: Network, how: str) -> None:
    if how == "rate":
        three.change(rate=4_000_000)
    else:
        three.limit(1, 4_000_000)
    begun = time.monotonic()
    assert three.run(1, [sys.executable, "-c", TCP, three.address(2)]) == "True\n"
    assert 0.5 <= time.monotonic() - begun < 3.0


def test_an_uplink_is_shared_by_all_ways_out_of_a_machine() -> None:
    uplink = Gate()
    uplink.rate = 1000.0
    first, second = Way("1", uplink), Way("2", uplink)
    for way in (first, second, first, second):
        way.take(bytes(40), 0.0)
    assert [due for due, _ in first.packets] == pytest.approx([0.04, 0.12])
    assert [due for due, _ in second.packets] == pytest.approx([0.08])
    assert second.counts["lost"] == 1  # it would have waited for 0.12 s


def processor_s(process_id: int) -> float:
    user, system = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def test_ten_thousand_packets_a_second_in_order(three: Network) -> None:
    three.change(delay_s=0.01)
    count = 20_000
    take = f"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
s.bind(("0.0.0.0", 9)); s.settimeout(5)
print("up", flush=True)
print([int(s.recv(2000)[:8]) for _ in range({count})] == list(range({count})))
"""
    give = f"""
import socket, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
begun = time.monotonic()
for number in range({count}):
    s.sendto(b"%08d" % number + b"x" * 1192, ("{three.address(3)}", 9))
    if number % 50 == 49:
        time.sleep(max(0, begun + number / 15_000 - time.monotonic()))
"""
    taker = three.start(3, [sys.executable, "-c", take], stdout=subprocess.PIPE, text=True)
    assert taker.stdout.readline() == "up\n"
    before = processor_s(three._relay.pid)
    three.run(1, [sys.executable, "-c", give])
    assert taker.stdout.readline() == "True\n"
    assert processor_s(three._relay.pid) - before < count / 20_000  # 10,000 a second take less than half a core


def names_of(process_id: int) -> list[str]:
    return [each.name for each in Path("/run/netns").iterdir() if each.name.startswith(f"peerloom-{process_id}-")]


def is_running(process_id: int) -> bool:
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_nothing_is_left() -> None:
    with pytest.raises(ZeroDivisionError), Network(2) as network:  # noqa: PT012  (the whole block is the case)
        shell = network.start(1, ["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True)
        below = int(shell.stdout.readline())
        assert is_running(below)
        assert len(names_of(os.getpid())) == 2
        raise ZeroDivisionError
    assert names_of(os.getpid()) == []
    assert not is_running(shell.pid)
    assert not is_running(below)


def test_nothing_is_left_by_a_process_that_was_killed() -> None:
    code = """if True:
        import sys, time
        from tests.network import Network
        network = Network(2)
        print(network._relay.pid, network.start(1, ["sleep", "600"]).pid, flush=True)
        time.sleep(600)
    """
    with subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[1], stdout=subprocess.PIPE,
                          text=True) as process:
        relay, sleeper = map(int, process.stdout.readline().split())
        assert len(names_of(process.pid)) == 2
        process.kill()
    end = time.monotonic() + 10
    while (names_of(process.pid) or is_running(relay) or is_running(sleeper)) and time.monotonic() < end:
        time.sleep(0.02)
    assert names_of(process.pid) == []
    assert not is_running(relay)
    assert not is_running(sleeper)
