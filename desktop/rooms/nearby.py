"""Rooms nearby: announced and seen on the local network by multicast DNS. Neither key nor code is ever announced.

Service type `_peerloom._tcp.local.`; TXT: room, host (its name), task (its title), members, version.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from zeroconf import Error as ZeroconfError
from zeroconf import IPVersion, ServiceInfo, ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from desktop.errors import LinkError, NearbyError
from desktop.rooms.adapters import local_addresses as local_addresses
from desktop.rooms.adapters import near_first
from desktop.rooms.invite import check_room, join_address
from desktop.state import NearbyRoom

SERVICE = "_peerloom._tcp.local."
GROUP = "224.0.0.251"  # of multicast DNS (RFC 6762)
TTL_S = 60  # a room whose host died without a word is gone from the lists after this
ASK_MS = 3000  # for what belongs to an announcement that has been seen
START_S = 2.0
CLOSE_S = 0.8
SETTLE_S = 0.05  # changes within this make one call
UPDATE_S = 1.0  # between two announcements of a changed room
MOST_ROOMS = 64
MOST_TEXT = 60  # characters of a name or title

log = logging.getLogger(__name__)


class _Multicast:
    """The part of multicast DNS that announcing and browsing share: opening, trouble, closing."""

    def __init__(self, loopback: bool, trouble: Callable[[str], None]) -> None:
        self._loopback, self._trouble = loopback, trouble
        self._zeroconf: AsyncZeroconf | None = None
        self._closed = False

    async def _open(self) -> AsyncZeroconf | None:
        """The running service on all adapters that take part; None, and trouble said, when none does."""
        zeroconf = None
        try:
            zeroconf = AsyncZeroconf(interfaces=_willing(local_addresses(self._loopback)))
            await zeroconf.zeroconf.async_wait_for_start(timeout=START_S)
            if not zeroconf.zeroconf.engine.senders:
                raise OSError("no network adapter takes part in multicast")
        except (OSError, RuntimeError, ZeroconfError) as error:
            if zeroconf is not None:
                await _shut(zeroconf)
            self._report(error)
            return None
        self._zeroconf = zeroconf
        if self._closed:  # while it started
            await self._close()
            return None
        return zeroconf

    def _report(self, error: Exception) -> None:
        if self._closed:
            return
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            why = "another program keeps the port of multicast DNS (5353) for itself"
        sentence = NearbyError(why=why).sentence
        log.info("%s (%r)", sentence, error)
        self._trouble(sentence)

    async def _close(self) -> None:
        self._closed = True
        zeroconf, self._zeroconf = self._zeroconf, None
        if zeroconf is not None:
            await _shut(zeroconf)


async def _shut(zeroconf: AsyncZeroconf) -> None:
    try:
        async with asyncio.timeout(CLOSE_S):
            await zeroconf.async_close()
    except (TimeoutError, OSError, ZeroconfError) as error:
        log.info("multicast DNS did not close in good order: %r", error)
        zeroconf.zeroconf._close()
        with contextlib.suppress(OSError, ZeroconfError):
            await zeroconf.zeroconf.engine._async_close()


def _willing(addresses: Iterable[str]) -> list[str]:
    """The addresses whose adapters can take part in multicast: one that refuses (a VPN, say) must not silence the
    others. IPv4, which all networks at home and at schools have; IPv6 where there is nothing else. Raises OSError."""
    four = [each for each in addresses if ":" not in each]
    if not four:
        return list(addresses)
    willing, error = [], None
    for address in four:
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                group = socket.inet_aton(GROUP) + socket.inet_aton(address)
                probe.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
            willing.append(address)
        except OSError as refusal:
            log.info("%s takes no part in multicast: %s", address, refusal)
            error = refusal
    if not willing and error is not None:
        raise error
    return willing


class Announcer(_Multicast):
    """Announces one room from `open` to `close`.

    `port` is where the host listens, `addresses` the "ip:port" it can be reached at. `trouble(sentence)` is called
    when the network does not allow it; nothing raises.
    """

    def __init__(self, *, room: str, host: str, task: str, members: int, version: str, port: int,
                 loopback: bool = False, trouble: Callable[[str], None] = lambda sentence: None) -> None:
        super().__init__(loopback, trouble)
        self._room, self._host, self._task, self._version, self._port = room, host, task, version, port
        self._members = members
        # Two rooms of one name may be open in one network: what tells them apart is no part of what people read.
        self._instance = f"{room}-{secrets.token_hex(4)}"
        self._updating: asyncio.Task[None] | None = None
        self._broadcast: asyncio.Future[object] | None = None
        self._announced = -1

    async def open(self) -> None:
        """Begins to announce."""
        zeroconf = await self._open()
        if zeroconf is None:
            return
        try:
            # Names cannot clash, so the second of asking around whether this one is free is saved.
            self._announced = self._members
            self._sent_by(await zeroconf.async_register_service(self._service(), cooperating_responders=True))
        except (OSError, ZeroconfError) as error:
            self._report(error)

    def set_members(self, members: int) -> None:
        """Announces another number of members, soon."""
        self._members = members
        if self._zeroconf is not None and not self._closed and self._updating is None:
            self._updating = asyncio.get_running_loop().create_task(self._update())

    async def _update(self) -> None:
        try:
            while self._members != self._announced and self._zeroconf is not None:
                self._announced = self._members
                self._sent_by(await self._zeroconf.async_update_service(self._service()))
                await asyncio.sleep(UPDATE_S)
        except (OSError, ZeroconfError, KeyError) as error:
            self._report(error)
        finally:
            self._updating = None

    async def close(self) -> None:
        """Takes the announcement back. May be called from any state, and again."""
        for task in (self._updating, self._broadcast):
            if task is not None:
                task.cancel()  # what is still to be repeated must not come after the farewell
        await self._close()

    def _sent_by(self, broadcast: Awaitable[object]) -> None:
        """Each announcement goes out several times, by a task of zeroconf's."""
        self._broadcast = asyncio.ensure_future(broadcast)
        self._broadcast.add_done_callback(_fetch)

    def _service(self) -> ServiceInfo:
        texts = {"room": self._room, "host": _short(self._host), "task": _short(self._task),
                 "members": str(self._members), "version": self._version[:32]}
        return ServiceInfo(SERVICE, f"{self._instance}.{SERVICE}", port=self._port, properties=texts,
                           server=f"{self._instance}.local.", host_ttl=TTL_S, other_ttl=TTL_S,
                           parsed_addresses=list(local_addresses(self._loopback)))


def _fetch(task: asyncio.Future[object]) -> None:
    """A broadcast that was cut off by closing is no news."""
    if not task.cancelled() and task.exception() is not None:
        log.info("an announcement could not be sent: %r", task.exception())


class Browser(_Multicast):
    """Sees the rooms that are announced nearby, from `open` to `close`.

    `changed(rooms)` gets them all, sorted by name, whenever something about them changed. `trouble(sentence)` is called
    when the network does not allow it; nothing raises.
    """

    def __init__(self, changed: Callable[[tuple[NearbyRoom, ...]], None], *, loopback: bool = False,
                 trouble: Callable[[str], None] = lambda sentence: None) -> None:
        super().__init__(loopback, trouble)
        self._changed = changed
        self._rooms: dict[str, NearbyRoom] = {}  # by service name
        self._told: tuple[NearbyRoom, ...] = ()
        self._browser: AsyncServiceBrowser | None = None
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._telling: asyncio.TimerHandle | None = None

    @property
    def rooms(self) -> tuple[NearbyRoom, ...]:
        """The rooms as `changed` was told last."""
        return self._told

    async def open(self) -> None:
        """Begins to look."""
        zeroconf = await self._open()
        if zeroconf is None:
            return
        try:
            self._browser = AsyncServiceBrowser(zeroconf.zeroconf, SERVICE, handlers=[self._heard])
        except (OSError, ZeroconfError) as error:
            self._report(error)

    async def close(self) -> None:
        """Stops looking. May be called from any state, and again."""
        browser, self._browser = self._browser, None
        if browser is not None:
            await browser.async_cancel()
        if self._telling is not None:
            self._telling.cancel()
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        if asking:
            await asyncio.wait(asking)
        await self._close()

    def _heard(self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange) -> None:
        if self._closed:
            return
        earlier = self._asking.pop(name, None)
        if earlier is not None:
            earlier.cancel()
        if state_change is ServiceStateChange.Removed:
            self._rooms.pop(name, None)
            self._tell_soon()
        elif name in self._rooms or len(self._rooms) + len(self._asking) < MOST_ROOMS:
            self._asking[name] = asyncio.get_running_loop().create_task(self._ask(zeroconf, name))

    async def _ask(self, zeroconf: Zeroconf, name: str) -> None:
        info = AsyncServiceInfo(SERVICE, name)
        try:
            if not info.load_from_cache(zeroconf):
                await info.async_request(zeroconf, ASK_MS)
        except (OSError, ZeroconfError) as error:
            log.info("what belongs to %s could not be asked for: %r", name, error)
        room = read_room(info)
        if room is None:
            self._rooms.pop(name, None)
        else:
            self._rooms[name] = room
        if self._asking.get(name) is asyncio.current_task():
            del self._asking[name]
        self._tell_soon()

    def _tell_soon(self) -> None:
        if self._telling is None and not self._closed:
            self._telling = asyncio.get_running_loop().call_later(SETTLE_S, self._tell)

    def _tell(self) -> None:
        self._telling = None
        rooms = tuple(sorted(self._rooms.values(), key=lambda room: (room.room, room.host, room.address)))
        if rooms != self._told:
            self._told = rooms
            self._changed(rooms)


def read_room(info: ServiceInfo) -> NearbyRoom | None:
    """What an announcement says; None when it is incomplete or nonsense: anybody in the network can send one."""
    texts = {key.decode("ascii", "replace"): (value or b"").decode("utf-8", "replace")
             for key, value in info.properties.items() if isinstance(key, bytes)}
    addresses = near_first(info.parsed_addresses(IPVersion.All))
    try:
        check_room(texts.get("room", ""))
        members = msgspec.convert(texts.get("members", ""), int, strict=False)
    except (LinkError, msgspec.ValidationError):
        return None
    if not addresses or not info.port or not 0 <= members <= 10_000:
        return None
    return NearbyRoom(room=texts["room"], host=_short(texts.get("host", "")), task=_short(texts.get("task", "")),
                      members=members, address=join_address(addresses[0], info.port))


def _short(text: str) -> str:
    """`text` on one line, cut to what is shown, and to what one TXT entry (255 bytes) can hold."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line[:MOST_TEXT].encode()[:200].decode("utf-8", "ignore")
