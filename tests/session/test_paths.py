"""Which servers a room's links ask, and the check that runs beside it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from desktop.intents import SetSetting
from desktop.peers import preflight
from desktop.peers.ice import TurnServer
from desktop.peers.mesh import LinkRow
from desktop.session.paths import Preflight, Servers, path_rows, servers
from desktop.settings import Settings
from desktop.state import PathRow
from tests.coturn import PASSWORD, USER, running
from tests.peers.servers import LOOPBACK, responders, silent
from tests.session.conftest import House

InHouse = Callable[[Callable[[House], Coroutine[Any, Any, None]]], None]
STUN = ("stun:a.example:3478", "stun:b.example:3478")
TURN = TurnServer("turn:t.example:3478", "me", "secret")
NONE, BOTH, RELAY = Servers(), Servers(STUN, (TURN,)), Servers((), (TURN,), relay_only=True)


def settings(reach: str = "auto", stun: str = ",".join(STUN), turn: str = "turn:t.example:3478|me|secret") -> Settings:
    made = Settings()
    made.set("ice_servers", stun)
    made.set("turn", turn)
    made.set("reach", reach)
    return made


@pytest.mark.parametrize(("reach", "computer", "network", "internet"), [
    ("auto", NONE, NONE, BOTH), ("network", NONE, NONE, NONE), ("internet", NONE, BOTH, BOTH),
    ("relay", RELAY, RELAY, RELAY),
])
def test_who_is_asked(reach: str, computer: Servers, network: Servers, internet: Servers) -> None:
    assert [servers(settings(reach), where) for where in ("computer", "network", "internet")] == [
        computer, network, internet]


class Watched(Preflight):
    """The check of a window with these settings."""

    def __init__(self, with_settings: Settings) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.shown: list[str] = []
        super().__init__(with_settings, self._keep, lambda: self.shown.append(self.view.state))

    def _keep(self, work: object) -> asyncio.Task[None]:
        self.tasks.append(asyncio.get_running_loop().create_task(work))  # type: ignore[arg-type]
        return self.tasks[-1]

    async def settle(self) -> None:
        await asyncio.gather(*self.tasks, return_exceptions=True)


@pytest.fixture
def on_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "get_host_addresses", lambda use_ipv4, use_ipv6: ["192.168.1.20"])


async def test_a_room_on_this_network_asks_nobody(on_a_network: None) -> None:
    async with responders(("203.0.113.7", 4000)) as (one,):
        check = Watched(settings(stun=one.url, turn=""))
        check.room("network")
        assert (check.view.state, check.view.severity) == ("done", "good")
        assert check.tasks == []
        check.room("computer")
        assert check.view.text == "This room is on this computer only: no network is needed."
        assert one.asked == 0


async def test_the_check_runs_beside_and_the_last_verdict_stands_meanwhile(on_a_network: None) -> None:
    with silent() as port:
        check = Watched(settings(stun=f"stun:{LOOPBACK}:{port}", turn=""))
        began = time.monotonic()
        check.room("internet")
        assert time.monotonic() - began < 0.1
        assert (check.view.state, check.view.title) == ("checking", "")
        await check.settle()
        assert (check.view.state, check.view.title) == ("done", "Same network only")
        check.again()
        assert (check.view.state, check.view.title) == ("checking", "Same network only")
        check.room("network")
        await check.settle()
    assert check.view.title == "Ready for this network"  # the check that was overtaken says nothing more
    assert check.shown == ["checking", "done", "checking", "done"]


async def test_a_person_who_asks_gets_to_know_all(on_a_network: None) -> None:
    async with responders(("203.0.113.7", 4000), ("203.0.113.7", 4000)) as (one, other):
        check = Watched(settings(stun=f"{one.url},{other.url}", turn=""))
        check.room("network")
        check.again()
        await check.settle()
        assert check.view.title == "Reachable from anywhere"
        assert len(check.view.at) == 5
        check = Watched(settings("network", stun=one.url, turn=""))
        check.again()
        assert check.view.title == "Ready for this network"
        assert one.asked == 1


async def test_other_servers_in_the_settings_are_checked(on_a_network: None) -> None:
    async with responders(("203.0.113.7", 4000)) as (one,):
        chosen = settings(stun=one.url, turn="")
        check = Watched(chosen)
        check.settings_changed()
        assert check.view.state == ""
        check.room("network")
        check.settings_changed()
        await check.settle()
        assert check.view.title == "Probably reachable"


async def test_trouble_is_told_only_of_servers_that_the_room_needs(on_a_network: None) -> None:
    async with responders(("203.0.113.7", 4000), ("203.0.113.7", 4001)) as (one, other):
        check = Watched(settings(stun=f"{one.url},{other.url}", turn=""))
        assert check.trouble("internet") == ""
        check.again()
        await check.settle()
    assert "symmetric NAT" in check.trouble("internet")
    assert check.trouble("network") == ""


def test_a_wrong_password_is_told_where_the_person_looks(in_house: InHouse, tmp_path: Path) -> None:
    """The Network page says it of a room that was just opened, and that it is right once it was corrected."""
    async def story(house: House) -> None:
        with running(tmp_path) as coturn:
            ann = house.sit_down("--host", "--task", "digits", "--data", "sample", "--reach", "relay",
                                 "--turn", f"{coturn.turn}|{USER}|wrong", "--name", "Ann")
            card = ann.window.page("network").paths
            await ann.click("Continue")
            await ann.click("Open the room")
            await ann.click("Network")
            await ann.until(lambda: card.title.text() == "TURN: wrong name or password", "the verdict")
            assert "refuses the name or the password" in card.text.text()
            ann.window.intent.emit(SetSetting("turn", f"{coturn.turn}|{USER}|{PASSWORD}"))
            await ann.until(lambda: card.title.text() == "Reachable from anywhere", "the better verdict")

    in_house(story)


def test_a_row_for_each_link() -> None:
    links = [LinkRow(peer="a1", name="Ann", backend="cpu", state="open", local_type="host", remote_type="srflx",
                     gathered={"srflx": 1, "host": 2}, remote_candidates=3),
             LinkRow(peer="b2", name="Bob", backend="cpu", state="connecting")]
    assert path_rows(links) == (
        PathRow(peer="a1", state="open", path="host → srflx", gathered="2 host, 1 srflx", remote=3),
        PathRow(peer="b2", state="connecting"))
