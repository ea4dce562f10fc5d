"""A real TURN server for tests: Debian's coturn as a process of its own, on 127.0.0.1."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from aioice import stun

USER, PASSWORD = "peer", "correct-horse"
READY_S = 10.0
LOOPBACK = "127.0.0.1"


class Coturn(NamedTuple):
    """One that runs, on this port for UDP and TCP. It answers STUN too."""

    port: int
    log: Path

    @property
    def stun(self) -> str:
        return f"stun:{LOOPBACK}:{self.port}"

    @property
    def turn(self) -> str:
        return f"turn:{LOOPBACK}:{self.port}"


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Coturn]:
    """Start one that keeps its files in `folder`, end it afterwards; skips the test where there is no coturn."""
    program = shutil.which("turnserver")
    if program is None:
        pytest.skip("coturn is not installed (the Debian package; packaging/test installs it when it is run by root)")
    port, log = free_port(), folder / "turnserver.log"
    settings = {
        "listening-ip": LOOPBACK, "relay-ip": LOOPBACK, "listening-port": port, "realm": "peerloom.test",
        "user": f"{USER}:{PASSWORD}", "userdb": folder / "turndb", "pidfile": folder / "pid", "log-file": log,
        "relay-threads": 1,
    }
    # It refuses to pass anything on to 127.0.0.1 unless told to, and that only without its command line interface.
    switches = ("lt-cred-mech", "no-tls", "no-dtls", "no-cli", "allow-loopback-peers", "simple-log",
                "verbose")
    file = folder / "turnserver.conf"
    file.write_text("\n".join([*(f"{key}={value}" for key, value in settings.items()), *switches, ""]))
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen([program, "-c", file], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        wait_until_ready(process, port, folder)
        yield Coturn(port, log)
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has, neither for UDP nor for TCP."""
    for _ in range(100):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp, socket.socket() as tcp:
            udp.bind((LOOPBACK, 0))
            port: int = udp.getsockname()[1]
            with contextlib.suppress(OSError):
                tcp.bind((LOOPBACK, port))
                return port
    raise AssertionError("no free port")


def wait_until_ready(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    """Ask until it answers."""
    end = time.monotonic() + READY_S
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(0.05)
        asking.connect((LOOPBACK, port))
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError):  # refused, until it listens; or nothing came
                asking.send(bytes(stun.Message(stun.Method.BINDING, stun.Class.REQUEST)))
                asking.recv(2048)
                return
    raise AssertionError(f"coturn does not answer: {(folder / 'output').read_text('utf-8', 'replace')[-1500:]}")
