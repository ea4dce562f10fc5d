"""An end of a direct lane in a process of its own, to be killed: dials, says its hello, and then sends for ever."""

from __future__ import annotations

import asyncio
import json
import sys

from desktop.peers.direct import Identity, dial
from tests.peers.direct_doubles import HOST, Pump


async def main() -> None:
    identity, heard = Identity(), Pump()
    print(json.dumps(identity.certificate.hex()), flush=True)
    certificate, port = json.loads(await asyncio.to_thread(sys.stdin.readline))
    lane = await dial(identity, bytes.fromhex(certificate), HOST, port, heard, 2)
    while lane.writable or await asyncio.sleep(0.001, True):
        lane.send(bytes(60_000))


if __name__ == "__main__":
    asyncio.run(main())
