"""How two computers find a path: servers, candidates, loopback, and the verdict on the path that was chosen."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import ipaddress
import logging
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar, cast

import msgspec
from aiortc import RTCConfiguration, RTCIceServer, RTCIceTransportPolicy, RTCPeerConnection

from desktop.peers.stun import ANSWER_S, Address, Asker, Place, place

log = logging.getLogger(__name__)
S = TypeVar("S")

LOOPBACK = "127.0.0.1"
LOOK_UP_S = 2.0
LATER_S = 30.0  # servers that answered are asked again after so long,
SOON_S = 10.0  # and after so long when one is missing


class TurnServer(msgspec.Struct, frozen=True):
    """A relay: `url` is turn:host:port?transport=udp|tcp or turns:host:port?transport=tcp."""

    url: str
    user: str
    credential: str

    def __repr__(self) -> str:  # neither a log nor a report may show the credential
        return f"TurnServer({self.url})"


class Path(msgspec.Struct, frozen=True):
    """The path in use: `verdict` is "direct", "relay", or "" while none is chosen; types: host, srflx, prflx, relay."""

    verdict: str = ""
    local_type: str = ""
    remote_type: str = ""


def configuration(
    stun: Sequence[str] = (), turn: Sequence[TurnServer] = (), *, relay_only: bool = False
) -> RTCConfiguration:
    """What to give RTCPeerConnection. Always explicit: without one it would ask a public STUN server."""
    servers = [RTCIceServer(urls=url) for url in stun]
    servers += [RTCIceServer(urls=each.url, username=each.user, credential=each.credential) for each in turn]
    policy = RTCIceTransportPolicy.RELAY if relay_only else RTCIceTransportPolicy.ALL
    return RTCConfiguration(iceServers=servers, iceTransportPolicy=policy)


class Servers:
    """The STUN and TURN servers of the settings, of which those that answer are used, found out aside.

    aiortc takes one STUN and one TURN server, and a silent one would cost each connection 5 s. So all are asked at
    the same time, within a second, and the quickest of each kind is taken; none, when none answers. aioice also looks
    names up in the loop's executor, where a silent DNS server would hold up gathering and, as the executor's threads
    cannot be cancelled, the end of the program: here each look-up has a daemon thread of its own and a limit.
    """

    def __init__(
        self, stun: Sequence[str], turn: Sequence[TurnServer], *, relay_only: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stun = () if relay_only else tuple(stun)
        self._turn = tuple(turn)
        self._relay_only = relay_only
        self._clock = clock
        self._numbers: dict[str, str] = {}
        self._chosen = configuration(relay_only=relay_only)
        self._until = float("-inf")  # when to ask again
        self._asking = asyncio.Lock()

    async def configuration(self) -> RTCConfiguration:
        """The configuration for the next connection: at once, or after `ANSWER_S` when it is time to ask again."""
        if not self._stun and not self._turn:
            return self._chosen
        async with self._asking:
            if self._clock() >= self._until:
                self._chosen = await self._ask()
                missing = len(self._chosen.iceServers or []) < bool(self._stun) + bool(self._turn)
                self._until = self._clock() + (SOON_S if missing else LATER_S)
        return self._chosen

    async def _ask(self) -> RTCConfiguration:
        try:
            async with Asker.open() as asker:
                stun, turn = await asyncio.gather(
                    first(self._in_time(url, asker.mapped, url) for url in self._stun),
                    first(self._in_time(each.url, asker.is_relay, each) for each in self._turn),
                )
        except OSError as error:
            log.info("no server can be asked: %s", error)
            stun = turn = None
        return configuration([stun] if stun else [], [turn] if turn else [], relay_only=self._relay_only)

    async def _in_time(self, url: str, question: Callable[[Address], Awaitable[object]], server: S) -> S | None:
        """The server, with its host as a number, when it answers the question in time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_S):
                where = place(url)
                number = await self._number(where.host) if where else ""
                if where and number and await self._answers(where, (number, where.port), question):
                    return _numeric(server, where, number)
        log.info("%s does not answer within %g s: left out", url, ANSWER_S)
        return None

    async def _answers(self, where: Place, address: Address, question: Callable[[Address], Awaitable[object]]) -> bool:
        if where.transport == "udp":
            return bool(await question(address))
        try:
            _, writer = await asyncio.open_connection(*address)
        except OSError:
            return False
        writer.close()
        return True

    async def _number(self, host: str) -> str:
        number = self._numbers.get(host) or await look_up(host)
        if number:
            self._numbers[host] = number
        return number


def _numeric(server: S, where: Place, number: str) -> S:
    """A server's URL with its host as a number. TLS needs the name: left as it is, and known to be known by now."""
    if where.tls:
        return server
    if isinstance(server, TurnServer):
        url = f"turn:{number}:{where.port}?transport={where.transport}"
        return cast(S, msgspec.structs.replace(server, url=url))
    return cast(S, f"stun:{number}:{where.port}")


async def first(questions: Iterable[Coroutine[Any, Any, S | None]]) -> S | None:
    """The first answer that is one; the other questions are dropped then."""
    tasks = [asyncio.create_task(each) for each in questions]
    try:
        for done in asyncio.as_completed(tasks):
            answer = await done
            if answer is not None:
                return answer
        return None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def look_up(host: str, limit_s: float = LOOK_UP_S) -> str:
    """The IPv4 address of a host, or "" when there is none or it does not come within the limit."""
    with contextlib.suppress(ValueError):
        return str(ipaddress.IPv4Address(host))
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def settle(number: str) -> None:
        if not answer.done():
            answer.set_result(number)

    def ask() -> None:
        try:
            number = socket.gethostbyname(host)
        except (OSError, UnicodeError):
            number = ""
        with contextlib.suppress(RuntimeError):  # the loop may be closed by now
            loop.call_soon_threadsafe(settle, number)

    threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
    try:
        return await asyncio.wait_for(answer, limit_s)
    except TimeoutError:
        return ""


def allow_loopback(connection: RTCPeerConnection, *, only: bool) -> None:
    """Let this connection use 127.0.0.1: alone when `only`, else when the computer has no other address.

    aioice leaves 127.0.0.1 out, so that a room on one computer without a network would find no path at all. The
    addresses are an argument of a public method of aioice.Connection; it is wrapped on this one object, nothing is
    replaced for anybody else. Should a later aioice look different, nothing is done and the log says so.
    """
    ice: Any = getattr(_transport(connection), "_connection", None)
    gather = getattr(ice, "get_component_candidates", None)
    if gather is None or list(inspect.signature(gather).parameters)[:2] != ["component", "addresses"]:
        log.info("this aioice gathers candidates in another way: no loopback")
        return

    async def with_loopback(component: int, addresses: list[str], timeout: int = 5) -> Any:
        return await gather(component, [LOOPBACK] if only or not addresses else addresses, timeout)

    ice.get_component_candidates = with_loopback


def gathered(connection: RTCPeerConnection) -> dict[str, int]:
    """How many candidates of each type this side has found."""
    transport = _transport(connection)
    if transport is None:
        return {}
    return dict(Counter(candidate.type for candidate in transport.iceGatherer.getLocalCandidates()))


def is_offline(connection: RTCPeerConnection) -> bool:
    """True when this side has no candidate that another computer could reach."""
    transport = _transport(connection)
    candidates = transport.iceGatherer.getLocalCandidates() if transport is not None else []
    return all(candidate.ip == LOOPBACK for candidate in candidates)


def remote_candidates(connection: RTCPeerConnection) -> int:
    """How many candidates the other side has sent, or was seen to use."""
    transport = _transport(connection)
    return len(transport.getRemoteCandidates()) if transport is not None else 0


def chosen_path(connection: RTCPeerConnection) -> Path:
    """The kinds of the candidates in use."""
    pair = _chosen_pair(connection)
    if pair is None:
        return Path()
    local, remote = pair.local_candidate.type, pair.remote_candidate.type
    return Path("relay" if "relay" in (local, remote) else "direct", local, remote)


def near(connection: RTCPeerConnection) -> tuple[str, str] | None:
    """(my address, the peer's) when both are in one network: no relay, no address translation between."""
    pair = _chosen_pair(connection)
    if pair is None:
        return None
    mine, theirs = pair.local_candidate, pair.remote_candidate
    if {mine.type, theirs.type} <= {"host", "prflx"} and ipaddress.ip_address(theirs.host).is_private:
        return str(mine.host), str(theirs.host)
    return None


def hold_back_names(sdp: str) -> tuple[str, list[str]]:
    """Take candidates with `.local` names out of a description: (the rest, the candidates to add later).

    aiortc would look them up on the LAN before it goes on, and fail altogether where multicast is not allowed.
    """
    lines = sdp.split("\r\n")
    named = [line for line in lines if line.startswith("a=candidate:") and ".local " in line]
    if not named:
        return sdp, []
    kept = [line for line in lines if line not in named and line != "a=end-of-candidates"]
    return "\r\n".join(kept), [line.removeprefix("a=candidate:") for line in named]


def max_message_size(sdp: str) -> int:
    """What the remote takes in one packet, in bytes: 0 is any size; 65,536 when it does not say (RFC 8841, 6)."""
    match = re.search(r"^a=max-message-size:(\d{1,20})\s*$", sdp, re.MULTILINE)
    return int(match.group(1)) if match else 65_536


def _chosen_pair(connection: RTCPeerConnection) -> Any:
    """The pair of candidates in use; None before one is. aiortc does not say it, so aioice's own table is read, never
    written."""
    pairs = getattr(getattr(_transport(connection), "_connection", None), "_nominated", {})
    return next(iter(pairs.values()), None)


def _transport(connection: RTCPeerConnection) -> Any:
    """The ICE transport below the data channels; None before there is one."""
    return connection.sctp.transport.transport if connection.sctp is not None else None
