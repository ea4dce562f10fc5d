"""What the window is told: the reason for every wait, curves that fit a chart, shares of time, and the report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from desktop.bridge.lifecycle import Begun, FinalModel, Point, Progress, RoundCommitted, Seat
from desktop.errors import ReportError
from desktop.peers.mesh import LinkRow
from desktop.session.record import MOST_POINTS, Line, Record
from desktop.session.report import Report
from desktop.state import SessionState


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def progress(**changes: object) -> Progress:
    values: dict[str, object] = {
        "phase": "training", "round": 3, "step": 60, "epoch": 1.0, "round_progress": 0.5, "begun": True, "inside": True,
        "leading": True, "leader": "me", "digest": "d" * 64,
        "seats": (Seat(peer="me", phase="training", round=3), Seat(peer="b", phase="ready", round=3)),
    }
    return Progress(**{**values, **changes})  # type: ignore[arg-type]


def link(peer: str, name: str, state: str = "open") -> LinkRow:
    return LinkRow(peer=peer, name=name, backend="cpu", state=state, path="direct")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def record(clock: Clock) -> Record:
    made = Record("me", clock)
    made.state = "waiting"
    made.begin(Begun(backend="cpu", model="digits-cnn", parameters=38378, samples=400))
    return made


def shown(record: Record, *links: LinkRow, host: str = "") -> SessionState:
    return record.session(SessionState(name="Quiet Heron"), links, host)


@pytest.mark.parametrize(("said", "sentence"), [
    ({"phase": "ready", "waiting_on": ("b",), "waiting_since_s": 4.2}, "waiting for Calm Lynx, 4 s"),
    ({"phase": "ready", "waiting_on": ("me", "b", "c")}, "waiting for Calm Lynx and Brisk Otter, 0 s"),
    ({"phase": "idle", "missing": 1}, "waiting for 1 more member"),
    ({"phase": "idle", "missing": 2}, "waiting for 2 more members"),
    ({"phase": "syncing", "fetched": 0.4}, "getting the weights, 40%"),
    ({"phase": "idle", "inside": False, "leader": ""}, "waiting for Calm Lynx to start"),
    ({"phase": "training"}, ""),
])
def test_every_wait_has_a_reason_with_names_and_seconds(record: Record, said: dict[str, object], sentence: str) -> None:
    record.progressed(progress(**said))
    links = (link("b", "Calm Lynx"), link("c", "Brisk Otter"))
    assert shown(record, *links, host="Calm Lynx").waiting_for == sentence


def test_a_wait_before_anyone_is_there_says_so(record: Record) -> None:
    record.progressed(progress(phase="idle", inside=False, leader=""))
    assert shown(record).waiting_for == "waiting for a link to the members"


def test_members_show_what_they_do_and_for_how_long(record: Record, clock: Clock) -> None:
    record.progressed(progress())
    for _ in range(3):
        clock.now += 1.0
        record.progressed(progress())
    clock.now += 1.0
    record.progressed(progress(seats=(Seat(peer="me", phase="training", round=3),
                                      Seat(peer="b", phase="exchanging", round=3))))
    clock.now += 1.0
    record.progressed(progress(seats=(Seat(peer="me", phase="ready", round=3),
                                      Seat(peer="b", phase="exchanging", round=3))))
    mine, other = shown(record, link("b", "Calm Lynx")).members
    assert (mine.you, mine.role, other.role) == (True, "leader", "member")
    assert (mine.state, other.state, other.state_for_s) == ("ready", "exchanging", 1.0)
    assert mine.training_share == 1.0
    assert other.exchanging_share == pytest.approx(1 / 5)  # 4 s ready, 1 s exchanging


def test_a_lost_member_is_shown_as_lost_and_leads_no_more(record: Record) -> None:
    record.progressed(progress(leader="b"))
    _, other = shown(record, link("b", "Calm Lynx", "lost")).members
    assert (other.state, other.role) == ("lost", "member")


def test_the_time_left_follows_from_the_rounds_so_far(record: Record, clock: Clock) -> None:
    for round_ in range(4):
        record.progressed(progress(round=round_))
        clock.now += 2.0
    # Three rounds took 6 s; 12 rounds in all, 2 s of the next one have gone by.
    assert shown(record).seconds_left == pytest.approx(9 * 2.0 - 2.0)


def test_figures_of_members_that_come_late_correct_the_rooms_curve(record: Record) -> None:
    def committed(round_: int, room_loss: float) -> RoundCommitted:
        return RoundCommitted(round=round_, step=20 * round_, loss=1.0, accuracy=0.5, room_loss=room_loss,
                              room_accuracy=0.5)

    for said in (committed(1, 0.9), committed(2, 0.8), committed(1, 0.7)):
        record.committed(said)
    assert record.curves().room_loss.x == (20.0, 40.0)
    assert record.curves().room_loss.y == (0.7, 0.8)
    assert shown(record).validation_loss == 0.8


def test_figures_that_fit_the_task(record: Record) -> None:
    record.progressed(progress(points=(Point(step=1, loss=4.0, error=1.5),)))
    record.committed(RoundCommitted(round=1, step=20, loss=2.0, accuracy=None, figures={"mae": 1.0, "r2": 0.4},
                                    room_loss=3.0, room_figures={"mae": 1.25, "r2": 0.2}))
    lines = record.curves()
    assert (lines.error.y, lines.validation_error.y, lines.room_error.y) == ((1.5,), (1.0,), (1.25,))
    assert lines.accuracy.y == lines.validation_accuracy.y == lines.room_accuracy.y == ()
    assert (shown(record).accuracy, shown(record).metrics) == (None, {"mae": 1.25, "r2": 0.2})
    record.ended(FinalModel(complete=True, round=1, digest="d", path="m", test_accuracy=None, test_samples=9,
                            test_figures={"mae": 1.1}))
    final = shown(record).final
    assert final is not None
    assert (final.metrics, record.try_view().metrics) == ({"mae": 1.1}, {"mae": 1.1})


def test_a_long_curve_is_thinned_and_keeps_its_ends() -> None:
    line = Line()
    for step in range(100_000):
        line.add(step, step)
    curve = line.curve()
    assert MOST_POINTS <= len(curve.x) <= 2 * MOST_POINTS
    assert curve.x[0] == 0.0
    assert curve.x[-1] > 99_000
    assert list(curve.x) == sorted(curve.x)


def test_a_loss_that_is_no_number_is_no_number_in_the_report(record: Record, tmp_path: Path) -> None:
    record.progressed(progress(points=(Point(step=1, loss=float("nan"), accuracy=0.0),)))
    report = Report(tmp_path / "r.jsonl")
    report.write("second", shown(record))
    report.close()
    assert json.loads((tmp_path / "r.jsonl").read_text())["loss"] is None


def test_the_report_is_a_line_of_json_for_each_event(record: Record, tmp_path: Path) -> None:
    path = tmp_path / "new" / "r.jsonl"
    report = Report(path)
    report.write("start", shown(record))
    record.ended(FinalModel(complete=True, round=12, digest="d", path="m", test_accuracy=0.97, test_samples=270))
    report.write("end", shown(record))
    report.close()
    first, last = (json.loads(line) for line in path.read_text().splitlines())
    assert (first["event"], last["event"], last["state"]) == ("start", "end", "done")
    assert last["final"] == {"model_path": "m", "test_accuracy": 0.97, "test_samples": 270, "metrics": {}}


def test_a_report_that_cannot_be_written_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="file"):
        Report(tmp_path / "file" / "r.jsonl")
