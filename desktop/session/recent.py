"""Data used before, newest first, kept in the profile so that it is one click away next time."""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

import msgspec

log = logging.getLogger(__name__)

MOST = 6


class Recent:
    """Paths of data, in a small file. A file that cannot be read or written costs nothing but the list."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.paths: tuple[str, ...] = ()
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            self.paths = msgspec.json.decode(file.read_bytes(), type=tuple[str, ...])[:MOST]

    def add(self, path: str) -> None:
        """This was used now."""
        path = os.path.abspath(path)
        self._keep((path, *(other for other in self.paths if other != path))[:MOST])

    def _keep(self, paths: tuple[str, ...]) -> None:
        if paths == self.paths:
            return
        self.paths = paths
        part = self._file.with_name(self._file.name + ".part")
        try:
            part.write_bytes(msgspec.json.encode(paths))
            os.replace(part, self._file)
        except OSError as error:
            log.info("recent data not kept: %s", error)
