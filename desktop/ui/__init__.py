"""Qt widgets: renders snapshots, emits intents. Imports no torch, no aiortc, no asyncio."""
