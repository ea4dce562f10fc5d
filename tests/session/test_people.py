"""What people do at their windows, from the first click to the model."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.session.conftest import House, Person

Run = Callable[[Callable[[House], Coroutine[Any, Any, None]]], None]
pytestmark = [pytest.mark.timeout(180)]




def state(person: Person) -> Any:
    return person.controller.snapshot()


def room_state(person: Person) -> str:
    view = state(person).room
    return view.state if view else ""


async def take_sample(person: Person) -> None:
    """On the Data page: the sample data."""
    await person.click("Use the sample data")
    await person.until(lambda: bool(state(person).data and state(person).data.usable), "usable data")
    await person.click("Continue")


async def open_room(host: Person) -> str:
    """From the first page to an open room; its link."""
    await host.click("Start…")
    await host.click("Choose Handwritten digits")
    await take_sample(host)
    await host.click("Open the room")
    await host.until(lambda: room_state(host) == "open", "an open room")
    return str(state(host).room.link)


async def join(guest: Person, text: str, address: str = "") -> None:
    """From the first page into a room."""
    await guest.click("Join…")
    await guest.type("Link or code", text)
    if address:
        await guest.click("Add an address…")
        await guest.type("Address", address)
    await guest.click("Join")
    await guest.until(lambda: room_state(guest) == "joined", "the room")


async def start_together(host: Person, guest: Person) -> None:
    """Both press Start and wait for the end."""
    for person in (host, guest):
        await person.click("Continue")
        await person.click("Start")
    for person in (host, guest):
        await person.until(lambda person=person: state(person).session.state == "done", "the end")


def test_two_people_train_together_by_link(in_house: Run) -> None:
    async def story(house: House) -> None:
        host = house.sit_down("--local-steps", "5", "--rounds", "4")
        link = await open_room(host)
        guest = house.sit_down()
        await join(guest, link)
        await take_sample(guest)
        await start_together(host, guest)
        ends = [state(person).session for person in (host, guest)]
        assert ends[0].digest == ends[1].digest
        assert [end.round for end in ends] == [4, 4]
        assert {member.name for member in ends[0].members} == {ends[0].name, ends[1].name}

    in_house(story)
