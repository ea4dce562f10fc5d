"""aiortc as it comes: the other end of what is adjusted, and the baseline of what is measured."""

from __future__ import annotations

import asyncio
from typing import Any

from aiortc import RTCConfiguration, RTCDataChannel, RTCPeerConnection, RTCSessionDescription

from desktop.peers import ice
from desktop.peers.webrtc import HIGH_WATER, LOW_WATER
from tests.peers.doubles import Watched

PACKET = 64 * 1024


class PlainEnd(Watched):
    """aiortc as it comes: a peer connection with one channel, and what was received."""

    def __init__(self, *, loopback: bool = True) -> None:
        super().__init__()
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.channel: RTCDataChannel = self.connection.createDataChannel("plain", negotiated=True, id=0)
        if loopback:
            ice.allow_loopback(self.connection, only=True)
        self.received = 0
        self.channel.on("open", self.changed)
        self.channel.on("message", self._take)

    def _take(self, data: bytes) -> None:
        self.received += len(data)
        self.changed()

    async def describe(self) -> dict[str, Any]:
        description = await (self.connection.createOffer() if self.connection.remoteDescription is None
                             else self.connection.createAnswer())
        await self.connection.setLocalDescription(description)
        local = self.connection.localDescription
        return {"type": local.type, "sdp": local.sdp}

    async def take(self, description: dict[str, Any]) -> None:
        await self.connection.setRemoteDescription(RTCSessionDescription(**description))

    async def send(self, data: bytes) -> None:
        """In packets, with as many bytes in the buffer as a link has there."""
        writable = asyncio.Event()
        self.channel.bufferedAmountLowThreshold = LOW_WATER
        self.channel.on("bufferedamountlow", writable.set)
        for place in range(0, len(data), PACKET):
            while self.channel.bufferedAmount >= HIGH_WATER:
                writable.clear()
                await writable.wait()
            self.channel.send(data[place:place + PACKET])
            await asyncio.sleep(0)
