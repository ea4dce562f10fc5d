"""Where files live: config, data, cache, logs and models, each apart."""

from __future__ import annotations

from pathlib import Path

import msgspec
import platformdirs

from desktop.errors import FolderError


class Folders(msgspec.Struct, frozen=True):
    """The program's folders. `make()` creates them."""

    config: Path
    data: Path
    cache: Path
    log: Path
    models: Path

    @classmethod
    def find(cls, profile: Path | None = None) -> Folders:
        """The folders inside `profile`, or without one those that this system means for the purpose."""
        if profile is not None:
            return cls(*(profile / name for name in ("config", "data", "cache", "log", "models")))
        dirs = platformdirs.PlatformDirs("Peerloom", appauthor=False)
        return cls(dirs.user_config_path, dirs.user_data_path, dirs.user_cache_path, dirs.user_log_path,
                   dirs.user_data_path / "models")

    @property
    def settings(self) -> Path:
        return self.config / "settings.json"

    @property
    def recent(self) -> Path:
        return self.data / "recent.json"

    def make(self) -> Folders:
        """Creates what is not there yet; FolderError where that is not possible."""
        for folder in (self.config, self.data, self.cache, self.log, self.models):
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FolderError(place=folder, why=error.strerror or str(error)) from error
        return self
