"""People with tables of their own, in whole windows."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from desktop.intents import AddData, EditData
from desktop.state import Edit
from tests.session.conftest import House
from tests.session.test_people import room_state, state
from tests.tasks.tables import pets, write

Run = Callable[[Callable[[House], Coroutine[Any, Any, None]]], None]
pytestmark = [pytest.mark.timeout(180)]


def test_two_people_with_tables_written_differently_train_together(in_house: Run, tmp_path: Path) -> None:
    mine = write(tmp_path / "mine.csv", pets(60))
    theirs = write(tmp_path / "theirs.csv", pets(60, ";", ",", seed=2).replace(";cat", ";cats", 9), "utf-16")

    async def story(house: House) -> None:
        host = house.sit_down("--host", "--data", str(mine), "--local-steps", "2", "--rounds", "4", "--start")
        await host.until(lambda: room_state(host) == "open", "an open room")
        assert state(host).task.id == "table"
        guest = house.sit_down(state(host).room.link, "--data", str(theirs), "--start")
        for person in (host, guest):
            await person.until(lambda person=person: state(person).session.state == "done", "the end")
        assert state(host).session.digest == state(guest).session.digest
        assert any("cats" in line.text for line in state(guest).log)

    in_house(story)


def test_a_table_that_is_dropped_chooses_its_task_and_is_changed_and_changed_back(in_house: Run, tmp_path: Path
                                                                                  ) -> None:
    path = write(tmp_path / "mine.csv", pets(60))
    label = Edit(what="role", name="colour", value="label")

    async def story(house: House) -> None:
        person = house.sit_down()
        await person.click("Train…")
        await person.click("Choose Handwritten digits")
        person.controller.intend(AddData((str(path),)))
        await person.until(lambda: bool(state(person).data and state(person).data.usable), "usable data")
        assert state(person).task.id == "table"
        assert [card.name for card in state(person).data.classes] == ["cat", "dog"]
        person.controller.intend(EditData((label,)))
        await person.until(lambda: state(person).data.usable and len(state(person).data.edits) == 1, "the change")
        assert [card.name for card in state(person).data.classes] == ["black", "white"]
        await person.click("Undo the last change to the data")
        await person.until(lambda: state(person).data.usable and not state(person).data.edits, "the data as before")
        assert [card.name for card in state(person).data.classes] == ["cat", "dog"]

    in_house(story)
