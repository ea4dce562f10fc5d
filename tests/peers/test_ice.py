"""Servers, look-ups that hang, candidates with names, loopback."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
import time

import pytest
from aiortc import RTCPeerConnection

from desktop.peers import ice
from desktop.peers.ice import Path, Servers, TurnServer, configuration, hold_back_names, look_up, max_message_size


def test_no_servers_is_an_empty_list_not_the_default() -> None:
    assert configuration().iceServers == []


def test_servers_and_policy() -> None:
    made = configuration(["stun:192.0.2.1:3478"], [TurnServer("turn:192.0.2.2:3478", "me", "secret")], relay_only=True)
    assert [server.urls for server in made.iceServers or []] == ["stun:192.0.2.1:3478", "turn:192.0.2.2:3478"]
    assert (made.iceServers or [])[1].credential == "secret"
    assert made.iceTransportPolicy.value == "relay"


def test_credential_is_never_shown() -> None:
    assert "secret" not in repr(TurnServer("turn:192.0.2.2:3478", "me", "secret"))


async def test_names_become_numbers_and_tls_keeps_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def resolve(host: str) -> str:
        asked.append(host)
        return "192.0.2.7"

    monkeypatch.setattr(socket, "gethostbyname", resolve)
    servers = Servers(["stun:stun.example:3478", "stun:192.0.2.1"],
                      [TurnServer("turn:turn.example:3478?transport=tcp", "u", "c"),
                       TurnServer("turns:turn.example:5349?transport=tcp", "u", "c")])
    for _ in range(2):
        made = await servers.configuration()
        assert [server.urls for server in made.iceServers or []] == [
            "stun:192.0.2.7:3478", "stun:192.0.2.1", "turn:192.0.2.7:3478?transport=tcp",
            "turns:turn.example:5349?transport=tcp",
        ]
    assert asked == ["stun.example", "turn.example"]  # once each


async def test_silent_name_server_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(socket, "gethostbyname", lambda host: str(release.wait(20)))
    monkeypatch.setattr(ice, "look_up", lambda host: look_up(host, 0.1))
    began = time.monotonic()
    made = await Servers(["stun:stun.example:3478"], []).configuration()
    assert time.monotonic() - began < 1
    assert made.iceServers == []
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
