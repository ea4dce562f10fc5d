"""Tests of the session: real windows, driven by clicks, with real trainers and real WebRTC in between."""
