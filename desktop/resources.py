"""Where the files are that ship with the program: icons, demo data, translations."""

from __future__ import annotations

import sys
from pathlib import Path


def resource(name: str) -> Path:
    """The path of `resources/NAME` ("icons/room.svg"); FileNotFoundError when the program lacks it.

    In a PyInstaller bundle the folder lies in the bundle, in a checkout beside `desktop/`; an installed wheel
    holds it as `peerloom_resources`, since `resources` would be too common a name beside other packages.
    """
    beside = Path(__file__).resolve().parent.parent
    bundle = getattr(sys, "_MEIPASS", None)
    folders = [Path(bundle) / "resources"] if bundle else [beside / "resources", beside / "peerloom_resources"]
    for folder in folders:
        path = folder / name
        if path.exists():
            return path
    raise FileNotFoundError(f"{name} is not among the program's files in {folders[0]}")
