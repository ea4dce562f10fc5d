"""STUN servers for tests: one that says what it is told to, and one that says nothing."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

from aioice import stun

LOOPBACK = "127.0.0.1"


class Responder(asyncio.DatagramProtocol):
    """Answers each STUN request with `mapped`, whoever asks: as if a router had given it that address."""

    def __init__(self, mapped: tuple[str, int]) -> None:
        self._mapped = mapped
        self.asked = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.asked += 1
        request = stun.parse_message(data)
        answer = stun.Message(request.message_method, stun.Class.RESPONSE, request.transaction_id)
        answer.attributes["XOR-MAPPED-ADDRESS"] = self._mapped
        self.transport.sendto(bytes(answer), addr)

    @property
    def url(self) -> str:
        return f"stun:{LOOPBACK}:{self.transport.get_extra_info('sockname')[1]}"

    def close(self) -> None:
        self.transport.close()


@contextlib.asynccontextmanager
async def responders(*mapped: tuple[str, int]) -> AsyncIterator[list[Responder]]:
    """One for each address."""
    loop = asyncio.get_running_loop()
    made = [(await loop.create_datagram_endpoint(lambda each=each: Responder(each), local_addr=(LOOPBACK, 0)))[1]
            for each in mapped]
    try:
        yield made
    finally:
        for each in made:
            each.close()


@contextlib.contextmanager
def silent() -> Iterator[int]:
    """A UDP port where somebody listens and never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind((LOOPBACK, 0))
        yield bound.getsockname()[1]
