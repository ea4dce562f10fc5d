"""Bad input on the real command line: a sentence, no traceback, an exit code, and nothing hangs."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.e2e.windows import Windows, run_to_end
from tests.tasks.folders import cats_and_dogs

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SOON_S = 10.0
LINK = f"peerloom://join?room=maple-otter&key={'a' * 26}&at=127.0.0.1:"
UNATTENDED = ("--quit-when-done", "--loopback")


def refusal(*options: str | Path) -> str:
    """What is said when these options are refused: one line, and exit code 2."""
    code, said = run_to_end(*options)
    assert code == 2, said
    assert said.startswith("peerloom: ")
    assert said.count("\n") == 1, said
    return said.removeprefix("peerloom: ").rstrip()


@pytest.mark.parametrize(("key", "value", "allowed"), [
    ("--batch", "0", "a whole number from 1 to 65536"),
    ("--lr", "11", "a number above 0, up to 10"),
    ("--local-steps", "100001", "a whole number from 1 to 100000"),
    ("--rounds", "-1", "a whole number from 1 to 1000000"),
    ("--seed", "4294967296", "a whole number from 0 to 4294967295"),
    ("--members", "257", "a whole number from 1 to 256"),
    ("--demo", "9", "a whole number from 2 to 8"),
    ("--port", "65536", "a whole number from 1024 to 65535, or 0 for any free one"),
])
def test_a_number_out_of_range(key: str, value: str, allowed: str) -> None:
    assert refusal(f"{key}={value}") == f"{key}: “{value}” is not valid. Allowed: {allowed}."


def test_a_share_of_what_is_not_sample_data(tmp_path: Path) -> None:
    assert refusal("--share", "1/2") == "--share works only together with --data sample."
    assert refusal("--share", "1/2", "--data", tmp_path) == "--share works only together with --data sample."


def test_an_unknown_option() -> None:
    assert refusal("--epochs", "3") == "--epochs is not an option of Peerloom. Run with --help for the list."


@pytest.mark.parametrize(("link", "why"), [
    ("https://example.org/join", "it has no peerloom://"),
    ("peerloom://join?room=maple-otter&at=127.0.0.1:40000", "it has no key"),
    (LINK + "x", "“127.0.0.1:x” is not an address"),
])
def test_a_wrong_link(link: str, why: str) -> None:
    said = refusal(link)
    assert said.startswith("This is not a link to a room: ")
    assert why in said
    assert said.endswith("Ask the host to copy the link again.")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which even root can write nothing")
def test_a_report_that_cannot_be_written(tmp_path: Path) -> None:
    said = refusal("--report", "/proc/r.jsonl", "--profile", tmp_path / "profile")
    assert said.startswith("The report cannot be written to /proc/r.jsonl: ")


def test_a_room_that_does_not_exist(windows: Windows) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]  # nobody listens there any more
    window = windows.start("window", f"{LINK}{port}", "--data", "sample", "--start", *UNATTENDED)
    assert window.exit_code(SOON_S) == 1
    sentence = f"No room answers at 127.0.0.1:{port}. Ask the host whether its window is open and on the same network."
    assert sentence in window.report.faults()
    assert sentence in window.log()


def test_a_port_in_use(windows: Windows) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        window = windows.start("window", "--host", "--port", str(port), "--data", "sample", "--start", *UNATTENDED)
        assert window.exit_code(SOON_S) == 1
    sentence = f"Port {port} is already used by another program. Choose another port, or 0 for any free one."
    assert sentence in window.report.faults()
    assert sentence in window.log()


def test_a_folder_without_pictures(windows: Windows, tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    (folder / "a.txt").write_text("not a picture")
    window = windows.start("window", "--task", "images", "--data", folder, "--start", *UNATTENDED)
    assert window.exit_code(SOON_S) == 1
    sentence = "No pictures in letters. Choose a folder that holds one folder of pictures for each class."
    assert sentence in window.report.faults()
    assert sentence in window.log()


def test_a_broken_picture_is_named_and_left_out(windows: Windows, tmp_path: Path) -> None:
    folder = cats_and_dogs(tmp_path / "pets")
    (folder / "cat" / "broken.png").write_bytes(b"not a picture")
    cut = (folder / "dog" / "000.png").read_bytes()
    (folder / "dog" / "cut.png").write_bytes(cut[: len(cut) // 2])
    window = windows.start("window", "--task", "images", "--data", folder, "--rounds", "2", "--local-steps", "2",
                           "--start", *UNATTENDED)
    assert window.exit_code() == 0
    last = window.report.last
    assert (last["round"], last["state"]) == (2, "done")
    told = " ".join(window.report.faults())
    assert "cat/broken.png" in told
    assert "dog/cut.png" in told
    assert len(window.models()) == 1
