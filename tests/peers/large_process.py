"""One end of a large transfer, in a process of its own: tells the digest and how much memory it took."""

from __future__ import annotations

import asyncio
import base64
import json
import mmap
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from desktop.bridge.transport import digest_of
from desktop.peers.direct import Identity
from desktop.peers.ice import Servers
from desktop.peers.link import Link, LinkSettings
from desktop.peers.packet import Kind
from desktop.peers.transfer import Transfer
from desktop.peers.webrtc import WebRtcLane
from tests.peers.doubles import LinkRecorder

PIECE = 2**20


def memory(key: str) -> int:
    """Bytes, of VmRSS (held now) or VmHWM (the most ever)."""
    found = re.search(rf"{key}:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii"))
    assert found
    return 1024 * int(found.group(1))


class Receiver(LinkRecorder):
    """Checks the message where it lies, and lets go of it."""

    def link_message(self, link: Link, message: Any) -> None:
        assert digest_of(message.data) == message.digest
        self._note("message", len(message.data), message.digest)
        link.taken(message.message)


async def work(size: int, packet_size: int, direct: bool, sends: bool, loopback: bool = True) -> None:
    """Open the link with the parent's help; send, or receive, one message; tell."""
    settings = LinkSettings(packet_size=packet_size, loopback=loopback, direct=direct)
    heard = Receiver(Transfer("large", packet_size, settings.limits, time.monotonic))
    heard.identity = Identity()
    peer = "b" if sends else "a"
    link = Link(peer, "1", heard, settings, time.monotonic, lambda: b"hello")
    lane = WebRtcLane(peer, 0, link, Servers((), ()), loopback=loopback)
    link.connect(lane)
    mine = base64.b64encode(heard.identity.certificate).decode()
    if sends:
        print(json.dumps([await lane.offer(), mine]), flush=True)
    sdp, theirs = json.loads(await asyncio.to_thread(sys.stdin.readline))
    heard.certificate = base64.b64decode(theirs)
    if sends:
        await lane.accept(sdp)
    else:
        print(json.dumps([await lane.answer(sdp), mine]), flush=True)
    await heard.until(lambda: bool(heard.of("opened")), 30)
    held = memory("VmRSS")
    if sends:
        data = mmap.mmap(-1, size)
        for place in range(0, size, PIECE):
            data[place:place + PIECE] = os.urandom(min(PIECE, size - place))
        digest = digest_of(memoryview(data))
        if direct:
            async with asyncio.timeout(20):
                while not link.stats().lanes.get("tls"):  # noqa: ASYNC110  (a link tells nobody of its lanes)
                    await asyncio.sleep(0.01)
        link.send(Kind.TRAINER, memoryview(data), digest, bulk=True, token=1)
        await heard.until(lambda: bool(heard.of("sent")), 200)
    else:
        await heard.until(lambda: bool(heard.of("message")), 200)
        digest = heard.of("message")[0][2]
        await heard.until(lambda: bool(heard.of("closed")), 30)
    print(json.dumps({"digest": digest.hex(), "held": held, "peak": memory("VmHWM")}), flush=True)
    await link.close("done")


if __name__ == "__main__":
    asyncio.run(work(**json.loads(sys.argv[1])))
