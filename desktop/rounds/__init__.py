"""Round coordination as pure state machines: no Qt, no torch, no asyncio, no clock of its own."""
