"""The room this window is in: rendezvous, mesh and announcement together, opened, joined and left as one.

A window is outside, opening, joining, inside (hosting or as a guest), or leaving. Whatever fails on the way in
closes what was begun.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Callable

import msgspec

from desktop import __version__
from desktop.bridge.adapter import PeerPort
from desktop.errors import PeerloomError
from desktop.peers.mesh import LinkRow, Mesh, MeshSettings
from desktop.peers.said import PeerInfo
from desktop.rooms.adapters import is_near
from desktop.rooms.code import redeem
from desktop.rooms.invite import Invite, split_address
from desktop.rooms.lan import LanGuest, LanHost, RoomInfo, join
from desktop.rooms.names import room_name
from desktop.rooms.nearby import Announcer
from desktop.rooms.seal import Sealer
from desktop.session.paths import servers
from desktop.settings import Settings
from desktop.state import RoomView

log = logging.getLogger(__name__)

REJOIN_S, LONGEST_REJOIN_S = 0.5, 5.0  # between tries to find the host again after every link is gone; doubled
KEY_BYTES = 16
DRAIN_ON_QUIT_S = 1.5


class RoomKeeper:
    """Opens or joins one room at a time. `changed` is called whenever `view` is another one."""

    def __init__(
        self,
        me: str,
        port: PeerPort,
        settings: Settings,
        *,
        loopback: bool,
        changed: Callable[[], None],
        noted: Callable[[str, str], None],
    ) -> None:
        self._me, self._port, self._settings = me, port, settings
        self._loopback, self._changed, self._noted = loopback, changed, noted
        self.view: RoomView | None = None
        self.backend = "cpu"
        self.name = ""
        self.info: RoomInfo | None = None  # what the host told of the room
        self.where = ""  # this room is on this "computer", this "network", or beyond it: "internet"
        self._invite: Invite | None = None
        self._host: LanHost | None = None
        self._guest: LanGuest | None = None
        self._mesh: Mesh | None = None
        self._announcer: Announcer | None = None
        self._rejoining: asyncio.Task[None] | None = None

    @property
    def inside(self) -> bool:
        """Whether a mesh is up."""
        return self._mesh is not None

    @property
    def others(self) -> int:
        """Members that are connected."""
        return len(self._mesh.connected) if self._mesh else 0

    def rows(self) -> tuple[LinkRow, ...]:
        """Facts about every link."""
        return self._mesh.rows() if self._mesh else ()

    # -- in --

    async def open(
        self, *, task: Callable[[], str], policy: Callable[[], str], title: str, task_id: str, start_members: int,
        loopback: bool,
    ) -> None:
        """Host a room; `task` and `policy` give the JSON for newcomers. `task_id` is "" for an own one."""
        name = room_name(random.SystemRandom())
        self._show(RoomView(room=name, hosting=True, host=self.name, state="opening", start_members=start_members))
        key = secrets.token_bytes(KEY_BYTES)

        def info() -> RoomInfo:
            return RoomInfo(room=name, host=self.name, host_peer=self._me, task=task(), policy=policy(),
                            members=self.others + 1, version=__version__)

        local = loopback or self._loopback
        self._host = await LanHost.open(
            name, key, self._me, info, port=self._settings.port, loopback=local,
            code_changed=lambda code: self._change(code=code), options={"task": task_id} if task_id else {},
        )
        self._invite = self._host.invite
        self._start_mesh(Sealer(self._me, key, name), "computer" if local else "network")
        assert self._mesh is not None
        self._mesh.add_rendezvous(self._host)
        self._change(state="open", link=self._invite.link(), code=self._host.code, address=self._host.addresses[0])
        self._announcer = Announcer(
            room=name, host=self.name, task=title, members=1, version=__version__, port=self._host.port, loopback=local,
            trouble=lambda sentence: self._noted("info", sentence),
        )
        await self._announcer.open()

    def knock(self, room: str, address: str) -> None:
        """Joining begins: show where."""
        self._show(RoomView(room=room, state="joining", address=address))

    async def join_code(self, address: str, code: str) -> None:
        """Get the invite of the room at `address` for a short code, then join by it."""
        await self.join_invite(await redeem(address, code, self._me))

    async def join_invite(self, invite: Invite) -> None:
        """Join by an invite."""
        self._show(RoomView(room=invite.room, state="joining", link=invite.link(), task=invite.options.get("task", "")))
        self._guest, self.info = await join(invite, self._me)
        self._invite = invite
        clock = self._guest.clock  # the members' clocks may differ; the host's is the room's
        near = is_near(split_address(self._guest.address)[0])
        where = "computer" if self._is_local(invite) else "network" if near else "internet"
        self._start_mesh(Sealer(self._me, invite.key, invite.room, clock), where)
        assert self._mesh is not None
        self._mesh.add_rendezvous(self._guest)
        self._watch(self._guest)
        self._change(state="joined", host=self.info.host, address=self._guest.address)

    def _is_local(self, invite: Invite) -> bool:
        """A room on this computer only: its addresses are those of the loopback."""
        return self._loopback or all(a.startswith(("127.", "[::1]")) for a in invite.addresses)

    def _start_mesh(self, sealer: Sealer, where: str) -> None:
        settings, asked = self._settings, servers(self._settings, where)
        self.where = where
        self._mesh = Mesh(
            PeerInfo(self._me, self.name, self.backend, __version__), self._port, sealer,
            MeshSettings(heartbeat_s=settings.heartbeat_s, silent_s=settings.silent_s,
                         loopback=where == "computer", ice_servers=asked.stun, turn=asked.turn,
                         relay_only=asked.relay_only, direct=not asked.relay_only),
            random.Random(),
        )
        self._port.mesh = self._mesh

    # -- while inside --

    def count_members(self) -> None:
        """The number of members may have changed: announce it."""
        if self._announcer is not None:
            self._announcer.set_members(self.others + 1)

    def _watch(self, guest: LanGuest) -> None:
        guest.subscribe(_WhenClosed(lambda: self._host_gone(guest)))

    def _host_gone(self, guest: LanGuest) -> None:
        if guest is self._guest and self._mesh is not None and self._rejoining is None:
            self._rejoining = asyncio.get_running_loop().create_task(self._rejoin())

    async def _rejoin(self) -> None:
        """Members relay signalling, so the host may go; but one that has no link left looks for the host again."""
        assert self._invite is not None
        wait_s = REJOIN_S
        try:
            while self._mesh is not None:
                await asyncio.sleep(wait_s)
                if self.others or self._mesh is None:
                    continue
                wait_s = min(2 * wait_s, LONGEST_REJOIN_S)
                try:
                    self._guest, self.info = await join(self._invite, self._me)
                except PeerloomError as error:
                    log.info("the host cannot be found again yet: %s", error)
                    continue
                self._mesh.add_rendezvous(self._guest)
                self._rejoining = None
                self._watch(self._guest)
                return
        finally:
            self._rejoining = None

    # -- out --

    async def leave(self, reason: str = "left the room", *, quick: bool = False) -> None:
        """Say good-bye and close everything. May be called from any state."""
        mesh, self._mesh = self._mesh, None
        if self._rejoining is not None:
            self._rejoining.cancel()
        if mesh is not None:
            try:
                async with asyncio.timeout(DRAIN_ON_QUIT_S if quick else None):
                    await mesh.close(reason)
            except TimeoutError:
                log.info("the links were not drained in time")
            self._port.mesh_closed()
        announcer, self._announcer = self._announcer, None
        guest, self._guest = self._guest, None
        host, self._host = self._host, None
        for part in (announcer, guest, host):
            if part is not None:
                await part.close()
        self.info = self._invite = None
        self._show(None)

    def fail(self, view: RoomView | None, sentence: str) -> None:
        """Opening or joining failed: show what was tried, with the reason."""
        self._show(msgspec.structs.replace(view or RoomView(), state="failed", error=sentence))

    # -- the view --

    def _show(self, view: RoomView | None) -> None:
        self.view = view
        self._changed()

    def _change(self, **values: object) -> None:
        if self.view is not None:
            self.view = msgspec.structs.replace(self.view, **values)
            self._changed()


class _WhenClosed:
    """Listens to nothing but the end of a rendezvous."""

    def __init__(self, closed: Callable[[], None]) -> None:
        self._closed = closed

    def peer_seen(self, peer: str) -> None: ...

    def peer_gone(self, peer: str) -> None: ...

    def signal(self, sender: str, payload: bytes) -> None: ...

    def closed(self, reason: str) -> None:
        self._closed()


