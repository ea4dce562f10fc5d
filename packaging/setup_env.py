"""Makes the checkout runnable on a machine that has only Python: `.venv`, pinned libraries, system packages.

Standard library only: `run` and `test` beside this file use it before anything is installed. Once set up, a
start costs one hash: `.venv/peerloom-stamp` holds what the installation was made from.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "peerloom-stamp"
CONSTRAINTS = ROOT / "packaging" / "constraints.txt"

# Shared libraries of Qt on Linux that Python's wheels do not bring, and the Debian packages that hold them.
# Fonts come along: libfontconfig1 depends on some.
NEEDED = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libX11.so.6": "libx11-6",
    "libbrotlidec.so.1": "libbrotli1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgssapi_krb5.so.2": "libgssapi-krb5-2",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libzstd.so.1": "libzstd1",
}
# The same for windows on a screen (xcb); without a screen (QT_QPA_PLATFORM=offscreen) they are not loaded.
FOR_SCREENS = {
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}


# Programs that some tests start. Where one cannot be had, these tests are skipped, with the reason.
FOR_TESTS = {"turnserver": "coturn"}


class SetUpError(Exception):
    """Set-up cannot go on; the text says why and what to do."""


def prepare(extras: Sequence[str] = ()) -> Path:
    """Sets up what is missing; returns the Python to run with. SetUpError."""
    python = program("python")
    with locked():
        if not is_current(extras):
            STAMP.unlink(missing_ok=True)
            install_system_packages()
            install_libraries(python, extras)
            STAMP.write_text("\n".join([fingerprint(), *extras]), "utf-8")
    return python


def program(name: str) -> Path:
    """A program of the virtual environment."""
    return VENV / "Scripts" / f"{name}.exe" if os.name == "nt" else VENV / "bin" / name


def fingerprint() -> str:
    """Hash of all that an installation is made from; the folder too, since an environment cannot be moved."""
    parts = [(ROOT / "pyproject.toml").read_bytes(), CONSTRAINTS.read_bytes(), Path(__file__).read_bytes(),
             str(ROOT).encode(), sys.version.encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def is_current(extras: Sequence[str]) -> bool:
    """Whether the environment was made from just this, with at least these extras."""
    try:
        stamp, *installed = STAMP.read_text("utf-8").split("\n")
    except OSError:
        return False
    return stamp == fingerprint() and set(extras) <= set(installed)


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Lets one set-up at a time into this checkout: two starts at once would spoil each other's."""
    try:
        import fcntl
    except ImportError:  # Windows, where replacing a file in use fails by itself
        yield
        return
    with (ROOT / ".setup.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# -- libraries --------------------------------------------------------------------------------------------


def install_libraries(python: Path, extras: Sequence[str]) -> None:
    """Makes `.venv` and installs torch by its pin, then the rest, then the program itself from the checkout."""
    say("Setting up .venv (once; takes some minutes)")
    make_environment(python)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(CONSTRAINTS)]
    # torch first and alone: as a mere dependency it may come in a build that brings gigabytes for graphics cards.
    call([*pip, pin("torch"), "setuptools"], "torch could not be installed")
    target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    call([*pip, "--no-build-isolation", "-e", target], "The libraries could not be installed")


def make_environment(python: Path) -> None:
    """Makes `.venv`, anew when it was made by another Python."""
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if python.exists() and answers(python, version):
        return
    if importlib.util.find_spec("ensurepip") is None:
        install(["python3-venv"], "Python cannot make a virtual environment: its module ensurepip is missing")
    say(f"Making .venv with Python {version}")
    try:
        venv.create(VENV, clear=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SetUpError(f"{VENV} could not be made: {error}") from error


def answers(python: Path, version: str) -> bool:
    """Whether this Python runs, is of this version, and has pip."""
    code = "import pip, sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return done.stdout.strip() == version


def pin(name: str) -> str:
    """The line of the constraints that pins a library."""
    for line in CONSTRAINTS.read_text("utf-8").splitlines():
        if line.startswith(f"{name}=="):
            return line.strip()
    raise SetUpError(f"{CONSTRAINTS} does not pin {name}")


# -- system packages --------------------------------------------------------------------------------------


def install_system_packages() -> None:
    """Installs what Qt needs of the system, where that is possible; else says what to install."""
    if not sys.platform.startswith("linux"):
        return
    needed, for_screens = missing(NEEDED), missing(FOR_SCREENS)
    if not needed and not for_screens:
        return
    try:
        install(needed + for_screens, "Qt needs system packages that are missing")
    except SetUpError as problem:
        if needed:
            raise
        say(f"{problem} Until then there is only QT_QPA_PLATFORM=offscreen.")


def install_test_programs() -> None:
    """Installs the servers that tests start, where that is possible; else says what to install."""
    packages = [package for name, package in FOR_TESTS.items() if not shutil.which(name)]
    if not packages or not sys.platform.startswith("linux"):
        return
    try:
        with locked():
            install(packages, "Some tests need servers that are missing")
    except SetUpError as problem:
        say(str(problem))
        say("Until then the tests that need them are skipped.")
        return
    if Path("/run/systemd/system").is_dir():  # Debian starts a server as soon as it is installed; tests start their own
        subprocess.run(["systemctl", "disable", "--now", "--quiet", *packages], check=False)


def missing(libraries: dict[str, str]) -> list[str]:
    """The packages whose library cannot be loaded."""
    packages = []
    for library, package in libraries.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            packages.append(package)
    return packages


def install(packages: Sequence[str], why: str) -> None:
    """Installs Debian packages; SetUpError with the command to type where that cannot be done from here."""
    by_hand = f"{why}. Install them with: sudo apt-get install {' '.join(packages)}"
    if not shutil.which("apt-get"):
        raise SetUpError(f"{why}. On Debian they are called {' '.join(packages)}; install what this system calls so.")
    if os.geteuid() != 0:
        raise SetUpError(by_hand)
    say(f"{why}. Installing {' '.join(packages)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quiet = ["-qq", "-o=Dpkg::Use-Pty=0"]
    call(["apt-get", "update", *quiet], by_hand, environment)
    call(["apt-get", "install", *quiet, "-y", "--no-install-recommends", *packages], by_hand, environment)


# -- running ----------------------------------------------------------------------------------------------


def call(command: Sequence[str], otherwise: str, environment: dict[str, str] | None = None) -> None:
    """Runs a command to its end; SetUpError with `otherwise` when it fails. What it prints goes to stderr."""
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=sys.stderr.fileno())
    if done.returncode:
        raise SetUpError(f"{otherwise} ({command[0]} ended with {done.returncode}; its reasons stand above).")


def say(text: str) -> None:
    print(f"peerloom: {text}", file=sys.stderr, flush=True)
