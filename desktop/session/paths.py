"""How members can be reached: which servers a room's links ask, the preflight check, and a row for each link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any

import msgspec

from desktop.peers import preflight
from desktop.peers.ice import TurnServer
from desktop.peers.mesh import LinkRow
from desktop.settings import Settings
from desktop.state import PathRow, PathsView


class Servers(msgspec.Struct, frozen=True):
    """What a room's links are made with. All empty in a room on this computer or this network."""

    stun: tuple[str, ...] = ()
    turn: tuple[TurnServer, ...] = ()
    relay_only: bool = False


def servers(settings: Settings, where: str) -> Servers:
    """The servers for a room that is on this "computer", this "network" or beyond it ("internet").

    In a room on this network nobody needs a server, and nobody should be asked, or waited for; a person may have it
    otherwise by the setting `reach`.
    """
    turn = tuple(TurnServer(each.url, each.user, each.credential) for each in settings.turn)
    if settings.reach == "relay":
        return Servers((), turn, relay_only=True)
    asks = where == "internet" or (where == "network" and settings.reach == "internet")
    return Servers(settings.ice_servers, turn) if asks and settings.reach != "network" else Servers()


class Preflight:
    """Runs the check, beside everything else and one at a time. `changed` is called whenever `view` is another one."""

    def __init__(
        self, settings: Settings, spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        changed: Callable[[], None],
    ) -> None:
        self._settings, self._spawn, self._changed = settings, spawn, changed
        self._task: asyncio.Task[None] | None = None
        self.view = PathsView()

    def trouble(self, where: str) -> str:
        """What keeps members of a room apart, by the verdict; "" when that is good, or of servers that it needs not."""
        bad = self.view.severity in ("care", "bad") and servers(self._settings, where) != Servers()
        return self.view.text if bad else ""

    def room(self, where: str) -> None:
        """A room was opened or joined on this "computer", this "network", or beyond it ("internet")."""
        asked = servers(self._settings, where)
        if asked == Servers():
            self._start(preflight.on_this_computer() if where == "computer" else preflight.on_this_network())
        else:
            self._start(asked)

    def again(self) -> None:
        """A person wants to know, so all servers are asked, also those that this room does not need."""
        asked = servers(self._settings, "internet")
        self._start(preflight.on_this_network() if self._settings.reach == "network" else asked)

    def settings_changed(self) -> None:
        """Servers were entered: what was said of the old ones holds no longer."""
        if self.view.state:
            self.again()

    def _start(self, what: preflight.Verdict | Servers) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
        if isinstance(what, preflight.Verdict):
            self._show(what)
            return
        self.view = msgspec.structs.replace(self.view, state="checking")
        self._changed()
        self._task = self._spawn(self._check(what))

    async def _check(self, asked: Servers) -> None:
        self._show(await preflight.check(asked.stun, asked.turn, relay_only=asked.relay_only))

    def _show(self, verdict: preflight.Verdict) -> None:
        self.view = PathsView(state="done", severity=verdict.severity, title=verdict.title, text=verdict.text,
                              details=verdict.details, at=datetime.now().strftime("%H:%M"))
        self._changed()


def path_rows(links: Sequence[LinkRow]) -> tuple[PathRow, ...]:
    """One row for each link: the pair of candidates in use, and what both sides found."""
    return tuple(
        PathRow(
            peer=link.peer, state=link.state,
            path=f"{link.local_type} → {link.remote_type}" if link.local_type else "",
            gathered=", ".join(f"{count} {kind}" for kind, count in sorted(link.gathered.items())),
            remote=link.remote_candidates,
        )
        for link in links
    )
