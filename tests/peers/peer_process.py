"""A peer in a process of its own, to be killed: reads an offer from stdin, answers on stdout, then only receives."""

from __future__ import annotations

import asyncio
import json
import sys

from tests.peers.doubles import lane_of, make_link


async def main() -> None:
    link, _ = make_link("parent")
    offer = json.loads(await asyncio.to_thread(sys.stdin.readline))
    print(json.dumps(await lane_of(link).answer(offer)), flush=True)
    await link.close("") if await asyncio.to_thread(sys.stdin.readline) else None


if __name__ == "__main__":
    asyncio.run(main())
