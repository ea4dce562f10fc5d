"""WebRTC links between windows, on the GUI thread and its asyncio loop. aiortc lives only here."""
