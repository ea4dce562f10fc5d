"""Entry: options in, window out."""

from __future__ import annotations

import faulthandler
import os
import sys

from desktop import __version__
from desktop.errors import NoDisplayError, PeerloomError
from desktop.options import Options, help_text, refuse


def main() -> int:
    """Run the program; the exit code: 0 ended well, 1 training failed, 2 an option was refused."""
    if sys.stderr is not None:
        faulthandler.enable()  # a crash inside a library leaves at least its stacks
    try:
        options = Options.parse(sys.argv[1:])
        if options.help:
            print(help_text(), end="")
            return 0
        if options.version:
            print(f"Peerloom {__version__}")
            return 0
        if sys.platform == "linux" and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))):
            raise NoDisplayError
        if sys.platform == "win32":
            import torch  # noqa: F401 - on Windows it must come before Qt, whose libraries clash with its own
        from desktop.app import main as run

        return run(options)
    except PeerloomError as error:
        return refuse(error)


if __name__ == "__main__":
    sys.exit(main())
