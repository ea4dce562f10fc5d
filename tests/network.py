"""Several machines on one computer: network namespaces, joined by a relay that delays, loses and blocks packets.

Each machine is a namespace with a TUN device; the relay is a process of its own that holds the other ends of the
devices and carries IP packets (so UDP, TCP and ping alike) from one to another. Needs Linux and root: `why_not` says
what is missing. The relay removes namespaces and what runs in them when it is told to, and when this process dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import json
import os
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DEVICE = "/dev/net/tun"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h
PREFIX = "10.77.0."
MTU = 1500
BATCH = 64  # packets read from one machine before the next has its turn
QUEUE_S = 0.1  # what waits longer for its turn at the limit of a rate is lost, as in a router's queue
LIMIT_S = 20.0
_numbers = itertools.count()


@functools.cache
def why_not() -> str:
    """Why there can be no machines here; empty if there can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are a part of Linux"
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "no program `ip` (iproute2)"
    name = f"peerloom-{os.getpid()}-try"
    try:
        os.close(_open_device(name[:15]))
        _ip("netns", "add", name)
    except OSError as error:
        return f"no {DEVICE}: {error}"
    except subprocess.CalledProcessError as error:
        return f"no network namespaces: {error.stderr.strip()}"
    _ip("netns", "del", name)
    return ""


class Network:
    """Machines number 1 to `machines`, addresses 10.77.0.1 and so on; a context manager.

    `delay_s` is for one way, `loss` a share (0..1) of the packets of each direction, `rate` bytes per second of each
    direction (0: any); `limit` is for what a machine sends to all others together. The same seed loses the same
    packets, counted per direction.
    """

    def __init__(
        self, machines: int, *, delay_s: float = 0.0, loss: float = 0.0, rate: float = 0.0, seed: int = 0
    ) -> None:
        self._names = [f"peerloom-{os.getpid()}-{next(_numbers)}" for _ in range(machines)]
        self._processes: list[subprocess.Popen[Any]] = []
        self._relay = subprocess.Popen(
            [sys.executable, "-m", "tests.network", str(seed), *self._names], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )
        try:
            self._answer()
            self.change(delay_s=delay_s, loss=loss, rate=rate)
        except BaseException:
            self.close()
            raise

    @property
    def machines(self) -> range:
        """Their numbers."""
        return range(1, len(self._names) + 1)

    @staticmethod
    def address(machine: int) -> str:
        """Where the others reach this machine."""
        return f"{PREFIX}{machine}"

    def inside(self, machine: int) -> tuple[str, ...]:
        """What to put before a command to have it run in this machine."""
        return ("ip", "netns", "exec", self._names[machine - 1])

    def start(self, machine: int, command: Sequence[str], **named: Any) -> subprocess.Popen[Any]:
        """A process in a machine; `named` is what Popen takes. It is killed at the end if it still runs."""
        process = subprocess.Popen(
            [*self.inside(machine), *command], **{"cwd": ROOT, **named}
        )
        self._processes.append(process)
        return process

    def run(self, machine: int, command: Sequence[str], limit_s: float = LIMIT_S) -> str:
        """What a program in a machine prints; CalledProcessError when it fails."""
        command = [*self.inside(machine), *command]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=True).stdout

    def change(
        self, pair: tuple[int, int] | None = None, *, delay_s: float | None = None, loss: float | None = None,
        rate: float | None = None,
    ) -> None:
        """Other conditions from now on, everywhere or for one direction (from, to); None leaves one as it is."""
        self._tell(do="change", pair=pair, delay_s=delay_s, loss=loss, rate=rate)

    def limit(self, machine: int, rate: float) -> None:
        """From now on this machine's uplink carries so many bytes per second; 0: any number."""
        self._tell(do="limit", machine=machine, rate=rate)

    def block(self, a: int, b: int, *, both: bool = True) -> None:
        """Nothing comes from `a` to `b` any more, nor back if `both`; what is on its way is lost too."""
        self._tell(do="block", pairs=[(a, b), (b, a)] if both else [(a, b)])

    def unblock(self, a: int, b: int, *, both: bool = True) -> None:
        """Undoes `block`."""
        self._tell(do="unblock", pairs=[(a, b), (b, a)] if both else [(a, b)])

    def counts(self) -> dict[tuple[int, int], dict[str, int]]:
        """Per direction (from, to): packets `carried`, `lost` by chance or a full queue, and `blocked`."""
        return {(a, b): counts for a, b, counts in self._tell(do="count")["counts"]}

    def close(self) -> None:
        """Ends what runs in the machines, the machines and the relay."""
        for process in self._processes:
            process.kill()
        assert self._relay.stdin is not None
        assert self._relay.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._relay.stdin.close()  # with that it ends
        try:
            self._relay.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self._relay.kill()
            self._relay.wait()
        self._relay.stdout.close()
        remove(self._names)  # in case that it failed
        for process in self._processes:
            process.wait(LIMIT_S)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(BrokenPipeError):
                        stream.close()

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tell(self, **line: Any) -> dict[str, Any]:
        assert self._relay.stdin is not None
        self._relay.stdin.write(json.dumps(line) + "\n")
        self._relay.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        """The relay answers when it has done what it was told, so that what is sent afterwards meets it."""
        assert self._relay.stdout is not None
        line = self._relay.stdout.readline()
        if not line:
            raise RuntimeError("the relay has ended; what it printed stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def remove(names: Sequence[str]) -> None:
    """Kill what runs in these namespaces, then remove them; those that are gone already are passed over."""
    for name in names:
        if not os.path.exists(f"/run/netns/{name}"):
            continue
        for pid in _ip("netns", "pids", name, check=False).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _ip("netns", "del", name, check=False)


def _ip(*arguments: str, check: bool = True) -> str:
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=check).stdout


def _open_device(name: str) -> int:
    """A new TUN device: reading gives what the kernel sends over it, writing is what it receives."""
    fd = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return fd


def _make_machine(name: str, number: int) -> int:
    """A namespace and its device, which stays open here while it lies there."""
    device = f"pl{os.getpid()}-{number}"
    _ip("netns", "add", name)
    _ip("netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", check=False)  # nor its chatter
    fd = _open_device(device)
    _ip("link", "set", device, "netns", name)
    _ip("-n", name, "link", "set", "lo", "up")
    _ip("-n", name, "address", "add", f"{PREFIX}{number}/24", "dev", device)
    _ip("-n", name, "link", "set", device, "mtu", str(MTU), "txqueuelen", "5000", "up")
    _ip("-n", name, "route", "add", "default", "dev", device)
    return fd


class Gate:
    """Lets so many bytes through per second; 0: any number."""

    def __init__(self) -> None:
        self.rate = 0.0
        self.sent = 0.0  # when the last packet had left

    def full(self, now: float) -> bool:
        """Whether a packet that comes now would wait too long."""
        self.sent = max(self.sent, now)
        return self.sent - now > QUEUE_S

    def leave(self, size: int) -> float:
        """When a packet that comes now has left."""
        if self.rate:
            self.sent += size / self.rate
        return self.sent


class Way:
    """One direction between two machines: its conditions, and its packets on their way, first come first served."""

    def __init__(self, seed: str, uplink: Gate | None = None) -> None:
        self.delay_s = self.loss = 0.0
        self._gate, self._uplink = Gate(), uplink or Gate()
        self.blocked = False
        self.packets: deque[tuple[float, bytes]] = deque()  # when due, what
        self.counts = {"carried": 0, "lost": 0, "blocked": 0}
        self._chance = random.Random(seed)
        self._last = 0.0  # when the last packet is due: none overtakes it, even if the delay shrinks

    def take(self, packet: bytes, now: float) -> None:
        """A packet enters."""
        if self.blocked:
            self.counts["blocked"] += 1
            return
        lost = bool(self.loss) and self._chance.random() < self.loss
        if any([lost, self._gate.full(now), self._uplink.full(now)]):
            self.counts["lost"] += 1
            return
        left = max(self._gate.leave(len(packet)), self._uplink.leave(len(packet)))
        self._last = max(self._last, left + self.delay_s)
        self.packets.append((self._last, packet))

    @property
    def rate(self) -> float:
        """Bytes per second, 0: any number."""
        return self._gate.rate

    @rate.setter
    def rate(self, rate: float) -> None:
        self._gate.rate = rate

    def block(self) -> None:
        """From now on, and for what is on its way."""
        self.blocked = True
        self.counts["blocked"] += len(self.packets)
        self.packets.clear()


class Relay:
    """Carries packets between the devices until its input ends."""

    def __init__(self, seed: str, fds: Sequence[int]) -> None:
        self._fds = dict(enumerate(fds, 1))
        self._uplinks = {machine: Gate() for machine in self._fds}
        self._ways = {(a, b): Way(f"{seed} {a} {b}", self._uplinks[a]) for a in self._fds for b in self._fds if a != b}

    def run(self) -> None:
        """Ends with the input. select() rather than epoll: it waits for parts of a millisecond."""
        control = sys.stdin.fileno()
        while True:
            now = time.monotonic()
            due = min((way.packets[0][0] for way in self._ways.values() if way.packets), default=now + LIMIT_S)
            ready = select.select([control, *self._fds.values()], [], [], max(0.0, due - now))[0]
            if control in ready:
                line = sys.stdin.readline()
                if not line:
                    return
                print(json.dumps(self._obey(json.loads(line))), flush=True)
            for machine, fd in self._fds.items():
                if fd in ready:
                    self._read(machine, fd)
            self._write()

    def _read(self, machine: int, fd: int) -> None:
        now = time.monotonic()
        for _ in range(BATCH):
            try:
                packet = os.read(fd, 65_536)
            except BlockingIOError:
                return
            if packet[0] >> 4 != 4:
                continue
            if packet[16:19] == b"\x0a\x4d\x00" and packet[19] in self._fds:
                if packet[19] != machine:
                    self._ways[machine, packet[19]].take(packet, now)
            elif packet[16] >= 224 or packet[16:20] == b"\x0a\x4d\x00\xff":  # multicast and broadcast: to all others
                for other in self._fds:
                    if other != machine:
                        self._ways[machine, other].take(packet, now)

    def _write(self) -> None:
        now = time.monotonic()
        for (_, machine), way in self._ways.items():
            while way.packets and way.packets[0][0] <= now:
                os.write(self._fds[machine], way.packets.popleft()[1])
                way.counts["carried"] += 1

    def _obey(self, line: dict[str, Any]) -> dict[str, Any]:
        if line["do"] == "count":
            return {"counts": [(a, b, way.counts) for (a, b), way in self._ways.items()]}
        if line["do"] == "limit":
            self._uplinks[line["machine"]].rate = line["rate"]
        if line["do"] == "change":
            for way in [self._ways[tuple(line["pair"])]] if line["pair"] else self._ways.values():
                for name in ("delay_s", "loss", "rate"):
                    if line[name] is not None:
                        setattr(way, name, line[name])
        for pair in line.get("pairs", ()):
            way = self._ways[tuple(pair)]
            if line["do"] == "block":
                way.block()
            else:
                way.blocked = False
        return {}


def main(seed: str, *names: str) -> None:
    """The process of the relay: makes the machines, says so, carries, removes them."""
    for kind in (signal.SIGTERM, signal.SIGINT):
        signal.signal(kind, lambda number, frame: sys.exit(1))
    try:
        relay = Relay(seed, [_make_machine(name, number) for number, name in enumerate(names, 1)])
        print("{}", flush=True)
        relay.run()
    finally:
        remove(names)


if __name__ == "__main__":
    main(*sys.argv[1:])
