"""The report: the session as a person sees it, as one JSON line each second and at each event."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from desktop.errors import ReportError
from desktop.state import SessionState


class Report:
    """Appends to a file. Lines are small, so that writing one does not hold the window up."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab")
        except OSError as error:
            raise ReportError(place=path, why=error.strerror or str(error)) from error

    def write(self, event: str, session: SessionState) -> None:
        """One line; `event` says why it is written. A full disk ends the report, not the training."""
        line = {"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event}
        encoded = msgspec.json.encode({**line, **msgspec.to_builtins(session)})
        try:
            self._file.write(encoded + b"\n")
            self._file.flush()
        except (OSError, ValueError):
            self._file.close()

    def close(self) -> None:
        """No more lines."""
        self._file.close()
