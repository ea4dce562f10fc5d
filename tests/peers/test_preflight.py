"""The verdict on the network: by what servers really say, coturn among them, and on findings of all kinds."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from desktop.peers import preflight
from desktop.peers.ice import TurnServer
from desktop.peers.preflight import Findings, Relay, check, judge
from tests.coturn import PASSWORD, USER, Coturn, free_port, running
from tests.peers.servers import LOOPBACK, responders, silent

GIVEN_BACK = "username=<peer>, lifetime=0"  # as the log of coturn has it
HERE = ("192.168.1.20", "fd00::20")


@pytest.fixture(scope="module")
def coturn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coturn]:
    with running(tmp_path_factory.mktemp("coturn")) as server:
        yield server


@pytest.fixture(autouse=True)
def two_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever network this computer is in."""
    monkeypatch.setattr(preflight, "get_host_addresses", lambda use_ipv4, use_ipv6: [LOOPBACK, *HERE])


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def turn(server: Coturn, user: str = USER, password: str = PASSWORD, end: str = "") -> TurnServer:
    return TurnServer(server.turn + end, user, password)


# -- with servers ----------------------------------------------------------------------------------------


async def test_two_servers_that_see_one_address(coturn: Coturn, tmp_path_factory: pytest.TempPathFactory) -> None:
    with running(tmp_path_factory.mktemp("second")) as second:
        verdict = await check([coturn.stun, second.stun], [])
    assert (verdict.kind, verdict.severity) == ("steady", "good")
    assert verdict.text == ("Members anywhere can connect directly: all servers see this computer at the same address, "
                            "127.0.0.1.")
    own, one, other = verdict.details
    assert own == "Own addresses: 192.168.1.20, fd00::20"
    assert one.partition(": ")[0] == f"127.0.0.1:{coturn.port}"
    assert one.partition(": ")[2] == other.partition(": ")[2]  # from one socket


async def test_two_servers_that_see_different_addresses() -> None:
    async with responders(("203.0.113.7", 40001), ("203.0.113.7", 40002)) as (one, other):
        verdict = await check([one.url, other.url], [])
    assert (verdict.kind, verdict.severity) == ("symmetric", "care")
    assert "symmetric NAT" in verdict.text
    assert "Enter a TURN server" in verdict.text


async def test_silent_servers_mean_the_same_network_only() -> None:
    with silent() as one, silent() as other:
        began = time.monotonic()
        verdict = await check([f"stun:{LOOPBACK}:{one}", f"stun:{LOOPBACK}:{other}"], [])
        assert time.monotonic() - began < 1.5
    assert (verdict.kind, verdict.severity) == ("host", "care")
    assert verdict.details[1:] == (f"127.0.0.1:{one}: no answer", f"127.0.0.1:{other}: no answer")


@pytest.mark.parametrize("end", ["", "?transport=udp", "?transport=tcp"])
async def test_a_relay_makes_up_for_silent_servers(coturn: Coturn, end: str) -> None:
    with silent() as port:
        verdict = await check([f"stun:{LOOPBACK}:{port}"], [turn(coturn, end=end)])
    assert (verdict.kind, verdict.severity) == ("relay", "good")
    assert verdict.details[2].startswith(f"127.0.0.1:{coturn.port}: relays at 127.0.0.1:")


async def test_the_relay_address_is_given_back(coturn: Coturn) -> None:
    before = coturn.log.read_text().count(GIVEN_BACK)
    await check([], [turn(coturn)])
    await asyncio.to_thread(wait_until, lambda: coturn.log.read_text().count(GIVEN_BACK) > before)


@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("nobody", PASSWORD)])
@pytest.mark.parametrize("end", ["", "?transport=tcp"])
async def test_wrong_credentials_are_called_so(coturn: Coturn, user: str, password: str, end: str) -> None:
    verdict = await check([coturn.stun], [turn(coturn, user, password, end)])
    assert (verdict.kind, verdict.severity) == ("turn-password", "care")
    assert verdict.text == (
        f"The TURN server 127.0.0.1:{coturn.port} answers, but refuses the name or the password. Correct them in the "
        "settings. Until then members are reached directly, where their networks let it.")


@pytest.mark.parametrize("end", ["", "?transport=tcp"])
async def test_a_closed_port_is_called_so(end: str) -> None:
    port = free_port()
    began = time.monotonic()
    verdict = await check([], [TurnServer(f"turn:{LOOPBACK}:{port}{end}", USER, PASSWORD)])
    assert time.monotonic() - began < 1
    assert (verdict.kind, verdict.severity) == ("turn-closed", "bad")
    assert verdict.text.startswith(f"No TURN server runs at 127.0.0.1:{port}: ")


async def test_a_silent_turn_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "RELAY_S", 0.3)
    with silent() as port:
        verdict = await check([], [TurnServer(f"turn:{LOOPBACK}:{port}", USER, PASSWORD)])
    assert verdict.kind == "turn-silent"
    assert "its address or port is wrong, or a firewall is in between" in verdict.text


async def test_a_server_whose_name_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(host: str) -> str:
        raise socket.gaierror

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    verdict = await check(["stun:nowhere.example"], [TurnServer("turn:nowhere.example:3478", USER, PASSWORD)])
    assert verdict.kind == "turn-name"
    assert verdict.details[1:] == ("nowhere.example: no answer", "nowhere.example:3478: no answer to its name")


async def test_a_server_that_is_no_turn_server() -> None:
    async with responders(("203.0.113.7", 40001)) as (one,):
        verdict = await check([], [TurnServer(one.url.replace("stun", "turn"), USER, PASSWORD)])
    assert verdict.kind == "turn-refused"
    assert "answers, but gives no relay address (TURN allocation response is missing LIFETIME)" in verdict.text


async def test_tls_with_a_server_that_speaks_none(coturn: Coturn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "RELAY_S", 0.3)
    verdict = await check([], [TurnServer(f"turns:{LOOPBACK}:{coturn.port}?transport=tcp", USER, PASSWORD)])
    assert verdict.kind == "turn-silent"


async def test_a_check_that_comes_to_no_end_says_how_far_it_got(coturn: Coturn) -> None:
    with silent() as port:
        began = time.monotonic()
        verdict = await check([coturn.stun], [TurnServer(f"turn:{LOOPBACK}:{port}", USER, PASSWORD)], limit_s=0.3)
        assert time.monotonic() - began < 1
    assert (verdict.kind, verdict.severity) == ("late", "care")
    assert f"127.0.0.1:{coturn.port}: sees this computer at 127.0.0.1:" in verdict.text
    assert f"127.0.0.1:{port}: not answered yet" in verdict.text


async def test_relay_only_asks_no_stun_server(coturn: Coturn) -> None:
    async with responders(("203.0.113.7", 40001)) as (one,):
        verdict = await check([one.url], [turn(coturn)], relay_only=True)
        assert one.asked == 0
    assert verdict.text == f"All packets go through the TURN server 127.0.0.1:{coturn.port}."
    verdict = await check([], [turn(coturn, password="wrong")], relay_only=True)
    assert (verdict.kind, verdict.severity) == ("turn-password", "bad")
    assert verdict.text.endswith("Until then nobody is reached.")


# -- on findings -----------------------------------------------------------------------------------------

TURN = (TurnServer("turn:t.example:3478", USER, PASSWORD),)
STUN = ("stun:a.example:3478", "stun:b.example:3478")
SAME, OTHER = ("203.0.113.7", 5000), ("203.0.113.7", 5001)


@pytest.mark.parametrize(("findings", "kind", "severity"), [
    (Findings(STUN, hosts=(), mapped=dict.fromkeys(STUN)), "nothing", "bad"),
    (Findings(STUN, TURN, hosts=(), mapped=dict.fromkeys(STUN)), "nothing", "bad"),
    (Findings(STUN, hosts=HERE, mapped=dict.fromkeys(STUN)), "host", "care"),
    (Findings(STUN, hosts=HERE, mapped=dict.fromkeys(STUN, SAME)), "steady", "good"),
    (Findings(STUN, hosts=HERE, mapped={STUN[0]: SAME, STUN[1]: OTHER}), "symmetric", "care"),
    (Findings(STUN, hosts=HERE, mapped={STUN[0]: SAME, STUN[1]: None}), "likely", "info"),
    (Findings(STUN, hosts=HERE, mapped={STUN[0]: SAME}), "late", "care"),
    (Findings(STUN, TURN, hosts=HERE, mapped=dict.fromkeys(STUN, SAME)), "late", "care"),
    (Findings(STUN, TURN, hosts=HERE, mapped={STUN[0]: SAME, STUN[1]: OTHER},
              relays={TURN[0].url: Relay("198.51.100.1:50000")}), "relay", "good"),
    (Findings(STUN, TURN, hosts=HERE, mapped={STUN[0]: SAME, STUN[1]: OTHER},
              relays={TURN[0].url: Relay(fault="silent")}), "turn-silent", "bad"),
    (Findings(STUN, TURN, hosts=HERE, mapped=dict.fromkeys(STUN), relays={TURN[0].url: Relay(fault="unusable")}),
     "turn-unusable", "bad"),
    (Findings(STUN, TURN, hosts=HERE, mapped=dict.fromkeys(STUN, SAME),
              relays={TURN[0].url: Relay(fault="refused", why="486 Quota Reached")}), "turn-refused", "care"),
    (Findings(hosts=HERE), "host", "care"),
    (Findings(relay_only=True, hosts=HERE), "no-relay-set", "bad"),
])
def test_verdicts(findings: Findings, kind: str, severity: str) -> None:
    verdict = judge(findings)
    assert (verdict.kind, verdict.severity) == (kind, severity)
    assert verdict.title
    assert verdict.text.endswith(".")
    assert ("STUN" in verdict.text) == (kind == "host")
    assert PASSWORD not in repr(verdict)


def test_rooms_that_need_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    assert preflight.on_this_computer().severity == "good"
    verdict = preflight.on_this_network()
    assert (verdict.kind, verdict.severity) == ("network", "good")
    assert "192.168.1.20" in verdict.text
    monkeypatch.setattr(preflight, "get_host_addresses", lambda use_ipv4, use_ipv6: [])
    assert preflight.on_this_network().kind == "nothing"
