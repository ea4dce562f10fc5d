"""Questions to STUN and TURN servers beside any connection: who answers, and which address does it see."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import struct
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from aioice import stun, turn
from aiortc.rtcicetransport import parse_stun_turn_uri

log = logging.getLogger(__name__)

ANSWER_S = 1.0  # what a server has for its answer; asked again after half of it, as a packet may be lost
DELETE_S = 0.5
LIFETIME_S, CHANNEL_S = 600, 500  # the usual ones; an allocation of ours is given back at once
Address = tuple[str, int]  # host or IPv4 address, port


class Place(msgspec.Struct, frozen=True):
    """Where a server is: `scheme` stun or turn, `transport` udp or tcp, `tls` on top of tcp."""

    scheme: str
    host: str
    port: int
    transport: str
    tls: bool


def place(url: str) -> Place | None:
    """What a URL of a server says; None for one that aiortc does not take, such as an IPv6 address."""
    try:
        parsed = parse_stun_turn_uri(url)
    except ValueError:
        return None
    scheme, transport = parsed["scheme"], parsed.get("transport", "udp")
    tls = scheme == "turns"
    if scheme == "stuns" or transport not in ("udp", "tcp") or (tls and transport == "udp"):
        return None
    return Place(scheme.rstrip("s"), parsed["host"], parsed["port"], transport, tls)


class Asker(asyncio.DatagramProtocol):
    """One UDP socket from which questions are put to any number of servers at the same time."""

    def __init__(self) -> None:
        self._asked: dict[bytes, stun.Transaction] = {}
        self._transport: Any = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls) -> AsyncIterator[Asker]:
        """Opens the socket and closes it; OSError."""
        loop = asyncio.get_running_loop()
        transport, asker = await loop.create_datagram_endpoint(cls, local_addr=("0.0.0.0", 0))
        try:
            yield asker
        finally:
            transport.close()

    async def mapped(self, server: Address) -> Address | None:
        """The address that this socket has in the eyes of a STUN server; None when it does not answer in time."""
        answer = await self._ask(stun.Message(stun.Method.BINDING, stun.Class.REQUEST), server)
        if answer is None or answer.message_class != stun.Class.RESPONSE:
            return None
        found: Address | None = answer.attributes.get("XOR-MAPPED-ADDRESS")
        return found

    async def is_relay(self, server: Address) -> bool:
        """Whether a TURN server answers: asked for a relay address without a name, it says no, but says something."""
        request = stun.Message(stun.Method.ALLOCATE, stun.Class.REQUEST)
        request.attributes["REQUESTED-TRANSPORT"] = turn.UDP_TRANSPORT
        return await self._ask(request, server) is not None

    async def _ask(self, request: stun.Message, server: Address) -> stun.Message | None:
        transaction = self._asked[request.transaction_id] = stun.Transaction(request, server, self)
        try:
            async with asyncio.timeout(ANSWER_S):
                answer, _ = await transaction.run()
                return answer
        except stun.TransactionFailed as refused:
            return refused.response
        except (TimeoutError, stun.TransactionError):
            return None
        finally:
            del self._asked[request.transaction_id]

    # -- the socket --

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def send_stun(self, message: stun.Message, addr: Address) -> None:
        """As aioice's transactions want it."""
        self._transport.sendto(bytes(message), addr)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        with contextlib.suppress(ValueError, struct.error):  # what is no STUN answers nothing
            answer = stun.parse_message(data)
            transaction = self._asked.get(answer.transaction_id)
            if transaction is not None and answer.message_class in (stun.Class.RESPONSE, stun.Class.ERROR):
                transaction.response_received(answer, addr)

    def error_received(self, exc: Exception) -> None:
        log.debug("a question to a server: %s", exc)


class NoRelay(Exception):
    """A TURN server gave no relay address. `fault`: "silent", "closed", "password" or "refused"; `why` in its words."""

    def __init__(self, fault: str, why: str = "") -> None:
        super().__init__(fault, why)
        self.fault, self.why = fault, why


async def relay_address(server: Place, address: Address, user: str, credential: str) -> Address:
    """Get a relay address from a TURN server, and give it back; NoRelay. Waits for as long as it is let."""
    closed = asyncio.get_running_loop().create_future()
    try:
        client = await _client(server, address, user, credential, closed)
    except ConnectionRefusedError as error:
        raise NoRelay("closed") from error
    except ssl.SSLError as error:
        raise NoRelay("refused", error.reason or str(error)) from error
    except OSError as error:
        raise NoRelay("silent", error.strerror or str(error)) from error
    asking = asyncio.ensure_future(client.connect())
    try:
        await asyncio.wait({asking, closed}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            raise NoRelay("closed")
        return asking.result()
    except (stun.TransactionError, ConnectionError) as error:
        raise _no_relay(error) from error
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await _give_back(client)
        closed.cancel()


def _no_relay(error: Exception) -> NoRelay:
    response = getattr(error, "response", None)
    if response is None:
        return NoRelay("silent" if isinstance(error, stun.TransactionTimeout) else "refused", str(error))
    code, reason = response.attributes.get("ERROR-CODE", (0, "no reason given"))
    # 401: unknown name or wrong password; 441: the name belongs to another password (RFC 8656, 19).
    return NoRelay("password" if code in (401, 441) else "refused", f"{code} {reason}")


async def _client(
    server: Place, address: Address, user: str, credential: str, closed: asyncio.Future[None]
) -> turn.TurnClientUdpProtocol | turn.TurnClientTcpProtocol:
    loop = asyncio.get_running_loop()
    values = (address, user, credential, LIFETIME_S, CHANNEL_S)
    if server.transport == "tcp":
        name = server.host if server.tls else None  # for the certificate; the number is known already
        _, over_tcp = await loop.create_connection(
            lambda: _TcpClient(closed, *values), *address, ssl=server.tls or None, server_hostname=name
        )
        return over_tcp
    _, over_udp = await loop.create_datagram_endpoint(lambda: _UdpClient(closed, *values), remote_addr=address)
    return over_udp


async def _give_back(client: turn.TurnClientUdpProtocol | turn.TurnClientTcpProtocol) -> None:
    """Delete the allocation, where there is one, and close the socket in any case."""
    try:
        if client.relayed_address is not None:
            async with asyncio.timeout(DELETE_S):
                await client.delete()
    except (TimeoutError, ConnectionError, stun.TransactionError) as error:
        log.info("a relay address could not be given back: %r", error)
    finally:
        client.transport.close()


class _UdpClient(turn.TurnClientUdpProtocol):
    """aioice's client, which also tells when the computer there says that nobody listens at the port."""

    def __init__(self, closed: asyncio.Future[None], *values: Any) -> None:
        super().__init__(*values)
        self._closed = closed

    def error_received(self, exc: Exception) -> None:
        if isinstance(exc, ConnectionRefusedError) and not self._closed.done():
            self._closed.set_result(None)


class _TcpClient(turn.TurnClientTcpProtocol):
    """The same over TCP: tells when the server hangs up."""

    def __init__(self, closed: asyncio.Future[None], *values: Any) -> None:
        super().__init__(*values)
        self._closed = closed

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self._closed.done():
            self._closed.set_result(None)
