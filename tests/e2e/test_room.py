"""Rooms of windows started one by one, as people would: joining late, leaving, dying; the others go on alike."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.test_demo import digest_of_file, further_reports
from tests.e2e.windows import (
    Report,
    Window,
    Windows,
    arguments_of,
    end_process,
    freeze_in_exchange,
    written_at,
)

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

OFTEN = ("--local-steps", "1", "--rounds", "50")  # exchanges as often as can be


def assert_same_weights(*reports: Report) -> None:
    """They have committed the last round, tested and saved the same model."""
    last = [report.last for report in reports]
    assert [line["state"] for line in last] == ["done"] * len(last)
    assert {line["round"] for line in last} == {last[0]["rounds"]}
    assert len({line["digest"] for line in last}) == 1
    assert len({line["final"]["test_accuracy"] for line in last}) == 1
    assert {digest_of_file(Path(line["final"]["model_path"])) for line in last} == {last[0]["digest"]}


def assert_names_the_lost(report: Report, name: str, peer: str, since: float) -> None:
    """A fault says who was lost, and when: after it was killed, and not long after."""
    lost = [fault for fault in report.last["faults"] if fault["peer"] == peer and "lost" in fault["text"]]
    assert lost, report.faults()
    assert name in lost[0]["text"]
    assert since <= written_at(lost[0]) <= since + 20


def test_two_people_start_a_room(windows: Windows) -> None:
    host, link = windows.host("--name", "Ada", "--rounds", "8", "--precision", "f16", "--quit-when-done")
    assert re.fullmatch(r"peerloom://join\?room=[a-z]+-[a-z]+&key=[a-z2-7]{26}&at=127\.0\.0\.1:\d+&task=digits", link)
    waiting = host.report.wait(lambda line: line["state"] == "waiting" and "member" in line["waiting_for"], "it waits")
    assert waiting["waiting_for"] == "waiting for 1 more member"
    assert_strangers_stay_outside(windows, link)
    guest = windows.guest(2, 2, link, "--name", "Grace", "--quit-when-done")
    assert (host.exit_code(), guest.exit_code()) == (0, 0)
    assert_same_weights(host.report, guest.report)
    assert host.report.last["final"]["test_accuracy"] >= 0.9
    for window, other in ((host, "Grace"), (guest, "Ada")):
        together = [line for line in window.report.lines if 0 < line["round"] < 8 and len(line["members"]) == 2]
        assert [member["name"] for member in together[-1]["members"] if not member["you"]] == [other]
        assert {line["precision"] for line in together} == {"f16"}
        leaders = {member["name"] for line in together for member in line["members"] if member["role"] == "leader"}
        assert leaders == {"Ada"}


def assert_strangers_stay_outside(windows: Windows, link: str) -> None:
    """Who has another key, or guesses the code, is refused with a sentence, and ends."""
    parts = re.search(r"room=([a-z-]+)&key=([a-z2-7]+)&at=([0-9.:]+)", link)
    assert parts
    room, key, address = parts.groups()
    other_key = ("b" if key[0] == "a" else "a") + key[1:]
    stranger = windows.start("stranger", link.replace(key, other_key), "--loopback", "--quit-when-done")
    guesser = windows.start("guesser", "--room", f"{room}-amber-falcon-42", "--at", address, "--loopback",
                            "--quit-when-done")
    assert (stranger.exit_code(), guesser.exit_code()) == (1, 1)
    assert "The room did not let you in: the link is not of this room" in stranger.report.faults()[0]
    assert guesser.report.faults()[0].startswith("The code did not match, and each code is good for one try.")


def test_one_of_the_demo_is_killed_in_an_exchange(windows: Windows) -> None:
    demo = windows.start("demo", "--demo", "3", *OFTEN, "--quit-when-done")
    second, third = further_reports(demo)
    third.wait(lambda line: line["round"] > 0, "the third window trains")
    victim = process_of_report(demo, third.path)
    freeze_in_exchange(victim, demo.report)
    end_process(victim)
    killed = time.time()
    assert demo.exit_code() == 0
    assert demo.processes() == []
    assert_same_weights(demo.report, second)
    lost = third.last
    assert lost["round"] < 50
    for report in (demo.report, second):
        assert_names_the_lost(report, lost["name"], lost["peer"], killed)
    assert "Window 3 ended unexpectedly." in demo.report.faults()


def process_of_report(demo: Window, path: Path) -> int:
    """The process id of the further window that writes this report."""
    for pid in demo.processes():
        if str(path) in arguments_of(pid):
            return pid
    raise AssertionError(f"no process writes {path}")


def test_the_leader_is_killed_in_an_exchange(windows: Windows) -> None:
    host, link = windows.host(*OFTEN, members=3)
    guests = [windows.guest(number, 3, link, "--quit-when-done") for number in (2, 3)]
    for guest in guests:
        guest.report.wait(lambda line: line["round"] > 0, "it trains")
    assert host.report.last["role"] == "leader"
    freeze_in_exchange(host.pid, guests[0].report)
    host.signal(signal.SIGKILL)
    killed = time.time()
    assert [guest.exit_code() for guest in guests] == [0, 0]
    lost = host.report.last
    assert lost["round"] < 50
    assert_same_weights(*(guest.report for guest in guests))
    for guest in guests:
        assert_names_the_lost(guest.report, lost["name"], lost["peer"], killed)


def test_one_joins_at_round_4(windows: Windows) -> None:
    host, link = windows.host("--rounds", "12", "--local-steps", "150", "--quit-when-done")
    guest = windows.guest(2, 2, link, "--quit-when-done")
    host.report.wait(lambda line: line["round"] >= 4, "round 4")
    late = windows.guest(1, 2, link, "--quit-when-done")
    assert [window.exit_code() for window in (host, guest, late)] == [0, 0, 0]
    assert_same_weights(host.report, guest.report, late.report)
    came = [line["round"] for line in late.report.lines if line["digest"] and line["state"] == "training"]
    assert 4 <= came[0] < 12
    assert late.report.last["step"] >= 150, "it trained at least one round"


def test_one_whose_lid_was_closed_is_missed_and_is_back_soon_after(windows: Windows) -> None:
    host, link = windows.host("--rounds", "80", "--local-steps", "20", "--quit-when-done", members=3)
    guests = [windows.guest(number, 3, link, "--quit-when-done") for number in (2, 3)]
    asleep = guests[1]
    asleep.report.wait(lambda line: line["round"] >= 3, "round 3")
    name, peer = asleep.report.last["name"], asleep.report.last["peer"]
    asleep.signal(signal.SIGSTOP)
    stopped = time.time()
    host.report.wait(
        lambda line: any(fault["peer"] == peer and "lost" in fault["text"] for fault in line["faults"]), "it is missed")
    assert_names_the_lost(host.report, name, peer, stopped)
    round_ = host.report.last["round"]
    missed = host.report.wait(lambda line: line["round"] > round_, "the others go on")["round"]
    asleep.signal(signal.SIGCONT)
    woken = time.time()
    back = asleep.report.wait(lambda line: line["round"] > missed and line["state"] == "training", "it is back")
    assert written_at(back) < woken + 20  # 10 s, and as much for a busy machine
    assert [window.exit_code() for window in (host, *guests)] == [0, 0, 0]
    assert_same_weights(host.report, *(guest.report for guest in guests))


def test_one_that_was_killed_is_back_when_it_is_started_again(windows: Windows) -> None:
    host, link = windows.host("--rounds", "80", "--local-steps", "20", "--quit-when-done", members=3)
    guests = [windows.guest(number, 3, link, "--quit-when-done") for number in (2, 3)]
    guests[1].report.wait(lambda line: line["round"] >= 3, "round 3")
    guests[1].signal(signal.SIGKILL)
    guests[1].exit_code()
    again = windows.guest(3, 3, link, "--quit-when-done")  # at once: nobody has missed it yet
    assert [window.exit_code() for window in (host, guests[0], again)] == [0, 0, 0]
    assert_same_weights(host.report, guests[0].report, again.report)
    assert again.report.last["step"] > 0, "it trained"
