"""State machines as tables, and the diagrams drawn from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from desktop.rounds import engine, leader, member
from desktop.rounds.machine import Machine, Table, every

DOOR = Table(
    "shut",
    {("shut", "open"): "open", **every(("shut", "open"), "lock", "locked"), ("locked", "kick"): "open"},
)


def test_it_begins_at_the_start_and_follows_the_table() -> None:
    door = Machine(DOOR)
    assert door.state == "shut"
    assert door.fire("open")
    assert door.fire("lock")
    assert door.state == "locked"


def test_an_input_without_an_entry_changes_nothing() -> None:
    door = Machine(DOOR)
    assert not door.fire("kick")
    assert not door.fire("sing")
    assert door.state == "shut"
    assert door.trace == []


def test_the_trace_tells_how_it_came_about() -> None:
    door = Machine(DOOR)
    door.fire("lock")
    door.fire("kick")
    assert door.trace == [("shut", "lock", "locked"), ("locked", "kick", "open")]


def test_the_trace_keeps_the_last_50() -> None:
    turn = Machine(Table("a", {("a", "on"): "b", ("b", "on"): "a"}))
    for _ in range(101):
        turn.fire("on")
    assert len(turn.trace) == 50
    assert turn.trace[-1] == ("a", "on", "b")


def test_the_diagram_has_one_line_per_transition() -> None:
    assert DOOR.diagram().splitlines() == [
        "shut   --open--> open",
        "shut   --lock--> locked",
        "open   --lock--> locked",
        "locked --kick--> open",
    ]


@pytest.mark.parametrize(
    ("module", "table"), [(member, member.PHASES), (leader, leader.DUTIES), (engine, engine.STANDING)]
)
def test_the_diagram_in_the_docstring_is_the_table(module: object, table: Table) -> None:
    drawn = [line.split("--") for line in (module.__doc__ or "").splitlines() if "-->" in line]
    found = {(parts[0].strip(), parts[1].strip("-")): parts[-1].strip("-> ") for parts in drawn}
    assert found == dict(table.transitions)


@pytest.mark.parametrize(
    ("heading", "table"), [("A room", engine.STANDING), ("A round", leader.DUTIES), ("A member", member.PHASES)]
)
def test_the_picture_beside_the_code_is_the_table(heading: str, table: Table) -> None:
    """When it is not: put what `table.mermaid()` gives into states.md."""
    text = (Path(engine.__file__).parent / "states.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}")[1].split("\n## ")[0]
    assert section.split("```mermaid\n")[1].split("\n```")[0] == table.mermaid()


def test_what_left_a_room_does_not_come_back() -> None:
    assert {state for state, _ in engine.STANDING.transitions} == {"outside", "following", "leading"}
    assert {target for target in engine.STANDING.transitions.values()} == {"outside", "following", "leading", "left"}


@pytest.mark.parametrize("table", [member.PHASES, leader.DUTIES])
def test_every_state_can_be_reached_and_left(table: Table) -> None:
    left = {state for state, _ in table.transitions}
    reached = {table.start}
    while new := {to for (state, _), to in table.transitions.items() if state in reached} - reached:
        reached |= new
    assert reached == left
