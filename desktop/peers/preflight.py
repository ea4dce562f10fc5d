"""What this computer can expect of the network before there is any peer: the preflight check and its verdict."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import msgspec
from aioice.ice import get_host_addresses

from desktop.errors import (
    NoStunError,
    NoWayInError,
    PathCheckLateError,
    RelayMissingError,
    SameNetworkError,
    SymmetricNatError,
    TurnClosedError,
    TurnNameError,
    TurnPasswordError,
    TurnRefusedError,
    TurnSilentError,
    TurnUnusableError,
)
from desktop.peers.ice import LOOPBACK, TurnServer, look_up
from desktop.peers.stun import Address, Asker, NoRelay, place, relay_address

LIMIT_S = 5.0  # for the whole check
RELAY_S = 4.0  # for a TURN server

TURN_ERRORS = {"password": TurnPasswordError, "silent": TurnSilentError, "closed": TurnClosedError,
               "name": TurnNameError, "refused": TurnRefusedError, "unusable": TurnUnusableError}


class Verdict(msgspec.Struct, frozen=True):
    """What the check says. `details` are the facts behind it, one line each, for those who know networks.

    kind: "computer", "network", "nothing", "host", "steady", "likely", "symmetric", "relay", "late", "no-relay-set" or
    "turn-" and a key of `TURN_ERRORS`; severity: "good", "info", "care" or "bad"; title and text: for everybody.
    """

    kind: str
    severity: str
    title: str
    text: str
    details: tuple[str, ...] = ()


class Relay(msgspec.Struct, frozen=True):
    """What a TURN server gave: a relay address, or a fault (a key of `TURN_ERRORS`) in its own words."""

    address: str = ""
    fault: str = ""
    why: str = ""


class Findings(msgspec.Struct):
    """What has been found so far; filled while the check runs, so that one that comes to no end can say how far it got.

    `mapped` holds the address of one and the same socket in the eyes of each STUN server, None for no answer.
    """

    stun: tuple[str, ...] = ()
    turn: tuple[TurnServer, ...] = ()
    relay_only: bool = False
    hosts: tuple[str, ...] = ()
    mapped: dict[str, Address | None] = {}
    relays: dict[str, Relay] = {}

    @property
    def done(self) -> bool:
        """Whether everybody who was asked has answered, or was waited for long enough."""
        return len(self.mapped) == len(self.stun) and len(self.relays) == len(self.turn)

    def lines(self) -> tuple[str, ...]:
        """The facts, one a line."""
        own = ", ".join(self.hosts) or "none"
        return (f"Own addresses: {own}", *(f"{_short(url)}: {self._seen(url)}" for url in self.stun),
                *(f"{_short(each.url)}: {self._given(each.url)}" for each in self.turn))

    def _seen(self, url: str) -> str:
        if url not in self.mapped:
            return "not answered yet"
        mapped = self.mapped[url]
        return f"sees this computer at {mapped[0]}:{mapped[1]}" if mapped else "no answer"

    def _given(self, url: str) -> str:
        relay = self.relays.get(url)
        if relay is None:
            return "not answered yet"
        faults = {"password": "refuses the name or the password", "silent": "no answer",
                  "closed": "the port is closed", "name": "no answer to its name", "refused": f"refuses: {relay.why}",
                  "unusable": "cannot be used"}
        return f"relays at {relay.address}" if relay.address else faults[relay.fault]


def on_this_computer() -> Verdict:
    """The verdict for a room on this computer only, for which nothing is asked."""
    return Verdict("computer", "good", "Ready", "This room is on this computer only: no network is needed.")


def on_this_network() -> Verdict:
    """The verdict where only the own network counts: no server is asked."""
    findings = Findings(hosts=host_addresses())
    if not findings.hosts:
        return _of_error("nothing", "bad", NO_WAY_IN, NoWayInError(), findings)
    text = f"Members on the same network reach this computer at {findings.hosts[0]}. No server is asked for this."
    return Verdict("network", "good", "Ready for this network", text, findings.lines())


def host_addresses() -> tuple[str, ...]:
    """The addresses that a connection would offer, as aioice finds them, without loopback."""
    return tuple(each for each in get_host_addresses(use_ipv4=True, use_ipv6=True) if each != LOOPBACK)


async def check(
    stun: Sequence[str], turn: Sequence[TurnServer], *, relay_only: bool = False, limit_s: float = LIMIT_S
) -> Verdict:
    """Asks all servers at the same time and judges what they say, within `limit_s`."""
    servers = tuple({each.url: each for each in turn}.values())
    findings = Findings(() if relay_only else tuple(dict.fromkeys(stun)), servers, relay_only, host_addresses())
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            await asyncio.gather(_ask_stun(findings), *(_ask_turn(findings, each) for each in servers))
    return judge(findings, limit_s)


async def _ask_stun(findings: Findings) -> None:
    """All from one socket: whether the mapping is the same for different servers is the question."""
    async def ask(asker: Asker, url: str) -> None:
        where = place(url)
        number = await look_up(where.host) if where and where.scheme == "stun" else ""
        findings.mapped[url] = await asker.mapped((number, where.port)) if where and number else None

    try:
        async with Asker.open() as asker:
            await asyncio.gather(*(ask(asker, url) for url in findings.stun))
    except OSError:  # not even a socket
        findings.mapped.update(dict.fromkeys(findings.stun))


async def _ask_turn(findings: Findings, server: TurnServer) -> None:
    """By a real allocation, as only that shows whether name and password are right."""
    where = place(server.url)
    if where is None or where.scheme != "turn":
        findings.relays[server.url] = Relay(fault="unusable")
        return
    number = await look_up(where.host)
    if not number:
        findings.relays[server.url] = Relay(fault="name")
        return
    try:
        async with asyncio.timeout(RELAY_S):
            ip, port = await relay_address(where, (number, where.port), server.user, server.credential)
        findings.relays[server.url] = Relay(f"{ip}:{port}")
    except TimeoutError:
        findings.relays[server.url] = Relay(fault="silent")
    except NoRelay as refused:
        findings.relays[server.url] = Relay(fault=refused.fault, why=refused.why)


# -- the verdict --

NO_WAY_IN = "No network"


def judge(findings: Findings, limit_s: float = LIMIT_S) -> Verdict:
    """The verdict on what was found. A relay address makes up for everything else."""
    relayed = [url for url, relay in findings.relays.items() if relay.address]
    if relayed:
        return _relayed(findings, _short(relayed[0]))
    if not findings.hosts and not any(findings.mapped.values()):
        return _of_error("nothing", "bad", NO_WAY_IN, NoWayInError(), findings)
    if not findings.done:
        late = PathCheckLateError(limit=f"{limit_s:g}", steps="; ".join(findings.lines()))
        return _of_error("late", "care", "The check took too long", late, findings)
    if findings.relay_only and not findings.turn:
        return _of_error("no-relay-set", "bad", "No TURN server is set", RelayMissingError(), findings)
    direct = _direct(findings)
    return _without_relay(findings, direct) if findings.turn else direct


def _direct(findings: Findings) -> Verdict:
    """The verdict on the ways that need no relay."""
    mapped = {url: address for url, address in findings.mapped.items() if address}
    if not mapped:
        error = SameNetworkError() if findings.stun else NoStunError()
        return _of_error("host", "care", "Same network only", error, findings)
    if len(set(mapped.values())) > 1:
        return _of_error("symmetric", "care", "Strict router", SymmetricNatError(), findings)
    if len(mapped) == 1:
        text = (f"Members elsewhere can probably connect directly. Only {_short(next(iter(mapped)))} answered; "
                "it takes two servers to be sure.")
        return Verdict("likely", "info", "Probably reachable", text, findings.lines())
    ip = next(iter(mapped.values()))[0]
    text = f"Members anywhere can connect directly: all servers see this computer at the same address, {ip}."
    return Verdict("steady", "good", "Reachable from anywhere", text, findings.lines())


def _relayed(findings: Findings, server: str) -> Verdict:
    text = f"The TURN server {server} passes packets on where no direct way is open."
    if findings.relay_only:
        text = f"All packets go through the TURN server {server}."
    return Verdict("relay", "good", "Reachable from anywhere", text, findings.lines())


def _without_relay(findings: Findings, direct: Verdict) -> Verdict:
    """TURN servers are set, and none gave a relay address: what is wrong with the first, and what is left."""
    server = findings.turn[0]
    relay = findings.relays[server.url]
    error = TURN_ERRORS[relay.fault](server=_short(server.url), why=relay.why)
    rest = {"host": "Until then only members on the same network are reached.",
            "symmetric": "Until then members on other networks are not reached, as the router here is a strict one.",
            "relay": "Until then nobody is reached."}.get(
                "relay" if findings.relay_only else direct.kind,
                "Until then members are reached directly, where their networks let it.")
    severity = "care" if direct.severity in ("good", "info") and not findings.relay_only else "bad"
    titles = {"password": "TURN: wrong name or password", "refused": "The TURN server refuses"}
    return Verdict(f"turn-{relay.fault}", severity, titles.get(relay.fault, "The TURN server cannot be reached"),
                   f"{error} {rest}", findings.lines())


def _of_error(kind: str, severity: str, title: str, error: Exception, findings: Findings) -> Verdict:
    return Verdict(kind, severity, title, str(error), findings.lines())


def _short(url: str) -> str:
    """A server as people write it: without scheme and transport."""
    return url.partition(":")[2].partition("?")[0]
