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
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
from aiortc import RTCConfiguration, RTCIceServer, RTCIceTransportPolicy, RTCPeerConnection

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
LOOK_UP_S = 2.0


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
    """The STUN and TURN servers of the settings, with their names looked up aside.

    aioice looks names up in the loop's executor, where a silent DNS server would hold up gathering and, as the
    executor's threads cannot be cancelled, the end of the program. Here each look-up has a daemon thread of its own
    and a limit; a server whose name is not known by then is left out of that connection.
    """

    def __init__(self, stun: Sequence[str], turn: Sequence[TurnServer], *, relay_only: bool = False) -> None:
        self._stun = tuple(stun)
        self._turn = tuple(turn)
        self._relay_only = relay_only
        self._numbers: dict[str, str] = {}

    async def configuration(self) -> RTCConfiguration:
        """The configuration for the next connection, within `LOOK_UP_S` whatever DNS does."""
        stun = await asyncio.gather(*(self._numeric(url) for url in self._stun))
        turn = await asyncio.gather(*(self._numeric(each.url) for each in self._turn))
        return configuration(
            [url for url in stun if url],
            [msgspec.structs.replace(each, url=url) for each, url in zip(self._turn, turn, strict=True) if url],
            relay_only=self._relay_only,
        )

    async def _numeric(self, url: str) -> str:
        """`url` with its host as a number; "" when it is not known in time. TLS needs the name: left as it is."""
        match = re.fullmatch(r"(stun|turn):([^:?]+)(.*)", url)
        if match is None:
            return url
        scheme, host, rest = match.groups()
        number = self._numbers.get(host) or await look_up(host)
        if not number:
            log.info("no address for %s within %g s: left out", host, LOOK_UP_S)
            return ""
        self._numbers[host] = number
        return f"{scheme}:{number}{rest}"


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
    """The pair of candidates in use. aiortc does not say it, so aioice's own table is read, never written."""
    pairs = getattr(getattr(_transport(connection), "_connection", None), "_nominated", {})
    for pair in pairs.values():
        local, remote = pair.local_candidate.type, pair.remote_candidate.type
        return Path("relay" if "relay" in (local, remote) else "direct", local, remote)
    return Path()


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


def _transport(connection: RTCPeerConnection) -> Any:
    """The ICE transport below the data channels; None before there is one."""
    return connection.sctp.transport.transport if connection.sctp is not None else None
