"""Servers that answer and that do not, look-ups that hang, candidates with names, loopback."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from aiortc import RTCPeerConnection

from desktop.peers import ice
from desktop.peers.ice import Path, Servers, TurnServer, configuration, hold_back_names, look_up, max_message_size
from tests.coturn import PASSWORD, USER, Coturn, free_port, running
from tests.peers.servers import LOOPBACK, Responder, responders, silent

ME = ("203.0.113.7", 40000)


def test_no_servers_is_an_empty_list_not_the_default() -> None:
    assert configuration().iceServers == []


def test_servers_and_policy() -> None:
    made = configuration(["stun:192.0.2.1:3478"], [TurnServer("turn:192.0.2.2:3478", "me", "secret")], relay_only=True)
    assert [server.urls for server in made.iceServers or []] == ["stun:192.0.2.1:3478", "turn:192.0.2.2:3478"]
    assert (made.iceServers or [])[1].credential == "secret"
    assert made.iceTransportPolicy.value == "relay"


def test_credential_is_never_shown() -> None:
    assert "secret" not in repr(TurnServer("turn:192.0.2.2:3478", "me", "secret"))


# -- which servers are used --------------------------------------------------------------------------------


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def coturn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coturn]:
    with running(tmp_path_factory.mktemp("coturn")) as server:
        yield server


async def urls(servers: Servers) -> list[object]:
    return [server.urls for server in (await servers.configuration()).iceServers or []]


async def test_without_servers_nothing_is_asked() -> None:
    assert await urls(Servers([], [])) == []


async def test_the_one_that_answers_is_used_and_not_waited_for_long() -> None:
    async with responders(ME) as (one,):
        with silent() as port:
            servers = Servers([f"stun:{LOOPBACK}:{port}", one.url], [])
            began = time.monotonic()
            assert await urls(servers) == [one.url]
            assert time.monotonic() - began < 0.5
            assert await urls(servers) == [one.url]
        assert one.asked == 1  # the verdict holds for a while


async def test_silent_servers_are_left_out_within_a_second() -> None:
    with silent() as one, silent() as other:
        servers = Servers([f"stun:{LOOPBACK}:{one}"], [TurnServer(f"turn:{LOOPBACK}:{other}", "u", "c")])
        began = time.monotonic()
        assert await urls(servers) == []
        assert 0.9 < time.monotonic() - began < 1.5
        began = time.monotonic()
        assert await urls(servers) == []
        assert time.monotonic() - began < 0.1


async def test_all_who_wait_wait_for_the_same_answer() -> None:
    async with responders(ME) as (one,):
        servers = Servers([one.url], [])
        assert await asyncio.gather(*(urls(servers) for _ in range(8))) == [[one.url]] * 8
        assert one.asked == 1


async def test_who_gives_up_keeps_nobody_else_from_the_answer() -> None:
    async with responders(ME) as (one,):
        servers = Servers([one.url], [])
        first, second = (asyncio.create_task(urls(servers)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second == [one.url]
        with pytest.raises(asyncio.CancelledError):
            await first


async def test_the_next_one_is_used_when_one_fails() -> None:
    clock = Clock()
    async with responders(ME, ME) as (one, other):
        servers = Servers([one.url, other.url], [], clock=clock)
        used = (await urls(servers))[0]
        fails, stays = (one, other) if used == one.url else (other, one)
        fails.close()
        clock.now += ice.LATER_S
        assert await urls(servers) == [stays.url]


async def test_silent_ones_are_asked_again_sooner() -> None:
    clock = Clock()
    with silent() as port:
        servers = Servers([f"stun:{LOOPBACK}:{port}"], [], clock=clock)
        assert await urls(servers) == []
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: Responder(ME), local_addr=(LOOPBACK, port))
    clock.now += ice.SOON_S
    assert await urls(servers) == [f"stun:{LOOPBACK}:{port}"]
    transport.close()


@pytest.mark.parametrize("transport", ["udp", "tcp"])
async def test_a_turn_server_that_answers_is_used(coturn: Coturn, transport: str) -> None:
    with silent() as port:
        lost = TurnServer(f"turn:{LOOPBACK}:{port}", "u", "c")
        found = TurnServer(f"{coturn.turn}?transport={transport}", USER, PASSWORD)
        servers = Servers([coturn.stun], [lost, found])
        began = time.monotonic()
        made = await servers.configuration()
        assert time.monotonic() - began < 0.5
    stun, turn = made.iceServers or []
    assert (stun.urls, turn.urls) == (coturn.stun, f"{coturn.turn}?transport={transport}")
    assert (turn.username, turn.credential) == (USER, PASSWORD)


async def test_a_closed_tcp_port_is_left_out() -> None:
    assert await urls(Servers([], [TurnServer(f"turn:{LOOPBACK}:{free_port()}?transport=tcp", "u", "c")])) == []


async def test_relay_only_asks_no_stun_server(coturn: Coturn) -> None:
    async with responders(ME) as (one,):
        servers = Servers([one.url], [TurnServer(coturn.turn, USER, PASSWORD)], relay_only=True)
        assert await urls(servers) == [f"{coturn.turn}?transport=udp"]
        assert one.asked == 0
    assert (await servers.configuration()).iceTransportPolicy.value == "relay"


async def test_what_aiortc_cannot_take_is_left_out() -> None:
    servers = Servers(["stun:[2001:db8::1]:3478", "stuns:stun.example"], [TurnServer("turn:[::1]:3478", "u", "c")])
    assert await urls(servers) == []


async def test_names_become_numbers_and_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolve(host: str) -> str:
        asked.append(host)
        return LOOPBACK

    monkeypatch.setattr(socket, "gethostbyname", resolve)
    clock = Clock()
    async with responders(ME) as (one,):
        port = one.url.rpartition(":")[2]
        servers = Servers([f"stun:stun.example:{port}"], [], clock=clock)
        for _ in range(2):
            assert await urls(servers) == [one.url]
            clock.now += ice.LATER_S
        assert one.asked == 2
    assert asked == ["stun.example"]


async def test_tls_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "gethostbyname", lambda host: LOOPBACK)
    server = await asyncio.start_server(lambda reader, writer: writer.close(), LOOPBACK, 0)
    async with server:
        url = f"turns:turn.example:{server.sockets[0].getsockname()[1]}?transport=tcp"
        assert await urls(Servers([], [TurnServer(url, "u", "c")])) == [url]


async def test_silent_name_server_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(socket, "gethostbyname", lambda host: str(release.wait(20)))
    began = time.monotonic()
    assert await urls(Servers(["stun:stun.example:3478"], [])) == []
    assert time.monotonic() - began < 1.5
    release.set()


async def test_unknown_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(host: str) -> str:
        raise socket.gaierror

    monkeypatch.setattr(socket, "gethostbyname", unknown)
    assert await look_up("nowhere.example") == ""


async def test_loopback_alone_or_when_there_is_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    for only, addresses, expected in ((True, ["127.0.0.2"], "127.0.0.1"), (False, [], "127.0.0.1"),
                                      (False, ["127.0.0.2"], "127.0.0.2")):
        monkeypatch.setattr("aioice.ice.get_host_addresses", lambda use_ipv4, use_ipv6, each=addresses: each)
        connection = RTCPeerConnection(configuration())
        connection.createDataChannel("x")
        ice.allow_loopback(connection, only=only)
        await connection.setLocalDescription()
        assert f" {expected} " in connection.localDescription.sdp
        assert ice.gathered(connection) == {"host": 1}
        assert ice.is_offline(connection) == (expected == "127.0.0.1")
        assert ice.chosen_path(connection) == Path()
        assert ice.remote_candidates(connection) == 0
        await connection.close()


async def test_other_aioice_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = RTCPeerConnection(configuration())
    connection.createDataChannel("x")
    assert connection.sctp is not None
    inner = connection.sctp.transport.transport._connection

    async def gather_otherwise(addresses: list[str]) -> list[object]:
        return []

    monkeypatch.setattr(inner, "get_component_candidates", gather_otherwise)
    ice.allow_loopback(connection, only=True)
    assert list(inspect.signature(inner.get_component_candidates).parameters) == ["addresses"]
    await connection.close()


async def test_before_there_is_a_transport() -> None:
    connection = RTCPeerConnection(configuration())
    ice.allow_loopback(connection, only=True)
    assert (ice.gathered(connection), ice.remote_candidates(connection), ice.chosen_path(connection)) == ({}, 0, Path())
    assert ice.is_offline(connection)
    await connection.close()
    await asyncio.sleep(0)


def test_names_of_the_lan_are_taken_out() -> None:
    sdp = "v=0\r\na=candidate:1 1 udp 1 ab-12.local 5000 typ host\r\na=candidate:2 1 udp 1 192.0.2.1 5001 typ host\r\n"
    plain, named = hold_back_names(sdp + "a=end-of-candidates\r\n")
    assert plain == "v=0\r\na=candidate:2 1 udp 1 192.0.2.1 5001 typ host\r\n"
    assert named == ["1 1 udp 1 ab-12.local 5000 typ host"]
    assert hold_back_names(plain) == (plain, [])


@pytest.mark.parametrize(
    ("line", "size"),
    [("a=max-message-size:1024\r\n", 1024), ("a=max-message-size:0\r\n", 0), ("", 65_536),
     ("a=max-message-size:many\r\n", 65_536)],
)
def test_max_message_size(line: str, size: int) -> None:
    assert max_message_size("v=0\r\n" + line + "a=mid:0\r\n") == size
