"""A direct lane: TLS 1.3 over TCP between two members in one network, each of whom knows the other's certificate."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import hashlib
import logging
import secrets
import socket
import ssl
import struct
import tempfile
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

from desktop.peers.lane import LaneEvents
from desktop.peers.packet import MAX_PACKET

log = logging.getLogger(__name__)

WINDOW = 8 * 1024 * 1024
LENGTH = struct.Struct(">I")  # before each packet
MAX_FRAME = MAX_PACKET + 128  # bytes of a packet, with room for the longest header
HELLO = b"peerloom direct lane 1"  # the first frame of each side
CERTIFICATE_BYTES = 4096  # a peer's is some 300

READ_BYTES = 256 * 1024  # taken from the socket at a time
SLICE_S = 0.002  # of handing over packets before the event loop gets its turn
TURN_BYTES = 256 * 1024  # encrypted before the event loop gets its turn
HIGH_WATER = 512 * 1024  # bytes that wait for the socket at which no more is taken
LOW_WATER = 128 * 1024  # and at which more is taken again
MOST_BYTES = 8 * 1024 * 1024  # that wait for a peer which sends but does not read
MOST_RECORDS = 2**24  # that one key may encrypt (RFC 8446, 5.5)
RECORD_BYTES = 16 * 1024  # of plain text, at most

HANDSHAKE_BYTES = 16 * 1024  # taken at a time from somebody unknown
HANDSHAKE_S = 3.0
HANDSHAKES = 8  # at once; one more ends the oldest of them
SILENT_S = 8  # a path that has died under the connection is noticed after so long


class DirectError(OSError):
    """A direct lane could not be had. `reason` is a part of a sentence."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


# -- who one is -----------------------------------------------------------------------------------------


class Identity:
    """A self-signed certificate and its key, made anew for each mesh, in memory only."""

    certificate: bytes  # DER; told to the peer over the control lane
    fingerprint: str  # its sha256 in hex

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "peerloom")])
        self._certificate = (
            x509.CertificateBuilder().subject_name(name).issuer_name(name)
            .public_key(self._key.public_key()).serial_number(x509.random_serial_number())
            # For ever: clocks of members may be wrong, and what counts is that it is the very certificate agreed on.
            .not_valid_before(datetime.datetime(2000, 1, 1)).not_valid_after(datetime.datetime(9999, 12, 31))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = self._certificate.public_bytes(Encoding.DER)
        self.fingerprint = hashlib.sha256(self.certificate).hexdigest()

    def server_context(self, peer_certificate: bytes) -> ssl.SSLContext:
        """For the side that listens. Raises DirectError when the peer's certificate (DER) cannot be used."""
        context = self._context(ssl.PROTOCOL_TLS_SERVER, peer_certificate)
        context.num_tickets = 0  # nobody resumes a session
        return context

    def client_context(self, peer_certificate: bytes) -> ssl.SSLContext:
        """For the side that dials. Raises DirectError when the peer's certificate (DER) cannot be used."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT, peer_certificate)

    def _context(self, protocol: int, peer_certificate: bytes) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False  # the certificate itself is known, names mean nothing
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            if len(peer_certificate) > CERTIFICATE_BYTES:
                raise ValueError(f"{len(peer_certificate)} bytes")
            context.load_verify_locations(cadata=peer_certificate)
        except (ValueError, ssl.SSLError) as error:
            raise DirectError(f"the peer's certificate cannot be read ({error})") from error
        self._load_into(context)
        return context

    def _load_into(self, context: ssl.SSLContext) -> None:
        """`ssl` takes a certificate and its key from a file only. It is in a folder that only this user may enter,
        is gone a moment later, and the key in it is encrypted with a password that is never written anywhere: should
        the file stay, because the program is killed just then, nobody can use it."""
        password = secrets.token_bytes(24).hex().encode()
        key = self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(password))
        with tempfile.TemporaryDirectory(prefix="peerloom-") as folder:
            file = Path(folder) / "lane.pem"
            file.write_bytes(self._certificate.public_bytes(Encoding.PEM) + key)
            context.load_cert_chain(file, password=password)


# -- the lane -------------------------------------------------------------------------------------------


class State(Enum):
    """See the diagram at `DirectLane`."""

    SHAKING = "shaking"
    GREETING = "greeting"
    OPEN = "open"
    CLOSED = "closed"


class DirectLane(asyncio.BufferedProtocol):
    """One TLS connection. `listen` and `dial` make it; every method may be called in every state.

    ::

        SHAKING --TLS is set up, it is the certificate--> GREETING --hello--> OPEN --close, end, broken frame--> CLOSED
           |                                                 |
           +------------ anything else, 3 s -----------------+--> CLOSED, and nobody is told of this lane

    With TLS 1.3 the side that dials is through before the other one has seen its certificate. So it says hello first,
    and the lane is open for it when the hello of the other side comes back. Of several connections the one that
    listens answers one: so both ends mean the same.

    On the stream each packet comes after its length (uint32, big endian). An open lane tells `lane_opened`, and
    `lane_closed` once, within `close()` when that ends it.

    The TLS is OpenSSL over two buffers in memory, on asyncio's plain transport, rather than asyncio's TLS: so a
    connection can be limited before it is trusted, the work is cut into slices, and bytes are copied less often.
    """

    kind = "tls"
    window = WINDOW

    def __init__(
        self,
        number: int,
        events: LaneEvents,
        context: ssl.SSLContext,
        peer_certificate: bytes,
        *,
        server: bool,
        take: Callable[[DirectLane], bool],
        settled: Callable[[DirectLane], None],
    ) -> None:
        """`take` is asked when the other side has proved who it is; `settled` is told when the lane is open, or when
        it is clear that it will not be."""
        self.number = number
        self.state = State.SHAKING
        self.opened = False  # it is or has been open
        self.reason = ""  # why it is closed
        self._events = events
        self._peer_certificate = peer_certificate
        self._server = server
        self._take, self._settled = take, settled
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._raw = memoryview(bytearray(HANDSHAKE_BYTES))  # from the socket
        self._frame = memoryview(bytearray(LENGTH.size + len(HELLO)))  # one packet with its length, decrypted
        self._have, self._want = 0, LENGTH.size  # bytes of it
        self._paused = False  # the socket takes no more
        self._full = False  # `writable` has been false since the last `lane_writable`
        self._flush_due = False
        self._reading_paused = False
        self._records = 0  # encrypted at most
        self._timer: asyncio.Handle | None = None
        self._ended = asyncio.Event()

    # -- sending ------------------------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """Open, and its own buffer below the high-water mark."""
        return self.state is State.OPEN and not self._paused and self._outgoing.pending < TURN_BYTES

    def send(self, packet: bytes) -> None:
        """A whole packet, of 1 to MAX_FRAME bytes (else ValueError)."""
        if not 0 < len(packet) <= MAX_FRAME:
            raise ValueError(f"a packet of {len(packet)} bytes")
        if self.state is State.OPEN:
            self._put(packet)

    def _put(self, packet: bytes) -> None:
        self._records += 2 + len(packet) // RECORD_BYTES
        try:
            self._tls.write(LENGTH.pack(len(packet)))  # a record of its own costs less than joining would
            self._tls.write(packet)
        except ssl.SSLError as error:
            self._close_soon(f"nothing more can be sent ({_words(error)})")
            return
        self._full = self._full or self._outgoing.pending >= TURN_BYTES
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """What was encrypted in this turn goes to the socket at once: one system call for many packets."""
        self._flush_due = False
        if self.state is State.CLOSED or self._transport is None or self._transport.is_closing():
            return
        self._transport.write(memoryview(self._outgoing.read()))
        if self._transport.get_write_buffer_size() > MOST_BYTES:
            self.close("the other side does not read what is sent to it")
        elif self._records > MOST_RECORDS:
            self.close("its key has encrypted as much as one key may")
        else:
            self._tell_writable()

    def _tell_writable(self) -> None:
        if self._full and self.writable:
            self._full = False
            self._events.lane_writable(self)

    def pause_writing(self) -> None:
        """The transport holds HIGH_WATER bytes."""
        self._paused = self._full = True

    def resume_writing(self) -> None:
        """The transport holds LOW_WATER bytes."""
        self._paused = False
        self._tell_writable()

    # -- receiving ----------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        """For the transport: where the next encrypted bytes go."""
        return self._raw

    def buffer_updated(self, nbytes: int) -> None:
        """From the transport: so many encrypted bytes are there."""
        if self.state is State.CLOSED:
            return
        self._incoming.write(self._raw[:nbytes])
        if self.state is State.SHAKING:
            self._shake()
        if self.state in (State.GREETING, State.OPEN):
            self._read()

    def _read(self) -> None:
        """Hand over the packets that are there, for SLICE_S; then the event loop has its turn."""
        ends = time.monotonic() + SLICE_S
        try:
            while self._read_frame():
                if time.monotonic() >= ends:
                    self._pause_reading(True)
                    self._loop.call_soon(self._read_on)
                    break
            else:
                self._pause_reading(False)
        except ssl.SSLError as error:
            what = "what it received was broken" if self.opened else "the handshake failed"
            self.close(f"{what} ({_words(error)})")
        if self._outgoing.pending and not self._flush_due:  # TLS has answered something itself
            self._flush()

    def _read_on(self) -> None:
        if self.state is not State.CLOSED:
            self._read()

    def _read_frame(self) -> bool:
        """Decrypt to the end of the next frame, and hand it over; False when there is not so much, or it is closed."""
        while True:
            try:
                count = self._decrypt(self._frame[self._have : self._want])
            except ssl.SSLWantReadError:
                return False
            if not count:
                self.close("the other side closed it")
                return False
            self._have += count
            if self._have < self._want:
                continue
            if self._want > LENGTH.size:
                break
            length = LENGTH.unpack_from(self._frame)[0]
            if not 0 < length <= len(self._frame) - LENGTH.size:
                self.close(f"a packet of {length} bytes was announced")
                return False
            self._want += length
        packet = self._frame[LENGTH.size : self._want]
        self._have, self._want = 0, LENGTH.size
        if self.state is State.OPEN:
            self._events.lane_packet(self, packet)
        else:
            self._greeted(packet == HELLO)
        return self.state is State.OPEN

    def _decrypt(self, into: Any) -> Any:  # the types of `ssl` know neither the memoryview nor the number
        return self._tls.read(len(into), into)

    def _pause_reading(self, pause: bool) -> None:
        if self._transport is not None and self.state is not State.CLOSED and pause is not self._reading_paused:
            self._reading_paused = pause
            (self._transport.pause_reading if pause else self._transport.resume_reading)()

    # -- opening ------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """From asyncio: TCP is connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self.state is State.CLOSED:
            transport.abort()
            return
        self._timer = self._loop.call_later(HANDSHAKE_S, self.close, f"no handshake within {HANDSHAKE_S:g} s")
        transport.set_write_buffer_limits(high=HIGH_WATER, low=LOW_WATER)
        _notice_silence(transport.get_extra_info("socket"))
        self._shake()

    def _shake(self) -> None:
        """The next step of the TLS handshake."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return
        except ssl.SSLError as error:
            self._flush()  # tells the other side why
            self.close(f"the handshake failed ({_words(error)})")
            return
        if self._tls.getpeercert(binary_form=True) != self._peer_certificate:
            self.close("the other side has another certificate than the one agreed on")
            return
        self.state = State.GREETING
        if not self._server:
            self._put(HELLO)
        self._flush()

    def _greeted(self, well: bool) -> None:
        if not well or not self._take(self):
            self.close("another connection was taken" if well else "the other side speaks another version")
            return
        self.state, self.opened = State.OPEN, True
        self._cancel_timer()
        self._raw = memoryview(bytearray(READ_BYTES))
        self._frame = memoryview(bytearray(LENGTH.size + MAX_FRAME))
        if self._server:
            self._put(HELLO)
        self._events.lane_opened(self)
        self._settled(self)

    # -- closing ------------------------------------------------------------------------------------

    def close(self, reason: str) -> None:
        """At once; what the socket has not taken is dropped. `lane_closed` comes within this call."""
        if self.state is State.CLOSED:
            return
        was, self.state, self.reason = self.state, State.CLOSED, reason
        self._cancel_timer()
        if self._transport is None:
            self._ended.set()
        else:
            self._leave(self._transport, was)
        if self.opened:
            self._events.lane_closed(self, reason)
        else:
            self._settled(self)

    def _leave(self, transport: asyncio.Transport, was: State) -> None:
        """Say goodbye if the socket takes it now; nobody waits for a peer that does not read."""
        if was is not State.SHAKING and not self._paused and not transport.is_closing():
            with contextlib.suppress(ssl.SSLError):  # it wants the other side's goodbye, for which nobody waits
                self._tls.unwrap()
            transport.write(memoryview(self._outgoing.read()))
        if transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    def _close_soon(self, reason: str) -> None:
        self._loop.call_soon(self.close, reason)

    def eof_received(self) -> None:
        """From asyncio: the other side sends no more."""
        self.close("the other side ended the connection")

    def connection_lost(self, exc: Exception | None) -> None:
        """From asyncio: the socket is closed."""
        try:
            self.close(f"the connection broke ({_words(exc)})" if exc is not None else "the connection ended")
        finally:
            self._ended.set()

    async def ended(self) -> None:
        """Wait until the connection and its socket are gone."""
        await self._ended.wait()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _words(error: Exception) -> str:
    """Of an error of TLS or of the system, the part that says what happened."""
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _notice_silence(sock: socket.socket) -> None:
    """Where the system can: a connection whose other end has vanished without a word breaks after SILENT_S."""
    for level, name, value in (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", SILENT_S // 2),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", SILENT_S // 2),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", SILENT_S * 1000),
    ):
        with contextlib.suppress(OSError, AttributeError):
            sock.setsockopt(level, getattr(socket, name), value)


# -- how it comes to be ---------------------------------------------------------------------------------


async def dial(
    identity: Identity,
    peer_certificate: bytes,
    host: str,
    port: int,
    events: LaneEvents,
    number: int,
    limit_s: float = 3.0,
) -> DirectLane:
    """The side that connects: a lane of which `lane_opened` has been told. Raises DirectError within `limit_s`."""
    if not 0 < port < 2**16:
        raise DirectError(f"there is no port {port}")
    settled = asyncio.Event()
    context = identity.client_context(peer_certificate)
    lane = DirectLane(number, events, context, peer_certificate, server=False,
                      take=lambda _: True, settled=lambda _: settled.set())
    try:
        async with asyncio.timeout(limit_s):
            await asyncio.get_running_loop().create_connection(lambda: lane, host, port)
            await settled.wait()
    except TimeoutError:
        reason = f"no answer within {limit_s:g} s"
    except (OSError, ValueError) as error:  # ValueError: a host that is no name
        reason = _words(error)
    except BaseException:
        lane.close("the dialling was stopped")
        await lane.ended()
        raise
    else:
        reason = lane.reason
    if lane.opened:
        return lane
    lane.close(reason)
    await lane.ended()
    raise DirectError(reason)


async def listen(
    identity: Identity,
    peer_certificate: bytes,
    host: str,
    opened: Callable[[DirectLane], None],
    events: LaneEvents,
    number: int,
    limit_s: float,
) -> Listener:
    """The side that waits, at a free port of the address `host`, for `limit_s` at most. `opened` is called once at
    most, right after `lane_opened`. Raises DirectError when it cannot listen there."""
    context = identity.server_context(peer_certificate)
    listener = Listener(context, peer_certificate, opened, events, number)
    try:
        await listener.start(host, limit_s)
    except BaseException as error:
        listener.close()
        await listener.ended()
        if isinstance(error, OSError | ValueError):  # ValueError: a host that is no name
            raise DirectError(_words(error)) from error
        raise
    return listener


class Listener:
    """Takes the one connection of the peer whose certificate is known, then stops listening. `listen` makes it."""

    port: int

    def __init__(
        self,
        context: ssl.SSLContext,
        peer_certificate: bytes,
        opened: Callable[[DirectLane], None],
        events: LaneEvents,
        number: int,
    ) -> None:
        self._context, self._peer_certificate = context, peer_certificate
        self._opened, self._events, self._number = opened, events, number
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._timer: asyncio.Handle | None = None
        self._meeting: list[DirectLane] = []  # not open yet, the oldest first
        self._leaving: list[DirectLane] = []
        self._closed = False
        self._ended = asyncio.Event()

    async def start(self, host: str, limit_s: float) -> None:
        """Listen, for so long at most. Raises OSError."""
        self._server = await self._loop.create_server(self._new, host, 0, backlog=HANDSHAKES, start_serving=False)
        self.port = self._server.sockets[0].getsockname()[1]
        self._timer = self._loop.call_later(limit_s, self.close)
        await self._server.start_serving()

    def close(self) -> None:
        """Stop listening, and end the connections that are not open yet. Idempotent."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for listening in self._server.sockets if self._server is not None else ():
            with contextlib.suppress(NotImplementedError):  # Windows has no readers
                self._loop.remove_reader(listening)
        # asyncio loses a connection that was accepted just before its server is closed: so none is accepted any
        # more, and the server closes when those accepted in this turn have come to `_new`.
        self._loop.call_soon(self._end)
        self._leaving = list(self._meeting)
        for lane in self._leaving:
            lane.close("another connection was taken, or the time was over")

    def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        self._ended.set()

    async def ended(self) -> None:
        """Wait until it listens no more, and has no connection that is not open."""
        await self._ended.wait()
        await asyncio.gather(*(lane.ended() for lane in self._leaving))

    def _new(self) -> DirectLane:
        """For a connection that somebody has made."""
        if len(self._meeting) >= HANDSHAKES:
            self._meeting[0].close("too many connections at once")
        lane = DirectLane(self._number, self._events, self._context, self._peer_certificate, server=True,
                          take=self._take, settled=self._settled)
        if self._closed:
            lane.close("it came too late")
        else:
            self._meeting.append(lane)
        return lane

    def _take(self, lane: DirectLane) -> bool:
        if self._closed:
            return False
        self._meeting.remove(lane)
        self.close()
        return True

    def _settled(self, lane: DirectLane) -> None:
        if lane.opened:
            self._opened(lane)
            return
        if lane in self._meeting:
            self._meeting.remove(lane)
        log.info("a connection to lane %d was refused: %s", lane.number, lane.reason)
